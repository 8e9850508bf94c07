//! All sessions of a run together: what is shown of it, before it is grouped.
//!
//! Pure: takes reports, gives sums. One call may be told by several lines, sessions and sub-agents: the most complete telling
//! counts, in the session that made it. The cache keeps a summary, so that a run over logs that are as they were has
//! nothing to do but group.

use crate::usage::selection::{Selection, SessionNames};
use crate::usage::session::{BilledCall, CallIndex, SessionReport};
use replay::tokens::ledger::TokenLedger;
use replay::tokens::reads::ReadTotals;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transcript::log::Time;
use transcript::pack::{PackReader, PackWriter, UnpackError};
use transcript::problem::Problem;
use transcript::record::Tokens;

/// What the logs of a run hold, whatever becomes of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogFacts {
    /// Lines by record type.
    pub kinds: BTreeMap<String, u64>,
    /// Lines of all logs.
    pub lines: u64,
    /// Bytes of all logs, unpacked.
    pub bytes: u64,
    /// Time of the newest record.
    pub newest: Option<Time>,
}

/// Sessions that are in the logs and do not count, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LeftOutSessions {
    /// Without an API call of their own: opened and left, cut off, or all of their calls count for other sessions.
    pub without_calls: u64,
    /// With nothing but records that another session owns.
    pub only_copies: u64,
}

impl LeftOutSessions {
    /// Returns how many there are.
    pub fn total(&self) -> u64 {
        self.without_calls + self.only_copies
    }
}

/// Reports of all sessions. They are large, and move from list to list.
#[allow(
    clippy::vec_box,
    reason = "a list without boxes would be copied as a whole, and be there twice meanwhile"
)]
pub type ReportList = Vec<Box<SessionReport>>;

/// A run in numbers.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageSummary {
    /// Of the logs.
    pub facts: LogFacts,
    /// Sessions, without what is summed here: their calls, ledgers, reads and problems.
    pub sessions: ReportList,
    /// Calls by session, every one once.
    #[serde(skip)]
    pub calls: Vec<Vec<BilledCall>>,
    /// What the tokens were spent on.
    pub ledger: TokenLedger,
    /// Tokens on rewound branches.
    pub rewound: TokenLedger,
    /// Files read more than once.
    pub reads: ReadTotals,
    /// What was not as it should be in logs and sessions.
    pub problems: Vec<Problem>,
    /// The filters in words; empty if everything counts.
    #[serde(skip)]
    pub selection: String,
    /// What several sessions tell of a call, each as it tells it, if it is in a conversation there: a replay makes it in each.
    pub retold: Vec<(u32, BilledCall)>,
    /// By session, its calls that are not selected. Those of conversations are replayed with the others.
    #[serde(skip)]
    pub unselected: Vec<Vec<BilledCall>>,
}

impl UsageSummary {
    /// Sums up the selected sessions and calls. A call counts at the time of its first line, wherever that stands, so it is
    /// asked only when everything that tells of it is known: of two ranges that meet, each call is in one. `sessions` are all
    /// of them, also those that are not selected: a call that two sessions tell of belongs to one whatever is selected.
    pub fn new(
        facts: LogFacts,
        mut sessions: ReportList,
        mut problems: Vec<Problem>,
        selection: &Selection,
    ) -> UsageSummary {
        let calls = sessions.iter_mut().map(|session| std::mem::take(&mut session.calls));
        let (mut calls, mut retold) = dedupe_calls(calls.collect());
        for (number, session) in std::iter::zip(0.., &mut sessions) {
            retold.extend(session.retold.drain(..).map(|call| (number, call)));
        }
        let unselected = match selection.is_everything() {
            true => Vec::new(),
            false => select_calls(&mut sessions, &mut calls, &mut retold, selection),
        };
        let mut reads = ReadTotals::default();
        for session in &mut sessions {
            problems.append(&mut session.problems);
            reads.merge(&std::mem::take(&mut session.reads));
        }
        let ledger = TokenLedger::sum(sessions.iter_mut().map(|session| std::mem::take(&mut session.ledger)));
        let rewound = TokenLedger::sum(sessions.iter_mut().map(|session| std::mem::take(&mut session.rewound)));
        UsageSummary {
            calls,
            facts,
            sessions,
            ledger,
            rewound,
            reads,
            problems,
            selection: selection.label.clone(),
            retold,
            unselected,
        }
    }

    /// Whether the filters select nothing.
    pub fn is_nothing_selected(&self) -> bool {
        !self.selection.is_empty() && self.sessions.is_empty()
    }

