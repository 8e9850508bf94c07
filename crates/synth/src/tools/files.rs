//! The files of the imaginary project, and the tools that read and change them.

use super::{call_block, object, tool_output};
use crate::json::quoted;
use crate::rng::{Rng, SizeBand, band};
use crate::session::{SynthBlock, SynthSession, string_value};
use crate::words::{CODE, LinePools, PoolLine, SynthText, TextFlavor, fill};
use std::io::Write;
use std::ops::Range;

/// Numbers of lines of project files.
const FILE_LINES: &[SizeBand] = &[
    band(540, 20, 120),
    band(370, 120, 350),
    band(80, 350, 1_200),
    band(9, 1_400, 4_000),
    band(1, 12_000, 36_000),
];

/// Numbers of lines of the files that a bulk session works on: larger, because it returns to them.
const BULK_FILE_LINES: &[SizeBand] = &[
    band(250, 20, 175),
    band(400, 175, 530),
    band(300, 530, 1_000),
    band(45, 1_000, 1_700),
    band(4, 1_700, 6_000),
    band(1, 12_000, 36_000),
];

/// Most lines that one read returns.
const READ_LIMIT: u64 = 2_000;

/// A file of the imaginary project. Its seed defines its text, so reading it twice gives the same bytes.
#[derive(Clone)]
pub struct ProjectFile {
    pub path: String,
    flavor: TextFlavor,
    seed: u64,
    pub(super) lines: u64,
    /// Number of lines edited so far.
    edits: u64,
    /// Whether some of its comments have characters outside ASCII.
    has_remarks: bool,
}

impl ProjectFile {
    pub fn new(rng: &mut Rng, root: &str) -> Self {
        let flavor = if rng.permille(60) {
            TextFlavor::Patterns
        } else {
            *rng.pick(&CODE)
        };
        let ending = match flavor {
            TextFlavor::Go => "go",
            TextFlavor::Python => "py",
            TextFlavor::Rust => "rs",
            TextFlavor::TypeScript => "ts",
            _ => "txt",
        };
        let path = format!("{root}/{}.{ending}", fill(rng, "$n/$v_$n"));
        Self {
            path,
            flavor,
            seed: rng.next(),
            lines: rng.size(FILE_LINES),
            edits: 0,
            has_remarks: false,
        }
    }

    /// Creates a file for a bulk session, of at most `max_lines` lines.
    pub(super) fn new_for_bulk(rng: &mut Rng, root: &str, max_lines: u64) -> Self {
        let file = Self::new(rng, root);
        Self {
            lines: rng.size(BULK_FILE_LINES).min(max_lines),
            has_remarks: rng.permille(450),
            ..file
        }
    }

    /// Returns a line after all edits so far. Edits go through the file from top to bottom, again and again.
    fn line<'p>(&self, pools: &'p LinePools, number: u64) -> &'p PoolLine {
        let lines = self.lines.max(1);
        let rewritten = self.edits / lines + u64::from(number <= self.edits % lines);
        let is_remark = self.has_remarks && Rng::at(self.seed, number).is_multiple_of(12);
        let flavor = if is_remark { TextFlavor::Remarks } else { self.flavor };
        pools.line_at(flavor, self.seed.wrapping_add(rewritten), number)
    }

    /// Appends lines: numbered to `shown`, as `Read` shows them, and plain to `kept`, as `toolUseResult` keeps them.
    fn write(
        &self,
        pools: &LinePools,
        lines: Range<u64>,
        numbers: LineNumberStyle,
        shown: &mut SynthText,
        kept: &mut SynthText,
    ) {
        let first = lines.start;
        for number in first..lines.end.min(self.lines + 1) {
            let line = self.line(pools, number);
            if number > first {
                kept.newline();
            }
            kept.push_line(line);
            if numbers != LineNumberStyle::None {
                if number > first {
                    shown.newline();
                }
                shown.line_number(number, numbers == LineNumberStyle::Tab);
                shown.push_line(line);
            }
        }
    }

    /// Returns lines without numbers.
    fn plain(&self, pools: &LinePools, lines: Range<u64>) -> SynthText {
        let mut text = SynthText::default();
        let mut shown = SynthText::default();
        self.write(pools, lines, LineNumberStyle::None, &mut shown, &mut text);
        text
    }
}

/// How the `Read` tool shows line numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineNumberStyle {
    None,
    Arrow,
    Tab,
}

