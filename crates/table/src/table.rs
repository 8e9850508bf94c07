//! A sheet as a table for people: a header, a rule, the rows, and the total below another rule. No line is wider than the
//! terminal.
//!
//! A table that is too wide first shortens long text, the first column least, then drops [`TableVisibility::IfRoom`] columns from the
//! right, then all others but the first. A line below the table names the dropped columns.

use std::io::{self, Write};

use comfy_table::{Attribute, Cell, CellAlignment, Table};

use crate::columns::{Column, ColumnUnit, TableVisibility};
use crate::{Sheet, Tone};

/// How the table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStyle {
    /// Terminal columns that no line exceeds.
    pub width: usize,
    /// Bold header, dim rules, verdicts in the color of their tone. The caller checks the terminal and `NO_COLOR`.
    pub color: bool,
}

impl TableStyle {
    /// Returns text in the color of a tone, or unchanged without colors.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if self.color {
            format!("{}{text}\u{1b}[0m", tone.ansi_code())
        } else {
            text.to_owned()
        }
    }
}

impl Default for TableStyle {
    fn default() -> Self {
        TableStyle {
            width: 80,
            color: false,
        }
    }
}

/// Spaces between two columns.
const GAP: u16 = 2;

/// Width that all text columns share at least, as long as an optional column can be dropped instead. A table with a single
/// text column keeps more of each name.
const MIN_TEXT_WIDTH: usize = 40;

/// Width that a text column keeps at least, as long as an optional column can be dropped instead: most single words fit.
const MIN_WORD_WIDTH: usize = 12;

/// The same as [`MIN_TEXT_WIDTH`], as long as only columns are left that are dropped last.
const LEAST_TEXT_WIDTH: usize = 16;

/// `comfy_table` counts terminal columns in 16 bits; a wider table is cut like one for a narrow terminal.
const MAX_TABLE_WIDTH: usize = 30_000;

const ELLIPSIS: &str = "…";

/// Writes the table. Returns the titles of the columns that are shown.
pub(super) fn write<R>(sheet: &Sheet<R>, style: TableStyle, out: &mut dyn Write) -> io::Result<Vec<&'static str>> {
    let room = style.width.clamp(1, MAX_TABLE_WIDTH);
    let columns: Vec<TableColumn> = sheet
        .columns
        .iter()
        .filter_map(|column| TableColumn::new(column, sheet))
        .collect();
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let widths = fit_columns(&columns, room);
    let shown: Vec<(&TableColumn, usize)> = columns
        .iter()
        .zip(&widths)
        .filter_map(|(column, width)| Some((column, (*width)?)))
        .collect();
    for line in render_table(&shown, sheet.rows.len(), style.color).lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    let hidden: Vec<&str> = columns
        .iter()
        .zip(&widths)
        .filter(|(_, width)| width.is_none())
        .map(|(column, _)| column.title)
        .collect();
    if !hidden.is_empty() {
        let note = format!("Not shown at this width: {}", hidden.join(", "));
        writeln!(out, "{}", shorten(&note, room))?;
    }
    Ok(shown.iter().map(|(column, _)| column.title).collect())
}

/// The texts of one column: its title, its rows and, if there is one, the total.
struct TableColumn {
    title: &'static str,
    cells: Vec<String>,
    /// Width of the widest cell.
    natural: usize,
    unit: ColumnUnit,
    in_table: TableVisibility,
}

impl TableColumn {
    fn new<R>(column: &Column<R>, sheet: &Sheet<R>) -> Option<Self> {
        if column.in_table == TableVisibility::Never {
            return None;
        }
        let mut cells = vec![column.title.to_owned()];
        cells.extend(sheet.rows.iter().chain(sheet.total).map(|row| column.display(row)));
        let natural = cells.iter().map(|cell| width(cell)).max().unwrap_or(0).max(1);
        Some(TableColumn {
            title: column.title,
            cells,
            natural,
            unit: column.unit,
            in_table: column.in_table,
        })
    }

