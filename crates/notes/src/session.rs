//! All texts of one session: its notes after every update and at its end, and the summaries of its compactions. Which files
//! they become is the caller's business.

use crate::conversation::Conversation;
use crate::offline::digest::{CarriedState, Digest, StateTracker};
use crate::offline::{NotesDraft, OfflineBackend, write_notes};
use crate::template::{NotesTemplate, substitute};
use crate::{
    CircuitBreaker, NotesLimits, NotesRequest, PromptRetries, SourceMaterial, SummaryRequest, SummaryVariant,
    TextBackend, TextError, summarize_with_retries,
};
use replay::policy::Policy;
use std::ops::Range;

/// Tokens of conversation that a model is shown for one update, if not every update is wanted.
const UPDATE_TOKENS: u64 = 60_000;

/// Writes the notes of a session.
pub struct SessionNotesWriter<'a> {
    pub conversation: &'a Conversation,
    pub template: &'a NotesTemplate,
    pub limits: NotesLimits,
    /// The model that writes them; `None` for the offline backend.
    pub model: Option<&'a dyn TextBackend>,
    /// Instructions for the model in place of the built-in ones, with variables.
    pub prompt: Option<&'a str>,
    /// Values of the variables in the instructions, without the current notes.
    pub variables: &'a [(&'a str, &'a str)],
    /// Whether the notes after every update are wanted.
    pub has_history: bool,
    /// Whether the notes stop at the last update instead of the end of the session.
    pub is_gated: bool,
}

/// The notes of a session.
#[derive(Debug, Default)]
pub struct SessionNotes {
    /// The notes after each update, if they are wanted.
    pub history: Vec<String>,
    /// The notes at the end; `None` if they never came to be.
    pub last: Option<NotesDraft>,
    /// Messages of the user.
    pub prompts: usize,
    /// Why the notes are missing.
    pub error: Option<TextError>,
}

impl SessionNotesWriter<'_> {
    /// Writes the notes. `gates` are the calls after which they were updated; everything in `own_words` is kept.
    pub fn write(&self, gates: &[u32], own_words: &str) -> SessionNotes {
        let mut notes = SessionNotes::default();
        let messages = &self.conversation.messages;
        let mut digest = Digest::of_conversation(self.conversation);
        let mut taken = 0;
        let ends = gates.iter().map(|gate| self.conversation.message_count_after(*gate));
        let mut ends = ends.collect::<Vec<_>>();
        for (number, end) in ends.iter().enumerate() {
            messages[taken..*end].iter().for_each(|message| digest.push(message));
            taken = *end;
            let is_last = number + 1 == ends.len();
            if self.model.is_some() || !(self.has_history || is_last && self.is_gated) {
                continue;
            }
            let draft = write_notes(&digest, own_words, self.template, self.limits);
            if self.has_history {
                notes.history.push(draft.text.clone());
            }
            notes.last = Some(draft);
        }
        messages[taken..].iter().for_each(|message| digest.push(message));
        notes.prompts = digest.prompts.len();
        if let Some(model) = self.model {
            ends.extend((!self.is_gated).then_some(messages.len()));
            self.ask_model(model, &ends, own_words, &mut notes);
        } else if !self.is_gated {
            notes.last = Some(write_notes(&digest, own_words, self.template, self.limits));
        }
        notes
    }

    /// Has a model write the notes, each update from the one before. Without a history, one update covers as many as can be
    /// shown at once.
    fn ask_model(&self, model: &dyn TextBackend, ends: &[usize], own_words: &str, notes: &mut SessionNotes) {
        let messages = &self.conversation.messages;
        let tokens = |range: Range<usize>| messages[range].iter().map(SourceMaterial::text_units).sum::<u64>() / 4;
        let mut current = self.canonical_file(own_words);
        let (mut from, mut is_written) = (0, false);
        for (number, end) in ends.iter().enumerate() {
            let next = ends.get(number + 1);
            let is_due = next.is_none_or(|next| tokens(from..*next) > UPDATE_TOKENS);
            if !self.has_history && !is_due || *end <= from {
                continue;
            }
            match self.ask_update(model, from..*end, &current) {
                Ok(text) => current = text,
                Err(error) => {
                    notes.error = Some(error);
                    return;
                }
            }
            if self.has_history {
                notes.history.push(current.clone());
            }
            (from, is_written) = (*end, true);
        }
        notes.last = is_written.then_some(NotesDraft {
            text: current,
            condensed: Vec::new(),
            too_long: Vec::new(),
        });
    }

    /// Returns the user's words in the form of the template, so that a new file and a continued one ask the same questions.
    fn canonical_file(&self, own_words: &str) -> String {
        let own = NotesTemplate::parse(own_words);
        let known = &self.template.sections;
        let bodies = known.iter().map(|section| {
            let found = own.sections.iter().find(|other| other.heading == section.heading);
            found.map_or("", |found| found.body.as_str())
        });
        let mut file = self.template.render(bodies);
        let is_foreign = |heading: &str| !known.iter().any(|section| section.heading == heading);
        for section in own.sections.iter().filter(|section| is_foreign(&section.heading)) {
            file.push_str(&format!(
                "\n{}\n{}\n\n{}\n",
                section.heading, section.about, section.body
            ));
        }
        file
    }

    /// Asks for one update; in two steps if it is too long for one.
    fn ask_update(&self, model: &dyn TextBackend, range: Range<usize>, current: &str) -> Result<String, TextError> {
        let instructions = self.prompt.map(|prompt| {
            let variables = self.variables.iter().copied().chain([("current_notes", current)]);
            substitute(prompt, &variables.collect::<Vec<_>>())
        });
        let request = NotesRequest {
            current,
            template: self.template,
            instructions: instructions.as_deref(),
            material: self.conversation.to_material(range.clone()),
            limits: self.limits,
        };
        match model.notes(&request) {
            Err(TextError::PromptTooLong { .. }) if range.len() > 1 => {
                let middle = range.start + range.len() / 2;
                let first = self.ask_update(model, range.start..middle, current)?;
                self.ask_update(model, middle..range.end, &first)
            }
            other => other,
        }
    }
}

