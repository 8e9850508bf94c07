//! `backcast tune`: sweeps that can be trusted.

use crate::fixture::{Fixture, case, corpus};
use serde_json::Value;
use std::path::Path;

/// A window small enough for the bundled sessions to reach its threshold.
const SMALL: [&str; 2] = ["--policy=client-2.1.30", "--set=window.tokens=70000"];

fn tune(fixture: &Fixture, more: &[&str]) -> Value {
    let mut args = vec!["tune".into(), corpus().into_os_string(), "-f".into(), "json".into()];
    args.extend(SMALL.iter().chain(more).map(Into::into));
    fixture.run(args).success().json()
}

#[test]
fn a_point_of_a_sweep_is_that_policy_replayed_alone() {
    let fixture = Fixture::new();
    let document = tune(
        &fixture,
        &[
            "--agent=claude",
            "--vary=window.percent=50,80",
            "--vary=micro.gap.on=true,false",
        ],
    );
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 5);
    assert!(
        points
            .iter()
            .any(|point| point["model_calls"] != points[0]["model_calls"])
    );
    for point in points {
        let mut args = vec!["replay".into(), corpus().into_os_string(), "-f".into(), "json".into()];
        args.extend(SMALL.iter().map(Into::into));
        args.extend(["--working-set".into(), "--agent=claude".into()]);
        let name = point["policy"].as_str().unwrap();
        for setting in name.split(' ').filter(|setting| setting.contains('=')) {
            args.extend(["--set".into(), setting.into()]);
        }
        let alone = fixture.run(args).success().json();
        assert_eq!(point["all_cost_micro_usd"], alone["cost_micro_usd"], "{name}");
        let boundaries = &alone["boundaries"];
        let compactions = ["auto", "manual", "reactive"]
            .iter()
            .map(|cause| boundaries[cause].as_u64().unwrap())
            .sum::<u64>();
        assert_eq!(point["all_compactions"], compactions, "{name}");
        assert_eq!(point["all_misses"], alone["working_set"]["misses"], "{name}");
        assert_eq!(
            point["all_misses_credited"], alone["working_set"]["misses_credited"],
            "{name}"
        );
        assert_eq!(point["all_mean_window"], alone["window"]["mean"], "{name}");
    }
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    ["points.csv", "front.csv", "recommendation.json"]
        .map(|name| std::fs::read(folder.join(name)).unwrap())
        .to_vec()
}

#[test]
fn output_is_the_same_for_any_threads_and_after_an_interruption() {
    let fixture = Fixture::new();
    let mut expected = None;
    for (number, threads) in ["--threads=1", "--threads=4"].iter().enumerate() {
        let out = fixture.path(format!("run-{number}"));
        let out_text = out.to_str().unwrap();
        tune(
            &fixture,
            &["--vary=window.percent=40..90:10", threads, "--out", out_text],
        );
        let found = files(&out);
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{threads}");
    }
    // A run over fewer policies leaves its results, and a larger one reuses them.
    let out = fixture.path("resumed");
    let out_text = out.to_str().unwrap();
    tune(&fixture, &["--vary=window.percent=40,60", "--out", out_text]);
    let known = std::fs::metadata(out.join("scores")).unwrap().len();
    tune(
        &fixture,
        &["--vary=window.percent=40..90:10", "--out", out_text, "--force"],
    );
    assert!(std::fs::metadata(out.join("scores")).unwrap().len() > known);
    assert!(expected == Some(files(&out)));
    // An interruption after every batch, and in the middle of one: the file of scores has the same bytes in the end.
    let halving = [
        "--vary=window.percent=40..90:10",
        "--search=halving",
        "--out",
        out_text,
        "--force",
    ];
    let whole = fixture.path("halving");
    tune(
        &fixture,
        &[
            "--vary=window.percent=40..90:10",
            "--search=halving",
            "--out",
            whole.to_str().unwrap(),
        ],
    );
    let scores = std::fs::read(whole.join("scores")).unwrap();
    for cut in [
        0,
        3,
        80,
        scores.len() / 3,
        scores.len() / 2,
        scores.len() - 1,
        scores.len(),
    ] {
        std::fs::write(out.join("scores"), &scores[..cut]).unwrap();
        tune(&fixture, &halving);
        assert!(std::fs::read(out.join("scores")).unwrap() == scores, "cut at {cut}");
        assert!(files(&out) == files(&whole), "cut at {cut}");
    }
    tune(
        &fixture,
        &["--vary=window.percent=40..90:10", "--out", out_text, "--force"],
    );
    let refused = fixture
        .run([
            "tune",
            corpus().to_str().unwrap(),
            "--vary=window.percent=40",
            "--out",
            out_text,
        ])
        .ended(2);
    assert!(refused.stderr.contains("use --force"), "{}", refused.stderr);
}

