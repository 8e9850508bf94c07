//! `backcast notes`: the list of the texts that were written.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use table::human::{format_count, group_digits};
use table::{Legend, OutputFormat, OutputSchema, TableStyle, columns};
use transcript::agents::Agent;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("notes", 1);

/// The texts of a session.
#[derive(Debug, Clone, Default)]
pub struct NotesRow {
    pub coding_agent: Agent,
    pub session: String,
    pub project: String,
    /// The folder of the session, below the output folder.
    pub file: String,
    pub updates: u64,
    pub messages: u64,
    pub prompts: u64,
    pub tokens: Option<u64>,
    pub condensed: Vec<String>,
    pub too_long: Vec<String>,
    pub summary_tokens: Option<u64>,
    pub is_continued: bool,
    pub is_unchanged: bool,
}

columns! {
    pub COLUMNS: NotesRow;
    "session" "Session" Id Always "Session id." |r| &r.session;
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "project" "Project" Text IfRoom "Working directory." |r| &r.project;
    "messages" "Messages" Count Always "Messages of the main conversation." |r| r.messages;
    "prompts" "Prompts" Count Always "Of these, messages of a person." |r| r.prompts;
    "updates" "Updates" Count Always "How often the notes were brought up to date." |r| r.updates;
    "tokens" "Notes" Tokens Always "Size of the notes; empty if the session never reached the first update." |r| r.tokens;
    "summary_tokens" "Summary" Tokens Always "Size of the summary, if one was wanted." |r| r.summary_tokens;
    "condensed" "Condensed" Text IfRoom
        "Sections of the notes that something was left out of, to stay within the limits." |r| r.condensed.join(", ");
    "too_long" "Too long" Text Never "Sections that a person's own words alone make longer than the limit." |r| r.too_long.join(", ");
    "is_continued" "Continued" Flag Never "Whether a file was there already and was continued." |r| r.is_continued;
    "is_unchanged" "Unchanged" Flag Never "Whether it was up to date already." |r| r.is_unchanged;
    "file" "File" Text Never "The session's folder, below the folder that was named." |r| &r.file;
}

/// Words of the table.
const LEGEND: Legend<'_> = &[
    ("Messages", "of the main conversation"),
    ("Prompts", "those of a person"),
    ("Updates", "times the notes were brought up to date"),
    ("Notes", "their tokens"),
    ("Summary", "its tokens"),
    ("Condensed", "sections that were shortened to stay within the limits"),
];

/// Writes the list; a table has at most `top` rows (0 for all) and names the folder of the notes.
pub fn write_list(
    rows: &[NotesRow],
    format: OutputFormat,
    top: usize,
    folder: &Path,
    style: TableStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = match (format, top) {
        (OutputFormat::Table, top) if top > 0 => &rows[..rows.len().min(top)],
        _ => rows,
    };
    let sheet = SCHEMA.sheet(COLUMNS, shown);
    if format != OutputFormat::Table {
        return sheet.write(format, style, out);
    }
    let written = rows.iter().filter(|row| row.tokens.is_some()).count() as u64;
    let unchanged = rows.iter().filter(|row| row.is_unchanged).count() as u64;
    let folder = folder.display();
    let unchanged = match unchanged {
        0 => String::new(),
        unchanged => format!("; {} did not change", group_digits(unchanged)),
    };
    match rows.len() as u64 {
        0 => return writeln!(out, "No session to write notes of."),
        all if all == written => writeln!(
            out,
            "{folder} has notes of {}{unchanged}.\n",
            format_count(all, "session")
        )?,
        all => writeln!(
            out,
            "{folder} has notes of {} of {}; the others never reached the first update{unchanged}.\n",
            group_digits(written),
            format_count(all, "session")
        )?,
    }
    sheet.write_with_legend(LEGEND, style, out)?;
    if shown.len() < rows.len() {
        writeln!(
            out,
            "{} of {} shown; --top 0 shows all.",
            group_digits(shown.len() as u64),
            format_count(rows.len() as u64, "session")
        )?;
    }
    Ok(())
}

/// Returns warnings that name the sections whose length the limits affect.
pub fn limit_warnings(rows: &[NotesRow]) -> Vec<String> {
    let warning = |what: &str, sections: fn(&NotesRow) -> &[String]| {
        let mut counts = BTreeMap::<&str, u64>::new();
        for section in rows.iter().flat_map(sections) {
            *counts.entry(section).or_insert(0) += 1;
        }
        let counts = counts.iter().map(|(section, count)| format!("{section} ({count})"));
        let counts = counts.collect::<Vec<_>>();
        (!counts.is_empty()).then(|| format!("{what}: {}", counts.join(", ")))
    };
    let warnings = [
        warning("condensed to stay within the limits, by sessions", |row| &row.condensed),
        warning("longer than the limit because of a person's own words", |row| {
            &row.too_long
        }),
    ];
    warnings.into_iter().flatten().collect()
}
