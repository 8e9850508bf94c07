//! `backcast notes`: the notes of every session as they would stand at its end, and the summary of a compaction.

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::backend;
use crate::commands::backend::ModelRunner;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::{LogSource, report_problems, with_logs};
use crate::commands::report::read_notes_folder;
use crate::commands::writing::{ensure_absent_or_page, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::Corpus;
use crate::views::notes::{NotesRow, limit_warnings, write_list};
use anyhow::{Context, Result, bail};
use clap::Args;
use memory::names::{project_slug, safe_part};
use notes::continued::{NotesContinuation, NotesLineHashes, WholeFileHashes};
use notes::conversation;
use notes::conversation::{Conversation, RecordLocation};
use notes::offline::digest::Digest;
use notes::offline::{NotesDraft, OfflineBackend, write_notes};
use notes::template::{NotesTemplate, substitute};
use notes::{
    CircuitBreaker, NotesLimits, NotesRequest, PromptRetries, SourceMaterial, SummaryRequest, SummaryVariant,
    TextBackend, TextError, size, summarize_with_retries,
};
use replay::policy::Policy;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::Event;
use replay::sim::trace::{Trace, build_trace};
use replay::sim::{ReplayInput, ReplayMode, infer_replay_windows, policies_and_prices, replay};
use replay::tokens::ratios::RatioTable;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use table::atomic;
use transcript::problem::{Problem, ProblemKind};
use transcript::thread::{Chain, Session, SessionLog, thread};

/// Names of the files below a session's folder.
const NOTES: &str = "session-memory/summary.md";
const LINE_LIST_FILE: &str = "session-memory/.summary-lines.json";
const SUMMARY: &str = "compact.md";
const WHOLE_LIST_FILE: &str = ".written.json";

/// Name of the page.
const PAGE: &str = "notes";

/// Arguments of `notes`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every session gets PROJECT/SESSION/session-memory/summary.md below the folder: ten sections, from the title to the worklog,
as they would stand when the session ended. Notes are brought up to date when the window has grown enough (policy values
notes.first, notes.growth and notes.calls); what came after the last update is in them only with --to-end. They are taken
from the session itself, without a model: what was asked, changed, run, failed, fixed, decided and answered, in the words of
the log, secrets masked. Sub-agents and rewound branches stay out.

A file that is there already is continued: what somebody wrote into it stays, what they deleted stays away. Summaries and
histories are written whole; one that somebody changed since is left to them, and named (--problems). --force writes all of
them anew.

With --backend anthropic a model writes them, update after update, from what the one before left; headings, limits and the
messages of the user are kept by the program all the same. Without --history one update stands for several where they fit.

With --summary there is compact.md beside it: the nine sections that would stand in for the history after a compaction, with
every message of the user in full.

Examples:
  backcast notes --out notes/                             your own sessions
  backcast notes logs/ --out notes/ --history             also how the notes stood after every update
  backcast notes log.jsonl --out notes/ --summary         also what a compaction now would leave
  backcast notes logs/ --out notes/ --summary --backend anthropic --estimate    what a model would cost
  backcast notes log.jsonl --out notes/ --up-to 0c97beba-bfcb-4f84-9950-e0354bfc808b")]
pub struct NotesArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Folder for the notes; made if it is missing.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,
    /// Write the notes after every update, too: session-memory/history/0001.md and so on; with --summary also a summary at
    /// every recorded compaction.
    #[arg(long, help_heading = "Output")]
    pub history: bool,
    /// Bring the notes up to the end of the session, not only to the last update.
    #[arg(long, help_heading = "Output")]
    pub to_end: bool,
    /// Write the summary of a compaction, too: of what came since the last recorded one.
    #[arg(long, help_heading = "Output")]
    pub summary: bool,
    /// Summarise from this message on; earlier ones would stay. Only sessions that have it are looked at. Any record of the
    /// main conversation will do: one without words of its own (thinking, say) stands for the message beside it.
    #[arg(long, value_name = "UUID", conflicts_with = "up_to", help_heading = "Output")]
    pub from: Option<String>,
    /// Summarise up to this message; later ones would stay. As --from.
    #[arg(long, value_name = "UUID", help_heading = "Output")]
    pub up_to: Option<String>,
    /// What the summary should mind, as it is given with a compaction. Needs --summary, --from or --up-to.
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = "Output")]
    pub instructions: String,
    /// Sections to use instead of the ten: a Markdown file with headings and a description in italics below each.
    /// `{{session}}` and `{{project}}` are filled in.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub template: Option<PathBuf>,
    /// Instructions for the update, for backends that ask a model. `{{session}}`, `{{project}}`, `{{notes_path}}` and
    /// `{{current_notes}}` are filled in.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub prompt: Option<PathBuf>,
    /// Write all notes and summaries of the folder as one HTML page, too. An earlier page of notes is replaced; any other
    /// file that is there is not, whatever the switches.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace notes that are there instead of continuing them, and summaries that somebody changed.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
    /// What is printed.
    #[command(flatten)]
    pub print: PrintArgs,
}

