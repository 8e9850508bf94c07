//! `backcast notes`: the notes of every session as they would stand at its end, and the summary of a compaction.

use super::Ending;
use super::policy::resolve;
use super::reading::{Reading, close, with_logs};
use super::words::grouped;
use super::writing::{emit, load_prices};
use crate::cli::notes::NotesArgs;
use crate::memory::names::{project_slug, safe_part};
use crate::metrics::cost::PriceTable;
use crate::output::{Column, Format, InTable, Look, Sheet, Unit, atomic, column};
use crate::pipeline::Corpus;
use crate::policy::Policy;
use crate::policy::presets::Policies;
use crate::problem::{Kind, Problem};
use crate::session::thread::{Chain, Part, Session, thread};
use crate::sim::event::Event;
use crate::sim::trace::{Trace, trace};
use crate::sim::{Mode, Setting, by_number, replay, windows_of};
use crate::text::continued::{Continued, Lines};
use crate::text::conversation::{self, Conversation};
use crate::text::offline::digest::Digest;
use crate::text::offline::{Offline, Written, write_notes};
use crate::text::template::{Template, substitute};
use crate::text::{Breaker, Limits, Retries, SummaryAsk, Variant, size, summarise};
use crate::tokens::ratios::RatioTable;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Version of the fields below, named in JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// Names of the files below a session's folder.
const NOTES: &str = "session-memory/summary.md";
const LINES: &str = "session-memory/.summary-lines.json";
const SUMMARY: &str = "compact.md";

/// What was written for a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    session: String,
    project: String,
    file: String,
    updates: u64,
    messages: u64,
    prompts: u64,
    tokens: Option<u64>,
    condensed: Vec<String>,
    too_long: Vec<String>,
    summary_tokens: Option<u64>,
    is_continued: bool,
    is_unchanged: bool,
}

/// The columns of the list.
pub(super) const COLUMNS: &[Column<Row>] = &[
    column(
        "session",
        "Session",
        Unit::Text,
        InTable::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "project",
        "Project",
        Unit::Text,
        InTable::IfRoom,
        "Working directory.",
        |row| row.project.as_str().into(),
    ),
    column(
        "messages",
        "Messages",
        Unit::Count,
        InTable::Always,
        "Messages of the main conversation.",
        |row| row.messages.into(),
    ),
    column(
        "prompts",
        "Prompts",
        Unit::Count,
        InTable::Always,
        "Of these, messages of a person.",
        |row| row.prompts.into(),
    ),
    column(
        "updates",
        "Updates",
        Unit::Count,
        InTable::Always,
        "How often the notes were brought up to date.",
        |row| row.updates.into(),
    ),
    column(
        "tokens",
        "Notes",
        Unit::Tokens,
        InTable::Always,
        "Size of the notes; empty if the session never came to the first update.",
        |row| row.tokens.into(),
    ),
    column(
        "summary_tokens",
        "Summary",
        Unit::Tokens,
        InTable::Always,
        "Size of the summary, if one was wanted.",
        |row| row.summary_tokens.into(),
    ),
    column(
        "condensed",
        "Condensed",
        Unit::Text,
        InTable::IfRoom,
        "Sections of the notes that something was left out of, to stay within the limits.",
        |row| row.condensed.join(", ").into(),
    ),
    column(
        "too_long",
        "Too long",
        Unit::Text,
        InTable::Never,
        "Sections that somebody's own words alone make longer than the limit.",
        |row| row.too_long.join(", ").into(),
    ),
    column(
        "is_continued",
        "Continued",
        Unit::Flag,
        InTable::Never,
        "Whether a file was there already and was continued.",
        |row| row.is_continued.into(),
    ),
    column(
        "is_unchanged",
        "Unchanged",
        Unit::Flag,
        InTable::Never,
        "Whether it was up to date already.",
        |row| row.is_unchanged.into(),
    ),
    column(
        "file",
        "File",
        Unit::Text,
        InTable::Never,
        "The session's folder, below the folder that was named.",
        |row| row.file.as_str().into(),
    ),
];

