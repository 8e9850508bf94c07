//! Consolidation: plans how to clean up a directory. Pure; [`super::memdir`] writes the changes.
//!
//! Relative dates become absolute. Duplicates are merged. Of two memories that contradict each other the newer stays and
//! notes until when the older was true. Project facts that were not confirmed for long are retired. Retired memories go to
//! the archive with the reason. Uncertain cases are only proposed.

use crate::change::{ChangeAction, MemoryChange};
use crate::index::IndexLimits;
use crate::kinds::MemoryKind;
use crate::neighbors::related_pairs;
use crate::plan::{Snapshot, index_changes, topic_changes};
use crate::similar::{Gist, MemoryRelation, is_comparable};
use crate::topic::Topic;
use language::when;
use std::collections::HashMap;
use transcript::log::Time;

/// Makes relative dates in a text absolute, relative to a time.
pub type DateResolver<'a> = &'a dyn Fn(&str, Time) -> String;

/// When to consolidate, and what to retire.
#[derive(Debug, Clone, Copy)]
pub struct DreamRules {
    /// Minimum time since the last consolidation.
    pub hours: Time,
    /// Minimum number of sessions with newer transcripts.
    pub sessions: usize,
    /// Minimum time between two scans of the transcripts, in minutes.
    pub scan_minutes: Time,
    /// A project fact that was stated once is retired after this many days.
    pub prune_days: Time,
    pub index: IndexLimits,
}

impl Default for DreamRules {
    fn default() -> DreamRules {
        DreamRules {
            hours: 24,
            sessions: 5,
            scan_minutes: 10,
            prune_days: 180,
            index: IndexLimits::default(),
        }
    }
}

/// Why it is too early for a consolidation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DreamGate {
    /// The last one was this many hours ago.
    TooSoon(Time),
    /// Transcripts were scanned recently.
    ScannedLately,
    /// Only this many sessions have newer transcripts.
    TooFewSessions(usize),
}

impl std::fmt::Display for DreamGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DreamGate::TooSoon(hours) => write!(f, "the last consolidation was {hours} hours ago"),
            DreamGate::ScannedLately => write!(f, "transcripts were scanned a moment ago"),
            DreamGate::TooFewSessions(count) => write!(f, "{count} sessions have newer transcripts"),
        }
    }
}

impl DreamRules {
    /// Returns the gate that closes by time alone, which is cheap to check: since the last consolidation or the last scan.
    pub fn time_gate(&self, last: Option<Time>, scanned: Option<Time>, now: Time) -> Option<DreamGate> {
        let since = |then: Time| now.saturating_sub(then);
        if let Some(last) = last.filter(|&last| since(last) < self.hours * when::HOUR) {
            return Some(DreamGate::TooSoon(since(last).max(0) / when::HOUR));
        }
        let is_fresh = |&then: &Time| since(then) < self.scan_minutes * 60_000 && since(then) >= 0;
        scanned.filter(is_fresh).map(|_| DreamGate::ScannedLately)
    }

    /// Returns the gate that closes if too few transcripts are newer than the last consolidation. Counting them needs a scan.
    pub fn session_gate(&self, newer: usize) -> Option<DreamGate> {
        (newer < self.sessions).then_some(DreamGate::TooFewSessions(newer))
    }
}

/// A pair of memories for the user to review.
#[derive(Debug, Clone, PartialEq)]
pub struct DreamProposal {
    pub file: String,
    pub other: String,
    /// What may be wrong with them.
    pub about: String,
}

/// The plan of a consolidation.
#[derive(Debug, Clone, Default)]
pub struct DreamPlan {
    /// Updates first, then retired memories, then indexes.
    pub changes: Vec<MemoryChange>,
    /// For the user to decide.
    pub proposals: Vec<DreamProposal>,
}

/// Pairs of files that a model found to be in conflict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryConflicts {
    /// The memory that stays, and its duplicate.
    pub duplicates: Vec<(String, String)>,
    /// Memories that cannot both be true.
    pub contradictions: Vec<(String, String)>,
}

/// Plans a consolidation from the words of the memories.
pub fn plan_dream(snapshot: &Snapshot, rules: &DreamRules, now: Time, dates: DateResolver) -> DreamPlan {
    plan_dream_with(snapshot, rules, now, dates, &MemoryConflicts::default())
}

