//! A memory directory on disk: killed processes, concurrent runs, hostile content.

use crate::fixture::{Fixture, files_below};
use memory::change::ChangeAction;
use memory::kinds::{Candidate, CandidateOrigin, MemoryKind, MemorySource};
use memory::memdir::Memdir;
use memory::plan::{MemoryPlanOptions, plan_memories};
use memory::topic::Topic;
use memory::{check, dream, index};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NOW: i64 = 1_790_000_000_000;

fn candidate(kind: MemoryKind, title: &str, body: &str, number: usize) -> Candidate {
    Candidate {
        kind,
        title: title.to_owned(),
        hook: format!("When it is about {title}"),
        body: body.to_owned(),
        confidence: 0.9,
        sources: vec![MemorySource {
            session: format!("session-{}", number % 3),
            uuid: format!("record-{number}"),
            time: Some(NOW - 1_000 * number as i64),
        }],
        project: String::new(),
        origin: CandidateOrigin::Person,
    }
}

/// Ten candidates that have little in common.
fn candidates() -> Vec<Candidate> {
    let said = [
        ("Small commits", "One change a commit, please."),
        ("Database in tests", "Integration tests talk to a real database."),
        ("Terse answers", "No summary at the end of a reply."),
        ("Staging cluster", "The staging cluster is rebuilt every Sunday."),
        ("Incident board", "Incidents are tracked on the board named OPS."),
        ("Ten years of Go", "Writes Go for ten years, new to the frontend."),
        ("Feature flags", "Unfinished work hides behind a flag."),
        ("Snapshot tests", "Snapshots are reviewed like code."),
        ("Licence headers", "Every new file carries the licence line."),
        ("Mobile release", "The mobile branch is cut on 2026-03-05."),
    ];
    let kinds = [
        MemoryKind::Feedback,
        MemoryKind::Feedback,
        MemoryKind::Feedback,
        MemoryKind::Project,
        MemoryKind::Reference,
        MemoryKind::User,
    ];
    let numbered = said.iter().enumerate();
    numbered
        .map(|(at, (title, body))| candidate(kinds[at % kinds.len()], title, body, at))
        .collect()
}

fn apply(folder: &Path, candidates: &[Candidate]) -> bool {
    let memdir = Memdir::create(folder).unwrap();
    let Some(lock) = memdir.lock(NOW).unwrap() else {
        return false;
    };
    let (snapshot, _) = memdir.read().unwrap();
    let planned = plan_memories(&snapshot, candidates, &MemoryPlanOptions::default());
    memdir.commit(&lock, "extract", NOW, &planned.changes).unwrap();
    true
}

fn sleep_over(folder: &Path) -> bool {
    let memdir = Memdir::open(folder).unwrap().unwrap();
    let Some(lock) = memdir.lock(NOW).unwrap() else {
        return false;
    };
    let (snapshot, _) = memdir.read().unwrap();
    let dreamt = dream::plan_dream(&snapshot, &dream::DreamRules::default(), NOW, &|text, _| {
        text.to_owned()
    });
    memdir.commit(&lock, "dream", NOW, &dreamt.changes).unwrap();
    true
}

/// Returns the files that a reader of the directory sees, without archive and locks.
fn visible(folder: &Path) -> BTreeMap<PathBuf, String> {
    let is_hidden = |path: &Path| {
        path.components()
            .any(|part| part.as_os_str().to_string_lossy().starts_with('.'))
    };
    let shown = files_below(folder).into_iter().filter(|path| !is_hidden(path));
    shown
        .map(|path| (path.clone(), std::fs::read_to_string(folder.join(path)).unwrap()))
        .collect()
}

/// Writes two files that a dream merges.
fn with_duplicate(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (file, rule) in [("a.md", "Rebase before merging"), ("b.md", "rebase before a merge")] {
        let topic = Topic::new(file, rule, rule, MemoryKind::Feedback, rule);
        std::fs::write(folder.join(file), topic.text()).unwrap();
    }
}

/// Candidates of which one is superseded by a newer one in a dream.
fn restless() -> Vec<Candidate> {
    let mut all = candidates();
    all.truncate(3);
    all.push(candidate(
        MemoryKind::Project,
        "Mock the queue in tests",
        "Mock the queue in tests.",
        9_000,
    ));
    all.push(candidate(
        MemoryKind::Project,
        "Never mock the queue in tests",
        "Never mock the queue in tests.",
        1,
    ));
    all
}

