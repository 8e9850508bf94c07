//! Plans a corpus: which logs make up which session, and which log owns a record that several logs contain.
//!
//! A resumed or forked session starts with a copy of the earlier one: same ids, same times, new session id. Such a
//! record belongs to the log that starts earlier or, if both start at the same time, to the one that ends earlier. The
//! order in which files were found does not matter.

use crate::agents::Agent;
use crate::ids::{IdIndex, SHARDS, shard};
use crate::log::{Log, NO_TIME, RecordId, Time, hash_api_id};
use crate::pack::PackedOutline;
use std::collections::{BTreeMap, HashMap};

/// What is known about a log before it is unpacked.
pub struct LogOutline {
    pub path: String,
    /// Sessions that the log has records of.
    pub sessions: Vec<String>,
    pub times: (Time, Time),
    pub ids: Vec<RecordId>,
    pub agent: Agent,
    /// Threads that the log belongs to or descends from; see [`Log::lineage`].
    pub lineage: Vec<String>,
}

impl LogOutline {
    /// Creates an outline from the front of a packed log. Records without a session id belong to the default session: the
    /// name of the log.
    pub fn new(path: String, default_session: &str, outline: &PackedOutline<'_>) -> LogOutline {
        let ids = outline.ids().collect();
        LogOutline::of(path, default_session, &outline.log, outline.times, ids)
    }

    /// Creates an outline from an unpacked log. Times and ids are left empty: collecting them from a big log is slow.
    pub fn of_log(path: String, default_session: &str, log: &Log) -> LogOutline {
        LogOutline::of(path, default_session, log, (NO_TIME, NO_TIME), Vec::new())
    }

    fn of(path: String, default_session: &str, log: &Log, times: (Time, Time), ids: Vec<RecordId>) -> LogOutline {
        let named = |session: &str| {
            if session.is_empty() {
                default_session.to_owned()
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
            sessions,
            times,
            ids,
            agent: log.agent,
            lineage: log
                .lineage
                .iter()
                .map(|thread| log.string(*thread).to_owned())
                .collect(),
        }
    }
}

/// Makes record ids comparable only within families of threads. Ids of agents without unique ids are made from what a
/// record says: two records of one family with the same id are copies, two of different families are not. Returns the
/// number of each log's family; 0 for logs whose ids are unique anyway.
pub fn separate_families(logs: &mut [LogOutline]) -> Vec<u64> {
    // Threads joined by a log are one family, named by the smallest of their names.
    let mut leaders = HashMap::<String, String>::new();
    fn leader(leaders: &mut HashMap<String, String>, thread: &str) -> String {
        let mut at = thread;
        let mut passed = Vec::new();
        while let Some(next) = leaders.get(at).filter(|next| *next != at) {
            passed.push(at.to_owned());
            at = next;
        }
        let found = at.to_owned();
        // The next search from there takes one step: forks of forks are long chains.
        passed.pop();
        for thread in passed {
            leaders.insert(thread, found.clone());
        }
        found
    }
    for log in logs.iter() {
        let found = log.lineage.iter().map(|thread| leader(&mut leaders, thread));
        let found = found.collect::<Vec<_>>();
        let Some(smallest) = found.iter().min().cloned() else {
            continue;
        };
        for thread in found {
            leaders.insert(thread, smallest.clone());
        }
    }
    let mut family = |log: &mut LogOutline| {
        let first = log.lineage.first()?;
        let salt = hash_api_id(leader(&mut leaders, first).as_bytes());
        for id in &mut log.ids {
            if *id != RecordId::default() {
                *id = RecordId(id.number() ^ u128::from(salt));
            }
        }
        Some(salt)
    };
    logs.iter_mut().map(|log| family(log).unwrap_or(0)).collect()
}

/// A session and the logs that contain its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlan {
    pub id: String,
    /// Numbers of its logs, earliest first.
    pub logs: Vec<usize>,
}

/// How a corpus divides into sessions.
#[derive(Debug, Default)]
pub struct CorpusPlan {
    /// Sessions, sorted by the start of their first log, then by id.
    pub sessions: Vec<SessionPlan>,
    /// Per log: whether another log owns a record, by record number; empty if none is copied.
    pub copied: Vec<Vec<bool>>,
}

/// The order in which logs claim records.
pub struct LogOrder {
    /// Numbers of the logs, earliest first.
    logs: Vec<usize>,
    /// Number of the first record of each log, counted over all logs.
    starts: Vec<u32>,
    /// Number of records with an id in each shard.
    sizes: [usize; SHARDS],
}

impl LogOrder {
    /// Orders logs by start, end and path.
    pub fn new(logs: &[LogOutline]) -> LogOrder {
        let mut order = (0..logs.len()).collect::<Vec<_>>();
        order.sort_by_key(|&at| (start_of(&logs[at]), time_or_max(logs[at].times.1), &logs[at].path));
        let mut total = 0u32;
        let mut starts = Vec::with_capacity(logs.len());
        let mut sizes = [0; SHARDS];
        for log in logs {
            starts.push(total);
            total += log.ids.len() as u32;
            log.ids.iter().for_each(|id| sizes[shard(*id)] += 1);
        }
        LogOrder {
            logs: order,
            starts,
            sizes,
        }
    }

