//! The slow path: reads lines that the fast path declined.
//!
//! A ladder of repairs, tried in order, each rung counted: the unchanged line, by simd-json; the line without noise
//! around it (byte-order mark, NUL runs); with repaired text (invalid UTF-8, lone surrogates, raw control characters,
//! unknown escapes); as several records that lost the newline between them; resynchronized at the next record after a
//! torn one. What no rung accepts is rejected and reported, never guessed.
//!
//! All work is bounded by the length of one line.

use crate::json::{MAX_DEPTH, PullParser, RawParser, TapeParser};
use crate::log::LineProblemKind;
use crate::record::{WireRecord, read};
use crate::skim::PortableScanner;
use std::borrow::Cow;

/// The rung of the ladder that read a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairRung {
    /// Valid but unusual: nothing to report.
    AsIs,
    /// Noise around the record was dropped.
    Stripped,
    /// Text inside the record was repaired.
    Mended,
    /// Several records were on the line.
    Split,
    /// A torn record was skipped and a later one found.
    Resynced,
}

/// Outcome of a declined line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairOutcome {
    /// Only blanks.
    Blank,
    /// Records were read.
    Read {
        /// The last rung needed.
        rung: RepairRung,
        /// Whether part of the line could not be read.
        lost: bool,
    },
    /// Nothing could be read.
    Rejected(RejectReason),
}

impl RepairOutcome {
    /// Returns the problem to report, if any. `is_complete` is false for a last line without a newline.
    pub fn line_problem(self, is_complete: bool) -> Option<LineProblemKind> {
        let rung = match self {
            RepairOutcome::Blank => return None,
            RepairOutcome::Read { rung, .. } => rung,
            RepairOutcome::Rejected(_) if !is_complete => return Some(LineProblemKind::TornTail),
            RepairOutcome::Rejected(reason) => {
                return Some(match reason {
                    RejectReason::Malformed => LineProblemKind::Malformed,
                    RejectReason::NotAnObject => LineProblemKind::NotAnObject,
                    RejectReason::TooDeep => LineProblemKind::TooDeep,
                    RejectReason::OnlyNul => LineProblemKind::OnlyNul,
                });
            }
        };
        match rung {
            RepairRung::AsIs => None,
            RepairRung::Stripped => Some(LineProblemKind::Stripped),
            RepairRung::Mended => Some(LineProblemKind::Mended),
            RepairRung::Split => Some(LineProblemKind::Split),
            RepairRung::Resynced => Some(LineProblemKind::Resynced),
        }
    }
}

/// Why a line was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// A JSON value, but not an object.
    NotAnObject,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// Only NUL bytes.
    OnlyNul,
    /// Not JSON, or torn.
    Malformed,
}

/// First keys of records as the client writes them: where a record may start after a torn one.
const RECORD_STARTS: [&[u8]; 8] = [
    b"{\"parentUuid\":",
    b"{\"logicalParentUuid\":",
    b"{\"type\":",
    b"{\"uuid\":",
    b"{\"sessionId\":",
    b"{\"isSidechain\":",
    b"{\"cwd\":",
    b"{\"message\":",
];

/// How often each byte of a line may be scanned, on average. Without the limit, a line of torn record starts would take
/// quadratic time.
const MAX_RESYNC_ATTEMPTS: usize = 64;

/// Receives a record and the tape it was read from.
pub type RecordCallback<'f> = dyn FnMut(&WireRecord<'_>, TapeParser<'_, '_>) + 'f;

/// The slow path, with buffers that are reused between lines.
#[derive(Default)]
pub struct Repairer {
    scratch: Vec<u8>,
    buffers: simd_json::Buffers,
}

