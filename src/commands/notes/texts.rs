//! The texts of the sessions of a run: reads a session, has its texts written, and puts them below the output folder
//! without replacing what a person wrote.

use super::NotesArgs;
use super::outcome::{BatchedNotes, NotesOutcome, SessionNotesOutcome};
use crate::commands::backend::ModelRunner;
use crate::run::{LogSource, Run, SessionView};
use crate::views::notes::NotesRow;
use anyhow::Result;
use memory::names::{project_part, safe_part};
use notes::conversation::{CONVERSATION_FILTER, Conversation, OFFLINE_FILTER, RecordLocation};
use notes::offline::NotesDraft;
use notes::session::{SessionNotesWriter, plan_summaries, write_summaries};
use notes::template::{NotesTemplate, substitute};
use notes::user_edits::{NotesContinuation, NotesLineHashes, WholeFileHashes};
use notes::{NotesLimits, SummaryVariant, TextBackend, TextError, size};
use replay::policy::Policy;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::Event;
use replay::sim::trace::Trace;
use replay::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use std::io;
use std::path::{Path, PathBuf};
use table::atomic;
use transcript::agents::Agent;
use transcript::problem::{Problem, ProblemKind, sort_problems};

/// Names of the files below a session's folder.
const NOTES: &str = "session-memory/summary.md";
const LINE_LIST_FILE: &str = "session-memory/.summary-lines.json";
const SUMMARY: &str = "compact.md";
const WHOLE_LIST_FILE: &str = ".written.json";

/// A run of the command.
pub(super) struct NotesRun<'a> {
    pub args: &'a NotesArgs,
    pub policies: &'a PolicySet,
    pub prices: &'a PriceTable,
    pub template: Option<&'a str>,
    /// The model that writes the texts; `None` for the offline backend.
    pub model: Option<&'a ModelRunner>,
    /// Instructions for the model in place of the built-in ones.
    pub prompt: Option<&'a str>,
    /// The output folder; created with the first file.
    pub root: PathBuf,
}

/// A session with its messages: everything that its texts are written from.
pub(super) struct NotesInput<'a> {
    pub session: String,
    coding_agent: Agent,
    /// Path of its first log, which problems name.
    pub log: String,
    conversation: Conversation,
    /// The message that `--from` or `--up-to` names.
    pivot: Option<(usize, SummaryVariant)>,
    /// Calls after which the live system would have updated the notes.
    gates: Vec<u32>,
    policy: &'a Policy,
    problems: Vec<Problem>,
}

/// The texts of a session.
pub(super) struct SessionTexts {
    pub row: NotesRow,
    /// Files to write below the session's folder.
    pub files: Vec<(String, String)>,
    /// Texts that are replaced as a whole, before it is known which of them may be.
    whole_files: Vec<(String, String)>,
    pub problems: Vec<Problem>,
    /// Why texts are missing.
    pub errors: Vec<TextError>,
}

