//! Infers which context window a call had, and says on what grounds. Logs do not record it.
//!
//! The grounds, from strong to weak: the user says so; the log states it; a recorded automatic compaction; a prompt larger than the smaller
//! windows; a text in the log ([`transcript::log::WindowMark`]); other chains and sessions of the project with the same
//! model ([`survey`]); a dated table by model and client version ([`table`]). Without any of them the window is unknown,
//! and nothing is predicted from it. A model of another vendor never gets the size that the client's version had for
//! Claude models.
//!
//! The inference looks at the whole session: a size that follows from one boundary predicts only the other boundaries.

pub mod evidence;
pub mod survey;
pub mod table;
#[cfg(test)]
mod tests;

pub use evidence::WindowEvidence;
pub use survey::{ProjectWindows, WindowSurvey};

use crate::policy::Policy;
use crate::policy::presets::{ClientVersion, client_policy};
use crate::policy::value::WindowSize;
use crate::prices::Price;
use crate::sim::limits::{ModelLimits, WindowLimits};
use crate::sim::trace::{Call, Trace};
use transcript::agents::Agent;

named_enum! {
    /// What a window is inferred from, strongest first.
    pub enum WindowGrounds {
        /// The policy or `--window` sets it.
        Given = "given",
        /// The log states it.
        Logged = "logged",
        /// A recorded automatic compaction.
        Boundary = "boundary",
        /// A prompt was larger than the smaller windows.
        Usage = "usage",
        /// A commit trailer, the answer of `/model` or the name of the model states the size.
        Text = "text",
        /// Another chain or session of the same project shows it for the same model.
        Sessions = "sessions",
        /// The table by model and client version.
        Table = "table",
        /// Nothing.
        Unknown = "unknown",
    }
}

named_enum! {
    /// How far a window can be trusted, most first.
    pub enum WindowConfidence {
        /// The session itself shows it, or the client had no other size.
        Certain = "certain",
        /// At least nine in ten sessions with such grounds turned out to have it.
        Likely = "likely",
        /// Better than nothing.
        Weak = "weak",
        /// It is not known.
        None = "none",
    }
}

/// The inferred window of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferredWindow {
    /// `None` if it is not known.
    pub tokens: Option<u64>,
    pub grounds: WindowGrounds,
    pub confidence: WindowConfidence,
}

/// Stands for an unknown window in a replay: no threshold of it is ever reached.
const UNBOUNDED: u64 = 1 << 48;

/// Returns a level of a window, such as its threshold; `None` if it is that of an unknown window.
pub fn known_level(tokens: u64) -> Option<u64> {
    (tokens < UNBOUNDED / 2).then_some(tokens)
}

impl InferredWindow {
    /// The window of which nothing is known.
    pub const UNKNOWN: InferredWindow = InferredWindow {
        tokens: None,
        grounds: WindowGrounds::Unknown,
        confidence: WindowConfidence::None,
    };

    fn new(tokens: u64, grounds: WindowGrounds, confidence: WindowConfidence) -> InferredWindow {
        InferredWindow {
            tokens: Some(tokens),
            grounds,
            confidence,
        }
    }

    /// Returns the window for a replay: one without bounds if it is not known, so that nothing is predicted.
    pub fn limit(self) -> u64 {
        self.tokens.unwrap_or(UNBOUNDED)
    }

    /// Returns whether predictions based on this window can be held against the record.
    pub fn is_sure(self) -> bool {
        self.confidence == WindowConfidence::Certain
    }
}

/// The window sizes of the client.
pub const WINDOW_SIZES: [u64; 4] = [200_000, 400_000, 500_000, 1_000_000];

/// A count this far off a threshold is taken for the threshold itself.
const MARGIN: u64 = 1_000;

/// Everything that the windows of a trace follow from, apart from the trace. Lists are indexed by its versions or models.
#[derive(Clone, Copy)]
pub struct WindowQuery<'a> {
    /// The policies that the trace is replayed under. They may be what the user had configured.
    pub policies: &'a [&'a Policy],
    pub prices: &'a [Option<&'a Price>],
    /// What other chains and sessions show.
    pub siblings: &'a ProjectWindows,
}

/// Infers the window of every call of a trace.
///
/// The record is judged by the thresholds of the recorded clients: judged by a lower threshold, a session would seem to
/// have passed it and so to have had a larger window. Only if those do not explain a boundary is it judged by the policies
/// of the query.
pub fn infer_windows(trace: &Trace, query: &WindowQuery<'_>) -> Vec<InferredWindow> {
    WindowEvidence::gather(trace).infer(trace, query)
}

/// Returns the call whose window decided about a recorded boundary, given the call that follows it: the one that was about
/// to be made. After a switch of the model that is the new model's.
pub fn call_of_boundary(trace: &Trace, next_call: u32) -> usize {
    (next_call as usize).min(trace.calls.len().saturating_sub(1))
}