    /// Returns the width of the column if text may have at most `cap`, and half as much again in the first column, which says
    /// what the row is about. Only text is shortened: a shortened number is wrong.
    fn capped_width(&self, cap: usize, is_first: bool) -> usize {
        match (self.unit, is_first) {
            (ColumnUnit::Text, true) => self.natural.min(cap + cap / 2),
            (ColumnUnit::Text, false) => self.natural.min(cap),
            _ => self.natural,
        }
    }

    /// Aligns numbers to the right, so that their digits compare, and everything else to the left.
    fn alignment(&self) -> CellAlignment {
        match self.unit {
            ColumnUnit::Text
            | ColumnUnit::Id
            | ColumnUnit::Verdict
            | ColumnUnit::Drawing
            | ColumnUnit::Time
            | ColumnUnit::Flag => CellAlignment::Left,
            ColumnUnit::Count
            | ColumnUnit::Tokens
            | ColumnUnit::MicroUsd
            | ColumnUnit::Share
            | ColumnUnit::Ratio
            | ColumnUnit::Millis => CellAlignment::Right,
        }
    }
}

/// Returns the width of each column, or `None` for one that is dropped.
fn fit_columns(columns: &[TableColumn], room: usize) -> Vec<Option<usize>> {
    let mut widths = vec![None; columns.len()];
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    while kept.len() > 1 {
        if let Some(cap) = max_text_width(kept.iter().map(|&column| &columns[column]), room) {
            for (place, column) in kept.into_iter().enumerate() {
                widths[column] = Some(columns[column].capped_width(cap, place == 0));
            }
            return widths;
        }
        let optional = kept
            .iter()
            .rposition(|&column| columns[column].in_table == TableVisibility::IfRoom);
        kept.remove(optional.unwrap_or(kept.len() - 1));
    }
    // The last column is cut to the width of the terminal whatever its unit: nothing is left to drop.
    for column in kept {
        widths[column] = Some(columns[column].natural.min(room));
    }
    widths
}

/// Returns the largest width of text with which all columns fit, or `None` if it is too small to be of use.
fn max_text_width<'a>(columns: impl ExactSizeIterator<Item = &'a TableColumn> + Clone, room: usize) -> Option<usize> {
    let gaps = usize::from(GAP) * (columns.len() - 1);
    let widths = |cap| {
        columns
            .clone()
            .enumerate()
            .map(move |(place, column)| column.capped_width(cap, place == 0))
    };
    let total = |cap| gaps + widths(cap).sum::<usize>();
    let texts = columns.clone().filter(|column| column.unit == ColumnUnit::Text).count();
    let is_optional = |column: &TableColumn| column.in_table == TableVisibility::IfRoom;
    // The first column counts for one and a half.
    let leads = columns
        .clone()
        .next()
        .is_some_and(|column| column.unit == ColumnUnit::Text);
    let shares = (2 * texts + usize::from(leads)).max(1);
    let floor = match columns.clone().any(is_optional) {
        true => (2 * MIN_TEXT_WIDTH / shares).max(MIN_WORD_WIDTH),
        false => 2 * LEAST_TEXT_WIDTH / shares,
    };
    (floor..=room.max(floor)).rev().find(|&cap| total(cap) <= room)
}

