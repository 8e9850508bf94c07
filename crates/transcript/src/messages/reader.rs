//! Reads lines into messages: which lines may hold one, and what is queued or titled between them.

use super::queue::{LOOSE_KINDS, LooseRecord, PromptQueue};
use super::record::{NESTED_FILE, QUEUED_COMMAND, QuietCalls, read_message, read_record};
use super::{Message, PartSelection, SessionTitle};
use crate::agents::{CanonicalConsumer, CanonicalLines};
use crate::bytes::LineConsumer;
use crate::json::RawParser;
use crate::log::{LineProblem, LineProblemKind, LineProblems};
use crate::repair::Repairer;
use crate::skim::{ScanLines, SlowPath, StringScanner, dispatch_scan};
use memchr::memmem::Finder;

/// Where the kind of a record without an id stands, in bytes from the start of the line.
const LOOSE_START: usize = 64;

/// Decides from the bytes of a line whether it may contain what is searched for.
pub type LineFilter<'f> = dyn Fn(&[u8]) -> bool + Sync + 'f;

/// Reads lines into messages.
pub struct MessageReader<'p> {
    selection: PartSelection,
    max_line: usize,
    repairer: Repairer,
    needles: [Finder<'static>; 7],
    queue: PromptQueue,
    quiet: QuietCalls,
    /// Numbers of the lines to read, ascending; `None` for all.
    only_lines: Option<std::vec::IntoIter<u64>>,
    lines: u64,
    progress: &'p (dyn Fn(u64) + Sync),
    filter: Option<&'p LineFilter<'p>>,
    /// Number of lines with a message that the filter rejected.
    pub filtered_out: u64,
    /// Messages read so far.
    pub messages: Vec<Message>,
    /// Titles of sessions, in the order of the log.
    pub titles: Vec<SessionTitle>,
    /// Problems with lines.
    pub problems: LineProblems,
}

impl<'p> MessageReader<'p> {
    /// Starts a log. `progress` is called with the number of bytes read.
    pub fn new(selection: PartSelection, max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> MessageReader<'p> {
        MessageReader {
            selection,
            max_line,
            repairer: Repairer::default(),
            needles: [
                Finder::new(b"\"message\""),
                Finder::new(b"\"user\""),
                Finder::new(b"\"assistant\""),
                Finder::new(QUEUED_COMMAND),
                Finder::new(NESTED_FILE),
                Finder::new(LOOSE_KINDS[0]),
                Finder::new(LOOSE_KINDS[1]),
            ],
            queue: PromptQueue::default(),
            quiet: QuietCalls::default(),
            only_lines: None,
            lines: 0,
            progress,
            filter: None,
            filtered_out: 0,
            messages: Vec::new(),
            titles: Vec::new(),
            problems: LineProblems::default(),
        }
    }

