//! The sums of recorded boundaries: what `audit` says about all of them.

use crate::audit::boundaries::{AuditBoundary, BoundaryKind, DurationSource, LONGEST_WAIT_MS};
use crate::quantile::median;
use crate::sim::trace::BoundaryTrigger;

/// Totals over the boundaries of many sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditTotals {
    /// Automatic compactions.
    pub automatic: u64,
    /// Compactions that the user asked for.
    pub manual: u64,
    /// Summaries by old clients that wrote no boundary record.
    pub without_boundary: u64,
    /// Micro-compactions.
    pub micro: u64,
    /// Sessions with boundaries.
    pub sessions: u64,
    /// Sessions with two or more compactions.
    pub sessions_again: u64,
    /// Total duration of compactions, in milliseconds.
    pub total_duration_ms: u64,
    /// Compactions whose boundary record states the duration.
    pub timed_recorded: u64,
    /// Compactions timed by the clock.
    pub timed_clock: u64,
    /// Compactions of unknown duration.
    pub untimed: u64,
    /// Tokens freed by compactions, and by micro-compactions.
    pub freed: (i64, i64),
    /// Boundaries of unknown size before or after.
    pub unsized_boundaries: u64,
    /// Boundaries after which the window was larger.
    pub grown_windows: u64,
    /// Median window after a compaction.
    pub median_after: Option<u64>,
    /// Median window after a compaction without system prompt and tools.
    pub median_rebuilt: Option<u64>,
    /// Median number of calls between two compactions of a chain.
    pub median_calls: Option<u32>,
    /// Median number of calls to the first compaction of a chain.
    pub median_first: Option<u32>,
}

impl AuditTotals {
    /// Sums up the boundaries of sessions.
    pub fn from_sessions<'a>(sessions: impl Iterator<Item = Vec<&'a AuditBoundary>>) -> AuditTotals {
        let mut totals = AuditTotals::default();
        let (mut after, mut rebuilt, mut between, mut first) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for session in sessions {
            totals.sessions += u64::from(!session.is_empty());
            let compactions = || session.iter().filter(|boundary| boundary.kind != BoundaryKind::Micro);
            totals.sessions_again += u64::from(compactions().any(|boundary| boundary.is_recompaction));
            for boundary in &session {
                totals.add(boundary);
            }
            for boundary in compactions() {
                after.extend(boundary.after);
                rebuilt.extend(boundary.rebuilt);
                let distances = if boundary.is_recompaction {
                    &mut between
                } else {
                    &mut first
                };
                distances.push(boundary.calls_since);
            }
        }
        totals.median_after = median(after);
        totals.median_rebuilt = median(rebuilt);
        totals.median_calls = median(between);
        totals.median_first = median(first);
        totals
    }

    fn add(&mut self, boundary: &AuditBoundary) {
        let is_micro = boundary.kind == BoundaryKind::Micro;
        *match (is_micro, boundary.trigger) {
            (true, _) => &mut self.micro,
            (false, BoundaryTrigger::Auto) => &mut self.automatic,
            (false, BoundaryTrigger::Manual) => &mut self.manual,
            (false, BoundaryTrigger::Unknown) => &mut self.without_boundary,
        } += 1;
        match boundary.duration {
            Some((took, from)) if took < LONGEST_WAIT_MS => {
                self.total_duration_ms += took;
                self.timed_recorded += u64::from(from == DurationSource::Recorded);
                self.timed_clock += u64::from(from == DurationSource::Clock);
            }
            // After hours the machine had slept, or nobody was there.
            _ => self.untimed += u64::from(!is_micro),
        }
        match boundary.freed() {
            Some(freed) if is_micro => self.freed.1 += freed,
            Some(freed) => self.freed.0 += freed,
            None => self.unsized_boundaries += 1,
        }
        self.grown_windows += u64::from(boundary.has_grown() == Some(true));
    }

    /// Returns the number of all boundaries.
    pub fn count(&self) -> u64 {
        self.compactions() + self.micro
    }

    /// Returns the number of boundaries that are not micro-compactions.
    pub fn compactions(&self) -> u64 {
        self.automatic + self.manual + self.without_boundary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::boundaries::boundaries;
    use crate::audit::sample::{script_log, with_chain};

    fn audit_script(script: &str) -> Vec<AuditBoundary> {
        with_chain(script_log("2.1.7", script), "", |chain, _, _| boundaries(chain))
    }

    #[test]
    fn totals_add_up() {
        let one = audit_script(
            "u a:20000:10 u a:154900:300 u auto:155203 s a:50000:100 u a:155000:10 u auto:155100 s a:52000:1",
        );
        let two = audit_script("u a:20000:10 u micro:60000:21000 a:15000:1 manual:20000 s u");
        let totals = AuditTotals::from_sessions([&one, &two].into_iter().map(|session| session.iter().collect()));
        assert_eq!((totals.automatic, totals.manual, totals.micro), (2, 1, 1));
        assert_eq!((totals.sessions, totals.sessions_again), (2, 1));
        assert_eq!((totals.timed_clock, totals.untimed), (2, 1));
        assert_eq!((totals.total_duration_ms, totals.grown_windows), (20_000, 0));
        assert_eq!(totals.freed, (105_200 + 103_010, 5_010));
        assert_eq!(totals.unsized_boundaries, 1);
        assert_eq!((totals.median_first, totals.median_calls), (Some(2), Some(2)));
        assert_eq!(totals.median_after, Some(50_000));
        assert_eq!(median(Vec::<u64>::new()), None);
    }
}