impl WindowEvidence {
    /// Infers the window of every call; see [`infer_windows`].
    pub fn infer(&self, trace: &Trace, query: &WindowQuery<'_>) -> Vec<InferredWindow> {
        let mut windows = Vec::<InferredWindow>::with_capacity(trace.calls.len());
        let mut before = None;
        for (at, call) in trace.calls.iter().enumerate() {
            // The answer changes only with version and model, at a boundary and at a text, so it is computed once for each
            // run of calls.
            let is_auto = query.policies[usize::from(call.version)].window_tokens == WindowSize::Auto;
            if trace.client != Agent::Claude && is_auto {
                let largest = query.prices[usize::from(call.model)].and_then(|price| price.max_input);
                let model = trace.model(call);
                let same = windows
                    .last()
                    .copied()
                    .filter(|_| before == Some((call.version, call.model, usize::MAX)));
                let by_sessions = || window_by_sessions(query, usize::from(call.version), model);
                windows.push(match foreign_window(call, largest) {
                    known if known.tokens.is_some() => known,
                    _ => same.unwrap_or_else(|| by_sessions().unwrap_or(InferredWindow::UNKNOWN)),
                });
                before = Some((call.version, call.model, usize::MAX));
                continue;
            }
            let now = (call.version, call.model, self.events_until(at));
            let same = windows.last().filter(|_| before == Some(now)).copied();
            windows.push(same.unwrap_or_else(|| {
                let policy = query.policies[usize::from(call.version)];
                if let WindowSize::Tokens(tokens) = policy.window_tokens {
                    return InferredWindow::new(tokens, WindowGrounds::Given, WindowConfidence::Certain);
                }
                let version = trace.versions[usize::from(call.version)];
                let largest = query.prices[usize::from(call.model)].and_then(|price| price.max_input);
                let model = trace.model(call);
                let known = ModelFacts::new(model, version, largest);
                self.shown(at, usize::from(call.model), policy, &known)
                    .or_else(|| known.named())
                    .or_else(|| query.siblings.find(model, call.time, trace.is_sidechain))
                    .unwrap_or_else(|| known.tabled())
            }));
            before = Some(now);
        }
        windows
    }
}

/// Returns the window of a call of another agent than Claude Code: the one that its log states, else the limit of the model,
/// of which those agents know no other size.
fn foreign_window(call: &Call, largest: Option<u64>) -> InferredWindow {
    let certain = |tokens, grounds| InferredWindow::new(tokens, grounds, WindowConfidence::Certain);
    match (call.window, largest) {
        (0, Some(tokens)) => certain(tokens, WindowGrounds::Table),
        (0, None) => InferredWindow::UNKNOWN,
        (tokens, _) => certain(u64::from(tokens), WindowGrounds::Logged),
    }
}

/// Compactions that have to agree before a threshold counts as shown: each of them could be an accident.
const AGREEING_COMPACTIONS: usize = 2;

/// Returns the window of a model that no table has: the one whose threshold is the smallest context at which sessions
/// compacted.
fn window_by_sessions(query: &WindowQuery<'_>, version: usize, model: &str) -> Option<InferredWindow> {
    let policy = query.policies[version];
    let shown = query.siblings.find_threshold(model)?;
    // A share of the window is no distance from it.
    let reserve = policy
        .share
        .is_none()
        .then(|| UNBOUNDED - threshold(policy, model, UNBOUNDED))?;
    let confidence = match shown.compactions >= AGREEING_COMPACTIONS {
        true => WindowConfidence::Certain,
        false => WindowConfidence::Likely,
    };
    let tokens = shown.up_to.saturating_add(reserve);
    Some(InferredWindow::new(tokens, WindowGrounds::Boundary, confidence))
}

/// What is known about a model under a client version without looking at any session.
pub(crate) struct ModelFacts<'m> {
    pub name: &'m str,
    pub is_claude: bool,
    pub version: ClientVersion,
    /// Largest input of the price table.
    pub largest: Option<u64>,
    row: Option<&'static table::TableWindow>,
}

impl<'m> ModelFacts<'m> {
    pub fn new(model: &'m str, version: ClientVersion, largest: Option<u64>) -> ModelFacts<'m> {
        ModelFacts {
            name: model,
            is_claude: table::is_claude(model),
            version,
            largest,
            row: table::find_window(model, version),
        }
    }

    /// Returns the thresholds of the client for windows.
    pub fn client(&self) -> &'static Policy {
        client_policy(self.version)
    }

    /// Returns the sizes that the model may have had, smallest first.
    fn sizes(&self) -> Vec<u64> {
        if self.is_claude {
            return WINDOW_SIZES.to_vec();
        }
        // The client takes a model that it does not know for one of 200,000 tokens unless it is told otherwise.
        let mut sizes = vec![128_000, WINDOW_SIZES[0], 256_000, 400_000, 500_000, 1_000_000];
        sizes.extend(self.row.map(|row| row.tokens));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the window that the model's name states; `None` if it states none.
    fn named(&self) -> Option<InferredWindow> {
        let large = InferredWindow::new(WINDOW_SIZES[3], WindowGrounds::Text, WindowConfidence::Certain);
        table::names_million(self.name).then_some(large)
    }

    /// Returns the window by the tables.
    pub fn tabled(&self) -> InferredWindow {
        let inferred = |tokens, confidence| InferredWindow::new(tokens, WindowGrounds::Table, confidence);
        match (self.row, self.largest) {
            (Some(row), _) if row.only => inferred(row.tokens, WindowConfidence::Certain),
            (Some(row), _) if row.is_well_supported() => inferred(row.tokens, WindowConfidence::Likely),
            (Some(row), _) => inferred(row.tokens, WindowConfidence::Weak),
            (None, Some(largest)) => inferred(largest, WindowConfidence::Weak),
            (None, None) => InferredWindow::UNKNOWN,
        }
    }
}

/// Returns the threshold of a model's window under the recorded client of a version.
pub(crate) fn usual_threshold(version: ClientVersion, model: &str, window: u64) -> u64 {
    threshold(client_policy(version), model, window)
}

/// Returns the threshold of a model's window under a policy.
fn threshold(policy: &Policy, model: &str, window: u64) -> u64 {
    WindowLimits::new(policy, model, window, ModelLimits::default()).threshold
}
