//! Files that a chain read, edited or wrote, and how large each of them was as a whole.
//!
//! A restored file comes back whole and in its current state, so what the last read showed is not its size. The log has no
//! contents of files; their sizes follow from reads, ranges and writes.

use super::{NONE, Trace, TraceItem, flag};
use crate::tokens::ledger::Category;
use std::collections::BTreeMap;
use transcript::tools::tool_role;

/// How a file was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TouchKind {
    Read,
    Edit,
    Write,
}

/// A successful read, edit or write of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTouch {
    /// The item of its result.
    pub item: u32,
    /// Index into [`Trace::paths`].
    pub path: u32,
    pub kind: TouchKind,
    /// Tokens of the whole file after it, as a read of all of it would show them; 0 if nothing tells.
    pub tokens: u32,
    /// The client's estimate of the same.
    pub quarters: u32,
}

/// What is known of the whole of one file.
#[derive(Debug, Clone, Copy, Default)]
struct KnownFile {
    tokens: u32,
    quarters: u32,
    /// The largest read of it so far, to tell a stub from a read.
    largest_read: u32,
    /// Whether an edit or a write came after the last read.
    has_changed: bool,
}

/// Largest tokens of a result that can be a stub.
const STUB_TOKENS: u32 = 60;

/// Finds the touches of a trace and marks reads that are stubs. `range` returns the first line and the number of lines that
/// a call asks for; 0 where it does not say.
pub(crate) fn find_touches(trace: &mut Trace, range: impl Fn(u32) -> (u32, u32)) {
    let mut files = BTreeMap::<u32, KnownFile>::new();
    let mut touches = Vec::new();
    let mut stubs = Vec::new();
    for (at, item) in (0..).zip(&trace.items) {
        let Some((path, kind)) = touched_path(trace, item) else {
            continue;
        };
        let call = trace.items[item.pair as usize];
        let file = files.entry(path).or_default();
        match kind {
            TouchKind::Read => {
                let (first, lines) = range(item.pair);
                let is_stub = item.tokens <= STUB_TOKENS && !file.has_changed && file.largest_read > 4 * item.tokens;
                if is_stub {
                    stubs.push(at);
                } else {
                    file.add_read(item, first, lines);
                }
            }
            TouchKind::Edit => file.has_changed = true,
            // The call holds the new contents of the file.
            TouchKind::Write => {
                (file.tokens, file.quarters) = (call.tokens, call.quarters);
                file.has_changed = true;
            }
        }
        touches.push(FileTouch {
            item: at,
            path,
            kind,
            tokens: file.tokens,
            quarters: file.quarters,
        });
    }
    for at in stubs {
        trace.items[at as usize].flags |= flag::STUB;
    }
    trace.touches = touches;
}

impl KnownFile {
    /// Takes in a read that starts at line `first` and asks for `lines` lines; a part of a file is scaled up to its end.
    fn add_read(&mut self, item: &TraceItem, first: u32, lines: u32) {
        let scale = |size: u32| match lines {
            0 => size,
            _ => (f64::from(size) * f64::from(first.max(1) - 1 + lines) / f64::from(lines)).round() as u32,
        };
        let (tokens, quarters) = (scale(item.tokens), scale(item.quarters));
        // A part never says that the file is smaller than what was seen of it.
        let is_part = first > 1 || lines > 0;
        if !is_part || quarters > self.quarters {
            (self.tokens, self.quarters) = (tokens, quarters);
        }
        self.largest_read = self.largest_read.max(item.tokens);
        self.has_changed = false;
    }
}

/// Returns the file that a result of a read, an edit or a write is about; `None` for any other item and for errors.
fn touched_path(trace: &Trace, item: &TraceItem) -> Option<(u32, TouchKind)> {
    if item.category != Category::ToolResult || item.pair == NONE || item.has_flag(flag::ERROR) {
        return None;
    }
    let names_file = item.path != 0 || trace.items[item.pair as usize].path != 0;
    let kind = match tool_role(&trace.tools[usize::from(item.tool)], names_file) {
        "Read" => TouchKind::Read,
        "Edit" | "MultiEdit" => TouchKind::Edit,
        "Write" => TouchKind::Write,
        _ => return None,
    };
    let path = match item.path {
        0 => trace.items[item.pair as usize].path,
        path => path,
    };
    (path != 0).then_some((path, kind))
}