impl<'a> NotesRun<'a> {
    /// Reads the logs once and writes the texts of all sessions. Returns `None` if a model was only to be estimated.
    pub fn write_notes(&self, source: &LogSource<'_>) -> Result<Option<NotesOutcome>> {
        let run = source.read();
        let outcome = match self.model {
            None => Some(self.write_sessions(&run, true)?),
            Some(model) if model.asks_in_batches() => {
                let mut batched = BatchedNotes::default();
                model.run_passes(|_, is_last| batched.run_pass(self, &run, is_last))?
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

    /// Writes the texts of all sessions in one pass; files only in the last.
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

    /// Writes a file below the folder, and nowhere else: a link that leads out of it is refused before anything is created.
    pub fn write_file(&self, name: &str, text: &str) -> io::Result<()> {
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

    /// Queues the texts that are replaced as a whole. Those that a person wrote or changed stay and are reported.
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

    /// Reports a file that stays because a person wrote it.
    fn report_foreign_file(&self, name: &str, done: &mut SessionTexts) {
        let path = self.args.out.join(&done.row.file).join(name);
        let detail = format!("session {}", done.row.session);
        let problem = Problem::file(path.display().to_string(), ProblemKind::TextKept, detail);
        done.problems.push(problem);
    }

    /// Reads the messages of a session; fails with the outcome if there is nothing to write.
    pub fn read_session(&self, view: &SessionView<'_>) -> Result<Box<NotesInput<'a>>, SessionNotesOutcome> {
        if view.chains().is_empty() {
            return Err(SessionNotesOutcome::Skipped);
        }
        // A model is shown all of it.
        let parts = match self.model {
            Some(_) => CONVERSATION_FILTER,
            None => OFFLINE_FILTER,
        };
        let (conversation, mut problems) = view.read_conversation_parts(0, parts);
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

    /// Finds the message that `--from` or `--up-to` names; `None` if none is named.
    fn find_pivot(
        &self,
        view: &SessionView<'_>,
        conversation: &Conversation,
    ) -> Result<Option<(usize, SummaryVariant)>, SessionNotesOutcome> {
        let Some((uuid, variant)) = self.args.pivot() else {
            return Ok(None);
        };
        let (id, is_start) = (view.id(), variant == SummaryVariant::From);
        let elsewhere = |place: String| Err(SessionNotesOutcome::Elsewhere(place));
        match conversation.locate_record(view.session(), view.threaded(), uuid, is_start) {
            RecordLocation::Message(at) => Ok(Some((at, variant))),
            RecordLocation::NotInSession => Err(SessionNotesOutcome::Skipped),
            RecordLocation::Rewound => elsewhere(format!("session {id} was rewound from it")),
            RecordLocation::SubAgent => elsewhere(format!("it belongs to a sub-agent of session {id}")),
            RecordLocation::OffChain => elsewhere(format!("it is next to that of session {id}")),
        }
    }

    /// Writes the texts of a session, or asks a model for them.
    pub fn write_texts(&self, input: &NotesInput<'_>) -> SessionTexts {
        let conversation = &input.conversation;
        let slug = match conversation.root.as_str() {
            "" => "no-project".to_owned(),
            root => project_part(root),
        };
        let mut done = SessionTexts {
            row: NotesRow {
                session: input.session.clone(),
                coding_agent: input.coding_agent,
                project: conversation.root.clone(),
                file: format!("{slug}/{}", safe_part(&input.session)),
                updates: input.gates.len() as u64,
                messages: conversation.message_count() as u64,
                ..NotesRow::default()
            },
            files: Vec::new(),
            whole_files: Vec::new(),
            problems: Vec::new(),
            errors: Vec::new(),
        };
        self.add_notes(input, &mut done);
        if self.args.wants_summary() {
            self.add_summaries(input, &mut done);
        }
        self.queue_whole_files(&mut done);
        done.problems.splice(0..0, input.problems.iter().cloned());
        done
    }

    /// Returns the policy of the version that the session ended with.
    fn policy_of(&self, trace: &Trace) -> &'a Policy {
        let version = trace.calls.last().map(|call| trace.versions[usize::from(call.version)]);
        self.policies.for_client(trace.client, version)
    }

    /// Returns the calls after which the live system would have updated the notes.
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

    fn backend(&self) -> Option<&dyn TextBackend> {
        self.model.map(|model| &model.backend as &dyn TextBackend)
    }

    /// Adds the notes of a session, as the continuation of a file that is there.
    fn add_notes(&self, input: &NotesInput<'_>, done: &mut SessionTexts) {
        let project = input.conversation.root.as_str();
        let path = format!("{}/{NOTES}", done.row.file);
        let variables = [
            ("session", input.session.as_str()),
            ("project", project),
            ("notes_path", path.as_str()),
        ];
        let template = self.template.map_or_else(NotesTemplate::built_in, |text| {
            NotesTemplate::parse(&substitute(text, &variables[..2]))
        });
        let folder = self.root.join(&done.row.file);
        let place = folder.join(NOTES);
        let existing = std::fs::read_to_string(&place).ok().filter(|_| !self.args.force);
        // A file that is not text cannot be continued, and a person may have put it there.
        let is_foreign = existing.is_none() && !self.args.force && place.symlink_metadata().is_ok();
        let continued = match &existing {
            None => NotesContinuation::new(&template),
            Some(file) => {
                let lines = std::fs::read(folder.join(LINE_LIST_FILE)).ok();
                let lines = lines.and_then(|bytes| serde_json::from_slice::<NotesLineHashes>(&bytes).ok());
                NotesContinuation::from_file(file, lines, &template)
            }
        };
        let writer = SessionNotesWriter {
            conversation: &input.conversation,
            template: &template,
            limits: NotesLimits {
                section: input.policy.notes_section,
                total: input.policy.notes_total,
            },
            model: self.backend(),
            prompt: self.prompt,
            variables: &variables,
            has_history: self.args.history,
            is_gated: self.args.gated,
        };
        let notes = writer.write(&input.gates, &continued.own_words);
        done.row.prompts = notes.prompts as u64;
        for (number, text) in notes.history.into_iter().enumerate() {
            let name = format!("session-memory/history/{:04}.md", number + 1);
            done.whole_files.push((name, text));
        }
        if let Some(error) = notes.error {
            return self.record_missing_text(error, done, &input.log);
        }
        match notes.last {
            Some(_) if is_foreign => self.report_foreign_file(NOTES, done),
            Some(draft) => add_draft(draft, &continued, existing.as_deref(), &template, done),
            None => {}
        }
    }

    fn add_summaries(&self, input: &NotesInput<'_>, done: &mut SessionTexts) {
        let planned = plan_summaries(&input.conversation, input.pivot, self.args.history);
        let instructions = &self.args.instructions;
        let written = write_summaries(
            &input.conversation,
            &planned,
            self.backend(),
            instructions,
            input.policy,
        );
        for (summary, text) in written {
            let name = match summary.compaction {
                Some(number) => format!("compact/{number:04}.md"),
                None => SUMMARY.to_owned(),
            };
            match text {
                Ok(text) => done.whole_files.push((name, text)),
                Err(error) => self.record_missing_text(error, done, &input.log),
            }
        }
    }

    /// Records that a text is missing; `log` is the path that the problem names.
    fn record_missing_text(&self, error: TextError, done: &mut SessionTexts, log: &str) {
        let detail = format!("session {}: {error}", done.row.session);
        done.problems.push(Problem::file(log, ProblemKind::NoText, detail));
        done.errors.push(error);
    }
}

/// Adds the notes and the list of their lines to the files to write.
fn add_draft(
    draft: NotesDraft,
    continued: &NotesContinuation,
    existing: Option<&str>,
    template: &NotesTemplate,
    done: &mut SessionTexts,
) {
    let (text, lines) = continued.drop_deleted_lines(&draft.text, template);
    done.row.tokens = Some(size::tokens(&text));
    done.row.condensed = draft.condensed;
    done.row.too_long = draft.too_long;
    done.row.is_continued = existing.is_some();
    done.row.is_unchanged = existing == Some(&text);
    if !done.row.is_unchanged {
        done.files.push((NOTES.to_owned(), text));
    }
    if let Ok(list) = serde_json::to_string(&lines) {
        done.files.push((LINE_LIST_FILE.to_owned(), list + "\n"));
    }
}
