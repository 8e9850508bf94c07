//! Consolidation: what a directory would look like after some sleep. Pure; [`super::memdir`] writes it.
//!
//! Relative dates become absolute, memories that say the same become one, of two that contradict each other the newer
//! stays and tells until when the older held, project facts that nobody confirmed for long leave. What leaves goes to the
//! archive with the reason. What is not certain is proposed, not done.

use crate::change::{ChangeAction, MemoryChange};
use crate::index::IndexLimits;
use crate::kinds::MemoryKind;
use crate::plan::{Snapshot, index_changes, topic_changes};
use crate::similar::{Gist, MemoryRelation, is_comparable};
use crate::topic::Topic;
use language::when;
use transcript::log::Time;

/// Makes relative dates in a text absolute, as seen from a time.
pub type DateResolver<'a> = &'a dyn Fn(&str, Time) -> String;

/// When to dream, and what to do then.
#[derive(Debug, Clone, Copy)]
pub struct DreamRules {
    /// Least time since the last one.
    pub hours: Time,
    /// Least number of sessions with newer transcripts.
    pub sessions: usize,
    /// Least time between two looks at the transcripts, in minutes.
    pub scan_minutes: Time,
    /// A project fact that was said once leaves after this many days.
    pub prune_days: Time,
    /// Limits of the index.
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

/// Why it is not time to dream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DreamGate {
    /// The last one was this many hours ago.
    TooSoon(Time),
    /// Transcripts were looked at a moment ago.
    ScannedLately,
    /// So many sessions have newer transcripts.
    TooFewSessions(usize),
}

impl std::fmt::Display for DreamGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DreamGate::TooSoon(hours) => write!(f, "the last consolidation was {hours} hours ago"),
            DreamGate::ScannedLately => write!(f, "transcripts were looked at a moment ago"),
            DreamGate::TooFewSessions(count) => write!(f, "{count} sessions have newer transcripts"),
        }
    }
}

impl DreamRules {
    /// The cheap gate: how long ago was the last one, and the last look at transcripts?
    pub fn time_gate(&self, last: Option<Time>, scanned: Option<Time>, now: Time) -> Option<DreamGate> {
        let since = |then: Time| now.saturating_sub(then);
        if let Some(last) = last.filter(|&last| since(last) < self.hours * when::HOUR) {
            return Some(DreamGate::TooSoon(since(last).max(0) / when::HOUR));
        }
        let is_fresh = |&then: &Time| since(then) < self.scan_minutes * 60_000 && since(then) >= 0;
        scanned.filter(is_fresh).map(|_| DreamGate::ScannedLately)
    }

    /// The dearer gate: how many transcripts are newer than the last one?
    pub fn session_gate(&self, newer: usize) -> Option<DreamGate> {
        (newer < self.sessions).then_some(DreamGate::TooFewSessions(newer))
    }
}

/// Two memories that a person should look at.
#[derive(Debug, Clone, PartialEq)]
pub struct DreamProposal {
    /// One file.
    pub file: String,
    /// The other.
    pub other: String,
    /// What may be wrong with them.
    pub about: String,
}

/// What a night comes to.
#[derive(Debug, Clone, Default)]
pub struct DreamPlan {
    /// What is to be written: updates, then what leaves, indexes last.
    pub changes: Vec<MemoryChange>,
    /// What is for a person to decide.
    pub proposals: Vec<DreamProposal>,
}

/// Memories, by file, that somebody who read them says should not all stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryConflicts {
    /// One that stays, and one that says the same.
    pub duplicates: Vec<(String, String)>,
    /// Two that cannot both be true.
    pub contradictions: Vec<(String, String)>,
}

/// Works out what changes.
pub fn plan_dream(snapshot: &Snapshot, rules: &DreamRules, now: Time, dates: DateResolver) -> DreamPlan {
    plan_dream_with(snapshot, rules, now, dates, &MemoryConflicts::default())
}