    /// Finds the records with an id in shard `of` that an earlier log owns. Returns pairs of log number and record
    /// number. Shards are independent, so they can be searched in parallel.
    pub fn find_copies(&self, logs: &[LogOutline], of: usize) -> Vec<(usize, usize)> {
        // A single log has no copies.
        if logs.len() < 2 {
            return Vec::new();
        }
        let id_of = |number: u32| {
            let log = self.starts.partition_point(|start| *start <= number) - 1;
            logs[log].ids[(number - self.starts[log]) as usize]
        };
        let mut first = IdIndex::with_capacity(self.sizes[of]);
        let mut copies = Vec::new();
        // Logs claim ids in order; a record whose id another log claimed first is a copy.
        for &at in &self.logs {
            let ids = &logs[at].ids;
            let own = self.starts[at]..self.starts[at] + ids.len() as u32;
            let wanted = |(_, id): &(usize, &RecordId)| shard(**id) == of && **id != RecordId::default();
            for (record, id) in ids.iter().enumerate().filter(wanted) {
                let first = first.get_or_insert(*id, own.start + record as u32, id_of);
                if !own.contains(&first) {
                    copies.push((at, record));
                }
            }
        }
        copies
    }

    /// Makes the plan from the copies of all shards.
    pub fn make_plan(&self, logs: &[LogOutline], copies: impl IntoIterator<Item = (usize, usize)>) -> CorpusPlan {
        let mut copied = vec![Vec::new(); logs.len()];
        for (at, record) in copies {
            let flags: &mut Vec<bool> = &mut copied[at];
            flags.resize(logs[at].ids.len(), false);
            flags[record] = true;
        }
        let mut sessions = BTreeMap::<&str, Vec<usize>>::new();
        for &at in &self.logs {
            for session in &logs[at].sessions {
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
        sessions.sort_by(|a, b| {
            let start = |session: &SessionPlan| start_of(&logs[session.logs[0]]);
            (start(a), &a.id).cmp(&(start(b), &b.id))
        });
        CorpusPlan { sessions, copied }
    }
}

fn start_of(log: &LogOutline) -> Time {
    time_or_max(log.times.0)
}

/// Sorts logs without any time last.
fn time_or_max(time: Time) -> Time {
    if time == NO_TIME { Time::MAX } else { time }
}

/// Makes the plan on one thread.
pub fn make_plan(logs: &[LogOutline]) -> CorpusPlan {
    let order = LogOrder::new(logs);
    order.make_plan(logs, (0..SHARDS).flat_map(|shard| order.find_copies(logs, shard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &str, sessions: &[&str], times: (Time, Time), ids: &[u128]) -> LogOutline {
        LogOutline {
            path: path.into(),
            sessions: sessions.iter().map(|session| (*session).to_owned()).collect(),
            times,
            agent: Agent::Claude,
            lineage: Vec::new(),
            ids: ids.iter().map(|id| RecordId(*id)).collect(),
        }
    }

    #[test]
    fn the_log_that_ended_first_owns_shared_records() {
        let fork = log("a", &["S2"], (10, 99), &[1, 2, 3, 7]);
        let original = log("b", &["S1"], (10, 50), &[1, 2, 3, 4]);
        let plan = make_plan(&[fork, original]);
        assert_eq!(plan.copied, [vec![true, true, true, false], vec![]]);
    }

    #[test]
    fn records_are_copies_only_within_a_family_of_threads() {
        let of = |path: &str, lineage: &[&str]| LogOutline {
            lineage: lineage.iter().map(|thread| (*thread).to_owned()).collect(),
            agent: Agent::Codex,
            ..log(path, &[path], (1, 2), &[7])
        };
        // A fork of a fork names only its parent.
        let mut logs = vec![
            of("c", &["c", "b"]),
            of("b", &["b", "a"]),
            of("a", &["a"]),
            of("x", &["x"]),
        ];
        let families = separate_families(&mut logs);
        assert_eq!(families[0], families[2]);
        assert_ne!(families[0], families[3]);
        let plan = make_plan(&logs);
        let copies = plan.copied.iter().filter(|flags| !flags.is_empty()).count();
        assert_eq!(copies, 2, "one of the three owns it, and the stranger owns its own");
        assert!(plan.copied[3].is_empty());
        let mut claude = vec![log("a", &["S"], (1, 2), &[7])];
        assert_eq!(separate_families(&mut claude), [0]);
        assert_eq!(claude[0].ids, [RecordId(7)]);
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
        let forward = make_plan(&logs());
        let mut reversed_logs = logs();
        reversed_logs.reverse();
        let backward = make_plan(&reversed_logs);
        let ids = |plan: &CorpusPlan| {
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
