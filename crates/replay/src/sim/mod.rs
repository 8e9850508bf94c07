//! The replay: runs the trace of a session through a policy. Read this first.
//!
//! Calls are simulated one by one: new input joins the window; micro-compaction clears old results; the automatic check
//! compacts the window if it is due; the API call is made and billed; the response joins the window; notes and memories
//! are updated. Every step only emits [`event`]s. The loop is in `engine`.
//!
//! A replay is open-loop: recorded messages arrive as recorded, whatever the policy dropped before. As long as the policy
//! does what the recorded client did, the window is *in step* with the record and recorded sizes are used as they are. Once
//! it does something else, the window is the sum of the sizes of its items.
//!
//! [`ReplayMode::Follow`] stays in step at all costs: recorded boundaries happen as recorded, and the policy only reports
//! what it would have done. That is how predictions of a policy are compared with the record.

pub mod cache_reads;
mod engine;
pub mod event;
pub mod keep;
pub mod limits;
pub mod micro;
pub mod notes;
pub mod oracle;
pub mod prompt_cache;
#[cfg(test)]
mod properties;
pub mod restore;
pub mod steps;
pub mod trace;
pub mod use_counts;
pub mod uses;
pub mod window;
pub mod working_set;
#[cfg(test)]
mod working_set_tests;

use crate::policy::Policy;
use crate::policy::presets::PolicySet;
use crate::prices::{Price, PriceTable, Tariff, tariffs};
use crate::windows::InferredWindow;
use engine::Replay;
use event::{CompactionCause, EventSink};
use smallvec::SmallVec;
use std::ops::Range;
use trace::Trace;
use uses::FileUses;

/// Whether the policy or the record decides what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayMode {
    /// The policy decides.
    Free,
    /// The record decides; the policy only reports what it would have done.
    Follow,
}

/// Everything that a replay needs besides the trace. Lists are indexed by the trace's models, versions or calls.
pub struct ReplayInput<'a> {
    /// By version.
    pub policies: &'a [&'a Policy],
    /// By model, and after them that of the model that recalls memories; `None` for a model that the price table does not
    /// list.
    pub prices: &'a [Option<&'a Price>],
    /// By call.
    pub windows: &'a [InferredWindow],
    /// Median size of the recorded summaries of the corpus; `None` without any.
    pub summary: Option<u64>,
    pub mode: ReplayMode,
    /// File uses to classify as hits and misses; `None` to skip that.
    pub uses: Option<&'a FileUses>,
    /// Writes real summaries and notes; `None` to simulate their sizes only.
    pub texts: Option<&'a dyn BoundaryTextWriter>,
    /// Hash of the chain's name. It seeds injected failures, so they differ between chains but not between runs.
    pub key: u64,
}

/// Writes the texts that stand in for history at a boundary. Sizes are in tokens of the window.
pub trait BoundaryTextWriter {
    /// Updates the notes so that they cover everything before the item `end`. Returns their size.
    fn update_notes(&self, end: u32) -> u64;

    /// Records that a boundary uses the notes, which cover everything before the item `covered`.
    fn use_notes(&self, covered: u32);

    /// Writes a summary of the items. Returns its size; `None` if there is nothing to summarize.
    fn summarize(&self, items: Range<u32>, cause: CompactionCause) -> Option<u64>;
}

/// Returns the policies of a trace by version, and the prices by model, with that of the model that recalls memories.
pub fn policies_and_prices<'a>(
    policies: &'a PolicySet,
    prices: &'a PriceTable,
    trace: &Trace,
) -> (Vec<&'a Policy>, Vec<Option<&'a Price>>) {
    let by_version = trace
        .versions
        .iter()
        .map(|version| policies.for_client(trace.client, Some(*version)));
    let by_version = by_version.collect::<Vec<&Policy>>();
    let recall = by_version.first().map(|policy| prices.find(&policy.recall_model));
    let by_model = trace.models.iter().map(|model| prices.find(model)).chain(recall);
    let by_model = by_model.collect();
    (by_version, by_model)
}

/// Replays a chain and sends its events to `sink`. A trace without calls emits nothing.
pub fn replay(trace: &Trace, input: &ReplayInput<'_>, sink: &mut impl EventSink) {
    let Some(first) = trace.calls.first() else { return };
    let policy = input.policies[usize::from(first.version)];
    // Nearly all chains use one or two models.
    let tariffs: SmallVec<[Option<Tariff>; 2]> = tariffs(input.prices);
    let mut replay = Replay::new(trace, input, sink, policy, &tariffs);
    for (at, (call, step)) in std::iter::zip(&trace.calls, &trace.steps().calls).enumerate() {
        replay.simulate_round(at, call, step);
    }
    replay.finish();
}