impl NotesArgs {
    /// Whether a summary is wanted.
    pub fn wants_summary(&self) -> bool {
        self.summary || self.from.is_some() || self.up_to.is_some()
    }
}

/// Runs it.
pub fn run(args: &NotesArgs) -> Result<RunStatus> {
    // --force is about what people wrote; a page holds nothing of their own, and must not need it.
    if let Some(page) = &args.html {
        ensure_absent_or_page(page, PAGE)?;
    }
    let mut policies = resolve_policy(&args.policy)?;
    if !args
        .policy
        .set
        .iter()
        .any(|set| set.trim_start().starts_with("notes.on"))
    {
        // Whoever asks for notes wants them kept, also where the recorded client kept none.
        policies.assign("notes.on=true", "backcast notes")?;
    }
    if !args.instructions.is_empty() && !args.wants_summary() {
        bail!("--instructions is about a summary, and none is asked for\n  hint: add --summary");
    }
    let prices = load_prices(args.policy.prices.as_deref())?;
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let template = args.template.as_deref().map(read).transpose()?;
    if template
        .as_deref()
        .is_some_and(|text| NotesTemplate::parse(text).sections.is_empty())
    {
        bail!(
            "the template has no section\n  hint: a section begins with a heading, `# Name`, and a description in italics below"
        );
    }
    let (cache, remembers) = (args.input.cache_dir.as_deref(), !args.input.no_cache);
    let model = backend::open_model(&args.model, cache, remembers, args.input.quiet)?;
    let prompt = args.prompt.as_deref().map(read).transpose()?;
    if let Some(path) = args.prompt.as_deref().filter(|_| model.is_none()) {
        eprintln!(
            "{}: has an effect only with a backend that asks a model",
            path.display()
        );
    }
    let run = NotesRun {
        args,
        policies: &policies,
        prices: &prices,
        template: template.as_deref(),
        model: model.as_ref(),
        prompt: prompt.as_deref(),
        root: std::path::absolute(&args.out).with_context(|| args.out.display().to_string())?,
    };
    let write = |is_last| with_logs(&args.input, false, |reading| run.write_sessions(reading, is_last))?;
    let outcome = match &model {
        None => write(true)?,
        Some(model) => {
            let outcome = model.run_passes(|_, is_last| write(is_last));
            model.print_spending();
            match outcome? {
                Some(outcome) => outcome,
                None => return Ok(RunStatus::Done),
            }
        }
    };
    if let Some(uuid) = args.from.as_ref().or(args.up_to.as_ref())
        && outcome.rows.is_empty()
    {
        match outcome.elsewhere {
            Some(place) => bail!("{uuid} is no part of a main conversation: {place}"),
            None => bail!("no session has the message {uuid}"),
        }
    }
    write_output(&args.print.stdout_args(), |out, style| {
        write_list(&outcome.rows, args.print.format, args.print.top, style, out)
    })?;
    if !args.input.quiet {
        for warning in limit_warnings(&outcome.rows) {
            eprintln!("{warning}");
        }
    }
    if let Some(path) = &args.html {
        let content = PageContent {
            name: PAGE.to_owned(),
            notes: if run.root.exists() {
                read_notes_folder(&run.root)?
            } else {
                Vec::new()
            },
            ..PageContent::default()
        };
        write_page(path, true, args.input.quiet, content)?;
    }
    let ending = report_problems(&args.input, &outcome.problems);
    outcome.ensure_complete().map(|()| ending)
}

/// Everything that was written.
#[derive(Default)]
struct NotesOutcome {
    rows: Vec<NotesRow>,
    problems: Vec<Problem>,
    /// Texts that a model owes, by why.
    missing_texts: BTreeMap<String, u64>,
    /// Where the record that was named is, if in no main conversation.
    elsewhere: Option<String>,
}