/// Works out what changes, with what somebody found beside what the words show.
pub fn plan_dream_with(
    snapshot: &Snapshot,
    rules: &DreamRules,
    now: Time,
    dates: DateResolver,
    found: &MemoryConflicts,
) -> DreamPlan {
    let mut night = Consolidator {
        topics: snapshot.topics.clone(),
        ..Consolidator::default()
    };
    night.make_dates_absolute(dates);
    night.compare_all_pairs();
    night.apply_conflicts(found);
    night.prune(rules, now);
    let kept = |topic: &&Topic| !night.retired.iter().any(|(file, _)| *file == topic.file);
    let after = night.topics.iter().filter(kept).cloned().collect::<Vec<_>>();
    let mut changes = topic_changes(snapshot, &after, "consolidated");
    for change in &mut changes {
        let reasons = night
            .reasons
            .iter()
            .filter(|(file, _)| *file == change.file)
            .map(|(_, reason)| reason.as_str());
        change.reason = reasons.collect::<Vec<_>>().join("; ");
    }
    for (file, reason) in &night.retired {
        let Some(old) = snapshot.topics.iter().find(|topic| topic.file == *file) else {
            continue;
        };
        changes.push(MemoryChange {
            file: file.clone(),
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
        proposals: night.proposals,
    }
}

#[derive(Default)]
struct Consolidator {
    topics: Vec<Topic>,
    /// Files that leave, and why.
    retired: Vec<(String, String)>,
    /// Files that change, and why.
    reasons: Vec<(String, String)>,
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
                self.reasons
                    .push((topic.file.clone(), "relative dates made absolute".to_owned()));
            }
        }
    }

    /// Every pair once. Directories hold hundreds of memories, so all pairs are cheap.
    fn compare_all_pairs(&mut self) {
        let gists = self.topics.iter().map(Gist::from_topic).collect::<Vec<_>>();
        for one in 0..gists.len() {
            for other in one + 1..gists.len() {
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
    }

    /// Whether two memories may be held against each other: both there and whole, of one kind, both private or both the
    /// team's.
    fn is_pair_comparable(&self, one: usize, other: usize) -> bool {
        let pair = [&self.topics[one], &self.topics[other]];
        let is_gone = |topic: &Topic| self.retired.iter().any(|(file, _)| *file == topic.file);
        let is_apart =
            is_team_topic(pair[0]) != is_team_topic(pair[1]) || !is_comparable(pair[0].kind(), pair[1].kind());
        one != other
            && !is_apart
            && !pair
                .iter()
                .any(|topic| is_gone(topic) || topic.has_broken_frontmatter())
    }

    /// What somebody found, where it is allowed. What only one of two says is taken over: nothing is merged away.
    fn apply_conflicts(&mut self, found: &MemoryConflicts) {
        let place = |topics: &[Topic], file: &str| topics.iter().position(|topic| topic.file == file);
        for (keeper, leaver) in &found.duplicates {
            let places = place(&self.topics, keeper).zip(place(&self.topics, leaver));
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
            let places = place(&self.topics, one).zip(place(&self.topics, other));
            if let Some((one, other)) = places.filter(|(one, other)| self.is_pair_comparable(*one, *other)) {
                self.supersede(one, other);
            }
        }
    }

    /// The one that was confirmed more often takes the other's sources; its words stay.
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
            // Nothing is merged away that only one of them says.
            return self.propose(one, other, "they say the same, but one says more");
        }
        self.absorb(keeper, leaver);
    }

    /// One takes the sources of another, which leaves.
    fn absorb(&mut self, keeper: usize, leaver: usize) {
        let lost = self.topics[leaver].clone();
        let topic = &mut self.topics[keeper];
        topic.add_sources(&lost.sources());
        topic.add_marks(&lost.marks());
        let (keeper, leaver) = (topic.file.clone(), lost.file);
        self.reasons
            .push((keeper.clone(), format!("takes in {leaver}, which says the same")));
        self.retired
            .push((leaver, format!("merged into {keeper}, which says the same")));
    }

    /// The newer stays and says until when the older held.
    fn supersede(&mut self, one: usize, other: usize) {
        let said = |at: usize| self.topics[at].last_said();
        if said(one) == said(other) {
            return self.propose(one, other, "they contradict each other and are of one age");
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
        self.reasons.push((newer.clone(), format!("supersedes {}", old.file)));
        self.retired.push((
            old.file,
            format!("superseded on {date} by {newer}, which is newer and says otherwise"),
        ));
    }

    fn propose(&mut self, one: usize, other: usize, about: &str) {
        let name = |at: usize| self.topics[at].file.clone();
        self.proposals.push(DreamProposal {
            file: name(one),
            other: name(other),
            about: about.to_owned(),
        });
    }

    /// Project facts grow old; how somebody wants to work does not.
    fn prune(&mut self, rules: &DreamRules, now: Time) {
        for topic in &self.topics {
            let days = now.saturating_sub(topic.last_said()) / when::DAY;
            let is_gone = self.retired.iter().any(|(file, _)| *file == topic.file);
            if topic.kind() == Some(MemoryKind::Project)
                && topic.confirmation_count() <= 1
                && days > rules.prune_days
                && !is_gone
            {
                let reason = format!("a project fact said once, {days} days ago, and never confirmed");
                self.retired.push((topic.file.clone(), reason));
            }
        }
    }
}