    /// Returns the sessions that count, with their numbers: those with an API call of their own. This is what every command
    /// means by the number of sessions.
    pub fn counted_sessions(&self) -> impl Iterator<Item = (u32, &SessionReport)> {
        let all = std::iter::zip(0.., std::iter::zip(&self.sessions, &self.calls));
        let counted = all.filter(|(_, (_, calls))| calls.iter().any(|call| !call.is_progress));
        counted.map(|(number, (session, _))| (number, &**session))
    }

    /// Returns what is left out of the number of sessions, by reason.
    pub fn left_out_sessions(&self) -> LeftOutSessions {
        let mut left = LeftOutSessions::default();
        for (session, calls) in std::iter::zip(&self.sessions, &self.calls) {
            if calls.iter().any(|call| !call.is_progress) {
                continue;
            }
            match (session.times.is_some(), session.copied_records > 0) {
                (false, true) => left.only_copies += 1,
                _ => left.without_calls += 1,
            }
        }
        left
    }

    /// Calls with the number of their session.
    pub fn numbered_calls(&self) -> impl Iterator<Item = (u32, &BilledCall)> {
        std::iter::zip(0.., &self.calls).flat_map(|(session, calls)| calls.iter().map(move |call| (session, call)))
    }

    /// In bytes, for the cache.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut out = PackWriter {
            bytes: postcard::to_allocvec(self).ok()?,
        };
        pack_calls(&mut out, &self.calls);
        Some(out.bytes)
    }

    /// From bytes; `None` if they are none, or say what cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Option<UsageSummary> {
        let (mut summary, bytes) = postcard::take_from_bytes::<UsageSummary>(bytes).ok()?;
        let mut input = PackReader { bytes };
        summary.calls = unpack_calls(&mut input, summary.sessions.len()).ok()?;
        input.bytes.is_empty().then_some(summary)
    }
}

/// Leaves the selected sessions, and of their calls the selected ones. Returns their other calls.
fn select_calls(
    sessions: &mut ReportList,
    calls: &mut Vec<Vec<BilledCall>>,
    retold: &mut Vec<(u32, BilledCall)>,
    selection: &Selection,
) -> Vec<Vec<BilledCall>> {
    let mut unselected = Vec::new();
    let mut numbers = BTreeMap::new();
    let all = std::iter::zip(std::mem::take(sessions), std::mem::take(calls));
    for (number, (session, mut own)) in std::iter::zip(0.., all) {
        let names = SessionNames {
            agent: session.coding_agent,
            id: &session.id,
            project: &session.project,
            title: session.title.unmasked(),
        };
        if !selection.takes_session(names) {
            continue;
        }
        let model = |call: &BilledCall| session.names.get(call.model as usize).map_or("", |model| model);
        let mut others = Vec::new();
        own.retain(|call| {
            let is_taken = selection.takes_call(call.time, model(call));
            if !is_taken && !call.is_progress {
                others.push(*call);
            }
            is_taken
        });
        let has_records = selection.range.is_unbounded() || session.times.is_some();
        if !own.is_empty() || has_records && selection.models.is_empty() {
            selection.mark_found();
            numbers.insert(number, sessions.len() as u32);
            sessions.push(session);
            calls.push(own);
            unselected.push(others);
        }
    }
    retold.retain_mut(|(session, _)| {
        let kept = numbers.get(session);
        *session = kept.copied().unwrap_or_default();
        kept.is_some()
    });
    unselected
}

/// Calls, with the number of their session.
type NumberedCalls = Vec<(u32, BilledCall)>;

/// Leaves every call with the one session that it counts for. Also returns what each session tells of a call that several tell
/// of, as far as it is in a conversation there.
fn dedupe_calls(mut sessions: Vec<Vec<BilledCall>>) -> (Vec<Vec<BilledCall>>, NumberedCalls) {
    let mut retold = Vec::new();
    // Inside a session every call is there once.
    let superseded = match sessions.len() {
        0 | 1 => Vec::new(),
        _ => find_duplicate_calls(&mut sessions, &mut retold),
    };
    let mut superseded = superseded.into_iter().peekable();
    for (session, calls) in std::iter::zip(0.., &mut sessions) {
        let mut at = 0;
        calls.retain(|_| {
            let is_superseded = superseded.next_if_eq(&(session, at)).is_some();
            at += 1;
            !is_superseded
        });
        // Ids have told the calls apart and are of no more use; they would be most of what the cache keeps.
        for call in calls {
            (call.message, call.request) = (0, 0);
        }
    }
    retold.retain(|(_, call): &(u32, BilledCall)| call.is_threaded);
    retold
        .iter_mut()
        .for_each(|(_, call)| (call.message, call.request) = (0, 0));
    (sessions, retold)
}