/// Plans a consolidation from the words of the memories and from conflicts that a model found.
pub fn plan_dream_with(
    snapshot: &Snapshot,
    rules: &DreamRules,
    now: Time,
    dates: DateResolver,
    found: &MemoryConflicts,
) -> DreamPlan {
    let mut consolidator = Consolidator {
        topics: snapshot.topics.clone(),
        ..Consolidator::default()
    };
    consolidator.make_dates_absolute(dates);
    consolidator.compare_pairs();
    consolidator.apply_conflicts(found);
    consolidator.prune(rules, now);
    let kept = |topic: &&Topic| !consolidator.retired.contains_key(&topic.file);
    let after = consolidator.topics.iter().filter(kept).cloned().collect::<Vec<_>>();
    let mut changes = topic_changes(snapshot, &after, "consolidated");
    for change in &mut changes {
        let reasons = consolidator.reasons.get(&change.file);
        change.reason = reasons.map_or_else(String::new, |reasons| reasons.join("; "));
    }
    let mut retired = Vec::new();
    for old in &snapshot.topics {
        if let Some((place, reason)) = consolidator.retired.get(&old.file) {
            retired.push((place, old, reason));
        }
    }
    retired.sort_by_key(|(place, ..)| **place);
    for (_, old, reason) in retired {
        changes.push(MemoryChange {
            file: old.file.clone(),
            action: ChangeAction::Retire,
            before: Some(old.text()),
            after: None,
            reason: reason.clone(),
            marks: old.marks(),
            provenance: None,
            retracted_by: None,
        });
    }
    changes.extend(index_changes(snapshot, &after, &rules.index));
    DreamPlan {
        changes,
        proposals: consolidator.proposals,
    }
}

#[derive(Default)]
struct Consolidator {
    topics: Vec<Topic>,
    /// Retired files, each with its place in the order of retirement, and why.
    retired: HashMap<String, (usize, String)>,
    /// Changed files, and why.
    reasons: HashMap<String, Vec<String>>,
    proposals: Vec<DreamProposal>,
}

impl Consolidator {
    fn make_dates_absolute(&mut self, dates: DateResolver) {
        for topic in &mut self.topics {
            let said = topic.last_said();
            let body = dates(topic.body(), said);
            let description = topic.field("description");
            let new_description = description.as_ref().map(|text| dates(text, said));
            let mut is_changed = body != topic.body();
            topic.set_body(body);
            if let Some(new) = new_description.filter(|new| Some(new) != description.as_ref()) {
                is_changed |= topic.set("description", &new.into());
            }
            if is_changed {
                let reasons = self.reasons.entry(topic.file.clone()).or_default();
                reasons.push("relative dates made absolute".to_owned());
            }
        }
    }

    /// Compares every pair that may be related once.
    fn compare_pairs(&mut self) {
        let gists = self.topics.iter().map(Gist::from_topic).collect::<Vec<_>>();
        for (one, other) in related_pairs(&gists) {
            if !self.is_pair_comparable(one, other) {
                continue;
            }
            match gists[one].relation(&gists[other]) {
                MemoryRelation::Same => self.merge_pair(one, other),
                MemoryRelation::Opposite | MemoryRelation::ValueConflict => self.supersede(one, other),
                MemoryRelation::Similar(share) => self.propose(
                    one,
                    other,
                    &format!("{:.0} % of their words are the same", share * 100.0),
                ),
                MemoryRelation::Unrelated => {}
            }
        }
    }

    /// Returns whether two memories may be compared: neither is retired or broken, they have the same type, and both are
    /// private or both are the team's.
    fn is_pair_comparable(&self, one: usize, other: usize) -> bool {
        let pair = [&self.topics[one], &self.topics[other]];
        let is_gone = |topic: &Topic| self.retired.contains_key(&topic.file);
        let is_apart =
            is_team_topic(pair[0]) != is_team_topic(pair[1]) || !is_comparable(pair[0].kind(), pair[1].kind());
        one != other
            && !is_apart
            && !pair
                .iter()
                .any(|topic| is_gone(topic) || topic.has_broken_frontmatter())
    }

    /// Applies conflicts that a model found, if the pair may be compared. Paragraphs that only the duplicate has are moved to
    /// the memory that stays.
    fn apply_conflicts(&mut self, found: &MemoryConflicts) {
        let numbered = self
            .topics
            .iter()
            .enumerate()
            .map(|(at, topic)| (topic.file.clone(), at));
        let numbers = numbered.collect::<HashMap<_, _>>();
        let place = |file: &str| numbers.get(file).copied();
        for (keeper, leaver) in &found.duplicates {
            let places = place(keeper).zip(place(leaver));
            let Some((one, other)) = places.filter(|(one, other)| self.is_pair_comparable(*one, *other)) else {
                continue;
            };
            let extra = missing_paragraphs(self.topics[one].body(), self.topics[other].body());
            if !extra.is_empty() {
                let body = format!("{}\n\n{}\n", self.topics[one].body().trim_end(), extra.join("\n\n"));
                self.topics[one].set_body(body);
            }
            self.absorb(one, other);
        }
        for (one, other) in &found.contradictions {
            let places = place(one).zip(place(other));
            if let Some((one, other)) = places.filter(|(one, other)| self.is_pair_comparable(*one, *other)) {
                self.supersede(one, other);
            }
        }
    }