fn is_team_topic(topic: &Topic) -> bool {
    topic.file.starts_with(super::names::TEAM_FOLDER)
}

/// Paragraphs that only the second text has, by their words.
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
mod tests {
    use super::*;
    use crate::kinds::MemorySource;
    use crate::plan::apply_changes;

    const MARCH: Time = 1_772_323_200_000;

    fn topic(file: &str, kind: MemoryKind, name: &str, body: &str, time: Time) -> Topic {
        let mut topic = Topic::new(file, name, name, kind, body);
        let source = MemorySource {
            session: "s".into(),
            uuid: file.into(),
            time: Some(time),
        };
        assert!(topic.add_sources(&[source]));
        topic.add_marks(&[format!("mark-{file}")]);
        topic
    }

    fn night(topics: Vec<Topic>) -> (Snapshot, DreamPlan) {
        let snapshot = Snapshot {
            topics,
            ..Snapshot::default()
        };
        let dream = plan_dream(&snapshot, &DreamRules::default(), MARCH + 40 * when::DAY, &|text, _| {
            text.to_owned()
        });
        (snapshot, dream)
    }

    fn actions(dream: &DreamPlan) -> Vec<(ChangeAction, &str)> {
        dream
            .changes
            .iter()
            .map(|change| (change.action, change.file.as_str()))
            .collect()
    }

    #[test]
    fn the_same_twice_becomes_one_with_both_sources() {
        let (snapshot, dreamt) = night(vec![
            topic(
                "a.md",
                MemoryKind::Feedback,
                "Run the linter before commits",
                "Run the linter before commits.",
                MARCH,
            ),
            topic(
                "b.md",
                MemoryKind::Feedback,
                "run linter before commit",
                "run linter before commit",
                MARCH + 1,
            ),
        ]);
        assert_eq!(
            actions(&dreamt),
            [
                (ChangeAction::Update, "a.md"),
                (ChangeAction::Retire, "b.md"),
                (ChangeAction::Index, "MEMORY.md")
            ]
        );
        let after = apply_changes(&snapshot, &dreamt.changes);
        assert_eq!(after.topics[0].confirmation_count(), 2);
        assert_eq!(after.topics[0].marks(), ["mark-a.md", "mark-b.md"]);
        let again = plan_dream(&after, &DreamRules::default(), MARCH + 40 * when::DAY, &|text, _| {
            text.to_owned()
        });
        assert_eq!(again.changes, []);
        // A run that was killed after the update and before the rest ends up the same.
        let half = apply_changes(&snapshot, &dreamt.changes[..1]);
        let rest = plan_dream(&half, &DreamRules::default(), MARCH + 40 * when::DAY, &|text, _| {
            text.to_owned()
        });
        assert_eq!(apply_changes(&half, &rest.changes).topics, after.topics);
    }

    #[test]
    fn of_a_contradiction_the_newer_stays_and_names_the_older() {
        let (snapshot, dreamt) = night(vec![
            topic(
                "a.md",
                MemoryKind::Feedback,
                "Mock the database in tests",
                "Mock the database in tests.",
                MARCH,
            ),
            topic(
                "b.md",
                MemoryKind::Feedback,
                "Never mock the database in tests",
                "Never mock the database in tests.",
                MARCH + when::DAY,
            ),
        ]);
        assert_eq!(
            actions(&dreamt),
            [
                (ChangeAction::Update, "b.md"),
                (ChangeAction::Retire, "a.md"),
                (ChangeAction::Index, "MEMORY.md")
            ]
        );
        let after = apply_changes(&snapshot, &dreamt.changes);
        assert!(
            after.topics[0]
                .body()
                .contains("Until 2026-03-02: Mock the database in tests"),
            "{}",
            after.topics[0].body()
        );
        assert!(after.retired.contains("mark-a.md"));
        assert!(dreamt.changes[1].reason.contains("superseded on 2026-03-02"));
    }

    #[test]
    fn one_thing_has_one_value() {
        let (_, dreamt) = night(vec![
            topic(
                "a.md",
                MemoryKind::Project,
                "The release branch is main",
                "The release branch is main.",
                MARCH,
            ),
            topic(
                "b.md",
                MemoryKind::Project,
                "The release branch is stable",
                "The release branch is stable.",
                MARCH + 1,
            ),
        ]);
        assert_eq!(actions(&dreamt)[1], (ChangeAction::Retire, "a.md"));
    }

