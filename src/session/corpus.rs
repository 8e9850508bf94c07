//! Which logs belong together: the sessions of a corpus, and who owns records that several logs hold.
//!
//! A resumed or forked session starts with a copy of the earlier one: same ids, same times, new session id. The record
//! belongs to the log that comes first: the one that starts earlier, or of two that start alike the one that ended
//! earlier. That does not depend on the order in which files were found.

use super::ids::FirstWith;
use super::log::{Id, Log, NO_TIME, Time};
use super::pack::Outline;
use std::collections::BTreeMap;

/// What is known of a log before it is unpacked.
pub struct LogOutline {
    /// Where it lies.
    pub path: String,
    /// Session of records that name none: the log's own name.
    pub default_session: String,
    /// Sessions that it has records of.
    pub sessions: Vec<String>,
    /// Earliest and latest time.
    pub times: (Time, Time),
    /// Ids of its records.
    pub ids: Vec<Id>,
}

impl LogOutline {
    /// From the front of a packed log.
    pub fn new(path: String, default_session: String, outline: &Outline<'_>) -> LogOutline {
        let ids = outline.ids().collect();
        LogOutline::of(path, default_session, &outline.log, outline.times, ids)
    }

    /// From a log that is not packed.
    pub fn of_log(path: String, default_session: String, log: &Log) -> LogOutline {
        let ids = log.records.iter().map(|record| record.id).collect();
        LogOutline::of(path, default_session, log, log.times(), ids)
    }

    fn of(path: String, default_session: String, log: &Log, times: (Time, Time), ids: Vec<Id>) -> LogOutline {
        let named = |session: &str| {
            if session.is_empty() {
                default_session.clone()
            } else {
                session.to_owned()
            }
        };
        let sessions = log.scopes.iter().map(|scope| named(log.string(scope.session)));
        let mut sessions = sessions.collect::<Vec<_>>();
        sessions.sort_unstable();
        sessions.dedup();
        LogOutline {
            path,
            default_session,
            sessions,
            times,
            ids,
        }
    }
}

/// A session and the logs that hold its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlan {
    /// Its id.
    pub id: String,
    /// Numbers of its logs, earliest first.
    pub logs: Vec<usize>,
}

/// How a corpus falls into sessions.
#[derive(Debug, Default)]
pub struct Plan {
    /// Sessions, by the time their logs start, then by id.
    pub sessions: Vec<SessionPlan>,
    /// By log: which of its records another log owns; empty if none.
    pub copied: Vec<Vec<bool>>,
}

/// Who owns which record: the log that comes first with its id.
struct Owners<'a> {
    logs: &'a [LogOutline],
    /// Number of the first record of each log, counted over all logs.
    starts: Vec<u32>,
    first: FirstWith,
}

impl<'a> Owners<'a> {
    fn new(logs: &'a [LogOutline]) -> Owners<'a> {
        let mut total = 0u32;
        let mut starts = Vec::with_capacity(logs.len());
        for log in logs {
            starts.push(total);
            total += log.ids.len() as u32;
        }
        let first = FirstWith::with_room(total as usize);
        Owners { logs, starts, first }
    }

    /// Whether another log came before with the id of a record.
    fn is_copy(&mut self, log: usize, record: usize) -> bool {
        let (logs, starts) = (self.logs, &self.starts);
        let id_of = |number: u32| {
            let log = starts.partition_point(|start| *start <= number) - 1;
            logs[log].ids[(number - starts[log]) as usize]
        };
        let start = starts[log];
        let first = self.first.first(logs[log].ids[record], start + record as u32, id_of);
        !(start..start + logs[log].ids.len() as u32).contains(&first)
    }
}

/// Makes the plan.
pub fn plan(logs: &[LogOutline]) -> Plan {
    let mut order = (0..logs.len()).collect::<Vec<_>>();
    // Logs without any time come last.
    let time = |time: Time| if time == NO_TIME { Time::MAX } else { time };
    order.sort_by_key(|&at| (time(logs[at].times.0), time(logs[at].times.1), &logs[at].path));

    // A log alone has nobody to copy from.
    let mut owners = (logs.len() > 1).then(|| Owners::new(logs));
    let mut copied = vec![Vec::new(); logs.len()];
    let mut sessions = BTreeMap::<&str, Vec<usize>>::new();
    for &at in &order {
        let log = &logs[at];
        let with_id = log.ids.iter().enumerate().filter(|(_, id)| **id != Id::default());
        for (record, _) in with_id {
            if owners.as_mut().is_some_and(|owners| owners.is_copy(at, record)) {
                let flags: &mut Vec<bool> = &mut copied[at];
                flags.resize(log.ids.len(), false);
                flags[record] = true;
            }
        }
        for session in &log.sessions {
            sessions.entry(session).or_default().push(at);
        }
    }
    let mut sessions = sessions
        .into_iter()
        .map(|(id, logs)| SessionPlan {
            id: id.to_owned(),
            logs,
        })
        .collect::<Vec<_>>();
    sessions.sort_by_key(|session| (time(logs[session.logs[0]].times.0), session.id.clone()));
    Plan { sessions, copied }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &str, sessions: &[&str], times: (Time, Time), ids: &[u128]) -> LogOutline {
        LogOutline {
            path: path.into(),
            default_session: path.into(),
            sessions: sessions.iter().map(|session| (*session).to_owned()).collect(),
            times,
            ids: ids.iter().map(|id| Id(*id)).collect(),
        }
    }

    #[test]
    fn the_log_that_ended_first_owns_what_both_hold() {
        let fork = log("a", &["S2"], (10, 99), &[1, 2, 3, 7]);
        let original = log("b", &["S1"], (10, 50), &[1, 2, 3, 4]);
        let plan = plan(&[fork, original]);
        assert_eq!(plan.copied, [vec![true, true, true, false], vec![]]);
    }

    #[test]
    fn the_order_of_files_does_not_matter() {
        let logs = || {
            vec![
                log("a", &["S"], (5, 9), &[1]),
                log("b", &["S", "T"], (1, 9), &[1, 2]),
                log("c", &["T"], (NO_TIME, NO_TIME), &[0, 0]),
            ]
        };
        let forward = plan(&logs());
        let mut reversed_logs = logs();
        reversed_logs.reverse();
        let backward = plan(&reversed_logs);
        let ids = |plan: &Plan| {
            plan.sessions
                .iter()
                .map(|session| session.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&forward), ["S", "T"]);
        assert_eq!(ids(&forward), ids(&backward));
        assert_eq!(forward.sessions[0].logs, [1, 0], "earliest first");
        assert_eq!(forward.copied[0], [true]);
        assert_eq!(backward.copied[2], [true]);
        assert!(forward.copied[2].is_empty(), "records without an id are nobody's copy");
    }
}
