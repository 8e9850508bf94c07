//! Infers which context window a session had. Logs do not record it, so every inferred size comes with its grounds.
//!
//! A window belongs to the client process, so calls copied from another session say nothing about it. Clients before
//! 2.1.45 had a single size. For later ones the session itself is the evidence: an automatic boundary, or a prompt larger
//! than the smaller windows. If the session stayed below the threshold of every size, the size does not matter. The
//! inference looks at the whole session: a size that follows from one boundary predicts only the other boundaries.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::policy::value::WindowSize;
use crate::prices::Price;
use crate::sim::limits::WindowLimits;
use crate::sim::trace::{BoundaryTrigger, Call, Trace};

/// First version whose client records micro-compactions.
pub const MICRO_RECORDED_FROM: ClientVersion = ClientVersion([2, 1, 12]);

named_enum! {
    /// What a window size is inferred from, most certain first.
    pub enum WindowGrounds {
        /// The policy sets the size.
        Given = "given",
        /// Clients of that version had a single size.
        Version = "version",
        /// A recorded automatic compaction.
        Boundary = "boundary",
        /// A prompt was larger than the smaller windows.
        Usage = "usage",
        /// The session stayed below every threshold, so all sizes behave alike.
        Silent = "silent",
        /// Nothing: the size is a guess.
        Assumed = "assumed",
    }
}

impl WindowGrounds {
    /// Returns whether predictions based on this size can be compared with the record.
    pub fn is_sure(self) -> bool {
        self != WindowGrounds::Assumed
    }
}

/// The inferred window of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferredWindow {
    pub tokens: u64,
    pub grounds: WindowGrounds,
}

/// The window sizes in use.
pub const WINDOW_SIZES: [u64; 4] = [200_000, 400_000, 500_000, 1_000_000];

/// First version with several window sizes in use.
const MULTIPLE_SIZES_FROM: ClientVersion = ClientVersion([2, 1, 45]);

/// A context this far below a threshold does not reach it, whatever the client's estimate adds.
const MARGIN: u64 = 1_000;

/// Infers the window of every call of a session that ran under these policies. Policies are indexed by version, prices by
/// model of the trace.
pub fn infer_windows(trace: &Trace, policies: &[&Policy], prices: &[Option<&Price>]) -> Vec<InferredWindow> {
    infer_windows_under(trace, policies, policies, prices)
}

/// Infers the same for policies that the session did not necessarily run under. The record is judged by the thresholds of
/// `clients`, the policies of the recorded clients: judged by a lower threshold, the session would seem to have passed it
/// and so to have had a larger window. Only if the clients' thresholds do not explain a boundary is it judged by
/// `policies`, which may be what the user had configured.
pub fn infer_windows_under(
    trace: &Trace,
    policies: &[&Policy],
    clients: &[&Policy],
    prices: &[Option<&Price>],
) -> Vec<InferredWindow> {
    WindowEvidence::gather(trace).windows(trace, policies, clients, prices)
}

/// What a session shows about its window, independent of policies.
pub struct WindowEvidence {
    /// Largest context of the session's own calls: prompt plus output.
    largest: u64,
    /// Largest prompt of the session's own calls.
    sent: u64,
    /// Recorded automatic compactions: the call that follows, and the tokens before.
    reached: Vec<(usize, u64)>,
    /// Own calls and their contexts; empty if no automatic compaction was recorded.
    contexts: Vec<(usize, u64)>,
}

impl WindowEvidence {
    /// Collects the evidence of a trace.
    pub fn gather(trace: &Trace) -> WindowEvidence {
        let own = trace.calls.iter().enumerate().filter(|(_, call)| !call.is_copied);
        let context = |call: &Call| {
            call.usage
                .map(|usage| usage.input_side() + u64::from(call.output.tokens))
        };
        let contexts = own.clone().filter_map(|(at, call)| Some((at, context(call)?)));
        let sent = own
            .filter_map(|(_, call)| call.usage)
            .map(|usage| usage.input_side())
            .max()
            .unwrap_or(0);
        let reached = trace
            .recorded
            .iter()
            .filter(|boundary| !boundary.is_micro && boundary.trigger == BoundaryTrigger::Auto)
            .filter_map(|boundary| Some((boundary.call as usize, boundary.pre_tokens?)))
            .collect::<Vec<_>>();
        WindowEvidence {
            largest: contexts.clone().map(|(_, context)| context).max().unwrap_or(0),
            sent,
            contexts: contexts.filter(|_| !reached.is_empty()).collect(),
            reached,
        }
    }