/// What came of a session.
enum SessionNotesOutcome {
    /// Texts.
    Texts(Box<SessionTexts>),
    /// Nothing: the record that was named is elsewhere in it.
    Elsewhere(String),
    /// Nothing.
    Skipped,
}

impl NotesOutcome {
    /// Fails if a model owes a text: everything else is there.
    fn ensure_complete(&self) -> Result<()> {
        if self.missing_texts.is_empty() {
            return Ok(());
        }
        let reasons = self.missing_texts.iter().map(|(why, count)| format!("{count} x {why}"));
        let reasons = reasons.collect::<Vec<_>>().join("\n  ");
        bail!(
            "some texts were not written\n  {reasons}\n  hint: what was answered is kept; the same command asks only for the rest"
        )
    }
}

struct NotesRun<'a> {
    args: &'a NotesArgs,
    policies: &'a PolicySet,
    prices: &'a PriceTable,
    template: Option<&'a str>,
    /// The model that writes them, if one does.
    model: Option<&'a ModelRunner>,
    /// What it is told instead of the usual.
    prompt: Option<&'a str>,
    /// The folder; made with the first file.
    root: PathBuf,
}

/// What one session gives.
struct SessionTexts {
    row: NotesRow,
    /// Files to write below the session's folder.
    files: Vec<(String, String)>,
    /// Of the texts that are written whole, those that the session gives.
    whole_files: Vec<(String, String)>,
    problems: Vec<Problem>,
    /// Why texts are missing.
    errors: Vec<TextError>,
}

/// Tokens of conversation that a model is shown for one update, where nobody wants to see every update.
const UPDATE_TOKENS: u64 = 60_000;

