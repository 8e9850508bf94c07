//! The offline backend: texts taken from the conversation itself, without a model. Deterministic, and the default.
//!
//! [`digest`] finds what happened, by structure and by words that are [`telling`]; [`notes`] and [`summary`] say which of it
//! is worth saying, and how much it would be missed; `compose` keeps what fits. Words are quoted, never invented.

pub mod clean;
pub mod compose;
pub mod digest;
pub mod earlier;
pub mod names;
pub mod notes;
pub mod summary;
pub mod telling;

use crate::template::{NotesTemplate, SectionPurpose};
use crate::{NotesRequest, SummaryRequest, TextBackend, TextError, size};
use compose::{MUST_KEEP_WEIGHT, WeightedItem, compose, line_tokens};
use digest::Digest;
use language::secrets;

/// The backend.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineBackend;

/// Notes, and where something had to be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesDraft {
    /// The file.
    pub text: String,
    /// Sections that were condensed to stay within the limits.
    pub condensed: Vec<String>,
    /// Sections that a person's own words alone make too long.
    pub too_long: Vec<String>,
}

impl TextBackend for OfflineBackend {
    fn name(&self) -> &'static str {
        "offline"
    }

    fn summary(&self, ask: &SummaryRequest<'_>) -> Result<String, TextError> {
        let mut digest = Digest::new(ask.material.root);
        for message in &ask.material.messages {
            digest.push(message);
        }
        if digest.is_empty() {
            return Err(TextError::Nothing);
        }
        Ok(write_summary(&digest, ask))
    }

    fn notes(&self, ask: &NotesRequest<'_>) -> Result<String, TextError> {
        let mut digest = Digest::new(ask.material.root);
        for message in &ask.material.messages {
            digest.push(message);
        }
        Ok(write_notes(&digest, ask.current, ask.template, ask.limits).text)
    }
}

/// A summary of what a digest holds.
pub fn write_summary(digest: &Digest, ask: &SummaryRequest<'_>) -> String {
    let text = secrets::mask(&summary::write_summary_text(digest, ask));
    // A mask may be longer than what it hides.
    match size::tokens(&text) > ask.budget {
        true => size::truncate_to_tokens(&text, ask.budget).to_owned(),
        false => text,
    }
}

/// Notes of what a digest holds. All that `current` holds stays; only a state that was written here before gives way to the
/// new one.
pub fn write_notes(digest: &Digest, current: &str, template: &NotesTemplate, limits: super::NotesLimits) -> NotesDraft {
    let kept = NotesTemplate::parse(current);
    let purposes = template
        .sections
        .iter()
        .map(|section| section.purpose())
        .collect::<Vec<_>>();
    let mut found = notes::notes_items(digest, &purposes);
    let mut items = Vec::new();
    for (number, section) in template.sections.iter().enumerate() {
        let old = kept.sections.iter().find(|old| old.heading == section.heading);
        let old = old.map_or("", |old| old.body.as_str());
        if old.is_empty() {
            continue;
        }
        if purposes[number] == Some(SectionPurpose::Title) {
            found.retain(|item| item.section != number);
        }
        found.retain(|item| item.section != number || !old.contains(&item.text));
        items.push(WeightedItem {
            section: number,
            weight: MUST_KEEP_WEIGHT,
            text: old.to_owned(),
        });
    }
    // Sections that the template does not have are a person's own too.
    let foreign = kept
        .sections
        .iter()
        .filter(|old| !template.sections.iter().any(|section| section.heading == old.heading));
    let foreign = foreign.cloned().collect::<Vec<_>>();
    items.append(&mut found);
    let heads = template
        .sections
        .iter()
        .map(|section| line_tokens(&section.heading) + line_tokens(&section.about) + 2);
    let heads = heads.collect::<Vec<_>>();
    let mut total = limits.total.saturating_sub(heads.iter().sum::<u64>());
    let mut room = heads
        .iter()
        .map(|head| limits.section.saturating_sub(*head))
        .collect::<Vec<_>>();
    loop {
        let composed = compose(&items, &room, total);
        let bodies = composed
            .bodies
            .iter()
            .map(|body| secrets::mask(body))
            .collect::<Vec<_>>();
        let mut text = template.render(bodies.iter().map(String::as_str));
        for section in &foreign {
            text.push_str(&format!(
                "\n{}\n{}\n\n{}\n",
                section.heading, section.about, section.body
            ));
        }
        let name = |number: usize| {
            template.sections[number]
                .heading
                .trim_start_matches(['#', ' '])
                .to_owned()
        };
        let over = size::tokens(&text).saturating_sub(limits.total);
        let is_own_only = items
            .iter()
            .map(|item| {
                if item.weight >= MUST_KEEP_WEIGHT {
                    line_tokens(&item.text)
                } else {
                    0
                }
            })
            .sum::<u64>()
            >= total;
        // The size of a whole is not quite the sum of its lines.
        let mut is_tight = false;
        for (number, section) in template.sections.iter().enumerate() {
            let whole = format!("{}\n{}\n\n{}", section.heading, section.about, bodies[number]);
            let over = size::tokens(&whole).saturating_sub(limits.section);
            let own = items
                .iter()
                .filter(|item| item.section == number && item.weight >= MUST_KEEP_WEIGHT);
            let own = own.map(|item| line_tokens(&item.text)).sum::<u64>();
            if over > 0 && room[number] > own {
                room[number] = room[number].saturating_sub(over + 2).max(own);
                is_tight = true;
            }
        }
        if is_tight {
            continue;
        }
        if over == 0 || is_own_only || total == 0 {
            let sizes = bodies
                .iter()
                .enumerate()
                .filter(|(number, body)| line_tokens(body) > limits.section.saturating_sub(heads[*number]));
            return NotesDraft {
                too_long: sizes.map(|(number, _)| name(number)).collect(),
                condensed: composed.condensed.into_iter().map(name).collect(),
                text,
            };
        }
        total = total.saturating_sub(over + 8);
    }
}