#[test]
fn a_second_run_changes_nothing_and_check_passes() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    assert!(apply(&folder, &candidates()));
    let first = visible(&folder);
    assert_eq!(first.len(), 11);
    assert!(apply(&folder, &candidates()));
    assert_eq!(visible(&folder), first);
    let memdir = Memdir::open(&folder).unwrap().unwrap();
    assert_eq!(memdir.journals().len(), 1);
    let (snapshot, passed) = memdir.read().unwrap();
    assert_eq!(
        check::check_snapshot(&snapshot, &passed, &index::IndexLimits::default(), &|_| None),
        []
    );
    let run = fixture.run(["memory", "check", "--dir", "memory"]).success();
    assert_eq!(run.text(), "");
}

/// The child of the test below.
fn killed_child() -> bool {
    let Some(folder) = std::env::var_os("BACKCAST_TEST_MEMDIR") else {
        return false;
    };
    apply(Path::new(&folder), &restless());
    sleep_over(Path::new(&folder));
    true
}

#[cfg(unix)]
#[test]
fn killed_at_any_point_every_file_is_whole_and_the_next_run_converges() {
    if killed_child() {
        return;
    }
    let fixture = Fixture::new();
    let child = |folder: &Path| {
        let name = format!(
            "{}::killed_at_any_point_every_file_is_whole_and_the_next_run_converges",
            module_path!().split_once("::").unwrap().1
        );
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &name]).env("BACKCAST_TEST_MEMDIR", folder);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let whole = fixture.path("whole/memory");
    with_duplicate(&whole);
    let started = Instant::now();
    assert!(child(&whole).wait().unwrap().success());
    let longest = started.elapsed();
    let expected = visible(&whole);
    assert_eq!(expected.len(), 6, "{:?}", expected.keys());

    let kill_after = |round: u64, delay: Duration| {
        let folder = fixture.path(format!("{round}/memory"));
        with_duplicate(&folder);
        let mut running = child(&folder);
        std::thread::sleep(delay);
        running.kill().unwrap();
        running.wait().unwrap();
        for (file, text) in visible(&folder) {
            let topic = Topic::from_text(&file.display().to_string(), 0, &text);
            let is_whole = topic.kind().is_some() && text.ends_with('\n');
            assert!(is_whole || file == Path::new("MEMORY.md"), "{file:?}: {text}");
        }
        while !apply(&folder, &restless()) {}
        while !sleep_over(&folder) {}
        let after = visible(&folder);
        assert!(after.keys().eq(expected.keys()), "round {round}: {:?}", after.keys());
        for (file, text) in &after {
            assert_eq!(*text, expected[file], "round {round}: {file:?}");
        }
        let left = files_below(&folder).into_iter().map(|path| path.display().to_string());
        assert_eq!(
            left.filter(|path| path.ends_with(".tmp") && !path.starts_with('.'))
                .count(),
            0
        );
    };
    // Four at a time: most of a round is waiting for the disk.
    std::thread::scope(|scope| {
        for worker in 0..4_u64 {
            let kill_after = &kill_after;
            scope.spawn(move || {
                let mut random = 0x2545_f491_4f6c_dd1d_u64.wrapping_mul(worker + 1);
                for round in 0..50 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let delay = Duration::from_nanos(random % (longest.as_nanos() as u64 * 2));
                    kill_after(worker * 50 + round, delay);
                }
            });
        }
    });
}

/// The child of the test below waits for the start signal, so that all run at once.
fn concurrent_child() -> bool {
    let Some(folder) = std::env::var_os("BACKCAST_TEST_MEMDIR_TOGETHER") else {
        return false;
    };
    let folder = PathBuf::from(folder);
    let memdir = Memdir::create(&folder).unwrap();
    while !folder.join(".go").exists() {
        std::thread::yield_now();
    }
    let Some(lock) = memdir.lock(NOW).unwrap() else {
        return true;
    };
    // Long enough for all the others to find it taken.
    std::thread::sleep(Duration::from_millis(700));
    let (snapshot, _) = memdir.read().unwrap();
    let planned = plan_memories(&snapshot, &candidates(), &MemoryPlanOptions::default());
    memdir.commit(&lock, "extract", NOW, &planned.changes).unwrap();
    true
}

#[test]
fn of_eight_concurrent_runs_one_writes() {
    if concurrent_child() {
        return;
    }
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    std::fs::create_dir(&folder).unwrap();
    let name = format!(
        "{}::of_eight_concurrent_runs_one_writes",
        module_path!().split_once("::").unwrap().1
    );
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &name])
            .env("BACKCAST_TEST_MEMDIR_TOGETHER", &folder);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let children = (0..8).map(|_| start()).collect::<Vec<_>>();
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(folder.join(".go"), "").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let memdir = Memdir::open(&folder).unwrap().unwrap();
    assert_eq!(memdir.journals().len(), 1);
    assert_eq!(visible(&folder).len(), 11);
}

#[test]
fn a_killed_holder_frees_the_lock() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    let memdir = Memdir::create(&folder).unwrap();
    // What a dead process leaves: the file, not the lock.
    std::fs::write(folder.join(".lock"), "999999 2026-01-01T00:00:00Z\n").unwrap();
    assert!(memdir.lock(NOW).unwrap().is_some());
}