#[test]
fn scores_of_another_sweep_are_discarded_with_a_message() {
    let fixture = Fixture::new();
    let logs = case("plain").to_str().unwrap().to_owned();
    let run = |more: &[&str]| {
        let args = ["tune", &logs, "--vary=window.percent=40,60", "--out=out", "--force"];
        fixture.run(args.iter().chain(more)).success().stderr
    };
    let is_restarted = |stderr: String| stderr.contains("starting over");
    assert!(!is_restarted(run(&[])), "a new sweep");
    assert!(!is_restarted(run(&[])), "the same sweep");
    assert!(is_restarted(run(&["--set=window.percent=70"])), "another policy");
    let path = fixture.path("out/scores");
    let mut scores = std::fs::read(&path).unwrap();
    // The first digit of the name, which depends on the build, too.
    scores[8] = if scores[8] == b'0' { b'1' } else { b'0' };
    std::fs::write(&path, scores).unwrap();
    assert!(is_restarted(run(&["--set=window.percent=70"])), "another build");
}

#[test]
fn every_search_finds_the_best_policy_of_the_grid() {
    let fixture = Fixture::new();
    let best = |more: &[&str]| {
        let fixed = [
            "--set=window.tokens=200000",
            "--vary=window.threshold=70000..160000:5000",
        ];
        let document = tune(&fixture, &[&fixed, more].concat());
        document["choice"]["best"].as_str().unwrap().to_owned()
    };
    let grid = best(&[]);
    assert_ne!(grid, "as it is");
    assert_eq!(best(&["--search=halving"]), grid);
    assert_eq!(best(&["--search=random", "--points=99"]), grid);
    assert_eq!(
        best(&["--search=random", "--points=5", "--seed=3"]),
        best(&["--search=random", "--points=5", "--seed=3"])
    );
}

#[test]
fn bad_ranges_are_refused_at_once() {
    let fixture = Fixture::new();
    for (vary, words) in [
        ("window.percent=", "no values"),
        ("window.percent=1..9:0", "greater than 0"),
        ("window.percent=9..1", "before it begins"),
        ("window.percent=50..200:50", "at most 100"),
        ("window.percnt=50", "did you mean `window.percent`?"),
        ("window.buffer=1..100000", "more than 5000"),
    ] {
        let run = fixture
            .run(["tune", corpus().to_str().unwrap(), &format!("--vary={vary}")])
            .ended(2);
        assert!(run.stderr.contains(words), "{vary}: {}", run.stderr);
    }
    let logs = corpus();
    let twice = [
        "tune",
        logs.to_str().unwrap(),
        "--vary=window.buffer=1",
        "--vary=window.buffer=2",
    ];
    assert!(fixture.run(twice).ended(2).stderr.contains("varied twice"));
}

#[test]
fn invalid_options_are_refused() {
    let fixture = Fixture::new();
    let logs = corpus().display().to_string();
    for (more, words) in [
        (&["--miss-cost=nan"][..], "a number of dollars"),
        (&["--miss-cost=inf"], "a number of dollars"),
        (&["--miss-cost=-1"], "a number of dollars"),
        (&["--resamples=0"], "--resamples"),
        (&["--resamples=1"], "--resamples"),
        (&["--folds=1000"], "more than the number of sessions"),
        (&["--points=3"], "--points needs --search random"),
    ] {
        let run = fixture.run(["tune", &logs].iter().chain(more)).ended(2);
        assert!(run.stderr.contains(words), "{more:?}: {}", run.stderr);
    }
}