    /// Infers the window of every call; see [`infer_windows_under`].
    pub fn windows(
        &self,
        trace: &Trace,
        policies: &[&Policy],
        clients: &[&Policy],
        prices: &[Option<&Price>],
    ) -> Vec<InferredWindow> {
        let mut windows = Vec::<InferredWindow>::with_capacity(trace.calls.len());
        let mut before = None;
        let mut passed = 0;
        for (at, call) in trace.calls.iter().enumerate() {
            // Between two boundaries the answer depends on version and model only, so it is computed once for each run of calls.
            passed += self.reached[passed..]
                .iter()
                .take_while(|(call, _)| *call <= at)
                .count();
            let now = (call.version, call.model, passed);
            let same = windows.last().filter(|_| before == Some(now)).copied();
            windows.push(same.unwrap_or_else(|| {
                let policy = policies[usize::from(call.version)];
                let version = trace.versions[usize::from(call.version)];
                let largest = prices[usize::from(call.model)].and_then(|price| price.max_input);
                match policy.window_tokens {
                    WindowSize::Tokens(tokens) => InferredWindow {
                        tokens,
                        grounds: WindowGrounds::Given,
                    },
                    WindowSize::Auto => {
                        let client = clients[usize::from(call.version)];
                        self.window(at, policy, client, version, largest)
                    }
                }
            }));
            before = Some(now);
        }
        windows
    }

    /// Infers the window of one call. `largest` is the model's maximum input, if known.
    fn window(
        &self,
        at: usize,
        policy: &Policy,
        client: &Policy,
        version: ClientVersion,
        largest: Option<u64>,
    ) -> InferredWindow {
        let wanted = |window: u64| WindowLimits::new(policy, window, None).threshold;
        let threshold = |window: u64| WindowLimits::new(client, window, None).threshold;
        let inferred = |tokens: u64, grounds: WindowGrounds| InferredWindow { tokens, grounds };
        if version < MULTIPLE_SIZES_FROM && self.sent <= WINDOW_SIZES[0] {
            return inferred(WINDOW_SIZES[0], WindowGrounds::Version);
        }
        if let Some(tokens) = self
            .size_from_boundaries(at, &threshold)
            .or_else(|| self.size_from_boundaries(at, &wanted))
        {
            return inferred(tokens, WindowGrounds::Boundary);
        }
        if self.sent > WINDOW_SIZES[0] {
            let fitting = WINDOW_SIZES
                .iter()
                .copied()
                .find(|size| self.largest < threshold(*size))
                .unwrap_or(WINDOW_SIZES[3]);
            return inferred(largest.unwrap_or(WINDOW_SIZES[3]).max(fitting), WindowGrounds::Usage);
        }
        let guess = largest
            .filter(|_| version >= MULTIPLE_SIZES_FROM)
            .unwrap_or(WINDOW_SIZES[0]);
        if self.largest + MARGIN < threshold(WINDOW_SIZES[0]).min(wanted(WINDOW_SIZES[0])) {
            return inferred(guess, WindowGrounds::Silent);
        }
        inferred(guess.max(WINDOW_SIZES[0]), WindowGrounds::Assumed)
    }

    /// Returns the largest size whose threshold every recorded boundary had reached. `None` without boundaries, or if a call
    /// between the boundaries around `at` passed that threshold without compacting: then the window changed in between.
    fn size_from_boundaries(&self, at: usize, threshold: &impl Fn(u64) -> u64) -> Option<u64> {
        let smallest = self.reached.iter().map(|(_, tokens)| *tokens).min()?;
        let size = WINDOW_SIZES
            .iter()
            .copied()
            .rev()
            .find(|size| threshold(*size) <= smallest + MARGIN)?;
        let next = self
            .reached
            .iter()
            .map(|(call, _)| *call)
            .find(|call| *call > at)
            .unwrap_or(usize::MAX);
        let start = self
            .reached
            .iter()
            .map(|(call, _)| *call)
            .rev()
            .find(|call| *call <= at)
            .unwrap_or(0);
        // The last call before a boundary may have passed the threshold: that is why the boundary is there.
        let mut inside = self
            .contexts
            .iter()
            .filter(|(call, _)| *call >= start && call + 1 < next);
        let is_passed = inside.any(|(_, context)| *context >= threshold(size) + MARGIN);
        (!is_passed).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::presets::client_policy;

    const VERSION: ClientVersion = ClientVersion([2, 1, 100]);

    fn evidence(boundary: u64, contexts: [u64; 3]) -> WindowEvidence {
        WindowEvidence {
            largest: boundary,
            sent: boundary,
            reached: vec![(3, boundary)],
            contexts: (0..).zip(contexts).collect(),
        }
    }

    fn at_sixty_percent() -> Policy {
        let mut policy = client_policy(VERSION).clone();
        policy.assign("window.percent=60").unwrap();
        policy
    }

    #[test]
    fn a_policy_with_a_lower_threshold_does_not_change_the_window() {
        let evidence = evidence(168_000, [50_000, 130_000, 160_000]);
        let (client, lower) = (client_policy(VERSION), at_sixty_percent());
        let recorded = evidence.window(1, client, client, VERSION, Some(1_000_000));
        assert_eq!((recorded.tokens, recorded.grounds), (200_000, WindowGrounds::Boundary));
        assert_eq!(evidence.window(1, &lower, client, VERSION, Some(1_000_000)), recorded);
    }

    #[test]
    fn a_threshold_that_the_user_had_set_explains_boundaries() {
        let evidence = evidence(109_000, [50_000, 80_000, 100_000]);
        let (client, lower) = (client_policy(VERSION), at_sixty_percent());
        let inferred = evidence.window(1, &lower, client, VERSION, Some(1_000_000));
        assert_eq!((inferred.tokens, inferred.grounds), (200_000, WindowGrounds::Boundary));
    }
}
