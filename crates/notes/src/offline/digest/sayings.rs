//! What the model says in a digest: what it explains, what it grants, and what it takes back.

use super::Digest;
use super::cues::{grants_remark, is_own_remark, takes_back};
use super::facts::{ModelSentence, PromptChannel};
use crate::offline::model_sentences::{classify_sentence, points_back};
use crate::offline::statements::{is_diagnosis, replaces_diagnosis, share_name};
use language::sentences::split_prose;

impl Digest {
    /// Notes what a text of the model explains, and what it takes back.
    pub(super) fn note_sentences(&mut self, text: &str) {
        let sentences = split_prose(text);
        let mut start = sentences.iter().take(3);
        if start.any(|sentence| takes_back(sentence)) {
            self.retract_last_answer();
        }
        let start = || sentences.iter().take(2);
        let is_granted = start().any(|sentence| grants_remark(sentence));
        self.note_admission(is_granted, start().any(|sentence| takes_back(sentence)));
        let mut before = "";
        for (at, sentence) in sentences.iter().copied().enumerate() {
            let is_other_cause = replaces_diagnosis(sentence);
            if is_other_cause {
                self.rediagnosed_step = self.steps;
                self.sentences.retain(|said| !is_diagnosis(&said.text));
            }
            if is_other_cause || takes_back(sentence) {
                let near = sentences[at.saturating_sub(1)..sentences.len().min(at + 2)].join(" ");
                let step = self.steps;
                self.sentences
                    .retain(|said| said.step == step || !share_name(&near, &said.text));
            }
            if let Some(kind) = classify_sentence(sentence).filter(|_| !takes_back(sentence)) {
                let joined = join_neighbors(text, before, sentence).filter(|_| points_back(sentence));
                self.sentences.push(ModelSentence {
                    text: joined.unwrap_or(sentence).to_owned(),
                    kind,
                    step: self.steps,
                    needs_context: joined.is_none() && points_back(sentence),
                });
            }
            before = sentence;
        }
    }

    /// Marks the words of the user that this text of the model answers as a correction, if it grants that they are right. Who
    /// only asks has not corrected what the model then takes back.
    fn note_admission(&mut self, is_granted: bool, is_taken_back: bool) {
        let Some(prompt) = self.prompts.last_mut().filter(|prompt| !prompt.is_heard) else {
            return;
        };
        prompt.is_heard = true;
        let only_asks = prompt.text.trim_end().ends_with(['?', '？']);
        let is_admitted = is_granted || is_taken_back && !only_asks;
        let is_said = matches!(prompt.channel, PromptChannel::Message | PromptChannel::Queued);
        if !is_admitted || !is_said || self.last_answer.is_empty() || !is_own_remark(&prompt.text) {
            return;
        }
        prompt.is_admitted = true;
        if !std::mem::replace(&mut prompt.is_correction, true) {
            self.retract_last_answer();
        }
    }

    /// Marks the answer before the current turn as taken back.
    pub(super) fn retract_last_answer(&mut self) {
        let Some(turn) = self.turns.iter_mut().rev().find(|turn| turn.is_answered) else {
            return;
        };
        turn.is_retracted = true;
        // What it explained there is taken back too.
        self.sentences.retain(|said| !turn.answer.contains(&said.text));
    }
}

/// Returns two sentences of a text as they stand there; `None` if they do not follow each other on a line.
fn join_neighbors<'t>(text: &'t str, before: &str, sentence: &str) -> Option<&'t str> {
    let place = |part: &str| (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let (start, end) = (place(before)?, place(sentence)? + sentence.len());
    let joined = text.get(start..end)?;
    let is_joined = !before.is_empty() && !joined.contains('\n') && joined.chars().count() <= 320;
    (is_joined && !points_back(before)).then_some(joined)
}