/// Merges what several sessions tell of a call into the telling that counts, and finds the others: session, and place in it,
/// in their order. Adds each repeated record unchanged to `retold`.
fn find_duplicate_calls(sessions: &mut [Vec<BilledCall>], retold: &mut NumberedCalls) -> Vec<(u32, u32)> {
    let total = sessions.iter().map(Vec::len).sum();
    let mut index = CallIndex::with_capacity(total);
    // Where the calls of the index are: session, and place in it.
    let mut places = Vec::<(u32, u32)>::with_capacity(total);
    let mut superseded = Vec::new();
    for session in 0..sessions.len() {
        for at in 0..sessions[session].len() {
            let call = sessions[session][at];
            let place = (session as u32, at as u32);
            let known = index.find(&call, |number| {
                let (session, at) = places[number as usize];
                &sessions[session as usize][at as usize]
            });
            let Some(known) = known else {
                index.insert(&call, places.len() as u32);
                places.push(place);
                continue;
            };
            let known = &mut places[known as usize];
            let before = &mut sessions[known.0 as usize][known.1 as usize];
            if !before.is_retold {
                retold.push((known.0, *before));
            }
            retold.push((place.0, call));
            before.is_retold = true;
            let passed_over = |call: BilledCall| BilledCall {
                is_progress: true,
                is_copied: true,
                is_sidechain: true,
                is_retold: true,
                ..call
            };
            // Names are numbered per session, so the place of a call moves as a whole.
            if call.ownership_rank() < before.ownership_rank() {
                let worse = passed_over(*before);
                sessions[session][at].merge(&worse);
                sessions[session][at].is_retold = true;
                superseded.push(std::mem::replace(known, place));
            } else {
                before.merge(&passed_over(call));
                superseded.push(place);
            }
        }
    }
    superseded.sort_unstable();
    superseded
}

/// Flags of a packed call.
mod flag {
    pub const SIDECHAIN: u64 = 1;
    pub const PROGRESS: u64 = 1 << 1;
    pub const COPIED: u64 = 1 << 2;
    pub const REWOUND: u64 = 1 << 3;
    /// Model, branch, folder and agent are not those of the call before.
    pub const PLACE: u64 = 1 << 4;
    /// What was sent is not what was billed as input.
    pub const WINDOW: u64 = 1 << 5;
    /// Some of the cache writes are for one hour.
    pub const HOUR: u64 = 1 << 6;
    /// The client's own.
    pub const CLIENT: u64 = 1 << 7;
    /// In no conversation.
    pub const OUTSIDE: u64 = 1 << 8;
    /// Within the response of another call.
    pub const INNER: u64 = 1 << 9;
    /// Some of its output is estimated.
    pub const REST: u64 = 1 << 10;
    /// Several sessions tell of it.
    pub const RETOLD: u64 = 1 << 11;
}

/// Calls are most of a summary, and differ little from one to the next.
fn pack_calls(out: &mut PackWriter, sessions: &[Vec<BilledCall>]) {
    let (mut place, mut time) = ([0; 4], 0i64);
    for calls in sessions {
        out.number(calls.len() as u64);
        for call in calls {
            pack_call(out, call, &mut place, &mut time);
        }
    }
}

/// Packs a call; `place` and `time` are those of the one before it.
fn pack_call(out: &mut PackWriter, call: &BilledCall, place: &mut [u32; 4], time: &mut Time) {
    let new_place = [call.model, call.branch, call.cwd, call.agent];
    let tokens = &call.tokens;
    let mut flags = 0;
    let mut set = |condition: bool, flag: u64| flags |= u64::from(condition) * flag;
    set(call.is_sidechain, flag::SIDECHAIN);
    set(call.is_client, flag::CLIENT);
    set(call.is_progress, flag::PROGRESS);
    set(call.is_copied, flag::COPIED);
    set(call.is_rewound, flag::REWOUND);
    set(!call.is_threaded, flag::OUTSIDE);
    set(call.is_inner, flag::INNER);
    set(call.output_rest > 0, flag::REST);
    set(call.is_retold, flag::RETOLD);
    set(new_place != *place, flag::PLACE);
    set(call.window != tokens.input_side(), flag::WINDOW);
    set(tokens.cache_write_1h > 0, flag::HOUR);
    out.number(flags);
    if flags & flag::PLACE != 0 {
        new_place.iter().for_each(|name| out.number(u64::from(*name)));
    }
    for count in [tokens.input, tokens.output, tokens.cache_write, tokens.cache_read] {
        out.number(count);
    }
    if flags & flag::HOUR != 0 {
        out.number(tokens.cache_write_1h);
    }
    if flags & flag::WINDOW != 0 {
        out.number(call.window);
    }
    if flags & flag::REST != 0 {
        out.number(call.output_rest);
    }
    out.signed(call.time.wrapping_sub(*time));
    (*place, *time) = (new_place, call.time);
}