#[test]
fn a_dream_can_be_previewed_and_undone() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    with_duplicate(&folder);
    apply(&folder, &candidates());
    let before = visible(&folder);
    let shown = fixture
        .run(["memory", "dream", "--dir", "memory", "--dry-run"])
        .success();
    assert!(shown.text().contains("# retire: merged into"), "{}", shown.text());
    assert_eq!(visible(&folder), before);

    let gated = fixture.run(["memory", "dream", "--dir", "memory"]).success();
    assert!(
        gated.stderr.contains("0 sessions have newer transcripts"),
        "{}",
        gated.stderr
    );
    let gated = fixture.run(["memory", "dream", "--dir", "memory"]).success();
    assert!(gated.stderr.contains("scanned a moment ago"), "{}", gated.stderr);

    let dreamt = fixture.run(["memory", "dream", "--dir", "memory", "--force"]).success();
    assert!(dreamt.stderr.contains("retire"), "{}", dreamt.stderr);
    assert_eq!(visible(&folder).len(), before.len() - 1);
    let soon = fixture.run(["memory", "dream", "--dir", "memory"]).success();
    assert!(soon.stderr.contains("0 hours ago"), "{}", soon.stderr);

    let listed = fixture.run(["memory", "undo", "--dir", "memory", "--list"]).success();
    assert!(listed.text().contains(" dream "), "{}", listed.text());
    fixture.run(["memory", "undo", "--dir", "memory"]).success();
    assert_eq!(visible(&folder), before);
    // An undo is a run, and can be undone.
    fixture.run(["memory", "undo", "--dir", "memory"]).success();
    assert_eq!(visible(&folder).len(), before.len() - 1);
    fixture
        .run(["memory", "undo", "no-such-run", "--dir", "memory"])
        .ended(2);
}

#[test]
fn undo_keeps_what_a_person_changed_since() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    apply(&folder, &candidates());
    let edited = folder.join("feedback_small_commits.md");
    std::fs::write(&edited, "mine now\n").unwrap();
    let undone = fixture.run(["memory", "undo", "--dir", "memory"]).success();
    assert!(
        undone.stderr.contains("feedback_small_commits.md: changed since"),
        "{}",
        undone.stderr
    );
    assert_eq!(std::fs::read_to_string(&edited).unwrap(), "mine now\n");
    // The index lists what stays, and nothing else.
    let index = std::fs::read_to_string(folder.join("MEMORY.md")).unwrap();
    assert_eq!(
        index,
        "- [feedback small commits](feedback_small_commits.md) — mine now\n"
    );
    assert_eq!(visible(&folder).len(), 2);
    fixture.run(["memory", "undo", "--dir", "memory"]).success();
    let check = fixture.run(["memory", "check", "--dir", "memory"]);
    assert!(!check.text().contains("not-listed"), "{}", check.text());
}

#[test]
fn undo_of_an_older_run_keeps_the_index_of_what_stays() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    let [first, second] = [1, 2].map(|number| {
        let (title, body) = match number {
            1 => ("Small commits", "One change a commit."),
            _ => ("Real database", "Integration tests use Postgres."),
        };
        candidate(MemoryKind::Feedback, title, body, number)
    });
    apply(&folder, &[first]);
    let listed = fixture.run(["memory", "undo", "--dir", "memory", "--list"]).success();
    let run = listed.text().split(' ').next().unwrap().to_owned();
    apply(&folder, &[second]);
    let undone = fixture.run(["memory", "undo", &run, "--dir", "memory"]).success();
    assert!(
        undone.stderr.contains("MEMORY.md: changed since") && undone.stderr.contains("in line with what stays"),
        "{}",
        undone.stderr
    );
    fixture.run(["memory", "check", "--dir", "memory"]).success();
    assert_eq!(visible(&folder).len(), 2);
}

#[test]
fn undo_says_when_there_was_no_run() {
    let fixture = Fixture::new();
    fixture.write("memory/mine.md", "mine\n");
    let message = fixture.run(["memory", "undo", "--dir", "memory"]).ended(2).stderr;
    assert!(
        message.contains("nothing to undo") && !message.contains("--list"),
        "{message}"
    );
}