#[test]
fn a_file_that_no_sweep_wrote_is_not_overwritten() {
    let fixture = Fixture::new();
    let logs = corpus().display().to_string();
    let theirs = fixture.write("out/scores", "home 3, away 1\n");
    let args = ["tune", &logs, "--quiet", "--vary=window.percent=50", "--out", "out"];
    let run = fixture.run(args).ended(2);
    assert!(run.stderr.contains("scores exists; use --force"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "home 3, away 1\n");
    std::fs::remove_file(&theirs).unwrap();
    fixture.run(args).success();
    // A sweep continues from its own file.
    for name in ["points.csv", "front.csv", "recommendation.json"] {
        std::fs::remove_file(fixture.path("out").join(name)).unwrap();
    }
    fixture.run(args).success();
}

/// Every requested policy can be shown, and the table says how many it leaves out.
#[test]
fn the_table_shows_all_or_says_what_it_leaves_out() {
    let fixture = Fixture::new();
    let logs = corpus().display().to_string();
    let table = |more: &[&str]| {
        let fixed = [
            "tune",
            &logs,
            "--set=window.tokens=200000",
            "--vary=window.threshold=70000..160000:10000",
        ];
        let run = fixture.run(fixed.iter().chain(more)).success();
        run.text().to_owned()
    };
    let rows = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with('\u{2500}')).skip(1);
        let is_row = |line: &&str| line.contains('$');
        lines.take_while(is_row).count()
    };
    let all = table(&["--top=0"]);
    assert_eq!(rows(&all), 11, "{all}");
    assert!(!all.contains("policies shown:"), "{all}");
    let front = table(&[]);
    let shown = rows(&front);
    assert!((2..11).contains(&shown), "{front}");
    let words = format!("{shown} of 11 policies shown: the present one, and those");
    assert!(front.contains(&words), "{front}");
    let words = front.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Miss %: edits of lines that were gone"), "{front}");
    let two = table(&["--top=2"]);
    assert_eq!(rows(&two), 2, "{two}");
    assert!(
        two.contains("2 of 11 policies shown: the present one and the best of the"),
        "{two}"
    );
    let three = table(&["--top=3"]);
    assert_eq!(rows(&three), 3, "{three}");
    assert!(three.contains("the best, and some of the"), "{three}");
}

/// Returns the lines of the text output.
fn text_lines(fixture: &Fixture, more: &[&str]) -> Vec<String> {
    let logs = corpus().display().to_string();
    let run = fixture.run(["tune", &logs].iter().chain(more)).success();
    run.text().lines().map(str::to_owned).collect()
}

#[test]
fn the_verdict_comes_first_and_windows_are_apart() {
    let fixture = Fixture::new();
    let lines = text_lines(&fixture, &[]);
    let text = lines.join("\n");
    let verdicts = lines.iter().take_while(|line| !line.is_empty());
    let verdicts = verdicts
        .filter(|line| line.starts_with("Windows of"))
        .collect::<Vec<_>>();
    assert_eq!(verdicts.len(), 2, "{text}");
    assert!(text.contains("Codex, windows of 272,000: "), "{text}");
    for (line, window) in std::iter::zip(verdicts, ["200,000", "1,000,000"]) {
        let verdict = line.strip_prefix(&format!("Windows of {window}: ")).unwrap_or(line);
        let starts = ["No difference shown.", "Keep your setting", "Set "];
        assert!(starts.iter().any(|start| verdict.starts_with(start)), "{line}");
    }
    for window in ["Window of 200,000 tokens", "Window of 1,000,000 tokens"] {
        assert!(text.contains(window), "{text}");
    }
    assert!(text.contains("now 167,000") && text.contains("now 967,000"), "{text}");

    let logs = corpus().display().to_string();
    let document = fixture.run(["tune", &logs, "-f", "json"]).success().json();
    let windows = document["windows"].as_array().unwrap();
    assert!(windows.len() >= 2);
    assert_eq!(document["verdict"], windows[0]["verdict"]);
    for window in windows {
        assert!(["set", "keep", "no_difference"].contains(&window["verdict"].as_str().unwrap()));
        assert!(window["sentence"].as_str().unwrap().ends_with('.'));
        let grounds = window["window_grounds"].as_object().unwrap();
        let sessions = grounds.values().map(|count| count.as_u64().unwrap()).sum::<u64>();
        assert_eq!(sessions, window["sessions"].as_u64().unwrap());
        let places = window["points"].as_array().unwrap().iter().skip(1);
        let usual = window["usual_threshold"].as_u64().unwrap();
        for place in places {
            let setting = place["policy"].as_str().unwrap();
            let threshold = setting.strip_prefix("window.threshold=").unwrap();
            assert!(threshold.parse::<u64>().unwrap() < usual, "{setting} below {usual}");
        }
    }
}

