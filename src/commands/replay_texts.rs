//! `replay --with-text`: real texts in simulated boundaries, and what the rest of the session needed that they lack.

use crate::views::replay::TextLosses;
use language::{markdown, secrets, shorten};
use notes::conversation::Conversation;
use notes::coverage::{EarlierItems, NEED_KINDS, NeedCoverage, NeededItems};
use notes::offline::digest::{Digest, StateTracker};
use notes::offline::{OfflineBackend, write_notes};
use notes::template::NotesTemplate;
use notes::{NotesLimits, SummaryRequest, SummaryVariant, TextBackend, size};
use replay::policy::Policy;
use replay::sim::BoundaryTextWriter;
use replay::sim::event::{CompactionCause, CompactionKind, Event, SimBoundary};
use replay::sim::trace::Trace;
use replay::tokens::ratios::{RatioTable, Ratios};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use transcript::messages::{Message, MessagePart, MessageRole};

/// The texts of one chain.
pub(super) struct ChainTexts<'a> {
    conversation: &'a Conversation,
    ratios: &'static Ratios,
    /// First item of each message, ascending; messages that the replay does not know have that of the next.
    firsts: Vec<u32>,
    limits: NotesLimits,
    budget: u64,
    template: NotesTemplate,
    state: RefCell<ChainTextState>,
}

#[derive(Default)]
struct ChainTextState {
    digest: Digest,
    /// The state before what is summarized.
    tracker: StateTracker,
    /// Messages that the digest has taken.
    digested: usize,
    /// The notes by the item after the last one that they cover.
    notes: Vec<(u32, String)>,
    /// The text for the boundary that comes next.
    next_text: String,
    boundaries: Vec<BoundaryText>,
}

/// What is known of the messages before a boundary: what an earlier one replaced may be needed again, too.
#[derive(Default)]
struct EarlierMessages<'m> {
    items: EarlierItems<'m>,
    /// Messages that were taken.
    taken: usize,
}

impl<'m> EarlierMessages<'m> {
    /// Takes the messages up to `end`. Boundaries nearly always replace more than those before them.
    fn take_until(&mut self, messages: &'m [Message], end: usize) {
        if end < self.taken {
            *self = EarlierMessages::default();
        }
        messages[self.taken..end]
            .iter()
            .for_each(|message| self.items.push(message));
        self.taken = end;
    }
}

/// A text in a boundary.
struct BoundaryText {
    call: u32,
    text: String,
    is_notes: bool,
    /// Messages that it replaces.
    replaced: Range<usize>,
    /// Messages that were kept beside it.
    preserved: Range<usize>,
    /// The first message after it.
    end: usize,
}