    /// Merges duplicates: the one that was confirmed more often keeps its text and gets the sources of the other.
    fn merge_pair(&mut self, one: usize, other: usize) {
        let rank = |at: usize| {
            (
                self.topics[at].confirmation_count(),
                std::cmp::Reverse(self.topics[at].file.clone()),
            )
        };
        let (keeper, leaver) = if rank(one) >= rank(other) {
            (one, other)
        } else {
            (other, one)
        };
        let extra = missing_paragraphs(self.topics[keeper].body(), self.topics[leaver].body());
        if !extra.is_empty() {
            // A merge must not lose what only one of them states.
            return self.propose(one, other, "they say the same, but one says more");
        }
        self.absorb(keeper, leaver);
    }

    /// Moves the sources of one memory to another and retires it.
    fn absorb(&mut self, keeper: usize, leaver: usize) {
        let lost = self.topics[leaver].clone();
        let topic = &mut self.topics[keeper];
        topic.add_sources(&lost.sources());
        topic.add_marks(&lost.marks());
        let (keeper, leaver) = (topic.file.clone(), lost.file);
        self.add_reason(&keeper, format!("takes in {leaver}, which says the same"));
        self.retire(leaver, format!("merged into {keeper}, which says the same"));
    }

    /// Retires the older of two memories, and notes in the newer until when it was true.
    fn supersede(&mut self, one: usize, other: usize) {
        let said = |at: usize| self.topics[at].last_said();
        if said(one) == said(other) {
            return self.propose(one, other, "they contradict each other and are equally old");
        }
        let (newer, older) = if said(one) > said(other) {
            (one, other)
        } else {
            (other, one)
        };
        let old = self.topics[older].clone();
        let date = when::format_date(self.topics[newer].last_said());
        let note = format!(
            "Until {date}: {} (superseded; said {})",
            old.name(),
            when::format_date(old.last_said())
        );
        let topic = &mut self.topics[newer];
        if !topic.body().contains(&note) {
            topic.set_body(format!("{}\n\n{note}\n", topic.body().trim_end()));
        }
        let newer = topic.file.clone();
        self.add_reason(&newer, format!("supersedes {}", old.file));
        let reason = format!("superseded on {date} by {newer}, which is newer and says otherwise");
        self.retire(old.file, reason);
    }

    fn add_reason(&mut self, file: &str, reason: String) {
        self.reasons.entry(file.to_owned()).or_default().push(reason);
    }

    fn retire(&mut self, file: String, reason: String) {
        let place = self.retired.len();
        self.retired.entry(file).or_insert((place, reason));
    }

    fn propose(&mut self, one: usize, other: usize, about: &str) {
        let name = |at: usize| self.topics[at].file.clone();
        self.proposals.push(DreamProposal {
            file: name(one),
            other: name(other),
            about: about.to_owned(),
        });
    }

    /// Retires project facts that were stated once, long ago. Memories of other types do not expire.
    fn prune(&mut self, rules: &DreamRules, now: Time) {
        let mut expired = Vec::new();
        for topic in &self.topics {
            let days = now.saturating_sub(topic.last_said()) / when::DAY;
            let is_gone = self.retired.contains_key(&topic.file);
            if topic.kind() == Some(MemoryKind::Project)
                && topic.confirmation_count() <= 1
                && days > rules.prune_days
                && !is_gone
            {
                let reason = format!("a project fact said once, {days} days ago, and never confirmed");
                expired.push((topic.file.clone(), reason));
            }
        }
        for (file, reason) in expired {
            self.retire(file, reason);
        }
    }
}

fn is_team_topic(topic: &Topic) -> bool {
    topic.file.starts_with(super::names::TEAM_FOLDER)
}

/// Returns the paragraphs of `other` whose words `text` lacks.
fn missing_paragraphs(text: &str, other: &str) -> Vec<String> {
    let known = language::words::text_stems(text);
    let is_known = |paragraph: &str| {
        let words = language::words::text_stems(paragraph);
        let found = words.iter().filter(|word| known.contains(word)).count();
        found * 10 >= words.len() * 8
    };
    let paragraphs = other
        .split("\n\n")
        .map(str::trim)
        .filter(|paragraph| !paragraph.is_empty());
    paragraphs
        .filter(|paragraph| !is_known(paragraph))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