impl NotesRun<'_> {
    /// Works on all sessions; only the last pass writes.
    fn write_sessions(&self, reading: LogSource<'_>, is_last: bool) -> Result<NotesOutcome> {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let mut outcome = NotesOutcome::default();
        let defects = corpus.stream_sessions(
            |id, parts| self.process_session(&corpus, id, parts),
            |worked| {
                let done = match worked {
                    SessionNotesOutcome::Texts(done) if is_last => done,
                    SessionNotesOutcome::Elsewhere(place) => {
                        outcome.elsewhere.get_or_insert(place);
                        return Ok(());
                    }
                    SessionNotesOutcome::Texts(_) | SessionNotesOutcome::Skipped => return Ok(()),
                };
                outcome.problems.extend(done.problems);
                let is_owed = |error: &&TextError| self.model.is_some() && **error != TextError::Nothing;
                for error in done.errors.iter().filter(is_owed) {
                    *outcome.missing_texts.entry(error.to_string()).or_insert(0) += 1;
                }
                for (name, text) in &done.files {
                    self.write_file(&format!("{}/{name}", done.row.file), text)?;
                }
                outcome.rows.push(done.row);
                Ok(())
            },
        )?;
        outcome.problems.extend(corpus.problems);
        outcome.problems.extend(reading.into_problems());
        outcome.problems.extend(defects);
        outcome.problems.sort();
        Ok(outcome)
    }

    /// Writes a file below the folder, and nowhere else: a link that leads out of it is refused, before anything is made.
    fn write_file(&self, name: &str, text: &str) -> io::Result<()> {
        std::fs::create_dir_all(&self.root)?;
        let root = self.root.canonicalize()?;
        let path = root.join(name);
        let folder = path.parent().unwrap_or(&root);
        let is_there = |folder: &&Path| folder.symlink_metadata().is_ok();
        let deepest = folder.ancestors().find(is_there).unwrap_or(&root);
        if !deepest.canonicalize()?.starts_with(&root) {
            return Err(io::Error::other(format!(
                "{} leads out of {}",
                deepest.display(),
                root.display()
            )));
        }
        std::fs::create_dir_all(folder)?;
        let written = match path.symlink_metadata() {
            Ok(_) => atomic::write(&path, true, text.as_bytes()),
            Err(_) => atomic::write_fresh(&path, text.as_bytes()),
        };
        written.map_err(io::Error::other)
    }

    /// Takes over the texts that are written whole, but for those that somebody else wrote or changed: these stay, and are
    /// named.
    fn queue_whole_files(&self, done: &mut SessionTexts) {
        if done.whole_files.is_empty() {
            return;
        }
        let folder = self.root.join(&done.row.file);
        let list = std::fs::read(folder.join(WHOLE_LIST_FILE)).ok();
        let before = list.and_then(|bytes| serde_json::from_slice::<WholeFileHashes>(&bytes).ok());
        let mut whole = before.clone().unwrap_or_default();
        for (name, text) in std::mem::take(&mut done.whole_files) {
            let path = folder.join(&name);
            let old = std::fs::read(&path);
            let is_same = old.as_ref().is_ok_and(|old| old == text.as_bytes());
            let is_free = path.symlink_metadata().is_err();
            let is_ours = old.as_ref().is_ok_and(|old| whole.is_unchanged(&name, old));
            if !(is_same || is_free || is_ours || self.args.force) {
                self.report_foreign_file(&name, done);
                continue;
            }
            whole.record(&name, &text);
            if name == SUMMARY {
                done.row.summary_tokens = Some(size::tokens(&text));
            }
            if !is_same {
                done.files.push((name, text));
            }
        }
        if before.as_ref() != Some(&whole)
            && let Ok(list) = serde_json::to_string(&whole)
        {
            done.files.push((WHOLE_LIST_FILE.to_owned(), list + "\n"));
        }
    }

    /// Says that a file is left to somebody else.
    fn report_foreign_file(&self, name: &str, done: &mut SessionTexts) {
        let path = self.args.out.join(&done.row.file).join(name);
        let detail = format!("session {}", done.row.session);
        let problem = Problem::file(path.display().to_string(), ProblemKind::TextKept, detail);
        done.problems.push(problem);
    }

    fn process_session(&self, corpus: &Corpus, id: &str, parts: &[SessionLog]) -> SessionNotesOutcome {
        let session = Session::new(id, parts);
        let mut threaded = thread(&session);
        let Some(chain) = threaded.chains.first() else {
            return SessionNotesOutcome::Skipped;
        };
        let (conversation, mut problems) = read_conversation(corpus, &session, chain);
        let wanted = self.args.from.as_ref().or(self.args.up_to.as_ref());
        let is_start = self.args.from.is_some();
        let pivot = match wanted.map(|uuid| conversation.locate_record(&session, &threaded, uuid, is_start)) {
            None => None,
            Some(RecordLocation::Message(at)) => Some(at),
            Some(RecordLocation::NotInSession) => return SessionNotesOutcome::Skipped,
            Some(RecordLocation::Rewound) => {
                return SessionNotesOutcome::Elsewhere(format!("session {id} was rewound from it"));
            }
            Some(RecordLocation::SubAgent) => {
                return SessionNotesOutcome::Elsewhere(format!("it belongs to a sub-agent of session {id}"));
            }
            Some(RecordLocation::OffChain) => {
                return SessionNotesOutcome::Elsewhere(format!("it stands beside that of session {id}"));
            }
        };
        if conversation.messages.is_empty() {
            return SessionNotesOutcome::Skipped;
        }
        let trace = build_trace(&session, chain, RatioTable::built_in());
        let gates = self.update_calls(&trace);
        let policy = self.policy_of(&trace);
        let slug = match conversation.root.as_str() {
            "" => "no-project".to_owned(),
            root => safe_part(&project_slug(root)),
        };
        let mut done = SessionTexts {
            row: NotesRow {
                session: id.to_owned(),
                project: conversation.root.clone(),
                file: format!("{slug}/{}", safe_part(id)),
                updates: gates.len() as u64,
                messages: conversation.messages.len() as u64,
                ..NotesRow::default()
            },
            files: Vec::new(),
            whole_files: Vec::new(),
            problems: Vec::new(),
            errors: Vec::new(),
        };
        self.build_notes(&conversation, &gates, policy, &mut done, parts);
        if self.args.wants_summary() {
            self.build_summaries(&conversation, pivot, policy, &mut done, parts);
        }
        self.queue_whole_files(&mut done);
        problems.append(&mut threaded.problems);
        problems.append(&mut done.problems);
        done.problems = problems;
        SessionNotesOutcome::Texts(Box::new(done))
    }

    /// The policy of the version that the session ended with.
    fn policy_of(&self, trace: &Trace) -> &Policy {
        let version = trace.calls.last().map(|call| trace.versions[usize::from(call.version)]);
        self.policies.for_version(version)
    }

    /// The calls after which the notes were brought up to date.
    fn update_calls(&self, trace: &Trace) -> Vec<u32> {
        let (policies, prices) = policies_and_prices(self.policies, self.prices, trace);
        let windows = infer_replay_windows(trace, &policies, &prices);
        let setting = ReplayInput {
            policies: &policies,
            prices: &prices,
            windows: &windows,
            summary: None,
            mode: ReplayMode::Follow,
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

    fn build_notes(
        &self,
        conversation: &Conversation,
        gates: &[u32],
        policy: &Policy,
        done: &mut SessionTexts,
        parts: &[SessionLog],
    ) {
        let limits = NotesLimits {
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
        let template = text.map_or_else(NotesTemplate::built_in, |text| NotesTemplate::parse(&text));
        let folder = self.root.join(&done.row.file);
        let place = folder.join(NOTES);
        let existing = std::fs::read_to_string(&place).ok().filter(|_| !self.args.force);
        // What cannot be read as text cannot be continued, and is not ours to replace.
        let is_strange = existing.is_none() && !self.args.force && place.symlink_metadata().is_ok();
        let continued = match &existing {
            None => NotesContinuation::new(&template),
            Some(file) => {
                let lines = std::fs::read(folder.join(LINE_LIST_FILE)).ok();
                let lines = lines.and_then(|bytes| serde_json::from_slice::<NotesLineHashes>(&bytes).ok());
                NotesContinuation::from_file(file, lines, &template)
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
            push_to(&mut digest, conversation.message_count_after(*gate));
            let is_last = number + 1 == gates.len();
            if self.model.is_none() && (self.args.history || is_last) {
                let written = write_notes(&digest, &continued.own_words, &template, limits);
                if self.args.history {
                    let name = format!("session-memory/history/{:04}.md", number + 1);
                    done.whole_files.push((name, written.text.clone()));
                }
                last = Some(written);
            }
        }
        push_to(&mut digest, conversation.messages.len());
        done.row.prompts = digest.prompts.len() as u64;
        if let Some(model) = self.model {
            let asked = NotesUpdateInput {
                conversation,
                template: &template,
                limits,
            };
            let ends = gates.iter().map(|gate| conversation.message_count_after(*gate));
            let ends = ends.chain(self.args.to_end.then_some(conversation.messages.len()));
            match self.model_notes(model, &asked, &ends.collect::<Vec<_>>(), &continued.own_words, done) {
                Ok(written) => last = written,
                Err(error) => return self.record_missing_text(error, done, parts),
            }
        } else if self.args.to_end {
            last = Some(write_notes(&digest, &continued.own_words, &template, limits));
        }
        let Some(NotesDraft {
            text,
            condensed,
            too_long,
        }) = last
        else {
            return;
        };
        if is_strange {
            return self.report_foreign_file(NOTES, done);
        }
        let (text, lines) = continued.drop_deleted_lines(&text, &template);
        done.row.tokens = Some(size::tokens(&text));
        done.row.condensed = condensed;
        done.row.too_long = too_long;
        done.row.is_continued = existing.is_some();
        done.row.is_unchanged = existing.as_deref() == Some(&text);
        if !done.row.is_unchanged {
            done.files.push((NOTES.to_owned(), text));
        }
        if let Ok(list) = serde_json::to_string(&lines) {
            done.files.push((LINE_LIST_FILE.to_owned(), list + "\n"));
        }
    }

    fn build_summaries(
        &self,
        conversation: &Conversation,
        pivot: Option<usize>,
        policy: &Policy,
        done: &mut SessionTexts,
        parts: &[SessionLog],
    ) {
        let end = conversation.messages.len();
        let (variant, range) = match (pivot, &self.args.from) {
            (None, _) => (SummaryVariant::Whole, window_start(conversation, end)..end),
            (Some(pivot), Some(_)) => (SummaryVariant::From, pivot..end),
            (Some(pivot), None) => (SummaryVariant::UpTo, window_start(conversation, pivot + 1)..pivot + 1),
        };
        let mut wanted = vec![(SUMMARY.to_owned(), variant, range)];
        if self.args.history {
            for (number, boundary) in conversation.boundaries.iter().enumerate() {
                let range = window_start(conversation, boundary.before)..boundary.before;
                wanted.push((format!("compact/{:04}.md", number + 1), SummaryVariant::Whole, range));
            }
        }
        let mut breaker = CircuitBreaker::new(policy.breaker);
        for (name, variant, range) in wanted {
            match self.build_summary(conversation, range, variant, policy, &mut breaker) {
                Ok(text) => done.whole_files.push((name, text)),
                Err(error) => self.record_missing_text(error, done, parts),
            }
        }
    }

    /// Notes that a text is missing.
    fn record_missing_text(&self, error: TextError, done: &mut SessionTexts, parts: &[SessionLog]) {
        let detail = format!("session {}: {error}", done.row.session);
        done.problems
            .push(Problem::file(&parts[0].path, ProblemKind::NoText, detail));
        done.errors.push(error);
    }

    /// The notes by a model: update after update, each from what the one before left. Where nobody wants to see every
    /// update, one stands for as many as can be shown at once.
    fn model_notes(
        &self,
        model: &ModelRunner,
        asked: &NotesUpdateInput<'_>,
        ends: &[usize],
        own_words: &str,
        done: &mut SessionTexts,
    ) -> Result<Option<NotesDraft>, TextError> {
        // The same file whether it is written for the first time or goes on: the same questions have the same answers.
        let own = NotesTemplate::parse(own_words);
        let body = |heading: &str| own.sections.iter().find(|section| section.heading == heading);
        let bodies = asked.template.sections.iter().map(|section| body(&section.heading));
        let bodies = bodies.map(|section| section.map_or("", |section| section.body.as_str()));
        let mut current = asked.template.render(bodies);
        let is_known = |heading: &str| asked.template.sections.iter().any(|known| known.heading == heading);
        for section in own.sections.iter().filter(|section| !is_known(&section.heading)) {
            current.push_str(&format!(
                "\n{}\n{}\n\n{}\n",
                section.heading, section.about, section.body
            ));
        }
        let messages = &asked.conversation.messages;
        let tokens = |range: Range<usize>| messages[range].iter().map(SourceMaterial::text_units).sum::<u64>() / 4;
        let (mut from, mut is_written) = (0, false);
        for (number, end) in ends.iter().enumerate() {
            let next = ends.get(number + 1);
            let is_due = next.is_none_or(|next| tokens(from..*next) > UPDATE_TOKENS);
            if !self.args.history && !is_due || *end <= from {
                continue;
            }
            current = self.ask_update(model, asked, from..*end, &current, &done.row)?;
            if self.args.history {
                let name = format!("session-memory/history/{:04}.md", number + 1);
                done.whole_files.push((name, current.clone()));
            }
            (from, is_written) = (*end, true);
        }
        Ok(is_written.then_some(NotesDraft {
            text: current,
            condensed: Vec::new(),
            too_long: Vec::new(),
        }))
    }

    /// One update; in two steps if it is too long for one.
    fn ask_update(
        &self,
        model: &ModelRunner,
        asked: &NotesUpdateInput<'_>,
        range: Range<usize>,
        current: &str,
        row: &NotesRow,
    ) -> Result<String, TextError> {
        let path = format!("{}/{NOTES}", row.file);
        let variables = [
            ("session", row.session.as_str()),
            ("project", row.project.as_str()),
            ("notes_path", path.as_str()),
            ("current_notes", current),
        ];
        let instructions = self.prompt.map(|prompt| substitute(prompt, &variables));
        let ask = NotesRequest {
            current,
            template: asked.template,
            instructions: instructions.as_deref(),
            material: asked.conversation.to_material(range.clone()),
            limits: asked.limits,
        };
        match model.backend.notes(&ask) {
            Err(TextError::PromptTooLong { .. }) if range.len() > 1 => {
                let middle = range.start + range.len() / 2;
                let first = self.ask_update(model, asked, range.start..middle, current, row)?;
                self.ask_update(model, asked, middle..range.end, &first, row)
            }
            other => other,
        }
    }

    fn build_summary(
        &self,
        conversation: &Conversation,
        range: Range<usize>,
        variant: SummaryVariant,
        policy: &Policy,
        breaker: &mut CircuitBreaker,
    ) -> Result<String, TextError> {
        let ask = SummaryRequest {
            material: conversation.to_material(range),
            variant,
            instructions: &self.args.instructions,
            budget: policy.max_output,
            is_automatic: false,
        };
        let backend: &dyn TextBackend = match self.model {
            Some(model) => &model.backend,
            None => &OfflineBackend,
        };
        summarize_with_retries(backend, &ask, PromptRetries::from_policy(policy), breaker)
            .map(|summarised| summarised.text)
    }
}

/// What an update of notes is asked about.
struct NotesUpdateInput<'a> {
    conversation: &'a Conversation,
    template: &'a NotesTemplate,
    limits: NotesLimits,
}

/// The words of a chain, and what could not be read again.
pub(super) fn read_conversation(corpus: &Corpus, session: &Session<'_>, chain: &Chain) -> (Conversation, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut read = Vec::new();
    for wanted in conversation::chain_lines(session, chain) {
        let (messages, problem) = corpus.messages(&wanted.path, wanted.lines, conversation::CONVERSATION_FILTER);
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