    #[test]
    fn what_is_not_sure_is_proposed() {
        let (_, dreamt) = night(vec![
            topic(
                "a.md",
                MemoryKind::Feedback,
                "Retry failed uploads to the bucket 3 times",
                "",
                MARCH,
            ),
            topic(
                "b.md",
                MemoryKind::Feedback,
                "Retry failed uploads to the bucket 5 times",
                "",
                MARCH + 1,
            ),
        ]);
        assert!(dreamt.changes.iter().all(|change| change.action == ChangeAction::Index));
        assert_eq!(dreamt.proposals.len(), 1);
    }

    #[test]
    fn dates_are_made_absolute_from_when_it_was_said() {
        let snapshot = Snapshot {
            topics: vec![topic("a.md", MemoryKind::Project, "Freeze", "Freeze tomorrow.", MARCH)],
            ..Snapshot::default()
        };
        let resolve = |text: &str, time: Time| text.replace("tomorrow", &when::format_date(time + when::DAY));
        let dreamt = plan_dream(&snapshot, &DreamRules::default(), MARCH, &resolve);
        assert!(dreamt.changes[0].after.as_ref().unwrap().contains("Freeze 2026-03-02."));
    }

    #[test]
    fn old_project_facts_leave_and_habits_stay() {
        let old = MARCH - 400 * when::DAY;
        let (_, dreamt) = night(vec![
            topic(
                "a.md",
                MemoryKind::Project,
                "Migration under way",
                "The billing migration is under way.",
                old,
            ),
            topic(
                "b.md",
                MemoryKind::Feedback,
                "Terse answers",
                "Short answers, please.",
                old,
            ),
        ]);
        assert_eq!(actions(&dreamt)[0], (ChangeAction::Retire, "a.md"));
        assert_eq!(
            dreamt
                .changes
                .iter()
                .filter(|change| change.action == ChangeAction::Retire)
                .count(),
            1
        );
    }

    #[test]
    fn what_somebody_found_is_done_only_where_it_is_allowed() {
        let snapshot = Snapshot {
            topics: vec![
                topic("a.md", MemoryKind::Feedback, "Tabs", "Indent with tabs.", MARCH),
                topic(
                    "b.md",
                    MemoryKind::Feedback,
                    "Wide indentation",
                    "No spaces at the start of lines.\n\nBecause of screen readers.",
                    MARCH + 1,
                ),
                topic(
                    "c.md",
                    MemoryKind::Project,
                    "Launch in May",
                    "The launch is in May.",
                    MARCH,
                ),
                topic(
                    "d.md",
                    MemoryKind::Project,
                    "Release after summer",
                    "We ship in September.",
                    MARCH + when::DAY,
                ),
                topic(
                    "team/e.md",
                    MemoryKind::Project,
                    "Ship date",
                    "Shipping in September.",
                    MARCH,
                ),
            ],
            ..Snapshot::default()
        };
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        let found = MemoryConflicts {
            duplicates: vec![
                pair("a.md", "b.md"),
                pair("a.md", "c.md"),
                pair("d.md", "team/e.md"),
                pair("a.md", "../../x"),
                pair("a.md", "a.md"),
            ],
            contradictions: vec![pair("c.md", "d.md"), pair("d.md", "gone.md")],
        };
        let same_words = |text: &str, _: Time| text.to_owned();
        let dreamt = plan_dream_with(
            &snapshot,
            &DreamRules::default(),
            MARCH + when::DAY,
            &same_words,
            &found,
        );
        let left = dreamt
            .changes
            .iter()
            .filter(|change| change.action == ChangeAction::Retire);
        assert_eq!(
            left.map(|change| change.file.as_str()).collect::<Vec<_>>(),
            ["b.md", "c.md"]
        );
        let after = apply_changes(&snapshot, &dreamt.changes);
        assert!(
            after.topics[0].body().contains("screen readers"),
            "what only one said is kept"
        );
        assert_eq!(after.topics[0].marks(), ["mark-a.md", "mark-b.md"]);
        assert!(
            after.topics[1].body().contains("Launch in May"),
            "the newer tells of the older"
        );
    }

    #[test]
    fn gates_open_in_time() {
        let rules = DreamRules::default();
        let hour = when::HOUR;
        assert_eq!(rules.time_gate(Some(0), None, 23 * hour), Some(DreamGate::TooSoon(23)));
        assert_eq!(
            rules.time_gate(Some(0), Some(25 * hour - 60_000), 25 * hour),
            Some(DreamGate::ScannedLately)
        );
        assert_eq!(rules.time_gate(Some(0), Some(24 * hour), 25 * hour), None);
        assert_eq!(rules.time_gate(None, None, 0), None);
        assert_eq!(rules.session_gate(4), Some(DreamGate::TooFewSessions(4)));
        assert_eq!(rules.session_gate(5), None);
    }
}