/// A summary to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSummary {
    /// Number of the recorded compaction, from 1; `None` for a compaction at the end.
    pub compaction: Option<usize>,
    pub variant: SummaryVariant,
    /// The messages that it covers.
    pub range: Range<usize>,
}

/// Returns the summaries of a session: the one of a compaction now, or from or up to the message `pivot`; with `has_history`
/// also those of the recorded compactions.
pub fn plan_summaries(
    conversation: &Conversation,
    pivot: Option<(usize, SummaryVariant)>,
    has_history: bool,
) -> Vec<PlannedSummary> {
    let end = conversation.messages.len();
    let (variant, range) = match pivot {
        None => (SummaryVariant::Whole, conversation.window_start(end)..end),
        Some((pivot, SummaryVariant::From)) => (SummaryVariant::From, pivot..end),
        Some((pivot, variant)) => (variant, conversation.window_start(pivot + 1)..pivot + 1),
    };
    let mut planned = vec![PlannedSummary {
        compaction: None,
        variant,
        range,
    }];
    let boundaries = conversation.boundaries.iter().enumerate();
    let recorded = boundaries.map(|(number, boundary)| PlannedSummary {
        compaction: Some(number + 1),
        variant: SummaryVariant::Whole,
        range: conversation.window_start(boundary.before)..boundary.before,
    });
    planned.extend(recorded.filter(|_| has_history));
    planned
}

/// Writes planned summaries, in order. After as many failures in a row as the policy allows, the rest is not tried.
pub fn write_summaries<'p>(
    conversation: &Conversation,
    planned: &'p [PlannedSummary],
    model: Option<&dyn TextBackend>,
    instructions: &str,
    policy: &Policy,
) -> Vec<(&'p PlannedSummary, Result<String, TextError>)> {
    let backend = model.unwrap_or(&OfflineBackend);
    let mut breaker = CircuitBreaker::new(policy.breaker);
    let states = states_before(conversation, planned);
    let mut write = |summary: &PlannedSummary, state: &CarriedState| {
        let request = SummaryRequest {
            material: SourceMaterial {
                state: Some(state),
                ..conversation.to_material(summary.range.clone())
            },
            variant: summary.variant,
            instructions,
            budget: policy.max_output,
            is_automatic: false,
        };
        let retries = PromptRetries::from_policy(policy);
        summarize_with_retries(backend, &request, retries, &mut breaker).map(|summarized| summarized.text)
    };
    let written = planned.iter().zip(&states);
    written
        .map(|(summary, state)| (summary, write(summary, state)))
        .collect()
}

/// Returns what holds before each summary. The conversation is followed once, from its start.
fn states_before(conversation: &Conversation, planned: &[PlannedSummary]) -> Vec<CarriedState> {
    let mut order = (0..planned.len()).collect::<Vec<_>>();
    order.sort_by_key(|at| planned[*at].range.start);
    let mut states = vec![CarriedState::default(); planned.len()];
    let mut tracker = StateTracker::default();
    for at in order {
        states[at] = tracker.state_before(conversation, planned[at].range.start);
    }
    states
}
