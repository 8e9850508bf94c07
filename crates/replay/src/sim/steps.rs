//! What every call adds to the window, summed up once per trace.
//!
//! A trace is replayed under many policies, and at nearly every call the same happens: items join the window and none
//! leaves it. So the sums over each stretch of items are computed once, at the first replay. A replay looks at single items
//! only where something happens to them: at a boundary, or where results are cleared.

use crate::sim::cache_reads::{ReadSituation, range_of, situation_of};
use crate::sim::event::PARTS;
use crate::sim::micro::is_always_in_trail;
use crate::sim::prompt_cache::CacheStyle;
use crate::sim::trace::{Call, NONE, Trace, TraceItem, flag};
use crate::tokens::ledger::Category;
use crate::tokens::ratios::model_version;
use std::ops::Range;
use std::sync::OnceLock;
use transcript::paths::is_memory;
use transcript::tools::tool_role;

/// Number of categories that a stretch has room for. Nearly all stretches have fewer; the items of one with more are added
/// one by one.
const INLINE_CATEGORIES: usize = 3;

/// The sums over a stretch of items. Kept small: a replay streams through all of them and is bound by memory bandwidth.
#[derive(Debug, Clone, Copy, Default)]
pub struct StretchTotals {
    /// Tokens of each entry of `categories`; 0 for unused entries.
    tokens: [u32; INLINE_CATEGORIES],
    /// The recorded client's estimate of the items that it estimates under every policy.
    quarters: u32,
    /// Images and documents in those items.
    images: u32,
    /// The earliest call that a result of the stretch belongs to; [`NONE`] if there is no result with a call.
    pub earliest_call: u32,
    categories: [u8; INLINE_CATEGORIES],
    /// Bits of [`stretch_flag`].
    flags: u8,
}

mod stretch_flag {
    /// There are tool results.
    pub const RESULTS: u8 = 1;
    /// A recorded compaction inserted some of the items.
    pub const ARTIFACTS: u8 = 1 << 1;
    /// Some of the items are attachments that the client estimates under some policies.
    pub const ATTACHMENTS: u8 = 1 << 2;
    /// The sums are incomplete: too many categories, or a sum above `u32::MAX`.
    pub const INCOMPLETE: u8 = 1 << 3;
}

/// What one call adds. Aligned to one CPU cache line, so that each call costs one memory access.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct CallStep {
    /// Items added since the previous response.
    pub inputs: StretchTotals,
    /// Items of the response.
    pub response: StretchTotals,
    /// Whether the response writes into a memory directory.
    pub writes_memory: bool,
    /// Whether the response edits or writes a file.
    pub edits_files: bool,
    /// The situation of the call if its cache is warm.
    pub situation: ReadSituation,
}

/// What all calls of a trace add.
#[derive(Debug, Default)]
pub struct CallSteps {
    /// By call; one more entry at the end for the items after the last response.
    pub calls: Vec<CallStep>,
    /// By version: the number of its range of [`RANGES`](crate::sim::cache_reads::RANGES).
    pub ranges: Vec<usize>,
    /// By model: how its provider bills cached prompts.
    pub styles: Vec<CacheStyle>,
    /// By model: whether switching thinking on or off shows in the recorded usage.
    pub shows_switch: Vec<bool>,
}

/// The steps of a trace, computed at its first replay. A clone of a trace starts empty, because the clone may be changed.
#[derive(Debug, Default)]
pub struct LazySteps(OnceLock<CallSteps>);

impl Clone for LazySteps {
    fn clone(&self) -> LazySteps {
        LazySteps::default()
    }
}

