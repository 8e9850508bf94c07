//! What every call brings to the window, added up once.
//!
//! A trace is replayed under many policies, and at nearly every call the same happens: items join the window, and none
//! leaves it. So what a whole stretch of items comes to is found out once per trace. A replay looks at single items only
//! where something happens to them: after a boundary, or where results were cleared.

use crate::sim::event::PARTS;
use crate::sim::micro::is_always_in_trail;
use crate::sim::trace::{Call, NONE, Trace, TraceItem, flag};
use crate::tokens::ledger::Category;
use crate::tokens::ratios::model_version;
use std::ops::Range;
use std::sync::OnceLock;
use transcript::paths::is_memory;

/// Categories that a stretch tells apart. Nearly all have fewer; in one with more, items are looked at one by one.
const INLINE_CATEGORIES: usize = 3;

/// What a stretch of items comes to. Small: a replay goes through all of them, and memory is what it waits for.
#[derive(Debug, Clone, Copy, Default)]
pub struct StretchTotals {
    /// Tokens of the categories beside; 0 where there are fewer.
    tokens: [u32; INLINE_CATEGORIES],
    /// The recorded client's estimate of what it always counts.
    quarters: u32,
    /// Images and documents there.
    images: u32,
    /// The earliest call that one of them answers; [`NONE`] if there is no result with a call.
    pub earliest_call: u32,
    categories: [u8; INLINE_CATEGORIES],
    flags: u8,
}

mod stretch_flag {
    /// There are results.
    pub const RESULTS: u8 = 1;
    /// A recorded compaction put some of them in.
    pub const ARTEFACTS: u8 = 1 << 1;
    /// Hooks printed some of them.
    pub const HOOKS: u8 = 1 << 2;
    /// The sums do not tell it all.
    pub const MIXED: u8 = 1 << 3;
}

/// What one call brings: one line of the processor's cache.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub struct CallStep {
    /// Items that were added since the last one.
    pub inputs: StretchTotals,
    /// Items of the response.
    pub response: StretchTotals,
    /// Whether the response writes into a memory directory.
    pub writes_memory: bool,
}

/// What all calls of a trace bring.
#[derive(Debug, Default)]
pub struct CallSteps {
    /// By call; the last one is what was added after the last response.
    pub calls: Vec<CallStep>,
    /// By model: whether it shows in the recorded remainder that thinking was switched.
    pub shows_switch: Vec<bool>,
}

/// The steps of a trace, found out at its first replay. A copy of a trace finds out its own: it may be about to change.
#[derive(Debug, Default)]
pub struct LazySteps(OnceLock<CallSteps>);

impl Clone for LazySteps {
    fn clone(&self) -> LazySteps {
        LazySteps::default()
    }
}

impl PartialEq for LazySteps {
    /// They follow from the rest of the trace.
    fn eq(&self, _: &LazySteps) -> bool {
        true
    }
}

impl LazySteps {
    pub(super) fn get_or_init(&self, trace: &Trace) -> &CallSteps {
        self.0.get_or_init(|| CallSteps::new(trace))
    }
}

impl CallSteps {
    fn new(trace: &Trace) -> CallSteps {
        let step = |call: &Call| CallStep {
            inputs: StretchTotals::new(trace, &call.inputs),
            response: StretchTotals::new(trace, &call.response),
            writes_memory: writes_memory(trace, call),
        };
        let tail = CallStep {
            inputs: StretchTotals::new(trace, &trace.tail),
            ..CallStep::default()
        };
        CallSteps {
            calls: trace.calls.iter().map(step).chain([tail]).collect(),
            shows_switch: (trace.models.iter())
                .map(|model| model_version(model) == Some((4, 5)))
                .collect(),
        }
    }
}

impl StretchTotals {
    fn new(trace: &Trace, range: &Range<u32>) -> StretchTotals {
        let items = trace.items(range);
        let mut parts = [0u64; PARTS];
        let (mut quarters, mut images) = (0u64, 0u64);
        for item in items {
            parts[item.category as usize] += u64::from(item.tokens);
            if is_always_in_trail(item) {
                quarters += u64::from(item.quarters);
                images += u64::from(item.images);
            }
        }
        let results = items.iter().filter(|item| item.category == Category::ToolResult);
        let mut stretch = StretchTotals {
            earliest_call: results.clone().map(|item| item.pair).min().unwrap_or(NONE),
            ..StretchTotals::default()
        };
        let mut is_mixed = false;
        let mut told = |sum: u64| {
            is_mixed |= sum > u64::from(u32::MAX);
            sum as u32
        };
        stretch.quarters = told(quarters);
        stretch.images = told(images);
        let mut filled = (0..PARTS).filter(|part| parts[*part] > 0);
        for (at, part) in (0..INLINE_CATEGORIES).zip(&mut filled) {
            stretch.tokens[at] = told(parts[part]);
            stretch.categories[at] = part as u8;
        }
        is_mixed |= filled.next().is_some();
        for (has, found) in [
            (results.count() > 0, stretch_flag::RESULTS),
            (
                items.iter().any(|item| item.has_flag(flag::ARTEFACT)),
                stretch_flag::ARTEFACTS,
            ),
            (items.iter().any(|item| item.has_flag(flag::HOOK)), stretch_flag::HOOKS),
            (is_mixed, stretch_flag::MIXED),
        ] {
            stretch.flags |= u8::from(has) * found;
        }
        stretch
    }

    /// Whether there are results.
    #[inline]
    pub fn has_results(&self) -> bool {
        self.flags & stretch_flag::RESULTS != 0
    }

    /// Tokens by category, some of which may be 0; `None` if the items have to be looked at, or not all of them join.
    #[inline]
    pub fn parts(&self, with_artefacts: bool) -> Option<[(usize, u32); INLINE_CATEGORIES]> {
        let hindering = if with_artefacts {
            stretch_flag::MIXED
        } else {
            stretch_flag::MIXED | stretch_flag::ARTEFACTS
        };
        let is_told = self.flags & hindering == 0;
        is_told.then(|| std::array::from_fn(|at| (usize::from(self.categories[at]), self.tokens[at])))
    }

    /// The recorded client's estimate and the images in it; `None` if the items have to be looked at.
    #[inline]
    pub fn estimate(&self, with_hooks: bool) -> Option<(u32, u32)> {
        let hindering = if with_hooks {
            stretch_flag::MIXED | stretch_flag::HOOKS
        } else {
            stretch_flag::MIXED
        };
        (self.flags & hindering == 0).then_some((self.quarters, self.images))
    }
}

/// Whether a response writes into a memory directory.
fn writes_memory(trace: &Trace, call: &Call) -> bool {
    let is_write = |item: &TraceItem| {
        let tool = trace.tools[usize::from(item.tool)].as_str();
        item.path != 0 && matches!(tool, "Write" | "Edit" | "MultiEdit") && is_memory(&trace.paths[item.path as usize])
    };
    trace.items(&call.response).iter().any(is_write)
}