/// Runs it.
pub fn run(args: &NotesArgs) -> Result<Ending> {
    let mut policies = resolve(&args.policy)?;
    if !args
        .policy
        .set
        .iter()
        .any(|set| set.trim_start().starts_with("notes.on"))
    {
        // Whoever asks for notes wants them kept, also where the recorded client kept none.
        policies.assign("notes.on=true", "backcast notes")?;
    }
    let prices = load_prices(args.policy.prices.as_deref())?;
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let template = args.template.as_deref().map(read).transpose()?;
    if template
        .as_deref()
        .is_some_and(|text| Template::parse(text).sections.is_empty())
    {
        bail!(
            "the template has no section\n  hint: a section begins with a heading, `# Name`, and a description in italics below"
        );
    }
    if let Some(path) = &args.prompt {
        read(path)?;
        eprintln!(
            "{}: has an effect only with a backend that asks a model",
            path.display()
        );
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let run = Run {
        args,
        policies: &policies,
        prices: &prices,
        template: template.as_deref(),
        root: args
            .out
            .canonicalize()
            .with_context(|| args.out.display().to_string())?,
    };
    let outcome = with_logs(&args.input, false, |reading| run.write(reading))??;
    if let Some(uuid) = args.from.as_ref().or(args.up_to.as_ref())
        && outcome.rows.is_empty()
    {
        bail!("no session has the message {uuid}");
    }
    emit(&args.output(), |out, look| outcome.print(args, out, look))?;
    if !args.input.quiet {
        outcome.warn();
    }
    Ok(close(&args.input, &outcome.problems))
}

/// Everything that was written.
#[derive(Default)]
struct Outcome {
    rows: Vec<Row>,
    problems: Vec<Problem>,
}

impl Outcome {
    /// Names the sections that the limits bear on.
    fn warn(&self) {
        let tell = |what: &str, of: fn(&Row) -> &[String]| {
            let mut counts = BTreeMap::<&str, u64>::new();
            for section in self.rows.iter().flat_map(of) {
                *counts.entry(section).or_insert(0) += 1;
            }
            let counted = counts.iter().map(|(section, count)| format!("{section} ({count})"));
            let counted = counted.collect::<Vec<_>>();
            if !counted.is_empty() {
                eprintln!("{what}: {}", counted.join(", "));
            }
        };
        tell("condensed to stay within the limits, by sessions", |row| &row.condensed);
        tell("longer than the limit by somebody's own words", |row| &row.too_long);
    }

    fn print(&self, args: &NotesArgs, out: &mut dyn io::Write, look: Look) -> io::Result<()> {
        let shown = match (args.format, args.top) {
            (Format::Table, top) if top > 0 => &self.rows[..self.rows.len().min(top)],
            _ => &self.rows[..],
        };
        let sheet = Sheet {
            schema_version: SCHEMA_VERSION,
            columns: COLUMNS,
            rows: shown,
            total: None,
        };
        sheet.write(args.format, look, out)?;
        if args.format == Format::Table {
            let written = self.rows.iter().filter(|row| row.tokens.is_some()).count();
            let unchanged = self.rows.iter().filter(|row| row.is_unchanged).count();
            writeln!(
                out,
                "{} sessions, notes for {}, {} of them as they were{}.",
                grouped(self.rows.len() as u64),
                grouped(written as u64),
                grouped(unchanged as u64),
                match self.rows.len() - shown.len() {
                    0 => String::new(),
                    more => format!("; {more} not shown (--top 0 shows all)"),
                }
            )?;
        }
        Ok(())
    }
}

struct Run<'a> {
    args: &'a NotesArgs,
    policies: &'a Policies,
    prices: &'a PriceTable,
    template: Option<&'a str>,
    /// The folder, resolved.
    root: PathBuf,
}

/// What one session gives.
struct Done {
    row: Row,
    /// Files below the session's folder.
    files: Vec<(String, String)>,
    problems: Vec<Problem>,
}

