//! What every call brings to the window, added up once.
//!
//! A trace is replayed under many policies, and at nearly every call the same happens: items join the window, and none
//! leaves it. So what a whole stretch of items comes to is found out once per trace. A replay looks at single items only
//! where something happens to them: after a boundary, or where results were cleared.

use super::event::PARTS;
use super::trace::{Call, Item, NONE, Trace, flag};
use crate::memory::harvest::is_memory;
use crate::tokens::ledger::Category;
use crate::tokens::ratios::model_version;
use std::ops::Range;
use std::sync::OnceLock;

/// What a stretch of items comes to.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    /// Tokens by category.
    pub parts: [u32; PARTS],
    /// Tokens of all.
    pub tokens: u32,
    /// The recorded client's estimate of what it always counts, and the images there.
    pub counted: Estimate,
    /// The same for what hooks printed.
    pub hooks: Estimate,
    /// The earliest call that one of them answers; [`NONE`] if there is no result with a call.
    pub earliest_call: u32,
    /// Whether there are results.
    pub has_results: bool,
    /// Whether a recorded compaction put some of them in.
    pub has_artefacts: bool,
    /// Whether the sums are too large to be told here.
    pub is_too_large: bool,
}

/// The recorded client's estimate of some items.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimate {
    /// Characters / 4.
    pub quarters: u32,
    /// Images and documents.
    pub images: u32,
}

/// What one call brings.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Items that were added since the last one.
    pub inputs: Stretch,
    /// Items of the response.
    pub response: Stretch,
    /// Whether the response writes into a memory directory.
    pub writes_memory: bool,
}

/// What all calls of a trace bring.
#[derive(Debug, Default)]
pub struct Steps {
    /// By call; the last one is what was added after the last response.
    pub calls: Vec<Step>,
    /// By model: whether it shows in the recorded remainder that thinking was switched.
    pub shows_switch: Vec<bool>,
}

/// The steps of a trace, found out at its first replay. A copy of a trace finds out its own: it may be about to change.
#[derive(Debug, Default)]
pub struct Known(OnceLock<Steps>);

impl Clone for Known {
    fn clone(&self) -> Known {
        Known::default()
    }
}

impl PartialEq for Known {
    /// They follow from the rest of the trace.
    fn eq(&self, _: &Known) -> bool {
        true
    }
}

impl Known {
    pub(super) fn of(&self, trace: &Trace) -> &Steps {
        self.0.get_or_init(|| Steps::new(trace))
    }
}

impl Steps {
    fn new(trace: &Trace) -> Steps {
        let step = |call: &Call| Step {
            inputs: Stretch::new(trace, &call.inputs),
            response: Stretch::new(trace, &call.response),
            writes_memory: writes_memory(trace, call),
        };
        let tail = Step {
            inputs: Stretch::new(trace, &trace.tail),
            ..Step::default()
        };
        Steps {
            calls: trace.calls.iter().map(step).chain([tail]).collect(),
            shows_switch: (trace.models.iter())
                .map(|model| model_version(model) == Some((4, 5)))
                .collect(),
        }
    }
}

impl Stretch {
    fn new(trace: &Trace, range: &Range<u32>) -> Stretch {
        let items = trace.items(range);
        let mut parts = [0u64; PARTS];
        let mut counted = [0u64; 2];
        let mut hooks = [0u64; 2];
        for item in items {
            parts[item.category as usize] += u64::from(item.tokens);
            let estimate = match item.category {
                Category::Attachment if item.is(flag::HOOK) => &mut hooks,
                Category::Attachment | Category::Summary => continue,
                _ if item.is(flag::ARTEFACT) => continue,
                _ => &mut counted,
            };
            estimate[0] += u64::from(item.quarters);
            estimate[1] += u64::from(item.images);
        }
        let mut is_too_large = false;
        let mut told = |sum: u64| {
            is_too_large |= sum > u64::from(u32::MAX);
            sum as u32
        };
        let results = items.iter().filter(|item| item.category == Category::ToolResult);
        Stretch {
            tokens: told(parts.iter().sum()),
            parts: parts.map(&mut told),
            counted: Estimate {
                quarters: told(counted[0]),
                images: told(counted[1]),
            },
            hooks: Estimate {
                quarters: told(hooks[0]),
                images: told(hooks[1]),
            },
            earliest_call: results.clone().map(|item| item.pair).min().unwrap_or(NONE),
            has_results: results.count() > 0,
            has_artefacts: items.iter().any(|item| item.is(flag::ARTEFACT)),
            is_too_large,
        }
    }
}

/// Whether a response writes into a memory directory.
fn writes_memory(trace: &Trace, call: &Call) -> bool {
    let is_write = |item: &Item| {
        let tool = trace.tools[usize::from(item.tool)].as_str();
        item.path != 0 && matches!(tool, "Write" | "Edit" | "MultiEdit") && is_memory(&trace.paths[item.path as usize])
    };
    trace.items(&call.response).iter().any(is_write)
}
