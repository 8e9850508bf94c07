//! One log, parsed: a big one in parts side by side, joined in their order as they come in.

use crate::run::{Options, broken_kind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use transcript::build::{Builder, Room};
use transcript::bytes::Log as OpenLog;
use transcript::discover::Found;
use transcript::evidence::Evidence;
use transcript::parallel;
use transcript::parallel::side_by_side;
use transcript::problem::{Kind, Problem};
use transcript::walk::Walker;

/// The smallest part of a file that is worth a thread of its own.
const PART: u64 = 4 << 20;

/// What parsing a log, or a part of it, gives.
#[derive(Default)]
pub struct Parsed {
    /// The log, whose links are still to be resolved.
    pub whole: Builder,
    /// Hashes of content lines, if they were wanted.
    pub evidence: Option<Evidence>,
    /// Problems with the file as a whole.
    pub problems: Vec<Problem>,
}

/// Parses a log, a big one in parts side by side.
pub fn parse_log(found: &Found, path: &str, rooms: &Rooms, options: &Options<'_>) -> Parsed {
    let open = match OpenLog::open(&found.path, found.packing, options.io) {
        Ok(open) => open,
        Err(error) => {
            return Parsed {
                problems: vec![Problem::file(path, Kind::Unreadable, error.to_string())],
                ..Parsed::default()
            };
        }
    };
    let read_part = |part: &Range<u64>| {
        let walker = Walker::in_room(rooms.take(), options.limits.max_line, options.progress);
        let mut walker = if options.with_lines {
            walker.with_evidence()
        } else {
            walker
        };
        // The first part is the one that the others are joined to.
        let end = if part.start == 0 { u64::MAX } else { part.end };
        walker.expect(end.min(found.stamp.size).saturating_sub(part.start));
        let done = open.read(&found.path, part.clone(), options.limits, &mut walker);
        let kind = broken_kind(found.packing);
        let problem = done.err().map(|error| Problem::file(path, kind, error.to_string()));
        let (whole, evidence) = walker.into_parts();
        Parsed {
            whole,
            evidence,
            problems: problem.into_iter().collect(),
        }
    };
    let threads = parallel::count();
    let parts = open.parts(if threads > 1 { PART } else { u64::MAX });
    let parts = parts.into_iter().enumerate().collect::<Vec<_>>();
    let joining = Joining::new(rooms);
    side_by_side(&parts, |(number, part)| joining.put(*number, read_part(part)));
    joining.done()
}

/// A log whose parts are joined in their order, as they come in.
struct Joining<'r> {
    joined: Mutex<Joined>,
    /// Where room of parts goes.
    rooms: &'r Rooms,
}

struct Joined {
    /// What is joined so far. Whoever joins has it meanwhile; others leave their part and go on reading.
    parsed: Option<Parsed>,
    /// Number of the part that comes next.
    next: usize,
    /// Parts that others have to come before.
    waiting: BTreeMap<usize, Parsed>,
}

impl<'r> Joining<'r> {
    fn new(rooms: &'r Rooms) -> Joining<'r> {
        Joining {
            joined: Mutex::new(Joined {
                parsed: Some(Parsed::default()),
                next: 0,
                waiting: BTreeMap::new(),
            }),
            rooms,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Joined> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, number: usize, part: Parsed) {
        let mut joined = self.lock();
        joined.waiting.insert(number, part);
        let Some(mut parsed) = joined.parsed.take() else { return };
        loop {
            let next = joined.next;
            let Some(part) = joined.waiting.remove(&next) else {
                break;
            };
            joined.next += 1;
            drop(joined);
            match next {
                0 => parsed = part,
                _ => self.rooms.leave(parsed.append(part)),
            }
            joined = self.lock();
        }
        joined.parsed = Some(parsed);
    }

    /// The whole log, once every part was put.
    fn done(self) -> Parsed {
        let joined = self.joined.into_inner().unwrap_or_else(PoisonError::into_inner);
        joined.parsed.unwrap_or_default()
    }
}

impl Parsed {
    /// Joins the part that follows, of which room is left.
    fn append(&mut self, part: Parsed) -> Room {
        if let (Some(evidence), Some(lines)) = (&mut self.evidence, part.evidence) {
            evidence.append(lines, self.whole.block_count());
        }
        self.problems.extend(part.problems);
        self.whole.append(part.whole)
    }
}

/// Room of logs, and parts of logs, that are done with, for those that are read next. The system gives fresh memory page by
/// page, and takes some of it back whenever much is free: both cost more than what is written into it.
#[derive(Default)]
pub struct Rooms(Mutex<Vec<Room>>);

impl Rooms {
    /// How many records a room is kept for.
    const LARGEST: usize = 1 << 13;
    /// How many rooms are kept.
    const MOST: usize = 8;

    /// Some room, if there is any.
    pub fn take(&self) -> Room {
        self.lock().pop().unwrap_or_default()
    }

    /// Leaves room for others, but for that of a big log: it would be held for as long as anything is read.
    pub fn leave(&self, room: Room) {
        let mut rooms = self.lock();
        if rooms.len() < Self::MOST && room.size() <= Self::LARGEST {
            rooms.push(room);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Room>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transcript::log::Log;

    #[test]
    fn parts_are_joined_in_their_order_whichever_comes_first() {
        let part = |number: usize| Parsed {
            problems: vec![Problem::file(number.to_string(), Kind::Unreadable, "")],
            ..Parsed::default()
        };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let rooms = Rooms::default();
            let joining = Joining::new(&rooms);
            for number in order {
                joining.put(number, part(number));
            }
            let problems = joining.done().problems;
            let joined = problems.iter().map(|problem| problem.path.as_str());
            assert_eq!(joined.collect::<Vec<_>>(), ["0", "1", "2", "3"], "{order:?}");
        }
    }

    #[test]
    fn room_is_not_hoarded() {
        let rooms = Rooms::default();
        let of = |records: usize| {
            let mut log = Log::default();
            log.records.reserve_exact(records);
            Room::of(log)
        };
        rooms.leave(of(Rooms::LARGEST + 1));
        assert_eq!(rooms.take().size(), 0);
        rooms.leave(of(Rooms::LARGEST));
        assert_eq!(rooms.take().size(), Rooms::LARGEST);
        (0..100).for_each(|_| rooms.leave(of(1)));
        assert_eq!(rooms.lock().len(), Rooms::MOST);
    }

    #[test]
    fn who_brings_a_part_while_another_joins_does_not_wait() {
        let rooms = Rooms::default();
        let joining = Joining::new(&rooms);
        let whole = joining.lock().parsed.take();
        // Somebody joins: the part stays where it is.
        joining.put(0, Parsed::default());
        assert_eq!(joining.lock().waiting.len(), 1);
        joining.lock().parsed = whole;
        joining.put(1, Parsed::default());
        let joined = joining.lock();
        assert_eq!((joined.waiting.len(), joined.next), (0, 2));
    }
}
