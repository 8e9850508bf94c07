//! The first screen: `backcast` without arguments, with logs and without, and the hints for mistakes.

use crate::fixture::{Fixture, Run, case, corpus, files_below};
use std::ffi::OsStr;

/// A home with the sessions of some cases.
fn at_home(cases: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    for name in cases {
        let from = case(name);
        for file in files_below(&from) {
            let bytes = std::fs::read(from.join(&file)).expect("a log");
            fixture.write(&format!("home/.claude/projects/{name}/{}", file.display()), bytes);
        }
    }
    fixture
}

#[test]
fn without_arguments_the_sessions_of_the_user_are_shown() {
    let fixture = at_home(&["boundary-auto", "long-session"]);
    let alone = fixture.run([""; 0]).success();
    for part in [
        "last 7 days",
        "What fills the window",
        "When sessions compact",
        "backcast audit",
        "backcast tune",
    ] {
        assert!(alone.text().contains(part), "{part} is not in\n{}", alone.text());
    }
    assert_eq!(alone.text(), fixture.run(["overview"]).success().text());
}

#[test]
fn without_logs_the_overview_says_what_to_do() {
    let fixture = Fixture::new();
    let sample = fixture.run([""; 0]).success();
    assert!(
        sample
            .text()
            .starts_with("No session logs were found. SAMPLE: the sessions below are made up.\n"),
        "{}",
        sample.text()
    );
    assert!(sample.text().contains("Add offline sync"), "{}", sample.text());
    assert!(sample.text().contains("backcast overview PATH"), "{}", sample.text());
    let (_, rest) = sample.text().split_once('\n').expect("lines");
    let asked_for = fixture.run(["overview", "--sample"]).success();
    assert_eq!(asked_for.text(), format!("SAMPLE: these sessions are made up.\n{rest}"));
    // A program that wants the user's sessions must not take others for them.
    let document = fixture.run(["overview", "-f", "json"]).ended(2);
    assert!(
        document.stderr.contains("backcast overview PATH"),
        "{}",
        document.stderr
    );
    let document = fixture.run(["overview", "--sample", "-f", "json"]).success().json();
    assert_eq!(document["sample"], true);
    assert!(document["compactions"]["automatic"].as_u64() > Some(0), "{document}");
}

#[test]
fn the_sums_of_the_overview_are_those_of_stats() {
    let fixture = Fixture::new();
    let corpus = corpus().display().to_string();
    let overview = fixture.run(["overview", &corpus, "-f", "json", "-q"]).success().json();
    let stats = fixture.stats(&corpus, &[]);
    let all = &overview["periods"][2];
    for field in ["responses", "output_tokens", "cost_micro_usd", "unpriced_responses"] {
        assert_eq!(all[field], stats["totals"][field], "{field}");
    }
    let week = fixture.stats(&corpus, &["--last=7"]);
    assert_eq!(
        overview["periods"][0]["cost_micro_usd"],
        week["totals"]["cost_micro_usd"]
    );
    let month = fixture.stats(&corpus, &["--last=30"]);
    assert_eq!(overview["periods"][1]["responses"], month["totals"]["responses"]);
}

#[test]
fn the_suggested_commands_run() {
    let fixture = at_home(&["boundary-auto", "lasting-words"]);
    let overview = fixture.run(["overview", "-f", "json"]).success().json();
    let next = overview["next"].as_array().expect("commands");
    assert_eq!(next.len(), 4);
    for command in next {
        let words = command["command"].as_str().expect("a command").split(' ').skip(1);
        fixture.run(words.map(OsStr::new)).success();
    }
}

/// Wrong usage that names the next step.
#[test]
fn mistakes_come_with_a_hint() {
    let fixture = Fixture::new();
    fixture.write("empty/readme.txt", "no log");
    let corpus = corpus().display().to_string();
    for (wrong, hint) in [
        (&[corpus.as_str()][..], "is a path: backcast overview"),
        (&["stat", &corpus], "'stats'"),
        (&["stats", "empty"], ".jsonl"),
        (&["stats", "nowhere"], "needs quotes"),
        (&["stats", &corpus, "--timezone=Zurich"], "Europe/Zurich"),
        (&["validate", &corpus, "--explain=zzzz"], "lists the ids"),
        (&["replay", &corpus, "--policy=recorde"], "did you mean `recorded`?"),
        (
            &["replay", &corpus, "--policy=mine.toml"],
            "backcast config show > mine.toml",
        ),
        (
            &["replay", &corpus, "--set=window.percnt=3"],
            "did you mean `window.percent`?",
        ),
        (&["replay", &corpus, "--set=zzz=3"], "backcast config show"),
        (&["replay", &corpus, "--set=zzz"], "window.percent=70"),
        (
            &["tune", &corpus, "--vary=window.percent=9..1:1"],
            "ends before it begins",
        ),
        (&["tune", &corpus, "--folds=0"], "--folds"),
        (&["memory", "check", "--dir=nowhere"], "backcast memory extract"),
        (&["memory", "list"], "backcast memory extract"),
        (&["check", &corpus], "check --all"),
        (&["check", &corpus, "--max-cost=much"], "an amount of dollars"),
        (&["check", &corpus, "--min-cache-share=80"], "from 0 to 1"),
        (&["completions"], "<SHELL>"),
        (&["tune", "empty"], ".jsonl"),
    ] {
        let run = fixture.run(wrong).ended(2);
        assert!(run.stdout.is_empty(), "{wrong:?}");
        assert!(run.stderr.contains(hint), "{wrong:?}: {}", run.stderr);
    }
}

#[test]
fn colors_are_used_only_when_wanted() {
    let fixture = Fixture::new();
    let corpus = corpus().display().to_string();
    let coloured = |set: &[(&str, &str)]| {
        let mut command = fixture.command(["check", &corpus, "--max-lost=0", "-q"]);
        command.envs(set.iter().copied());
        Run::of(command).ended(1).stdout.contains(&0x1b)
    };
    assert!(!coloured(&[]), "no terminal");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}
