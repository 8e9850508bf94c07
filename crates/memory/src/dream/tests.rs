//! Consolidation of small directories.

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

fn plan(topics: Vec<Topic>) -> (Snapshot, DreamPlan) {
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
    let (snapshot, dreamt) = plan(vec![
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
    let (snapshot, dreamt) = plan(vec![
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
    let (_, dreamt) = plan(vec![
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
    let (_, dreamt) = plan(vec![
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
    let (_, dreamt) = plan(vec![
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
fn conflicts_that_a_model_found_are_applied_to_comparable_pairs_only() {
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
        "a paragraph that only one has is kept"
    );
    assert_eq!(after.topics[0].marks(), ["mark-a.md", "mark-b.md"]);
    assert!(
        after.topics[1].body().contains("Launch in May"),
        "the newer notes the older"
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
