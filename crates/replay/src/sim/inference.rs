//! Which window a session had. The log does not say, so it is inferred, with the grounds for it.
//!
//! A window belongs to a session as a process, so copied calls say nothing about it. Clients before 2.1.45 had one size.
//! Later ones are judged by what the session shows: an automatic boundary, or more tokens than a smaller window takes. Where
//! every size agrees that nothing had to happen, none needs to be known. These grounds look at the whole session; a
//! prediction that rests on a boundary is only evidence for the others.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::policy::value::WindowSize;
use crate::prices::Price;
use crate::sim::limits::WindowLimits;
use crate::sim::trace::{BoundaryTrigger, Call, Trace};

/// From this version on the client writes micro-compactions down.
pub const MICRO_RECORDED_FROM: ClientVersion = ClientVersion([2, 1, 12]);

/// What a window is inferred from, surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WindowGrounds {
    /// The policy says.
    Given,
    /// The client had one size only.
    Version,
    /// A recorded automatic compaction.
    Boundary,
    /// More was sent than a smaller window takes.
    Usage,
    /// So little was sent that every size comes to the same.
    Silent,
    /// Nothing; a guess.
    Assumed,
}

impl WindowGrounds {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            WindowGrounds::Given => "given",
            WindowGrounds::Version => "version",
            WindowGrounds::Boundary => "boundary",
            WindowGrounds::Usage => "usage",
            WindowGrounds::Silent => "silent",
            WindowGrounds::Assumed => "assumed",
        }
    }

    /// Whether predictions can be held against the record on these grounds.
    pub fn is_sure(self) -> bool {
        self != WindowGrounds::Assumed
    }
}

/// The window of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferredWindow {
    /// Its size.
    pub tokens: u64,
    /// Why.
    pub grounds: WindowGrounds,
}

/// Sizes that windows have.
pub const WINDOW_SIZES: [u64; 4] = [200_000, 400_000, 500_000, 1_000_000];

/// First version with windows of several sizes in use.
const MULTIPLE_SIZES_FROM: ClientVersion = ClientVersion([2, 1, 45]);

/// A context this far below a threshold is sure not to reach it, whatever the client's estimate adds.
const MARGIN: u64 = 1_000;

/// Infers the window of every call of a session that was made under these policies. Policies and prices go by version and
/// model of the trace.
pub fn infer_windows(trace: &Trace, policies: &[&Policy], prices: &[Option<&Price>]) -> Vec<InferredWindow> {
    infer_windows_under(trace, policies, policies, prices)
}

/// The same for policies that the session need not have been made under. What the record shows is judged by the client's
/// own thresholds: under a lower one, a session would seem to have gone past it, and to have had a larger window. Only where
/// they do not explain its boundaries may the policies be what the user had set.
pub fn infer_windows_under(
    trace: &Trace,
    policies: &[&Policy],
    clients: &[&Policy],
    prices: &[Option<&Price>],
) -> Vec<InferredWindow> {
    WindowEvidence::gather(trace).windows(trace, policies, clients, prices)
}

/// What a session shows of its window, whatever the policy.
pub struct WindowEvidence {
    /// Largest context of its own calls.
    largest: u64,
    /// Largest prompt of its own calls.
    sent: u64,
    /// Sizes at which automatic compactions were recorded, and the calls before which they stand.
    reached: Vec<(usize, u64)>,
    /// Own calls with their contexts; empty if no compaction was recorded.
    contexts: Vec<(usize, u64)>,
}

impl WindowEvidence {
    /// Gathers it.
    pub fn gather(trace: &Trace) -> WindowEvidence {
        let own = trace.calls.iter().enumerate().filter(|(_, call)| !call.is_copied);
        let context = |call: &Call| call.usage.map(|usage| usage.input_side() + u64::from(call.output));
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

    /// The window of every call; see [`infer_under`].
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
            // Between two boundaries there is one answer for each version and model.
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

    /// The largest size whose threshold every boundary had reached, unless an own call before the next boundary passed it
    /// without one: then the window has changed, and this does not tell.
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
        // The last call before a boundary may have passed it: that is why the boundary is there.
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
