//! The offline backend: notes and summaries from the conversation itself, without a model. Deterministic, and the default.
//!
//! [`digest`] finds what happened; [`notes`] and [`summary`] turn it into weighted items; [`mod@compose`] keeps what fits. Words
//! are quoted, never invented. [`state`] decides how things stand at the end, [`statements`] which explanations
//! still do, [`open_end`] what comes next. [`user_text`], [`model_sentences`], [`shell`] and [`names`] interpret single texts;
//! [`requests`] and [`lines`] are shared by notes and summaries.

pub mod compose;
pub mod descriptions;
pub mod digest;
pub mod earlier_summary;
pub mod gist;
pub mod lines;
pub mod model_sentences;
pub mod names;
pub mod notes;
pub mod open_end;
pub mod pasted;
pub mod pending;
pub mod prose;
pub mod quotes;
pub mod repository;
pub mod requests;
pub mod shell;
pub mod state;
pub mod statements;
pub mod summary;
pub mod user_messages;
pub mod user_text;

use crate::template::{NotesTemplate, SectionPurpose};
use crate::{NotesLimits, NotesRequest, SourceMaterial, SummaryRequest, TextBackend, TextError, size};
use aho_corasick::AhoCorasick;
use compose::{MUST_KEEP_WEIGHT, WeightedItem, compose, line_tokens};
use digest::Digest;
use language::secrets;

/// Builds a matcher for words in any case; `None` if it cannot be built.
fn build_matcher(words: impl Iterator<Item = &'static str>) -> Option<AhoCorasick> {
    let words = words.collect::<Vec<_>>();
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
}

/// The backend without a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineBackend;

impl TextBackend for OfflineBackend {
    fn name(&self) -> &'static str {
        "offline"
    }

    fn summary(&self, request: &SummaryRequest<'_>) -> Result<String, TextError> {
        let digest = digest_of(&request.material);
        if digest.is_empty() {
            return Err(TextError::Nothing);
        }
        Ok(write_summary(&digest, request))
    }

    fn notes(&self, request: &NotesRequest<'_>) -> Result<String, TextError> {
        let digest = digest_of(&request.material);
        Ok(write_notes(&digest, request.current, request.template, request.limits).text)
    }
}

/// Digests all messages of a conversation.
pub fn digest_of(material: &SourceMaterial<'_>) -> Digest {
    let mut digest = match material.state {
        Some(state) => Digest::after(material.root, state),
        None => Digest::new(material.root),
    };
    material.messages.iter().for_each(|message| digest.push(message));
    digest
}

/// Writes a summary of a digest, with secrets masked.
pub fn write_summary(digest: &Digest, request: &SummaryRequest<'_>) -> String {
    let text = secrets::mask(&summary::write_summary_text(digest, request));
    // A mask may be longer than the secret.
    size::truncate_to_tokens(&text, request.budget).to_owned()
}

/// Notes, and the sections that reached a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesDraft {
    /// The whole file.
    pub text: String,
    /// Names of sections from which items were left out.
    pub condensed: Vec<String>,
    /// Names of sections that the user's own words alone make too long.
    pub too_long: Vec<String>,
}

/// Writes notes of a digest. Everything in `current` is kept.
pub fn write_notes(digest: &Digest, current: &str, template: &NotesTemplate, limits: NotesLimits) -> NotesDraft {
    let current = NotesTemplate::parse(current);
    let items = merge_items(digest, &current, template);
    let foreign = foreign_sections(&current, template);
    let heads = template.sections.iter();
    let heads = heads.map(|section| line_tokens(&section.heading) + line_tokens(&section.about) + 2);
    let heads = heads.collect::<Vec<_>>();
    // Tokens of what must stay, by section.
    let mut kept = vec![0; heads.len()];
    for item in items.iter().filter(|item| item.weight >= MUST_KEEP_WEIGHT) {
        kept[item.section] += line_tokens(&item.text);
    }
    let mut total = limits.total.saturating_sub(heads.iter().sum::<u64>());
    let room = heads.iter().map(|head| limits.section.saturating_sub(*head));
    let mut room = room.collect::<Vec<_>>();
    // Most sections stay the same from one try to the next.
    let mut masked = vec![(String::new(), String::new()); heads.len()];
    loop {
        let composed = compose(&items, &room, total);
        for ((from, to), body) in std::iter::zip(&mut masked, composed.bodies) {
            if *from != body {
                *to = secrets::mask(&body);
                *from = body;
            }
        }
        let bodies = masked.iter().map(|(_, to)| to.clone()).collect::<Vec<_>>();
        let text = template.render(bodies.iter().map(String::as_str)) + &foreign;
        if tighten_sections(template, &bodies, limits, &kept, &mut room) {
            continue;
        }
        let over = size::tokens(&text).saturating_sub(limits.total);
        if over == 0 || kept.iter().sum::<u64>() >= total || total == 0 {
            let name = |number: usize| {
                template.sections[number]
                    .heading
                    .trim_start_matches(['#', ' '])
                    .to_owned()
            };
            let is_long =
                |number: &usize| line_tokens(&bodies[*number]) > limits.section.saturating_sub(heads[*number]);
            return NotesDraft {
                too_long: (0..bodies.len()).filter(is_long).map(name).collect(),
                condensed: composed.condensed.into_iter().map(name).collect(),
                text,
            };
        }
        total = total.saturating_sub(over + 8);
    }
}

/// Returns the bodies of the current file as items that must be kept, and the new items that they do not have yet.
fn merge_items(digest: &Digest, current: &NotesTemplate, template: &NotesTemplate) -> Vec<WeightedItem> {
    let purposes = template.sections.iter().map(|section| section.purpose());
    let purposes = purposes.collect::<Vec<_>>();
    let mut new = notes::notes_items(digest, &purposes);
    let mut items = Vec::new();
    for (number, section) in template.sections.iter().enumerate() {
        let old = current.sections.iter().find(|old| old.heading == section.heading);
        let old = old.map_or("", |old| old.body.as_str());
        if old.is_empty() {
            continue;
        }
        let is_title = purposes[number] == Some(SectionPurpose::Title);
        new.retain(|item| item.section != number || !is_title && !old.contains(&item.text));
        items.push(WeightedItem {
            section: number,
            weight: MUST_KEEP_WEIGHT,
            text: old.to_owned(),
        });
    }
    items.append(&mut new);
    items
}

/// Returns the sections of a file that the template does not have: the user added them.
pub fn foreign_sections(current: &NotesTemplate, template: &NotesTemplate) -> String {
    let is_foreign = |heading: &str| !template.sections.iter().any(|section| section.heading == heading);
    let foreign = current.sections.iter().filter(|old| is_foreign(&old.heading));
    let text = foreign.map(|section| format!("\n{}\n{}\n\n{}\n", section.heading, section.about, section.body));
    text.collect()
}

/// Reduces the room of sections that are over their limit, down to what must be kept. Returns whether any was reduced. The
/// size of a section is not exactly the sum of its lines, so this can only be known once it is composed.
fn tighten_sections(
    template: &NotesTemplate,
    bodies: &[String],
    limits: NotesLimits,
    kept: &[u64],
    room: &mut [u64],
) -> bool {
    let mut is_reduced = false;
    for (number, section) in template.sections.iter().enumerate() {
        let whole = format!("{}\n{}\n\n{}", section.heading, section.about, bodies[number]);
        let over = size::tokens(&whole).saturating_sub(limits.section);
        if over > 0 && room[number] > kept[number] {
            room[number] = room[number].saturating_sub(over + 2).max(kept[number]);
            is_reduced = true;
        }
    }
    is_reduced
}
