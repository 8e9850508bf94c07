//! Runs of commands in a digest: which failed, and what fixed them.

use super::Digest;
use super::facts::{DigestFailure, SentenceKind, TouchedFile};
use crate::offline::names;
use crate::offline::prose::whole_sentences;
use crate::offline::shell::{
    counts_failed_tests, counts_no_failure, ends_with_pass, has_failure_marks, is_fixer, key_error_lines,
    key_output_line, prints_content, says_not_found,
};
use crate::offline::state::intent::{CommandIntent, repeats_program, runs_in_wrapper};
use crate::offline::state::parts::{hides_status, removed_paths};

/// Changed files up to which all of them may have fixed a failure.
const MOST_CAUSES: usize = 2;

/// Starts of errors that only mean that an edit must be repeated in another form.
const EDIT_SLIPS: [&str; 5] = [
    "has not been read yet",
    "has been modified since",
    "String to replace not found",
    "Found ",
    "No changes to make",
];

impl Digest {
    pub(super) fn record_edit_failure(&mut self, path: &str, text: &str, step: usize) {
        let start = text.trim_start();
        let is_slip = EDIT_SLIPS.iter().any(|known| start.starts_with(known)) || text.contains("has not been read yet");
        if is_slip {
            return;
        }
        let what = format!("Editing {}", names::relative_path(path, &self.root));
        self.record_failure(&what, None, text, step);
    }

    /// Records a run. The status counts, unless the command hides it: then what it printed does.
    pub(super) fn record_run(&mut self, command: usize, raw: &str, text: &str, is_error: bool, step: usize) {
        let may_hide = hides_status(raw) || runs_in_wrapper(raw);
        let marks_failure = || match prints_content(raw) {
            // What it shows may be about errors; its own stands first.
            true => has_failure_marks(text.trim_start().lines().next().unwrap_or_default()),
            false => has_failure_marks(text),
        };
        let has_marks = || marks_failure() && !counts_no_failure(text);
        let says_failure = || may_hide && (has_marks() || counts_failed_tests(text));
        // Broken on purpose and put right in the same command: the last verdict counts.
        let is_proof = || repeats_program(raw) && ends_with_pass(text);
        let failed = is_error || says_failure() && !is_proof();
        let known = &mut self.commands[command];
        known.is_failing = failed;
        known.is_closed = false;
        known.failed += usize::from(failed);
        known.outcome = key_output_line(text, failed);
        text.split_whitespace().for_each(|word| self.add_link(word));
        if failed {
            self.repeat_failures(command, raw, text, step);
            let what = self.commands[command].text.clone();
            self.record_failure(&what, Some(command), text, step);
            return;
        }
        self.follow_moves(command);
        self.forget_moot_failures(raw);
        let open = self.failures.iter().enumerate();
        let intents = CommandIntent::parse_all(raw);
        let open =
            open.filter(|(_, failure)| failure.fixed_at.is_none() && self.is_closed_by(failure, command, &intents));
        for at in open.map(|(at, _)| at).collect::<Vec<_>>() {
            self.mark_fixed(at, step);
            if let Some(failed) = self.failures[at].command {
                self.commands[failed].is_closed = true;
            }
        }
    }

    /// Moves failures of other commands to this step if this command ran the same again and printed the same error.
    fn repeat_failures(&mut self, command: usize, raw: &str, text: &str, step: usize) {
        let intents = CommandIntent::parse_all(raw);
        let is_same = |failure: &DigestFailure| {
            let first = failure.error.split(" / ").next().unwrap_or_default();
            let start = first.trim_end_matches(['.', '…']);
            start.len() > 20 && text.contains(start)
        };
        let open = self.failures.iter().enumerate();
        let open = open.filter(|(_, failure)| {
            failure.fixed_at.is_none()
                && failure.command != Some(command)
                && self.is_closed_by(failure, command, &intents)
                && is_same(failure)
        });
        for at in open.map(|(at, _)| at).collect::<Vec<_>>() {
            self.failures[at].step = step;
        }
    }

    /// Marks failures whose object is gone: their script was removed, or a commit that failed has nothing left to commit.
    fn forget_moot_failures(&mut self, raw: &str) {
        let removed = removed_paths(raw);
        let is_clean = self.ledger.uncommitted(&self.root).next().is_none() && self.ledger.has_seen_git;
        for failure in self.failures.iter_mut().filter(|failure| failure.fixed_at.is_none()) {
            let Some(command) = failure.command else { continue };
            let text = &self.commands[command].text;
            let is_commit = || text.split("&&").any(|part| part.trim_start().starts_with("git commit"));
            let runs_removed = removed.iter().any(|path| {
                let mut words = text.split_whitespace().map(|word| word.trim_matches(['\'', '"', ';']));
                words.any(|word| word == path)
            });
            failure.is_moot |= runs_removed || is_clean && is_commit();
        }
    }