impl<'a> ChainTexts<'a> {
    /// For a chain and its words.
    pub(super) fn new(conversation: &'a Conversation, trace: &Trace, policy: &Policy) -> ChainTexts<'a> {
        let end = trace.items.len() as u32;
        let mut firsts = vec![end; conversation.nodes.len()];
        let mut items = trace.nodes.iter();
        for (message, node) in conversation.nodes.iter().enumerate() {
            // Both are in the order of the chain; records without words stand between.
            let mut ahead = items.clone();
            let found = node.and_then(|node| ahead.find(|(_, other)| *other == node));
            if let Some((first, _)) = found {
                firsts[message] = *first;
                items = ahead;
            }
        }
        let mut next = end;
        for first in firsts.iter_mut().rev() {
            next = next.min(*first);
            *first = next;
        }
        let model = trace.models.first().map_or("", String::as_str);
        ChainTexts {
            conversation,
            ratios: RatioTable::built_in().for_model(model),
            firsts,
            limits: NotesLimits {
                section: policy.notes_section,
                total: policy.notes_total,
            },
            budget: policy.max_output,
            template: NotesTemplate::built_in(),
            state: RefCell::new(ChainTextState {
                digest: Digest::of_conversation(conversation),
                ..ChainTextState::default()
            }),
        }
    }

    /// The messages whose first items lie in a range.
    fn messages_in(&self, items: &Range<u32>) -> Range<usize> {
        let at = |item: u32| self.firsts.partition_point(|first| *first < item);
        at(items.start)..at(items.end)
    }

    /// Notes which text a boundary got.
    pub(super) fn record_event(&self, at: u32, event: &Event<'_>) {
        let Event::Boundary(boundary) = event else { return };
        if boundary.is_recorded {
            return;
        }
        let mut state = self.state.borrow_mut();
        let text = std::mem::take(&mut state.next_text);
        let placed = self.boundary_text(at, boundary, text, state.boundaries.last());
        state.boundaries.push(placed);
    }

    fn boundary_text(
        &self,
        call: u32,
        boundary: &SimBoundary,
        text: String,
        before: Option<&BoundaryText>,
    ) -> BoundaryText {
        let end = boundary.last_item.map_or(0, |item| item + 1);
        let floor = before.map_or(0, |before| before.preserved.start.min(before.end));
        let kept = self.messages_in(&boundary.kept);
        let end = self.messages_in(&(0..end)).end;
        // What is kept lies at the end, or at the start where only later messages are summarized.
        let replaced = match boundary.kept.is_empty() {
            true => floor..end,
            false if kept.end >= end => floor..kept.start.max(floor),
            false => kept.end..end,
        };
        BoundaryText {
            call,
            text,
            is_notes: boundary.kind == CompactionKind::SessionMemory,
            replaced,
            preserved: kept,
            end,
        }
    }

    /// What the texts lack; told to the boundaries of the chain, where there are any.
    pub(super) fn collect_losses(&self, boundaries: &mut [Json]) -> TextLosses {
        let state = self.state.borrow();
        let mut all = TextLosses::default();
        let mut earlier = EarlierMessages::default();
        let mut rows = HashMap::<u64, VecDeque<usize>>::new();
        for (row, told) in boundaries.iter().enumerate() {
            if let Some(call) = told["call"].as_u64().filter(|_| told.get("text").is_none()) {
                rows.entry(call).or_default().push_back(row);
            }
        }
        for (at, placed) in state.boundaries.iter().enumerate() {
            let until = state
                .boundaries
                .get(at + 1)
                .map_or(self.conversation.messages.len(), |next| next.end);
            earlier.take_until(&self.conversation.messages, placed.replaced.end);
            let (losses, missing) = self.measure_loss(placed, until, &earlier.items);
            all.add(losses);
            let row = rows.get_mut(&u64::from(placed.call)).and_then(VecDeque::pop_front);
            if let Some(told) = row.map(|row| &mut boundaries[row]) {
                told["text"] = losses.to_json();
                told["text"]["missing"] = missing;
            }
        }
        all
    }

    fn measure_loss(&self, placed: &BoundaryText, until: usize, earlier: &EarlierItems<'_>) -> (TextLosses, Json) {
        let messages = &self.conversation.messages;
        let mut losses = TextLosses {
            boundaries: 1,
            by_notes: u64::from(placed.is_notes),
            tokens: size::window_tokens(&placed.text, self.ratios),
            ..TextLosses::default()
        };
        let mut digest = Digest::new("");
        messages[placed.replaced.clone()]
            .iter()
            .for_each(|message| digest.push(message));
        let blank = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let held = blank(&placed.text);
        for prompt in &digest.prompts {
            // Secrets are masked in every text; the rest of the message is still there.
            let words = blank(&secrets::mask(&prompt.text));
            let start = words.chars().take(60).collect::<String>();
            losses.prompts += 1;
            if held.contains(&words) {
                losses.prompts_in_full += 1;
            } else if held.contains(start.as_str())
                || held.contains(&markdown::escape_markdown(&start).replace('"', "'"))
            {
                losses.prompts_in_part += 1;
            }
        }
        let needed = NeededItems::from_earlier(earlier, &messages[placed.end..until.max(placed.end)]);
        let mut texts = vec![placed.text.as_str()];
        for message in &messages[placed.preserved.clone()] {
            texts.extend(message.parts.iter().filter_map(|part| match part {
                MessagePart::Text(text) | MessagePart::Result { text, .. } => Some(text.as_str()),
                MessagePart::Call { .. } | MessagePart::Reply(_) => None,
            }));
        }
        let calls = messages[placed.preserved.clone()]
            .iter()
            .flat_map(|message| &message.parts);
        let calls = calls.filter_map(|part| match part {
            MessagePart::Call { input, .. } => Some(input.to_string()),
            _ => None,
        });
        let calls = calls.collect::<Vec<_>>();
        texts.extend(calls.iter().map(String::as_str));
        let mut missing = serde_json::Map::new();
        for need in NEED_KINDS {
            let lost = needed.missing(need, &texts);
            let count = needed.of_kind(need).len() as u64;
            losses.needs[need as usize] = NeedCoverage {
                needed: count,
                carried: count - lost.len() as u64,
            };
            let named = lost
                .iter()
                .take(20)
                .map(|lost| shorten::to_one_line(lost, 120))
                .collect::<Vec<_>>();
            missing.insert(need.name().to_owned(), json!(named));
        }
        (losses, Json::Object(missing))
    }
}

impl BoundaryTextWriter for ChainTexts<'_> {
    fn update_notes(&self, end: u32) -> u64 {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let until = self.messages_in(&(0..end)).end.max(state.digested);
        for message in &self.conversation.messages[state.digested..until] {
            state.digest.push(message);
        }
        state.digested = until;
        let text = write_notes(&state.digest, "", &self.template, self.limits).text;
        let tokens = size::window_tokens(&text, self.ratios);
        // A compaction may still use the ones before, if these were not ready.
        if state.notes.len() > 1 {
            state.notes.remove(0);
        }
        state.notes.push((end, text));
        tokens
    }

    fn use_notes(&self, covered: u32) {
        let mut state = self.state.borrow_mut();
        let text = state
            .notes
            .iter()
            .rev()
            .find(|(end, _)| *end == covered)
            .map(|(_, text)| text.clone());
        state.next_text = text.unwrap_or_default();
    }

    fn summarize(&self, items: Range<u32>, cause: CompactionCause) -> Option<u64> {
        let range = self.messages_in(&items);
        let mut state = self.state.borrow_mut();
        // The text of the boundary before is part of what is summarized, as a recorded summary would be.
        let before = state.boundaries.last().map(|placed| placed.text.clone());
        let first = before.map(|text| summary_message(&text));
        let carried = state.tracker.state_before(self.conversation, range.start);
        let mut material = self.conversation.to_material(range);
        material.state = Some(&carried);
        if let Some(first) = &first {
            material.messages.insert(0, first);
            material.rounds.insert(0, material.rounds.first().copied().unwrap_or(0));
        }
        let ask = SummaryRequest {
            material,
            variant: SummaryVariant::Whole,
            instructions: "",
            budget: self.budget,
            is_automatic: cause != CompactionCause::Manual,
        };
        let text = OfflineBackend.summary(&ask).ok()?;
        let tokens = size::window_tokens(&text, self.ratios);
        state.next_text = text;
        Some(tokens)
    }
}

/// A text as the message that stands after a boundary.
fn summary_message(text: &str) -> Message {
    Message {
        is_summary: true,
        ..Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.to_owned())])
    }
}