/// Returns header, rule, rows and, if the columns have one more cell, another rule and the total.
fn render_table(shown: &[(&TableColumn, usize)], rows: usize, color: bool) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).style_text_only();
    if color {
        table.enforce_styling()
    } else {
        table.force_no_tty()
    };

    let styled = |cell: Cell, attribute| if color { cell.add_attribute(attribute) } else { cell };
    let line = |place: usize| {
        shown.iter().map(move |(column, width)| {
            let text = &column.cells[place];
            let cell = Cell::new(shorten(text, *width));
            match Tone::from_verdict(text).filter(|_| color && place > 0 && column.unit == ColumnUnit::Verdict) {
                Some(tone) => cell.fg(tone.color()),
                None => cell,
            }
        })
    };
    let rule = || {
        shown
            .iter()
            .map(|(_, width)| styled(Cell::new("─".repeat(*width)), Attribute::Dim))
    };

    table.add_row(line(0).map(|cell| styled(cell, Attribute::Bold)));
    table.add_row(rule());
    for row in 1..=rows {
        table.add_row(line(row));
    }
    let total = rows + 1;
    if shown.first().is_some_and(|(column, _)| column.cells.len() > total) {
        table.add_row(rule());
        table.add_row(line(total));
    }

    let last = shown.len() - 1;
    for (place, (drawn, (column, _))) in table.column_iter_mut().zip(shown).enumerate() {
        drawn
            .set_padding((0, if place == last { 0 } else { GAP }))
            .set_cell_alignment(column.alignment());
    }
    table.to_string()
}

/// Returns text of at most `room` terminal columns. Longer text loses its end, after a whole word if one ends in the second half
/// of the room; a path loses its beginning, because its last folders say most.
fn shorten(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let left = room.saturating_sub(width(ELLIPSIS));
    if is_path(text) {
        return shorten_path(text, room, left);
    }
    let mut head = String::from_iter(take_fitting(text.chars(), left));
    // Some sequences are wider than their parts: an emoji selector widens the character before it.
    while width(&format!("{head}{ELLIPSIS}")) > room && head.pop().is_some() {}
    let is_separator = |c: char| c.is_whitespace() || matches!(c, '-' | '_' | '.' | '/' | ':' | ',' | ';');
    let is_cut_in_word = text[head.len()..]
        .chars()
        .next()
        .is_some_and(|next| !is_separator(next));
    if let Some(end) = head.rfind(is_separator).filter(|_| is_cut_in_word)
        && 2 * width(&head[..end]) >= room
    {
        head.truncate(end);
    }
    format!("{}{ELLIPSIS}", head.trim_end_matches(is_separator))
}

/// Returns the end of a path, from the beginning of a folder on if one begins in the first half of the room.
fn shorten_path(text: &str, room: usize, left: usize) -> String {
    let tail = take_fitting(text.chars().rev(), left);
    // A combining mark that lost its letter would attach to the ellipsis.
    let tail = tail.into_iter().rev().skip_while(|&c| char_width(c) == 0);
    let mut tail = tail.collect::<String>();
    if let Some(start) = tail
        .find(['/', '\\'])
        .filter(|start| 2 * width(&tail[*start..]) >= room)
    {
        tail.drain(..start);
    }
    let mut short = format!("{ELLIPSIS}{tail}");
    while width(&short) > room {
        short.pop();
    }
    short
}

/// Whether a text is an absolute path.
fn is_path(text: &str) -> bool {
    let mut start = text.chars();
    text.starts_with(['/', '~'])
        || start.next().is_some_and(|drive| drive.is_ascii_alphabetic()) && start.as_str().starts_with(":\\")
}

/// Returns the characters that fit into `room`.
fn take_fitting(chars: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut used = 0;
    let fits = |c: &char| {
        used += char_width(*c);
        used <= room
    };
    chars.take_while(fits).collect()
}

fn char_width(c: char) -> usize {
    width(c.encode_utf8(&mut [0; 4]))
}

/// Returns the terminal columns of a text: two for a CJK character, none for a combining mark. Measured by `comfy_table`,
/// which aligns the cells, so that the two cannot disagree.
fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // `comfy_table` counts at least one column per cell; a letter in front cancels that minimum.
    let mut probe = Table::new();
    probe.add_row([format!("x{text}")]);
    probe
        .column_max_content_widths()
        .first()
        .map_or(0, |width| usize::from(*width) - 1)
}

/// Wraps lines that are wider than `room` between words, with a deeper indent for the continuation. A wider word (a path)
/// stays whole. Color codes have no width.
pub fn fold_lines(text: &str, room: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if line.len() <= room || visible_width(line) <= room {
            out.push_str(line);
        } else {
            fold_line(line, room, &mut out);
        }
        out.push_str(end);
    }
    out
}