fn unpack_calls(input: &mut PackReader<'_>, sessions: usize) -> Result<Vec<Vec<BilledCall>>, UnpackError> {
    let (mut place, mut time) = ([0; 4], 0i64);
    let unpack = |_| {
        // A call takes at least six bytes.
        let total = input.count(6)?;
        let mut calls = Vec::with_capacity(total);
        for _ in 0..total {
            calls.push(unpack_call(input, &mut place, &mut time)?);
        }
        Ok(calls)
    };
    (0..sessions).map(unpack).collect()
}

/// Unpacks a call; `place` and `time` are those of the one before it.
fn unpack_call(input: &mut PackReader<'_>, place: &mut [u32; 4], time: &mut Time) -> Result<BilledCall, UnpackError> {
    let flags = input.number()?;
    if flags & flag::PLACE != 0 {
        for name in place.iter_mut() {
            *name = input.small()?;
        }
    }
    let mut tokens = Tokens {
        input: input.number()?,
        output: input.number()?,
        cache_write: input.number()?,
        cache_read: input.number()?,
        cache_write_1h: 0,
    };
    if flags & flag::HOUR != 0 {
        tokens.cache_write_1h = input.number()?;
    }
    if tokens.cache_write_1h > tokens.cache_write {
        return Err(UnpackError);
    }
    let window = match flags & flag::WINDOW {
        0 => tokens.input_side(),
        _ => input.number()?,
    };
    let output_rest = match flags & flag::REST {
        0 => 0,
        _ => input.number()?,
    };
    *time = time.wrapping_add(input.signed()?);
    let [model, branch, cwd, agent] = *place;
    Ok(BilledCall {
        message: 0,
        request: 0,
        tokens,
        window,
        time: *time,
        model,
        branch,
        cwd,
        agent,
        is_sidechain: flags & flag::SIDECHAIN != 0,
        is_client: flags & flag::CLIENT != 0,
        is_progress: flags & flag::PROGRESS != 0,
        is_copied: flags & flag::COPIED != 0,
        is_rewound: flags & flag::REWOUND != 0,
        is_threaded: flags & flag::OUTSIDE == 0,
        is_inner: flags & flag::INNER != 0,
        is_retold: flags & flag::RETOLD != 0,
        output_rest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> UsageSummary {
        let call = BilledCall {
            message: 7,
            tokens: Tokens {
                input: 1,
                output: 300,
                cache_write: 20,
                cache_write_1h: 10,
                cache_read: 4000,
            },
            window: 5,
            time: -3,
            is_rewound: true,
            output_rest: 7,
            ..BilledCall::default()
        };
        let session = |id: &str| SessionReport {
            id: id.into(),
            calls: vec![call],
            ..SessionReport::default()
        };
        UsageSummary::new(
            LogFacts::default(),
            vec![Box::new(session("a")), Box::new(session("b"))],
            Vec::new(),
            &Selection::default(),
        )
    }

    #[test]
    fn a_summary_comes_back_as_it_was() {
        let summary = summary();
        assert_eq!(summary.numbered_calls().count(), 1, "told twice, counted once");
        let bytes = summary.to_bytes().unwrap();
        assert_eq!(UsageSummary::from_bytes(&bytes), Some(summary));
        for end in 0..bytes.len() {
            assert_eq!(UsageSummary::from_bytes(&bytes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn a_call_counts_where_it_was_made_and_as_it_was_told_best() {
        let call = |message: u64, output: u64| BilledCall {
            message,
            tokens: Tokens {
                output,
                ..Tokens::default()
            },
            ..BilledCall::default()
        };
        let copied = |call: BilledCall| BilledCall {
            is_copied: true,
            ..call
        };
        // One is told by a copy before the session that made it, and better there; another the other way round. A third
        // has no id: it is never the same.
        let told = vec![
            vec![copied(call(1, 9)), call(2, 1), call(0, 5)],
            vec![call(0, 5), call(1, 4), copied(call(2, 3)), call(3, 1)],
            vec![call(1, 5)],
        ];
        let outputs = |calls: &Vec<BilledCall>| calls.iter().map(|call| call.tokens.output).collect::<Vec<_>>();
        let (counted, _) = dedupe_calls(told);
        let found = counted.iter().map(outputs).collect::<Vec<_>>();
        assert_eq!(found, [vec![3, 5], vec![5, 9, 1], vec![]]);
        assert!(
            counted
                .iter()
                .flatten()
                .all(|call| !call.is_copied && call.message == 0)
        );
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let mut elsewhere = summary();
        elsewhere.calls.splice(..0, [Vec::new(), Vec::new()]);
        assert_eq!(UsageSummary::from_bytes(&elsewhere.to_bytes().unwrap()), None);
        let mut too_much = summary();
        too_much.calls[0][0].tokens.cache_write_1h = 21;
        assert_eq!(UsageSummary::from_bytes(&too_much.to_bytes().unwrap()), None);
    }
}