#[test]
fn a_superseded_memory_is_not_created_again() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    let old = candidate(
        MemoryKind::Project,
        "Mock the queue in tests",
        "Mock the queue in tests.",
        9_000,
    );
    let new = candidate(
        MemoryKind::Project,
        "Never mock the queue in tests",
        "Never mock the queue in tests.",
        1,
    );
    apply(&folder, &[old.clone(), new.clone()]);
    sleep_over(&folder);
    let after = visible(&folder);
    assert_eq!(after.len(), 2, "{after:?}");
    apply(&folder, &[old, new]);
    assert_eq!(visible(&folder), after);
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_not_followed() {
    let fixture = Fixture::new();
    let folder = fixture.path("memory");
    let outside = fixture.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.md"), "---\nname: x\n---\nsecret\n").unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("team")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret.md"), folder.join("feedback_small_commits.md")).unwrap();
    let memdir = Memdir::open(&folder).unwrap().unwrap();
    let (snapshot, passed) = memdir.read().unwrap();
    assert!(snapshot.topics.is_empty());
    assert!(
        passed.iter().filter(|passed| passed.reason.contains("link")).count() == 2,
        "{passed:?}"
    );
    let lock = memdir.lock(NOW).unwrap().unwrap();
    let options = MemoryPlanOptions {
        team: true,
        ..MemoryPlanOptions::default()
    };
    for change in plan_memories(&snapshot, &candidates(), &options).changes {
        let _ = memdir.commit(&lock, "extract", NOW, &[change]);
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(
        std::fs::read_to_string(outside.join("secret.md")).unwrap(),
        "---\nname: x\n---\nsecret\n"
    );
    let recalled = fixture
        .run(["memory", "recall", "--dir", "memory", "the secret in there"])
        .success();
    assert_eq!(recalled.text(), "");
}

#[test]
fn daily_logs_only_grow() {
    let fixture = Fixture::new();
    let memdir = Memdir::create(&fixture.path("memory")).unwrap();
    let lock = memdir.lock(NOW).unwrap().unwrap();
    let note = |lines: &[&str]| {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let noted = memdir.plan_log_append("2026-11-16", &lines).unwrap();
        noted.map(|(change, _)| memdir.commit(&lock, "extract", NOW, &[change]).unwrap())
    };
    assert!(note(&["first\nthing"]).is_some());
    assert!(note(&["second", "first\nthing"]).is_some());
    assert!(note(&["second"]).is_none());
    let text = std::fs::read_to_string(memdir.root().join("logs/2026/11/2026-11-16.md")).unwrap();
    assert_eq!(text, "- first thing\n- second\n");
    assert!(memdir.plan_log_append("../../etc", &["x".to_owned()]).is_err());
    assert!(memdir.read().unwrap().0.topics.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn hostile_titles_stay_inside_the_directory(title in any::<String>(), hook in any::<String>(), body in any::<String>(), session in any::<String>()) {
        let fixture = Fixture::new();
        let folder = fixture.path("deep/memory");
        let hostile = ["../../escape", "/etc/passwd", "C:\\x", "..\\..\\x", "a\0b", "---\nname: y\n---"];
        let all = hostile.iter().map(|text| (*text).to_owned()).chain([title]);
        let candidates = all.enumerate().map(|(at, title)| Candidate {
            kind: MemoryKind::Project,
            title: title.clone(),
            hook: hook.clone(),
            body: format!("{body} {title}"),
            confidence: 1.0,
            sources: vec![MemorySource { session: session.clone(), uuid: format!("../{at}"), time: None }],
            project: String::new(),
            origin: CandidateOrigin::Person,
        }).collect::<Vec<_>>();
        prop_assert!(apply(&folder, &candidates));
        let first = visible(&folder);
        prop_assert!(apply(&folder, &candidates));
        prop_assert_eq!(visible(&folder), first);
        let above = std::fs::read_dir(fixture.path("deep")).unwrap().count();
        prop_assert_eq!(above, 1);
        let memdir = Memdir::open(&folder).unwrap().unwrap();
        let (snapshot, passed) = memdir.read().unwrap();
        prop_assert_eq!(passed.len(), 0);
        for topic in &snapshot.topics {
            prop_assert_eq!(topic.kind(), Some(MemoryKind::Project));
            prop_assert!(!topic.has_broken_frontmatter());
        }
    }

    #[test]
    fn hostile_changes_stay_inside_the_directory(file in "(\\.\\./|/|a/|\\.archive/|team/|\\\\){1,3}[a-z.]{0,5}(\\.md)?") {
        let fixture = Fixture::new();
        let folder = fixture.path("deep/memory");
        let memdir = Memdir::create(&folder).unwrap();
        let lock = memdir.lock(NOW).unwrap().unwrap();
        let change = memory::change::MemoryChange {
            file,
            action: ChangeAction::New,
            before: None,
            after: Some("x".into()),
            reason: String::new(),
            marks: Vec::new(),
            provenance: None,
            retracted_by: None,
        };
        let _ = memdir.commit(&lock, "extract", NOW, &[change]);
        prop_assert_eq!(std::fs::read_dir(fixture.path("deep")).unwrap().count(), 1);
        prop_assert_eq!(std::fs::read_dir(fixture.path("")).unwrap().count(), 2);
    }
}