    /// Restricts reading to these line numbers, which must ascend.
    pub fn with_only_lines(mut self, lines: Vec<u64>) -> MessageReader<'p> {
        self.only_lines = Some(lines.into_iter());
        self
    }

    /// Returns whether the current line is selected.
    fn is_selected_line(&mut self) -> bool {
        let Some(only) = &mut self.only_lines else { return true };
        let passed = only.as_slice().iter().take_while(|line| **line < self.lines).count();
        if passed > 0 {
            only.nth(passed - 1);
        }
        only.as_slice().first() == Some(&self.lines)
    }

    /// Skips lines that `filter` rejects without parsing them.
    pub fn with_filter(self, filter: &'p LineFilter<'p>) -> MessageReader<'p> {
        MessageReader {
            filter: Some(filter),
            ..self
        }
    }

    /// Returns whether a line may contain a message. Substring searches are cheaper than parsing.
    fn may_hold_message(&self, line: &[u8]) -> bool {
        let [message, user, assistant, queued, nested, ..] = &self.needles;
        let is_message = message.find(line).is_some() && (user.find(line).is_some() || assistant.find(line).is_some());
        is_message
            || (self.selection.every_word || self.selection.notices) && queued.find(line).is_some()
            || self.selection.files && nested.find(line).is_some()
    }

    /// Returns whether a line may be an operation on the queue or a title: the client writes the kind first.
    fn may_be_loose(&self, line: &[u8]) -> bool {
        let start = &line[..line.len().min(LOOSE_START)];
        (self.selection.every_word || self.selection.notices)
            && self.needles[5..].iter().any(|needle| needle.find(start).is_some())
    }

    /// Takes an operation on the queue or a title. Returns whether the line is one.
    fn read_loose<S: StringScanner>(&mut self, line: &[u8]) -> bool {
        if line.len() > self.max_line || !self.may_be_loose(line) {
            return false;
        }
        let mut raw = RawParser::<S>::new(line, 0);
        let read = LooseRecord::read(&mut raw).and_then(|read| raw.end_of_line().map(|_| read));
        let record = read.unwrap_or_else(|SlowPath| {
            let mut found = None;
            self.repairer.read_tapes(line, &mut |_, mut tape| {
                found = LooseRecord::read(&mut tape).ok().flatten();
            });
            found
        });
        let Some(record) = record else { return false };
        match record.to_title() {
            Some(title) => self.titles.push(title),
            None => self.queue.apply(record, self.selection, self.lines),
        }
        true
    }

    /// Ends the log: reads the prompts that were queued and that no record repeats.
    pub fn finish(&mut self) {
        self.messages.extend(self.queue.take_unrepeated());
    }

    fn read_line<S: StringScanner>(&mut self, line: &[u8], offset: u64, is_complete: bool) {
        if line.len() > self.max_line {
            self.add_problem(LineProblemKind::TooLong, offset);
            return;
        }
        let mut raw = RawParser::<S>::new(line, 0);
        let read = read_record(&mut raw, self.selection, &mut self.quiet)
            .and_then(|message| raw.end_of_line().map(|_| message));
        if let Ok(message) = read {
            self.push(message);
            return;
        }
        let (selection, mut found) = (self.selection, Vec::new());
        let quiet = &mut self.quiet;
        let outcome = self.repairer.read_tapes(line, &mut |_, mut tape| {
            found.extend(read_message(&mut tape, selection, quiet));
        });
        for message in found {
            self.push(message);
        }
        if let Some(kind) = outcome.line_problem(is_complete) {
            self.add_problem(kind, offset);
        }
    }

    fn push(&mut self, message: Option<Message>) {
        if let Some(message) = message {
            self.queue.drop_repeated(&message);
            self.messages.push(Message {
                line: self.lines,
                ..message
            });
        }
    }

    fn add_problem(&mut self, kind: LineProblemKind, offset: u64) {
        self.problems.push(LineProblem {
            kind,
            line: self.lines,
            offset,
        });
    }

    /// Reads a selected line if it may contain a message and passes the filter.
    fn read_selected_line<S: StringScanner>(&mut self, line: &[u8], offset: u64, is_complete: bool) {
        let may_hold = self.may_hold_message(line);
        let is_wanted = may_hold && self.filter.is_none_or(|filter| filter(line));
        self.filtered_out += u64::from(may_hold && !is_wanted);
        if is_wanted || self.selection.every_line || may_hold && self.queue.may_appear_in(line) {
            let before = self.messages.len();
            self.read_line::<S>(line, offset, is_complete);
            if !is_wanted {
                self.messages.truncate(before);
            }
        }
    }

    /// Reads a line only for the words that it may repeat.
    fn read_unselected_line<S: StringScanner>(&mut self, line: &[u8], offset: u64) {
        let messages = self.messages.len();
        let problems = std::mem::take(&mut self.problems);
        self.read_line::<S>(line, offset, true);
        self.messages.truncate(messages);
        self.problems = problems;
    }
}

impl ScanLines for MessageReader<'_> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let newline = memchr::memchr(b'\n', &bytes[at..]);
            let end = newline.map_or(bytes.len(), |found| at + found);
            self.lines += 1;
            let line = &bytes[at..end];
            if self.is_selected_line() {
                if !self.read_loose::<S>(line) || self.selection.every_line {
                    self.read_selected_line::<S>(line, offset + at as u64, newline.is_some());
                }
            } else if !self.read_loose::<S>(line) && self.queue.may_appear_in(line) {
                self.read_unselected_line::<S>(line, offset + at as u64);
            }
            at = end + 1;
        }
    }
}

impl LineConsumer for MessageReader<'_> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        dispatch_scan(self, bytes, offset);
        (self.progress)(bytes.len() as u64);
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, _head: &[u8]) {
        self.lines += 1;
        if self.is_selected_line() {
            self.add_problem(LineProblemKind::TooLong, offset);
        }
        (self.progress)(length);
    }
}

impl CanonicalConsumer for MessageReader<'_> {
    fn take_canonical(&mut self, lines: &CanonicalLines) {
        dispatch_scan(&mut CanonicalMessages { reader: self, lines }, &lines.bytes, 0);
    }

    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.problems.push(LineProblem { kind, line, offset });
    }

    fn count_source(&mut self, _lines: u64, bytes: u64) {
        (self.progress)(bytes);
    }

    fn max_line(&self) -> usize {
        self.max_line
    }
}

/// Canonical lines on their way through a reader of messages.
struct CanonicalMessages<'m, 'p> {
    reader: &'m mut MessageReader<'p>,
    lines: &'m CanonicalLines,
}

impl ScanLines for CanonicalMessages<'_, '_> {
    fn scan_lines<S: StringScanner>(&mut self, _bytes: &[u8], _offset: u64) {
        for (place, line) in self.lines.lines() {
            self.reader.lines = place.line;
            if self.reader.is_selected_line() {
                self.reader.read_selected_line::<S>(line, place.offset, true);
            }
        }
    }
}