fn fold_line(line: &str, room: usize, out: &mut String) {
    let indent = line.len() - line.trim_start_matches(' ').len();
    out.push_str(&line[..indent]);
    let mut used = indent;
    for (number, word) in line[indent..].split(' ').enumerate() {
        let size = visible_width(word);
        if number > 0 && used + 1 + size > room {
            out.push('\n');
            out.push_str(&" ".repeat(indent + 2));
            used = indent + 2;
        } else if number > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += size;
    }
}

/// Returns the terminal columns of a text without its color codes.
fn visible_width(text: &str) -> usize {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, code)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = code.split_once('m').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    width(&plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sample;
    use crate::sample::SampleRow;

    fn table(sheet: &Sheet<SampleRow>, width: usize) -> String {
        let mut out = Vec::new();
        write(sheet, TableStyle { width, color: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn total() -> SampleRow {
        SampleRow {
            project: Some("total".into()),
            rounds: Some(1_291),
            tokens: Some(48_259_026),
            cost: Some(31_428_271),
            cached: Some(0.9726),
            ..SampleRow::default()
        }
    }

    #[test]
    fn eighty_columns() {
        let (rows, total) = (sample::rows(), total());
        let text = table(
            &Sheet {
                total: Some(&total),
                ..sample::sheet(&rows)
            },
            80,
        );
        let expected = "\
Project                      Session             Rounds  Tokens     Cost  Cached
───────────────────────────  ──────────────────  ──────  ──────  ───────  ──────
~/code/backcast              0d9f6c1e-52aa…       1,284   48.2M   $31.42  97.3 %
=HYPERLINK(\"http://x\",\"y\")…  会话记录与上下文…        7   45.6k  $0.0123  50.0 %

───────────────────────────  ──────────────────  ──────  ──────  ───────  ──────
total                                             1,291   48.3M   $31.43  97.3 %
Not shown at this width: Took, Started
";
        assert_eq!(text, expected);
    }

    #[test]
    fn wide_enough_shows_everything() {
        let rows = sample::rows();
        let text = table(&sample::sheet(&rows), 200);
        assert!(!text.contains('…') && !text.contains("Not shown"), "{text}");
        assert!(text.contains("2026-01-02 03:04:05Z"));
        assert!(!text.contains("Live"), "declared as never in the table");
    }

    #[test]
    fn narrow_gives_up_optional_columns_first_and_says_so() {
        let rows = sample::rows();
        let text = table(&sample::sheet(&rows), 58);
        assert!(text.lines().next().unwrap().ends_with("Cached"), "{text}");
        assert!(
            text.ends_with("Not shown at this width: Session, Took, Started\n"),
            "{text}"
        );
        let text = table(&sample::sheet(&rows), 20);
        assert!(text.starts_with("Project"), "{text}");
        assert!(text.contains("Not shown"), "{text}");
    }

    #[test]
    fn no_rows_leave_the_header() {
        assert_eq!(table(&sample::sheet(&[]), 80).lines().count(), 2);
    }

    #[test]
    fn no_limit_still_gives_one_line_a_row() {
        let rows = [SampleRow {
            project: Some("a".repeat(200_000)),
            session: Some("会".repeat(100_000)),
            ..SampleRow::default()
        }];
        let text = table(&sample::sheet(&rows), usize::MAX);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| width(line) <= MAX_TABLE_WIDTH));
    }

    #[test]
    fn a_missing_cell_is_empty() {
        let rows = [SampleRow {
            project: Some("p".into()),
            ..SampleRow::default()
        }];
        assert_eq!(table(&sample::sheet(&rows), 120).lines().last(), Some("p"));
    }

    #[test]
    fn color_only_on_request() {
        let rows = sample::rows();
        let mut out = Vec::new();
        write(&sample::sheet(&rows), TableStyle { width: 80, color: true }, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("\u{1b}["));
        assert!(!table(&sample::sheet(&rows), 80).contains('\u{1b}'));
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(fold_lines("short\n", 10), "short\n");
        assert_eq!(fold_lines("one two three four", 10), "one two\n  three\n  four");
        assert_eq!(fold_lines("  one two three\nx\n", 11), "  one two\n    three\nx\n");
        assert_eq!(
            fold_lines("a /very/long/path/indeed b", 10),
            "a\n  /very/long/path/indeed\n  b"
        );
        assert_eq!(fold_lines("会话 会话 会话", 10), "会话 会话\n  会话");
        assert_eq!(
            fold_lines("\u{1b}[31mone two\u{1b}[0m", 7),
            "\u{1b}[31mone two\u{1b}[0m"
        );
    }

    #[test]
    fn widths_are_terminal_columns() {
        for (text, expected) in [
            ("", 0),
            ("abc", 3),
            ("会话", 4),
            ("e\u{301}", 1),
            ("\u{301}", 0),
            ("…", 1),
            ("─", 1),
        ] {
            assert_eq!(width(text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_text_loses_its_end_and_a_path_its_beginning() {
        for (text, room, expected) in [
            ("abcdefghij", 10, "abcdefghij"),
            ("abcdefghij", 6, "abcde…"),
            ("abcdefghij", 1, "…"),
            ("mend-the-old-pump", 14, "mend-the-old…"),
            ("mend-the-old-pump", 12, "mend-the…"),
            ("mend the old pump", 13, "mend the old…"),
            ("a very_long_word_that_goes_on", 9, "a very…"),
            ("extraordinary-pump", 12, "extraordina…"),
            ("/home/me/pump/house", 14, "…/pump/house"),
            ("/home/extraordinary", 10, "…aordinary"),
            ("C:\\Users\\me\\pump", 11, "…\\me\\pump"),
            ("会话记录窗口", 6, "会话…"),
            ("aaae\u{301}aaa", 5, "aaae\u{301}…"),
        ] {
            assert_eq!(shorten(text, room), expected, "{text:?} in {room}");
        }
    }

    #[test]
    fn cjk_columns_line_up() {
        let rows = [
            SampleRow {
                project: Some("会话".into()),
                rounds: Some(1),
                ..SampleRow::default()
            },
            SampleRow {
                project: Some("abcd".into()),
                rounds: Some(2),
                ..SampleRow::default()
            },
        ];
        let text = table(&sample::sheet(&rows), 58);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(width(lines[2]), width(lines[3]), "{text}");
    }

    fn any_row() -> impl Strategy<Value = SampleRow> {
        let text = || {
            proptest::option::of(prop_oneof![
                any::<String>(),
                "[会话a-z/é\u{301}👩\u{200d}🔬\u{fe0f}\u{5d0}☺ ]{0,40}"
            ])
        };
        let number = proptest::option::of(any::<i64>());
        (
            text(),
            text(),
            proptest::option::of(any::<u64>()),
            number.clone(),
            number.clone(),
            number,
            proptest::option::of(any::<f64>()),
        )
            .prop_map(|(project, session, rounds, tokens, cost, started, cached)| SampleRow {
                project,
                session,
                rounds,
                tokens,
                cost,
                cached: cached.map(|share| share % 10.0),
                took: tokens,
                started,
                live: None,
            })
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked(
            rows in prop::collection::vec(any_row(), 0..6),
            asked in 1_usize..160,
            summed: bool,
        ) {
            let total = total();
            let sheet = Sheet { total: summed.then_some(&total), ..sample::sheet(&rows) };
            let text = table(&sheet, asked);
            for line in text.lines() {
                prop_assert!(width(line) <= asked, "{} > {asked}: {line:?}", width(line));
                prop_assert!(!line.contains(char::is_control));
            }
            let notes = usize::from(text.contains("Not shown") || asked < 30);
            let lines = text.lines().count();
            let body = 2 + rows.len() + if summed { 2 } else { 0 };
            prop_assert!(lines >= body && lines <= body + notes, "{text}");
        }
    }
}