impl PartialEq for LazySteps {
    /// Always equal: steps follow from the rest of the trace.
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
        let step = |(at, call): (usize, &Call)| CallStep {
            inputs: StretchTotals::new(trace, &call.inputs),
            response: StretchTotals::new(trace, &call.response),
            writes_memory: writes_memory(trace, call),
            edits_files: trace.items(&call.response).iter().any(|item| is_edit(trace, item)),
            situation: situation_of(trace, at),
        };
        let tail = CallStep {
            inputs: StretchTotals::new(trace, &trace.tail),
            response: StretchTotals::default(),
            writes_memory: false,
            edits_files: false,
            situation: ReadSituation::Inside,
        };
        CallSteps {
            calls: trace.calls.iter().enumerate().map(step).chain([tail]).collect(),
            ranges: trace.versions.iter().map(|version| range_of(*version)).collect(),
            styles: (0..trace.models.len())
                .map(|model| CacheStyle::of(trace, model))
                .collect(),
            shows_switch: (trace.models.iter())
                .map(|model| model_version(model) == Some((4, 5)))
                .collect(),
        }
    }
}

impl StretchTotals {
    fn new(trace: &Trace, range: &Range<u32>) -> StretchTotals {
        let items = trace.items(range);
        // First sum everything in full width.
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
        // Then narrow the sums; what does not fit marks the stretch as incomplete.
        let mut is_incomplete = false;
        let mut narrow = |sum: u64| {
            is_incomplete |= sum > u64::from(u32::MAX);
            sum as u32
        };
        stretch.quarters = narrow(quarters);
        stretch.images = narrow(images);
        let mut filled = (0..PARTS).filter(|part| parts[*part] > 0);
        for (at, part) in (0..INLINE_CATEGORIES).zip(&mut filled) {
            stretch.tokens[at] = narrow(parts[part]);
            stretch.categories[at] = part as u8;
        }
        is_incomplete |= filled.next().is_some();
        let has_flag = |flag: u16| items.iter().any(|item| item.has_flag(flag));
        for (has, bit) in [
            (results.count() > 0, stretch_flag::RESULTS),
            (has_flag(flag::ARTIFACT), stretch_flag::ARTIFACTS),
            (has_flag(flag::HOOK | flag::RENDERED), stretch_flag::ATTACHMENTS),
            (is_incomplete, stretch_flag::INCOMPLETE),
        ] {
            stretch.flags |= u8::from(has) * bit;
        }
        stretch
    }

    /// Returns whether there are tool results.
    #[inline]
    pub fn has_results(&self) -> bool {
        self.flags & stretch_flag::RESULTS != 0
    }

    /// Returns the tokens by category; entries may be 0. `None` if the items have to be added one by one, because the sums
    /// are incomplete or some items do not join the window.
    #[inline]
    pub fn parts(&self, with_artifacts: bool) -> Option<[(usize, u32); INLINE_CATEGORIES]> {
        let blocking = if with_artifacts {
            stretch_flag::INCOMPLETE
        } else {
            stretch_flag::INCOMPLETE | stretch_flag::ARTIFACTS
        };
        let is_complete = self.flags & blocking == 0;
        is_complete.then(|| std::array::from_fn(|at| (usize::from(self.categories[at]), self.tokens[at])))
    }

    /// Returns the recorded client's estimate, and the number of images in it. `None` if the items have to be estimated one
    /// by one.
    #[inline]
    pub fn estimate(&self, with_attachments: bool) -> Option<(u32, u32)> {
        let blocking = if with_attachments {
            stretch_flag::INCOMPLETE | stretch_flag::ATTACHMENTS
        } else {
            stretch_flag::INCOMPLETE
        };
        (self.flags & blocking == 0).then_some((self.quarters, self.images))
    }
}

/// Returns whether a response writes into a memory directory.
fn writes_memory(trace: &Trace, call: &Call) -> bool {
    let is_write = |item: &TraceItem| is_edit(trace, item) && is_memory(&trace.paths[item.path as usize]);
    trace.items(&call.response).iter().any(is_write)
}

/// Returns whether an item is a call that edits or writes a file.
pub fn is_edit(trace: &Trace, item: &TraceItem) -> bool {
    let tool = tool_role(&trace.tools[usize::from(item.tool)], true);
    item.path != 0 && item.category == Category::ToolCall && matches!(tool, "Write" | "Edit" | "MultiEdit")
}