#[test]
fn a_value_without_a_setting_is_never_recommended() {
    let fixture = Fixture::new();
    let document = tune(
        &fixture,
        &[
            "--set=window.tokens=200000",
            "--vary=compact.summary_tokens=10,20000",
            "--vary=compact.summary=fixed",
        ],
    );
    for point in document["points"].as_array().unwrap().iter().skip(1) {
        assert_eq!(point["settable"], false);
    }
    assert_eq!(document["choice"]["best"], "as it is");
    assert_eq!(document["client_settings"], Value::Null);
}

#[test]
fn a_policy_that_blocks_sessions_has_no_figures() {
    let fixture = Fixture::new();
    let document = tune(
        &fixture,
        &["--set=window.tokens=200000", "--vary=window.threshold=1000,100000"],
    );
    let points = document["points"].as_array().unwrap();
    let blocking = points.iter().find(|point| point["blocked_sessions"].as_u64() > Some(0));
    let blocking = blocking.expect("a threshold below the system prompt fails");
    assert_eq!(blocking["policy"], "window.threshold=1000");
    assert_eq!(blocking["cost_micro_usd"], Value::Null);
    assert_ne!(document["choice"]["best"], blocking["policy"]);
}

#[test]
fn outcomes_are_summed_up_per_arm() {
    let fixture = Fixture::new();
    let logs = corpus().display().to_string();
    let rows = fixture.run(["stats", &logs, "-f", "json"]).success().json();
    let sessions = rows["rows"].as_array().unwrap().iter();
    let ids = sessions.filter_map(|row| row["session"].as_str());
    let lines = ids
        .take(20)
        .enumerate()
        .map(|(at, id)| format!("{id},{},{}\n", ["low", "high"][at % 2], at % 3 / 2));
    let file = fixture.write(
        "outcomes.csv",
        format!("session,arm,solved\n{}", lines.collect::<String>()),
    );
    let file = file.display().to_string();
    let document = fixture
        .run(["tune", &logs, "-f", "json", "--outcomes", &file])
        .success()
        .json();
    let arms = document["outcomes"]["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 2);
    for arm in arms {
        let success = &arm["success"];
        assert!(success["low"].as_f64() <= success["mean"].as_f64());
        assert!(success["mean"].as_f64() <= success["high"].as_f64());
    }
    let text = text_lines(&fixture, &["--outcomes", &file]).join("\n");
    assert!(text.contains("Outcomes per arm") && text.contains("  low: "), "{text}");
    let bad = fixture
        .write("bad.csv", "session,solved\nx,perhaps\n")
        .display()
        .to_string();
    let refused = fixture.run(["tune", &logs, "--outcomes", &bad]).ended(2);
    assert!(refused.stderr.contains("line 2: `perhaps`"), "{}", refused.stderr);
}

#[test]
fn the_table_fits_eighty_columns() {
    let fixture = Fixture::new();
    for miss_cost in ["0", "0.01", "5"] {
        let mut args = vec![
            "tune".to_owned(),
            corpus().display().to_string(),
            format!("--miss-cost={miss_cost}"),
        ];
        args.extend(SMALL.map(str::to_owned));
        args.push("--vary=window.percent=40..95:5".to_owned());
        let run = fixture.run(args).success();
        for line in run.text().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