impl Run<'_> {
    fn write(&self, reading: Reading<'_>) -> Result<Outcome> {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let mut outcome = Outcome::default();
        let defects = corpus.stream_sessions(
            |id, parts| self.session(&corpus, id, parts),
            |done| {
                let Some(done) = done else { return Ok(()) };
                outcome.problems.extend(done.problems);
                for (name, text) in &done.files {
                    self.put(&format!("{}/{name}", done.row.file), text)?;
                }
                outcome.rows.push(done.row);
                Ok(())
            },
        )?;
        outcome.problems.extend(corpus.problems);
        outcome.problems.extend(reading.problems());
        outcome.problems.extend(defects);
        outcome.problems.sort();
        Ok(outcome)
    }

    /// Writes a file below the folder, and nowhere else: a link that leads out of it is refused.
    fn put(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(folder)?;
        if !folder.canonicalize()?.starts_with(&self.root) {
            return Err(io::Error::other(format!(
                "{} leads out of {}",
                folder.display(),
                self.root.display()
            )));
        }
        let written = match path.symlink_metadata() {
            Ok(_) => atomic::write(&path, true, text.as_bytes()),
            Err(_) => atomic::write_fresh(&path, text.as_bytes()),
        };
        written.map_err(io::Error::other)
    }

    fn session(&self, corpus: &Corpus, id: &str, parts: &[Part]) -> Option<Done> {
        let session = Session::new(id, parts);
        let mut threaded = thread(&session);
        let chain = threaded.chains.first()?;
        let (conversation, mut problems) = read_conversation(corpus, &session, chain);
        let wanted = self.args.from.as_ref().or(self.args.up_to.as_ref());
        let pivot = wanted.and_then(|uuid| conversation.find(uuid));
        if conversation.messages.is_empty() || wanted.is_some() && pivot.is_none() {
            return None;
        }
        let trace = trace(&session, chain, RatioTable::built_in());
        let gates = self.gates(&trace);
        let policy = self.policy_of(&trace);
        let slug = match conversation.root.as_str() {
            "" => "no-project".to_owned(),
            root => safe_part(&project_slug(root)),
        };
        let mut done = Done {
            row: Row {
                session: id.to_owned(),
                project: conversation.root.clone(),
                file: format!("{slug}/{}", safe_part(id)),
                updates: gates.len() as u64,
                messages: conversation.messages.len() as u64,
                ..Row::default()
            },
            files: Vec::new(),
            problems: Vec::new(),
        };
        self.notes(&conversation, &gates, policy, &mut done);
        if self.args.wants_summary() {
            self.summaries(&conversation, pivot, policy, &mut done, parts);
        }
        problems.append(&mut threaded.problems);
        problems.append(&mut done.problems);
        done.problems = problems;
        Some(done)
    }

    /// The policy of the version that the session ended with.
    fn policy_of(&self, trace: &Trace) -> &Policy {
        let version = trace.calls.last().map(|call| trace.versions[usize::from(call.version)]);
        self.policies.of(version)
    }

    /// The calls after which the notes were brought up to date.
    fn gates(&self, trace: &Trace) -> Vec<u32> {
        let (policies, prices) = by_number(self.policies, self.prices, trace);
        let windows = windows_of(trace, &policies, &prices);
        let setting = Setting {
            policies,
            prices,
            windows: &windows,
            summary: None,
            mode: Mode::Follow,
            uses: None,
            texts: None,
            key: 0,
        };
        let mut gates = Vec::new();
        replay(trace, &setting, &mut |at: u32, event: &Event<'_>| {
            if matches!(event, Event::Notes { .. }) {
                gates.push(at);
            }
        });
        gates
    }

    fn notes(&self, conversation: &Conversation, gates: &[u32], policy: &Policy, done: &mut Done) {
        let limits = Limits {
            section: policy.notes_section,
            total: policy.notes_total,
        };
        let text = self.template.map(|text| {
            let variables = [
                ("session", done.row.session.as_str()),
                ("project", conversation.root.as_str()),
            ];
            substitute(text, &variables)
        });
        let template = text.map_or_else(Template::built_in, |text| Template::parse(&text));
        let folder = self.root.join(&done.row.file);
        let existing = std::fs::read_to_string(folder.join(NOTES))
            .ok()
            .filter(|_| !self.args.force);
        let continued = match &existing {
            None => Continued::new(&template),
            Some(file) => {
                let lines = std::fs::read(folder.join(LINES)).ok();
                let lines = lines.and_then(|bytes| serde_json::from_slice::<Lines>(&bytes).ok());
                Continued::from(file, lines, &template)
            }
        };
        let mut digest = Digest::new(&conversation.root);
        let mut at = 0;
        let mut push_to = |digest: &mut Digest, end: usize| {
            for message in &conversation.messages[at..end] {
                digest.push(message);
            }
            at = end;
        };
        let mut last = None;
        for (number, gate) in gates.iter().enumerate() {
            push_to(&mut digest, conversation.after_call(*gate));
            let is_last = number + 1 == gates.len();
            if self.args.history || is_last {
                let written = write_notes(&digest, &continued.own_words, &template, limits);
                if self.args.history {
                    let name = format!("session-memory/history/{:04}.md", number + 1);
                    done.files.push((name, written.text.clone()));
                }
                last = Some(written);
            }
        }
        push_to(&mut digest, conversation.messages.len());
        done.row.prompts = digest.prompts.len() as u64;
        if self.args.to_end {
            last = Some(write_notes(&digest, &continued.own_words, &template, limits));
        }
        let Some(Written {
            text,
            condensed,
            too_long,
        }) = last
        else {
            return;
        };
        let (text, lines) = continued.finish(&text, &template);
        done.row.tokens = Some(size::tokens(&text));
        done.row.condensed = condensed;
        done.row.too_long = too_long;
        done.row.is_continued = existing.is_some();
        done.row.is_unchanged = existing.as_deref() == Some(&text);
        if !done.row.is_unchanged {
            done.files.push((NOTES.to_owned(), text));
        }
        if let Ok(list) = serde_json::to_string(&lines) {
            done.files.push((LINES.to_owned(), list + "\n"));
        }
    }

    fn summaries(
        &self,
        conversation: &Conversation,
        pivot: Option<usize>,
        policy: &Policy,
        done: &mut Done,
        parts: &[Part],
    ) {
        let end = conversation.messages.len();
        let (variant, range) = match (pivot, &self.args.from) {
            (None, _) => (Variant::Whole, window_start(conversation, end)..end),
            (Some(pivot), Some(_)) => (Variant::From, pivot..end),
            (Some(pivot), None) => (Variant::UpTo, window_start(conversation, pivot + 1)..pivot + 1),
        };
        let mut wanted = vec![(SUMMARY.to_owned(), variant, range)];
        if self.args.history {
            for (number, boundary) in conversation.boundaries.iter().enumerate() {
                let range = window_start(conversation, boundary.before)..boundary.before;
                wanted.push((format!("compact/{:04}.md", number + 1), Variant::Whole, range));
            }
        }
        let mut breaker = Breaker::new(policy.breaker);
        for (name, variant, range) in wanted {
            match self.summary(conversation, range, variant, policy, &mut breaker) {
                Ok(text) => {
                    if name == SUMMARY {
                        done.row.summary_tokens = Some(size::tokens(&text));
                    }
                    done.files.push((name, text));
                }
                Err(error) => {
                    let path = &parts[0].path;
                    let detail = format!("session {}: {error}", done.row.session);
                    done.problems.push(Problem::file(path, Kind::NoText, detail));
                }
            }
        }
    }

    fn summary(
        &self,
        conversation: &Conversation,
        range: Range<usize>,
        variant: Variant,
        policy: &Policy,
        breaker: &mut Breaker,
    ) -> Result<String, crate::text::TextError> {
        let ask = SummaryAsk {
            material: conversation.material(range),
            variant,
            instructions: &self.args.instructions,
            budget: policy.max_output,
            is_automatic: false,
        };
        summarise(&Offline, &ask, Retries::of(policy), breaker).map(|summarised| summarised.text)
    }
}

/// The words of a chain, and what could not be read again.
pub(super) fn read_conversation(corpus: &Corpus, session: &Session<'_>, chain: &Chain) -> (Conversation, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut read = Vec::new();
    for wanted in conversation::lines(session, chain) {
        let (messages, problem) = corpus.messages(&wanted.path, wanted.lines, conversation::WANTED);
        problems.extend(problem);
        read.push((wanted.part, messages));
    }
    (Conversation::new(session, chain, read), problems)
}

/// The first message of the window that ends before message `end`: since the last compaction.
pub(super) fn window_start(conversation: &Conversation, end: usize) -> usize {
    let boundary = conversation
        .boundaries
        .iter()
        .map(|boundary| boundary.before)
        .filter(|before| *before < end);
    let summary = conversation.messages[..end]
        .iter()
        .rposition(|message| message.is_summary);
    boundary.max().max(summary).unwrap_or(0)
}