impl LineNumberStyle {
    /// Returns the style of the session's client.
    fn for_session<W: Write>(session: &SynthSession<W>) -> LineNumberStyle {
        if session.client.has_late_envelope() {
            LineNumberStyle::Tab
        } else {
            LineNumberStyle::Arrow
        }
    }
}

/// Returns a call of `Read` on `count` lines of a file, from line `first` on.
pub fn read<W: Write>(session: &mut SynthSession<W>, file: &ProjectFile, first: u64, count: u64) -> SynthBlock {
    let numbers = LineNumberStyle::for_session(session);
    let (mut shown, mut kept) = (SynthText::default(), SynthText::default());
    let count = count.min(READ_LIMIT);
    file.write(session.pools, first..first + count, numbers, &mut shown, &mut kept);
    let written = count.min((file.lines + 1).saturating_sub(first));
    let path = quoted(&file.path);
    let kept = object(&[
        format!("{{\"type\":\"text\",\"file\":{{\"filePath\":{path},\"content\":\"").as_bytes(),
        &kept.escaped,
        format!(
            "\",\"numLines\":{written},\"startLine\":{first},\"totalLines\":{}}}}}",
            file.lines
        )
        .as_bytes(),
    ]);
    let outcome = tool_output(session, &shown, kept);
    let input = if first > 1 {
        format!("{{\"file_path\":{path},\"offset\":{first},\"limit\":{count}}}")
    } else {
        format!("{{\"file_path\":{path}}}")
    };
    call_block(session, "Read", input.as_bytes(), outcome)
}

/// Returns a call of `Edit` that changes at most `max_lines` lines. The model sees one sentence and, if `is_shown`, the new
/// lines; `toolUseResult` contains the whole original file.
pub fn edit<W: Write>(
    session: &mut SynthSession<W>,
    file: &mut ProjectFile,
    max_lines: u64,
    is_shown: bool,
) -> SynthBlock {
    let first = file.edits % file.lines.max(1) + 1;
    let count = session.rng.range(1, max_lines).min(file.lines + 1 - first);
    let whole = file.plain(session.pools, 1..file.lines + 1);
    let old = file.plain(session.pools, first..first + count);
    file.edits += count;
    let new = file.plain(session.pools, first..first + count);
    let path = quoted(&file.path);
    let pair = object(&[
        b"\"old_string\":\"",
        &old.escaped,
        b"\",\"new_string\":\"",
        &new.escaped,
        b"\"",
    ]);
    let input = object(&[
        b"{\"replace_all\":false,\"file_path\":",
        path.as_bytes(),
        b",",
        &pair,
        b"}",
    ]);
    let original = if session.client.keeps_original(whole.units) {
        string_value(&whole)
    } else {
        b"null".to_vec()
    };
    let kept = object(&[
        format!("{{\"filePath\":{path},\"oldString\":\"").as_bytes(),
        &old.escaped,
        b"\",\"newString\":\"",
        &new.escaped,
        b"\",\"originalFile\":",
        &original,
        format!(
            ",\"structuredPatch\":[{{\"oldStart\":{first},\"oldLines\":{count},\"newStart\":{first},\
             \"newLines\":{count},\"lines\":[\"-"
        )
        .as_bytes(),
        &old.escaped,
        b"\",\"+",
        &new.escaped,
        b"\"]}],\"userModified\":false,\"replaceAll\":false}",
    ]);
    let mut shown = SynthText::of(&format!("The file {} has been updated successfully.", file.path));
    if is_shown {
        shown.push(" These lines stand there now:\n");
        let numbers = LineNumberStyle::for_session(session);
        let lines = first..first + count;
        file.write(session.pools, lines, numbers, &mut shown, &mut SynthText::default());
    }
    let outcome = tool_output(session, &shown, kept);
    call_block(session, "Edit", &input, outcome)
}

/// Returns a call of `Write` that creates a file.
pub fn write<W: Write>(session: &mut SynthSession<W>, file: &ProjectFile) -> SynthBlock {
    let whole = file.plain(session.pools, 1..file.lines.min(160) + 1);
    let path = quoted(&file.path);
    let input = object(&[
        format!("{{\"file_path\":{path},\"content\":\"").as_bytes(),
        &whole.escaped,
        b"\"}",
    ]);
    let kept = object(&[
        format!("{{\"type\":\"create\",\"filePath\":{path},\"content\":\"").as_bytes(),
        &whole.escaped,
        b"\",\"structuredPatch\":[]}",
    ]);
    let shown = SynthText::of(&format!("File created successfully at: {}", file.path));
    let outcome = tool_output(session, &shown, kept);
    call_block(session, "Write", &input, outcome)
}