    /// Returns whether a success of a command shows that a failure is gone: the same command, or one with a part of the same
    /// intent.
    fn is_closed_by(&self, failure: &DigestFailure, command: usize, intents: &[CommandIntent]) -> bool {
        let Some(failed) = failure.command else { return false };
        let intent = self.commands[failed].intent.as_ref();
        failed == command || intent.is_some_and(|failed| intents.iter().any(|intent| intent.covers(failed)))
    }

    /// Gives files that a command renamed their new path, so that they keep their history.
    fn follow_moves(&mut self, command: usize) {
        let text = self.commands[command].text.clone();
        for one in text.split("&&").map(str::trim) {
            let Some(arguments) = one.strip_prefix("git mv ").or_else(|| one.strip_prefix("mv ")) else {
                continue;
            };
            let arguments = arguments.split_whitespace().collect::<Vec<_>>();
            let [old, new] = arguments[..] else { continue };
            let is_it = |file: &TouchedFile| names::relative_path(&file.path, &self.root) == old || file.path == old;
            let Some(at) = self.files.iter().position(is_it) else {
                continue;
            };
            let path = match self.files[at].path.strip_suffix(old) {
                Some(folder) if !new.starts_with('/') => format!("{folder}{new}"),
                _ => new.to_owned(),
            };
            let known = self.by_path.remove(&self.files[at].path);
            self.files[at].path.clone_from(&path);
            self.by_path.insert(path, known.unwrap_or(at));
        }
    }

    fn mark_fixed(&mut self, at: usize, step: usize) {
        let from = self.failures[at].step;
        let files = self.files.iter().enumerate();
        let changed = files.filter(|(_, file)| file.changes > 0 && file.step > from && file.step <= step);
        let mut changed = changed.map(|(number, file)| (file.step, number)).collect::<Vec<_>>();
        changed.sort_unstable();
        let error = &self.failures[at].error;
        // Of many files, only those that the error names had to do with it.
        let is_named = |number: usize| error.contains(names::file_name(&self.files[number].path));
        // What was not found lay elsewhere: a change of other files did not bring it.
        let is_place = says_not_found(error);
        if changed.len() > MOST_CAUSES || is_place {
            changed.retain(|(_, number)| is_named(*number));
        }
        let fixer = self.commands.iter().rposition(|command| {
            (from..=step).contains(&command.step) && !command.is_failing && command.runs > 0 && is_fixer(&command.text)
        });
        let mut sentences = self.sentences.iter().rev();
        let cause = sentences.find(|said| {
            let mut is_about = false;
            names::for_each_identifier(error, |name| is_about |= said.text.contains(name));
            said.step > from && said.kind == SentenceKind::Cause && (is_about || changed.len() == 1)
        });
        let cause = cause.map(|said| whole_sentences(&said.text, 240)).unwrap_or_default();
        let failure = &mut self.failures[at];
        failure.cause = cause;
        failure.changed = changed.into_iter().map(|(_, number)| number).collect();
        failure.fixer = fixer.filter(|_| failure.changed.is_empty());
        failure.fixed_at = Some(step);
    }

    pub(super) fn record_failure(&mut self, what: &str, command: Option<usize>, text: &str, step: usize) {
        // The client cancelled this call because another call of the same response failed first.
        if text.contains("Sibling tool call errored") || text.starts_with("Cancelled: parallel tool call") {
            return;
        }
        let error = key_error_lines(text);
        let is_same = |failure: &&mut DigestFailure| failure.fixed_at.is_none() && failure.what == what;
        if let Some(failure) = self.failures.iter_mut().rev().find(is_same) {
            failure.occurrences += 1;
            failure.step = step;
            failure.is_moot = false;
            failure.error = error;
            return;
        }
        self.failures.push(DigestFailure {
            what: what.to_owned(),
            command,
            error,
            step,
            occurrences: 1,
            fixed_at: None,
            is_moot: false,
            changed: Vec::new(),
            fixer: None,
            cause: String::new(),
        });
        let at = self.failures.len() - 1;
        self.current_turn().failures.push(at);
    }
}
