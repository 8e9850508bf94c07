//! What `notes` gives: rows, problems and missing texts, over one pass or, with batches of a model, over several.

use super::texts::{NotesInput, NotesRun, SessionTexts};
use crate::run::{Run, attempt};
use crate::views::notes::NotesRow;
use anyhow::{Result, bail};
use notes::TextError;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use transcript::parallel::parallel_map;
use transcript::problem::Problem;

/// Everything that was written.
#[derive(Default)]
pub(super) struct NotesOutcome {
    pub rows: Vec<NotesRow>,
    pub problems: Vec<Problem>,
    /// Number of texts that a model did not write, by reason.
    missing_texts: BTreeMap<String, u64>,
    /// Where the record that was named is, if in no main conversation.
    pub elsewhere: Option<String>,
}

/// What a session gives.
pub(super) enum SessionNotesOutcome {
    Texts(Box<SessionTexts>),
    /// No texts: the record that was named is elsewhere in it.
    Elsewhere(String),
    Skipped,
}

impl NotesOutcome {
    /// Adds a session; in the last pass its files are written.
    pub fn add_session(&mut self, run: &NotesRun<'_>, worked: &SessionNotesOutcome, is_last: bool) -> io::Result<()> {
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

    /// Fails if a model did not write a text. All other texts are written.
    pub fn ensure_complete(&self) -> Result<()> {
        if self.missing_texts.is_empty() {
            return Ok(());
        }
        let reasons = self.missing_texts.iter().map(|(why, count)| format!("{count} x {why}"));
        let reasons = reasons.collect::<Vec<_>>().join("\n  ");
        bail!(
            "some texts were not written\n  {reasons}\n  hint: answers are stored; the same command asks only for the rest"
        )
    }
}

/// The sessions of a run that asks in batches, pass after pass. A session that waits for an answer keeps its messages, so
/// that its logs are not read again; its questions are held for the batch anyway.
#[derive(Default)]
pub(super) struct BatchedNotes<'a> {
    /// In the order of the plan, once the first pass has read them.
    sessions: Option<Vec<BatchedSession<'a>>>,
    defects: Vec<Problem>,
}

struct BatchedSession<'a> {
    /// Its messages, while it waits for an answer.
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
    /// Runs one pass: the first reads all sessions, the others ask again for those that wait.
    pub fn run_pass(&mut self, writer: &NotesRun<'a>, run: &Run, is_last: bool) -> Result<NotesOutcome> {
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