impl Repairer {
    /// Reads a line by the ladder. Calls `accept` for each whole record.
    pub fn read(&mut self, line: &[u8], accept: &mut dyn FnMut(&WireRecord<'_>)) -> RepairOutcome {
        self.read_tapes(line, &mut |record, _| accept(record))
    }

    /// Reads a line by the ladder. Calls `accept` for each whole record with its tape, for callers that need more of
    /// it.
    pub fn read_tapes(&mut self, line: &[u8], accept: &mut RecordCallback<'_>) -> RepairOutcome {
        climb_ladder(line, &RECORD_STARTS, &mut |piece, is_after_torn| {
            // After a torn record the next object may be one that is nested in it. Only proper records name their session.
            let mut is_record = true;
            let parsed = self.parse(piece, &mut |record, tape| {
                is_record = !is_after_torn || record.session.is_some();
                if is_record {
                    accept(record, tape);
                }
            });
            parsed && is_record
        })
    }

    /// Parses a copy of `body` by simd-json and reads the record. Returns whether it was accepted.
    fn parse(&mut self, body: &[u8], accept: &mut RecordCallback<'_>) -> bool {
        self.scratch.clear();
        self.scratch.extend_from_slice(body);
        let Ok(tape) = simd_json::to_tape_with_buffers(&mut self.scratch, &mut self.buffers) else {
            return false;
        };
        let mut record = WireRecord::default();
        let accepted = read(&mut TapeParser::new(&tape.0), &mut record).is_ok();
        if accepted {
            accept(&record, TapeParser::new(&tape.0));
        }
        accepted
    }
}

/// Takes a piece of a line that may be a record, and whether a torn record was skipped before it. Returns whether it was
/// accepted.
pub type PieceCallback<'f> = dyn FnMut(&[u8], bool) -> bool + 'f;

/// Climbs the ladder for one line. Calls `accept` for every piece that may be a record; a record starts with one of
/// `starts`.
pub fn climb_ladder(line: &[u8], starts: &[&[u8]], accept: &mut PieceCallback<'_>) -> RepairOutcome {
    let blank = line.trim_ascii();
    if blank.is_empty() {
        return RepairOutcome::Blank;
    }
    let body = strip(blank);
    if body.is_empty() {
        return RepairOutcome::Rejected(RejectReason::OnlyNul);
    }
    if is_too_deep(body) {
        return RepairOutcome::Rejected(RejectReason::TooDeep);
    }
    // Repair before parsing: simd-json accepts lone surrogates and turns them into strings that are not UTF-8.
    let repaired = repair_text(body);
    if repaired.first() == Some(&b'{') && accept(&repaired, false) {
        let rung = if repaired != body {
            RepairRung::Mended
        } else if body.len() != blank.len() {
            RepairRung::Stripped
        } else {
            RepairRung::AsIs
        };
        return RepairOutcome::Read { rung, lost: false };
    }
    read_pieces(&repaired, starts, accept)
}

/// Reads several records on one line, some of which may be torn.
fn read_pieces(line: &[u8], starts: &[&[u8]], accept: &mut PieceCallback<'_>) -> RepairOutcome {
    let mut found = 0usize;
    let mut rung = RepairRung::Split;
    let mut lost = false;
    let mut at = 0usize;
    let mut looked_at = 0usize;
    while at < line.len() {
        let (reached, is_whole) = object_end(line, at);
        looked_at += reached - at;
        let is_affordable = looked_at < line.len().saturating_mul(MAX_RESYNC_ATTEMPTS);
        if is_whole && is_affordable && accept(&line[at..reached], rung == RepairRung::Resynced) {
            found += 1;
            at = reached
                + line[reached..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_whitespace())
                    .count();
            continue;
        }
        rung = RepairRung::Resynced;
        lost = true;
        match next_start(line, at + 1, starts).filter(|_| is_affordable) {
            Some(next) => at = next,
            None => break,
        }
    }
    if found > 0 {
        return RepairOutcome::Read { rung, lost };
    }
    let mut value = RawParser::<PortableScanner>::new(line, 0);
    let is_value = line.first() != Some(&b'{') && value.skip().is_ok() && value.position() == line.len();
    RepairOutcome::Rejected(if is_value {
        RejectReason::NotAnObject
    } else {
        RejectReason::Malformed
    })
}

/// Drops byte-order marks and NUL bytes at both ends.
fn strip(mut bytes: &[u8]) -> &[u8] {
    loop {
        let before = bytes.len();
        bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        while let [0, rest @ ..] = bytes {
            bytes = rest;
        }
        while let [rest @ .., 0] = bytes {
            bytes = rest;
        }
        bytes = bytes.trim_ascii();
        if bytes.len() == before {
            return bytes;
        }
    }
}

/// Returns whether brackets outside strings nest deeper than [`MAX_DEPTH`].
fn is_too_deep(bytes: &[u8]) -> bool {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// Returns where scanning the object at `at` ended, and whether the object is whole.
fn object_end(line: &[u8], at: usize) -> (usize, bool) {
    if line.get(at) != Some(&b'{') {
        return (at, false);
    }
    let mut raw = RawParser::<PortableScanner>::new(line, at);
    let is_whole = raw.skip().is_ok();
    (raw.position(), is_whole)
}

/// Returns where the next record may start, or `None` if there is no candidate.
fn next_start(line: &[u8], from: usize, starts: &[&[u8]]) -> Option<usize> {
    let rest = line.get(from..)?;
    memchr::memchr_iter(b'{', rest)
        .find(|&at| starts.iter().any(|start| rest[at..].starts_with(start)))
        .map(|at| from + at)
}

/// Returns the line with its text repaired so that a strict parser accepts it.
pub fn repair_text(bytes: &[u8]) -> Vec<u8> {
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let bytes = text.as_bytes();
    let mut repaired = Vec::with_capacity(bytes.len() + 16);
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        match byte {
            b'"' => {
                in_string = !in_string;
                repaired.push(byte);
            }
            b'\\' if in_string => at += repair_escape(&bytes[at..], &mut repaired),
            0 => {}
            0x01..=0x1f if in_string => repaired.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            0x01..=0x1f if !byte.is_ascii_whitespace() => {}
            _ => repaired.push(byte),
        }
    }
    repaired
}

/// Copies or repairs the escape after a backslash. Returns the number of bytes consumed.
fn repair_escape(rest: &[u8], repaired: &mut Vec<u8>) -> usize {
    let unit =
        |at: usize| -> Option<u16> { u16::from_str_radix(std::str::from_utf8(rest.get(at..at + 4)?).ok()?, 16).ok() };
    match rest.first() {
        Some(b'u') => match unit(1) {
            Some(0xd800..=0xdbff)
                if rest.get(5..7) == Some(b"\\u") && unit(7).is_some_and(|low| (0xdc00..0xe000).contains(&low)) =>
            {
                repaired.push(b'\\');
                repaired.extend_from_slice(&rest[..11]);
                11
            }
            Some(0xd800..=0xdfff) => {
                repaired.extend_from_slice(b"\\ufffd");
                5
            }
            Some(_) => {
                repaired.push(b'\\');
                repaired.extend_from_slice(&rest[..5]);
                5
            }
            None => {
                repaired.extend_from_slice(b"\\\\");
                0
            }
        },
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
            repaired.extend_from_slice(&[b'\\', rest[0]]);
            1
        }
        _ => {
            repaired.extend_from_slice(b"\\\\");
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[u8], outcome: RepairOutcome, uuids: &[&str]) {
        let mut found = Vec::new();
        let got = Repairer::default().read(line, &mut |record| {
            let mut buffer = String::new();
            found.push(
                record
                    .uuid
                    .map(|uuid| uuid.decode(&mut buffer).to_owned())
                    .unwrap_or_default(),
            );
        });
        assert_eq!(
            (got, found.as_slice()),
            (
                outcome,
                &uuids.iter().map(|uuid| (*uuid).to_owned()).collect::<Vec<_>>()[..]
            ),
            "{}",
            String::from_utf8_lossy(line)
        );
    }

    fn read_by(rung: RepairRung) -> RepairOutcome {
        RepairOutcome::Read { rung, lost: false }
    }

    #[test]
    fn uses_the_lowest_rung_that_works() {
        check(b"  \r", RepairOutcome::Blank, &[]);
        check(br#"{"uuid":"a","x":1e5}"#, read_by(RepairRung::AsIs), &["a"]);
        check(b"\xef\xbb\xbf{\"uuid\":\"a\"}", read_by(RepairRung::Stripped), &["a"]);
        check(b"\0\0\0{\"uuid\":\"a\"}\r", read_by(RepairRung::Stripped), &["a"]);
        check(br#"{"uuid":"a","x":"\ud83d"}"#, read_by(RepairRung::Mended), &["a"]);
        check(
            b"{\"uuid\":\"a\",\"x\":\"\xff\t\x07\\q\"}",
            read_by(RepairRung::Mended),
            &["a"],
        );
        check(br#"{"uuid":"a"}{"uuid":"b"}"#, read_by(RepairRung::Split), &["a", "b"]);
    }

    #[test]
    fn finds_the_record_after_a_torn_one() {
        let lost = RepairOutcome::Read {
            rung: RepairRung::Resynced,
            lost: true,
        };
        check(
            br#"{"uuid":"a","message":{"content":[{"type":"text","te{"parentUuid":null,"uuid":"b","sessionId":"s"}"#,
            lost,
            &["b"],
        );
        check(
            br#"{"uuid":"a","sessionId":"s"}{"uuid":"b","message":{"con"#,
            lost,
            &["a"],
        );
    }

    #[test]
    fn nested_objects_of_torn_records_are_not_records() {
        let torn = br#"{"uuid":"a","message":{"content":[{"type":"text","text":"x"}],"us"#;
        check(torn, RepairOutcome::Rejected(RejectReason::Malformed), &[]);
    }

    #[test]
    fn rejects_with_a_reason() {
        check(b"[1,2,3]", RepairOutcome::Rejected(RejectReason::NotAnObject), &[]);
        check(b"no json", RepairOutcome::Rejected(RejectReason::Malformed), &[]);
        check(b"\0\0", RepairOutcome::Rejected(RejectReason::OnlyNul), &[]);
        let deep = [b"{\"a\":".repeat(200), b"1".to_vec(), b"}".repeat(200)].concat();
        check(&deep, RepairOutcome::Rejected(RejectReason::TooDeep), &[]);
    }
}
