//! All sessions of a run together: what is shown of it, before it is grouped.
//!
//! Pure: takes reports, gives sums. The cache keeps a summary, so that a run over logs that are as they were has nothing to
//! do but group.

use super::report::{Call, SessionReport};
use super::usage::{Counted, merge};
use crate::input::record::Tokens;
use crate::problem::Problem;
use crate::session::pack::{Damaged, Reader, Writer};
use crate::tokens::ledger::Ledger;
use crate::tokens::reads::Reads;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the logs of a run hold, whatever becomes of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogFacts {
    /// Lines by record type.
    pub kinds: BTreeMap<String, u64>,
    /// Lines of all logs.
    pub lines: u64,
    /// Bytes of all logs, unpacked.
    pub bytes: u64,
}

/// A run in numbers.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Of the logs.
    pub facts: LogFacts,
    /// Sessions, without what is summed here: their calls, ledgers, reads and problems.
    pub sessions: Vec<SessionReport>,
    /// Every call once.
    #[serde(skip)]
    pub counted: Vec<Counted>,
    /// What the tokens were spent on.
    pub ledger: Ledger,
    /// Tokens on rewound branches.
    pub rewound: Ledger,
    /// Files read more than once.
    pub reads: Reads,
    /// What was not as it should be in logs and sessions.
    pub problems: Vec<Problem>,
}

impl Summary {
    /// Sums up sessions.
    pub fn new(facts: LogFacts, mut sessions: Vec<SessionReport>, mut problems: Vec<Problem>) -> Summary {
        let mut reads = Reads::default();
        for session in &mut sessions {
            problems.append(&mut session.problems);
            reads.merge(&std::mem::take(&mut session.reads));
        }
        let ledger = Ledger::sum(sessions.iter_mut().map(|session| std::mem::take(&mut session.ledger)));
        let rewound = Ledger::sum(sessions.iter_mut().map(|session| std::mem::take(&mut session.rewound)));
        let mut counted = merge(&mut sessions);
        // Ids have told the calls apart and are of no more use; they would be most of what the cache keeps.
        for counted in &mut counted {
            (counted.call.message, counted.call.request) = (0, 0);
        }
        Summary {
            counted,
            facts,
            sessions,
            ledger,
            rewound,
            reads,
            problems,
        }
    }

    /// In bytes, for the cache.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut out = Writer {
            bytes: postcard::to_allocvec(self).ok()?,
        };
        pack_calls(&mut out, &self.counted);
        Some(out.bytes)
    }

    /// From bytes; `None` if they are none, or say what cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Option<Summary> {
        let (mut summary, bytes) = postcard::take_from_bytes::<Summary>(bytes).ok()?;
        let mut input = Reader { bytes };
        summary.counted = unpack_calls(&mut input, summary.sessions.len()).ok()?;
        input.bytes.is_empty().then_some(summary)
    }
}

/// Flags of a packed call.
mod flag {
    pub const SIDECHAIN: u64 = 1;
    pub const PROGRESS: u64 = 1 << 1;
    pub const COPIED: u64 = 1 << 2;
    pub const REWOUND: u64 = 1 << 3;
    /// Session, model, branch, folder and agent are not those of the call before.
    pub const PLACE: u64 = 1 << 4;
    /// What was sent is not what was billed as input.
    pub const WINDOW: u64 = 1 << 5;
    /// Some of the cache writes are for one hour.
    pub const HOUR: u64 = 1 << 6;
}

/// Calls are most of a summary, and differ little from one to the next.
fn pack_calls(out: &mut Writer, counted: &[Counted]) {
    out.number(counted.len() as u64);
    let (mut place, mut time) = ([0; 5], 0i64);
    for Counted { session, call } in counted {
        let new_place = [*session, call.model, call.branch, call.cwd, call.agent];
        let tokens = &call.tokens;
        let mut flags = 0;
        let mut set = |condition: bool, flag: u64| flags |= u64::from(condition) * flag;
        set(call.is_sidechain, flag::SIDECHAIN);
        set(call.is_progress, flag::PROGRESS);
        set(call.is_copied, flag::COPIED);
        set(call.is_rewound, flag::REWOUND);
        set(new_place != place, flag::PLACE);
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
        out.signed(call.time.wrapping_sub(time));
        (place, time) = (new_place, call.time);
    }
}

fn unpack_calls(input: &mut Reader<'_>, sessions: usize) -> Result<Vec<Counted>, Damaged> {
    // A call takes at least six bytes.
    let total = input.count(6)?;
    let mut counted = Vec::with_capacity(total);
    let ([mut session, mut model, mut branch, mut cwd, mut agent], mut time) = ([0; 5], 0i64);
    for _ in 0..total {
        let flags = input.number()?;
        if flags & flag::PLACE != 0 {
            session = input.small()?;
            for name in [&mut model, &mut branch, &mut cwd, &mut agent] {
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
        if session as usize >= sessions || tokens.cache_write_1h > tokens.cache_write {
            return Err(Damaged);
        }
        let window = match flags & flag::WINDOW {
            0 => tokens.input_side(),
            _ => input.number()?,
        };
        time = time.wrapping_add(input.signed()?);
        counted.push(Counted {
            session,
            call: Call {
                message: 0,
                request: 0,
                tokens,
                window,
                time,
                model,
                branch,
                cwd,
                agent,
                is_sidechain: flags & flag::SIDECHAIN != 0,
                is_progress: flags & flag::PROGRESS != 0,
                is_copied: flags & flag::COPIED != 0,
                is_rewound: flags & flag::REWOUND != 0,
            },
        });
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let call = Call {
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
            ..Call::default()
        };
        let session = |id: &str| SessionReport {
            id: id.into(),
            calls: vec![call],
            ..SessionReport::default()
        };
        Summary::new(LogFacts::default(), vec![session("a"), session("b")], Vec::new())
    }

    #[test]
    fn a_summary_comes_back_as_it_was() {
        let summary = summary();
        assert_eq!(summary.counted.len(), 1, "told twice, counted once");
        let bytes = summary.to_bytes().unwrap();
        assert_eq!(Summary::from_bytes(&bytes), Some(summary));
        for end in 0..bytes.len() {
            assert_eq!(Summary::from_bytes(&bytes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let mut elsewhere = summary();
        elsewhere.counted[0].session = 2;
        assert_eq!(Summary::from_bytes(&elsewhere.to_bytes().unwrap()), None);
        let mut too_much = summary();
        too_much.counted[0].call.tokens.cache_write_1h = 21;
        assert_eq!(Summary::from_bytes(&too_much.to_bytes().unwrap()), None);
    }
}
