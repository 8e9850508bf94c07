//! `backcast notes`: the notes of every session as they would stand at its end, and the summary of a compaction.

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::backend;
use crate::commands::backend::ModelRunner;
use crate::commands::given::GivenOptions;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::report::read_notes_folder;
use crate::commands::terminal::notice;
use crate::commands::writing::{ensure_absent_or_page, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{LogNeeds, LogSource, Run, SessionView, attempt, with_logs};
use crate::views::notes::{NotesRow, limit_warnings, write_list};
use anyhow::{Context, Result, bail};
use clap::Args;
use memory::names::{project_slug, safe_part};
use notes::conversation::{Conversation, RecordLocation};
use notes::offline::digest::Digest;
use notes::offline::{NotesDraft, OfflineBackend, write_notes};
use notes::template::{NotesTemplate, substitute};
use notes::user_edits::{NotesContinuation, NotesLineHashes, WholeFileHashes};
use notes::{
    CircuitBreaker, NotesLimits, NotesRequest, PromptRetries, SourceMaterial, SummaryRequest, SummaryVariant,
    TextBackend, TextError, size, summarize_with_retries,
};
use replay::policy::Policy;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::Event;
use replay::sim::trace::Trace;
use replay::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use table::atomic;
use transcript::agents::Agent;
use transcript::parallel::parallel_map;
use transcript::problem::{Problem, ProblemKind, sort_problems};

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
as things stand when the session ends. With --gated they stop at the last update of the live system, which updates notes when
the window has grown enough (policy values notes.first, notes.growth and notes.calls). They are taken from the session
itself, without a model: what was asked, changed, run, refused, failed, fixed, committed, decided and answered, in the words
of the log, secrets masked. Only final states are shown: a failure that a later success closed is not open, a refused call
did not run. Sub-agents and rewound branches stay out.

A file that is there already is continued: what somebody wrote into it stays, what they deleted stays away. Summaries and
histories are written whole; one that somebody changed since is left to them, and named (--problems). --force writes all of
them anew.

With --backend anthropic a model writes them, update after update, from what the one before left; headings, limits and the
messages of the user are kept by the program all the same. Without --history one update stands for several where they fit.

With --summary there is compact.md beside it: the nine sections that would stand in for the history after a compaction, with
every message of the user in full.

Examples:
  backcast notes --out notes/                             your own sessions
  backcast notes logs/ --out notes/ --gated               what the live system would have had
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
    /// Stop at the last update that the live system would have made, instead of the end of the session.
    #[arg(long, help_heading = "Output")]
    pub gated: bool,
    /// The default since notes go to the end of the session.
    #[arg(long, hide = true, conflicts_with = "gated")]
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
pub fn run(args: &NotesArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    // --force is about what people wrote; a page holds nothing of their own, and must not need it.
    if let Some(page) = &args.html {
        ensure_absent_or_page(page, PAGE)?;
    }
    let mut policies = resolve_policy(&args.policy)?;
    if policies.origins.get("notes.on").is_none_or(|origin| origin != "--set") {
        // The command writes notes also where the recorded client kept none.
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
    let model = backend::open_model(&args.model, given, cache, remembers, args.input.quiet)?;
    let prompt = args.prompt.as_deref().map(read).transpose()?;
    if let Some(path) = args.prompt.as_deref().filter(|_| model.is_none()) {
        notice!(
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
    let needs = LogNeeds {
        windows: true,
        texts: true,
        ..LogNeeds::default()
    };
    let outcome = with_logs(&args.input, needs, |source| run.write_notes(&source));
    if let Some(model) = &model {
        model.print_spending();
    }
    let Some(outcome) = outcome?? else {
        return Ok(RunStatus::Done);
    };
    if let Some(uuid) = args.from.as_ref().or(args.up_to.as_ref())
        && outcome.rows.is_empty()
    {
        match outcome.elsewhere {
            Some(place) => bail!("{uuid} is no part of a main conversation: {place}"),
            None => bail!("no session has the message {uuid}"),
        }
    }
    write_output(&args.print, |out, style| {
        write_list(&outcome.rows, args.print.format, args.print.top, style, out)
    })?;
    if !args.input.quiet {
        for warning in limit_warnings(&outcome.rows) {
            notice!("{warning}");
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
    /// Takes what a session came to; in the last pass its files are written.
    fn add_session(&mut self, run: &NotesRun<'_>, worked: &SessionNotesOutcome, is_last: bool) -> io::Result<()> {
        let done = match worked {
            SessionNotesOutcome::Texts(done) if is_last => done,
            SessionNotesOutcome::Elsewhere(place) => {
                self.elsewhere.get_or_insert_with(|| place.clone());
                return Ok(());
            }
            SessionNotesOutcome::Texts(_) | SessionNotesOutcome::Skipped => return Ok(()),
        };
        self.problems.extend(done.problems.iter().cloned());
        let is_owed = |error: &&TextError| run.model.is_some() && **error != TextError::Nothing;
        for error in done.errors.iter().filter(is_owed) {
            *self.missing_texts.entry(error.to_string()).or_insert(0) += 1;
        }
        for (name, text) in &done.files {
            run.write_file(&format!("{}/{name}", done.row.file), text)?;
        }
        self.rows.push(done.row.clone());
        Ok(())
    }

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

/// A session whose words are read: all that its texts are written from.
struct NotesInput<'a> {
    session: String,
    coding_agent: Agent,
    /// Path of its first log, which problems name.
    log: String,
    conversation: Conversation,
    /// The message that --from or --up-to names.
    pivot: Option<usize>,
    /// Calls after which the notes were brought up to date.
    gates: Vec<u32>,
    policy: &'a Policy,
    problems: Vec<Problem>,
}

/// The sessions of a run that asks in batches, pass after pass. A session that waits for an answer keeps its words, so that
/// its logs are not read again; its questions are held for the batch anyway.
#[derive(Default)]
struct BatchedNotes<'a> {
    /// In the order of the plan, once the first pass has read them.
    sessions: Option<Vec<BatchedSession<'a>>>,
    defects: Vec<Problem>,
}

struct BatchedSession<'a> {
    /// Its words, while it waits for an answer.
    input: Option<Box<NotesInput<'a>>>,
    outcome: SessionNotesOutcome,
}

impl<'a> BatchedSession<'a> {
    /// Asks for the texts of a session.
    fn ask(writer: &NotesRun<'a>, input: Box<NotesInput<'a>>) -> BatchedSession<'a> {
        let texts = writer.write_texts(&input);
        BatchedSession {
            input: texts.errors.contains(&TextError::Pending).then_some(input),
            outcome: SessionNotesOutcome::Texts(Box::new(texts)),
        }
    }
}

impl<'a> BatchedNotes<'a> {
    fn pass(&mut self, writer: &NotesRun<'a>, run: &Run, is_last: bool) -> Result<NotesOutcome> {
        match &mut self.sessions {
            None => {
                let (sessions, defects) = run.map_sessions(|view| match writer.read_session(view) {
                    Ok(input) => BatchedSession::ask(writer, input),
                    Err(outcome) => BatchedSession { input: None, outcome },
                });
                self.sessions = Some(sessions);
                self.defects = defects;
            }
            Some(sessions) => self.defects.extend(ask_again(writer, sessions)),
        }
        let mut outcome = NotesOutcome::default();
        for session in self.sessions.iter().flatten() {
            outcome.add_session(writer, &session.outcome, is_last)?;
        }
        outcome.problems.extend(self.defects.iter().cloned());
        Ok(outcome)
    }
}

/// Asks again for the texts of the sessions that wait for an answer. Returns those on which that panics.
fn ask_again<'a>(writer: &NotesRun<'a>, sessions: &mut [BatchedSession<'a>]) -> Vec<Problem> {
    let waiting = sessions.iter_mut().filter(|session| session.input.is_some());
    let waiting = waiting.map(Mutex::new).collect::<Vec<_>>();
    let failed = parallel_map(&waiting, |session| {
        let mut session = session.lock().ok()?;
        let input = session.input.take()?;
        let (log, id) = (input.log.clone(), input.session.clone());
        match attempt(&log, &id, || BatchedSession::ask(writer, input)) {
            Ok(asked) => {
                **session = asked;
                None
            }
            Err(problem) => {
                session.outcome = SessionNotesOutcome::Skipped;
                Some(problem)
            }
        }
    });
    failed.into_iter().flatten().collect()
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

impl<'a> NotesRun<'a> {
    /// Reads the logs once and writes the texts of all sessions. Returns `None` if a model was only to be estimated.
    fn write_notes(&self, source: &LogSource<'_>) -> Result<Option<NotesOutcome>> {
        let run = source.read();
        let outcome = match self.model {
            None => Some(self.write_sessions(&run, true)?),
            Some(model) if model.asks_in_batches() => {
                let mut batched = BatchedNotes::default();
                model.run_passes(|_, is_last| batched.pass(self, &run, is_last))?
            }
            Some(model) => model.run_passes(|_, is_last| self.write_sessions(&run, is_last))?,
        };
        Ok(outcome.map(|mut outcome| {
            outcome.problems.extend(run.problems);
            outcome.problems.extend(source.problems());
            sort_problems(&mut outcome.problems);
            outcome
        }))
    }

    /// Works on all sessions in one pass, which writes files only if it is the last.
    fn write_sessions(&self, run: &Run, is_last: bool) -> Result<NotesOutcome> {
        let mut outcome = NotesOutcome::default();
        let defects = run.stream_sessions(
            |view| match self.read_session(view) {
                Ok(input) => SessionNotesOutcome::Texts(Box::new(self.write_texts(&input))),
                Err(other) => other,
            },
            |worked| outcome.add_session(self, &worked, is_last),
        )?;
        outcome.problems.extend(defects);
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

    /// Reads the words of a session. Returns what came of it instead if there is nothing to write.
    fn read_session(&self, view: &SessionView<'_>) -> Result<Box<NotesInput<'a>>, SessionNotesOutcome> {
        if view.chains().is_empty() {
            return Err(SessionNotesOutcome::Skipped);
        }
        let (conversation, mut problems) = view.read_conversation(0);
        let pivot = self.find_pivot(view, &conversation)?;
        if conversation.messages.is_empty() {
            return Err(SessionNotesOutcome::Skipped);
        }
        problems.extend(view.threaded().problems.iter().cloned());
        let trace = view.trace(0);
        Ok(Box::new(NotesInput {
            session: view.id().to_owned(),
            coding_agent: view.coding_agent(),
            log: view.logs()[0].path.clone(),
            pivot,
            gates: self.update_calls(view, trace),
            policy: self.policy_of(trace),
            conversation,
            problems,
        }))
    }

    /// Finds the message that --from or --up-to names; `None` if none is named.
    fn find_pivot(
        &self,
        view: &SessionView<'_>,
        conversation: &Conversation,
    ) -> Result<Option<usize>, SessionNotesOutcome> {
        let Some(uuid) = self.args.from.as_ref().or(self.args.up_to.as_ref()) else {
            return Ok(None);
        };
        let (id, is_start) = (view.id(), self.args.from.is_some());
        let elsewhere = |place: String| Err(SessionNotesOutcome::Elsewhere(place));
        match conversation.locate_record(view.session(), view.threaded(), uuid, is_start) {
            RecordLocation::Message(at) => Ok(Some(at)),
            RecordLocation::NotInSession => Err(SessionNotesOutcome::Skipped),
            RecordLocation::Rewound => elsewhere(format!("session {id} was rewound from it")),
            RecordLocation::SubAgent => elsewhere(format!("it belongs to a sub-agent of session {id}")),
            RecordLocation::OffChain => elsewhere(format!("it stands beside that of session {id}")),
        }
    }

    /// Writes the texts of a session, or asks a model for them.
    fn write_texts(&self, input: &NotesInput<'_>) -> SessionTexts {
        let conversation = &input.conversation;
        let slug = match conversation.root.as_str() {
            "" => "no-project".to_owned(),
            root => safe_part(&project_slug(root)),
        };
        let mut done = SessionTexts {
            row: NotesRow {
                session: input.session.clone(),
                coding_agent: input.coding_agent,
                project: conversation.root.clone(),
                file: format!("{slug}/{}", safe_part(&input.session)),
                updates: input.gates.len() as u64,
                messages: conversation.messages.len() as u64,
                ..NotesRow::default()
            },
            files: Vec::new(),
            whole_files: Vec::new(),
            problems: Vec::new(),
            errors: Vec::new(),
        };
        self.build_notes(conversation, &input.gates, input.policy, &mut done, &input.log);
        if self.args.wants_summary() {
            self.build_summaries(conversation, input.pivot, input.policy, &mut done, &input.log);
        }
        self.queue_whole_files(&mut done);
        done.problems.splice(0..0, input.problems.iter().cloned());
        done
    }

    /// The policy of the version that the session ended with.
    fn policy_of(&self, trace: &Trace) -> &'a Policy {
        let version = trace.calls.last().map(|call| trace.versions[usize::from(call.version)]);
        self.policies.for_client(trace.client, version)
    }

    /// The calls after which the notes were brought up to date.
    fn update_calls(&self, view: &SessionView<'_>, trace: &Trace) -> Vec<u32> {
        let (policies, prices) = policies_and_prices(self.policies, self.prices, trace);
        let windows = view.infer_windows(trace, &policies, &prices);
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
        log: &str,
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
        let mut digest = Digest::of_conversation(conversation);
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
            let ends = ends.chain((!self.args.gated).then_some(conversation.messages.len()));
            match self.model_notes(model, &asked, &ends.collect::<Vec<_>>(), &continued.own_words, done) {
                Ok(written) => last = written,
                Err(error) => return self.record_missing_text(error, done, log),
            }
        } else if !self.args.gated {
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
        log: &str,
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
                Err(error) => self.record_missing_text(error, done, log),
            }
        }
    }

    /// Records that a text is missing; `log` is the path that the problem names.
    fn record_missing_text(&self, error: TextError, done: &mut SessionTexts, log: &str) {
        let detail = format!("session {}: {error}", done.row.session);
        done.problems.push(Problem::file(log, ProblemKind::NoText, detail));
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
