//! Explains the misses of a replay: which lines an edit needed, where the window had last held them, and when they left it.

use crate::sim::event::{CompactionCause, CompactionKind, Event, EventSink, MicroKind, SimBoundary};
use crate::sim::trace::Trace;
use crate::sim::uses::{FileUse, FileUses, item_node, lines_of_item};
use crate::sim::working_set::UseOutcome;
use std::collections::BTreeSet;
use transcript::line_hashes::TextRole;
use transcript::thread::Session;

/// What took an item out of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// A compaction.
    Compaction(CompactionCause, CompactionKind),
    /// A micro-compaction.
    Micro(MicroKind),
}

/// When an item left the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemDrop {
    /// The call before which it happened.
    pub call: u32,
    pub cause: DropCause,
}

/// An edit or a write of a file, of which the window no longer held what it needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedUse {
    /// The call whose response contains it.
    pub call: u32,
    /// The tool call item.
    pub item: u32,
    /// Index of the path in the trace.
    pub path: u32,
    pub outcome: UseOutcome,
    /// Lines that it needed and the log had shown; 1 for a write, which needs any copy of the file.
    pub needed: usize,
    /// Of these, lines that were gone.
    pub gone: usize,
    /// Hashes of the lines that were gone; empty for a write.
    pub gone_lines: BTreeSet<u32>,
    /// The item that had held the lines last.
    pub holder: Option<u32>,
    /// When that item left the window.
    pub dropped: Option<ItemDrop>,
}

/// Collects the misses of one chain from its events.
pub struct MissCollector<'a> {
    session: &'a Session<'a>,
    trace: &'a Trace,
    uses: &'a FileUses,
    /// By item, once it left the window.
    drops: Vec<Option<ItemDrop>>,
    /// Boundaries of the replay: the call before which each stands.
    pub boundaries: Vec<u32>,
    /// The misses, in order.
    pub misses: Vec<MissedUse>,
    /// Edits and writes of known files.
    pub use_count: u64,
}

impl<'a> MissCollector<'a> {
    /// `uses` are those of the trace.
    pub fn new(session: &'a Session<'a>, trace: &'a Trace, uses: &'a FileUses) -> MissCollector<'a> {
        MissCollector {
            session,
            trace,
            uses,
            drops: vec![None; trace.items.len()],
            boundaries: Vec::new(),
            misses: Vec::new(),
            use_count: 0,
        }
    }

    fn drop_item(&mut self, item: u32, drop: ItemDrop) {
        if let Some(known) = self.drops.get_mut(item as usize) {
            known.get_or_insert(drop);
        }
    }

    fn add_boundary(&mut self, call: u32, boundary: &SimBoundary) {
        self.boundaries.push(call);
        let drop = ItemDrop {
            call,
            cause: DropCause::Compaction(boundary.cause, boundary.kind),
        };
        let end = boundary.last_item.map_or(0, |last| last + 1);
        for item in (0..end).filter(|item| !boundary.kept.contains(item)) {
            self.drop_item(item, drop);
        }
    }

    fn drop_of(&self, item: u32) -> Option<ItemDrop> {
        self.drops.get(item as usize).copied().flatten()
    }

    fn add_miss(&mut self, call: u32, one: &FileUse, outcome: UseOutcome, gone: &[u32]) {
        let items = |lists: &mut dyn Iterator<Item = u32>| {
            let items = lists.flat_map(|list| self.uses.lists.get(list).iter().copied());
            items.collect::<BTreeSet<_>>()
        };
        let lost = items(&mut gone.iter().copied());
        let others = items(&mut one.lines.clone().filter(|list| !gone.contains(list)));
        let hashes = |items: &BTreeSet<u32>| {
            let sets = items
                .iter()
                .flat_map(|item| lines_of_item(self.session, self.trace, *item));
            sets.flat_map(|set| set.lines.iter().copied()).collect::<BTreeSet<_>>()
        };
        // A line that stands both in what is gone and in what is there is gone only if nothing there shows it.
        let there = others.difference(&lost).copied().collect();
        let (lost_lines, lines_there) = (hashes(&lost), hashes(&there));
        let replaced = lines_of_item(self.session, self.trace, one.item);
        let replaced = replaced.filter(|set| set.role == TextRole::Replaced);
        let replaced = replaced
            .flat_map(|set| set.lines.iter().copied())
            .collect::<BTreeSet<_>>();
        let is_gone = |line: &u32| lost_lines.contains(line) && !lines_there.contains(line);
        let gone_lines = replaced.into_iter().filter(is_gone).collect();
        let dropped = lost.iter().rev().find(|item| self.drop_of(**item).is_some());
        let holder = dropped.or(lost.last()).copied();
        let miss = MissedUse {
            call,
            item: one.item,
            path: one.path,
            outcome,
            needed: one.lines.len(),
            gone: gone.len(),
            gone_lines,
            holder,
            dropped: holder.and_then(|item| self.drop_of(item)),
        };
        self.misses.push(miss);
    }

    /// Returns the line of the log that an item stands on, with the log's path.
    pub fn place_of(&self, item: u32) -> Option<(&'a str, u32)> {
        let node = item_node(self.trace, item)?;
        Some((&self.session.part(node).path, self.session.record(node).line))
    }
}

impl EventSink for MissCollector<'_> {
    fn on_event(&mut self, call: u32, event: &Event<'_>) {
        match event {
            Event::Boundary(boundary) => self.add_boundary(call, boundary),
            Event::Micro { kind, cleared, .. } => {
                let cause = DropCause::Micro(*kind);
                for item in *cleared {
                    self.drop_item(*item, ItemDrop { call, cause });
                }
            }
            // A call that was copied from another session counts there.
            Event::Used { one, outcome, gone } if !self.trace.calls[call as usize].is_copied => {
                self.use_count += 1;
                if !matches!(outcome, UseOutcome::Live | UseOutcome::Filled) {
                    self.add_miss(call, one, *outcome, gone);
                }
            }
            _ => {}
        }
    }
}
