//! `backcast tune`: sweeps that can be trusted.

use crate::fixture::{Fixture, corpus};
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
        &["--vary=window.percent=50,80", "--vary=micro.gap.on=true,false"],
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
        args.push("--working-set".into());
        let name = point["policy"].as_str().unwrap();
        for setting in name.split(' ').filter(|setting| setting.contains('=')) {
            args.extend(["--set".into(), setting.into()]);
        }
        let alone = fixture.run(args).success().json();
        assert_eq!(point["cost_micro_usd"], alone["cost_micro_usd"], "{name}");
        let boundaries = &alone["boundaries"];
        let compactions = ["auto", "manual", "reactive"]
            .iter()
            .map(|cause| boundaries[cause].as_u64().unwrap())
            .sum::<u64>();
        assert_eq!(point["compactions"], compactions, "{name}");
        assert_eq!(point["misses"], alone["working_set"]["misses"], "{name}");
        assert_eq!(
            point["misses_credited"], alone["working_set"]["misses_credited"],
            "{name}"
        );
        assert_eq!(point["mean_window"], alone["window"]["mean"], "{name}");
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
fn every_search_finds_the_best_policy_of_the_grid() {
    let fixture = Fixture::new();
    let best = |more: &[&str]| {
        let document = tune(&fixture, &[&["--vary=window.percent=40..95:5"], more].concat());
        document["choice"]["best"].as_str().unwrap().to_owned()
    };
    let grid = best(&[]);
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
        ("window.percent=1..9:0", "above 0"),
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
        (&["--folds=1000"], "more than there are sessions"),
        (&["--points=3"], "add --search random"),
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
        let run = fixture.run(["tune", &logs].iter().chain(more)).success();
        run.text().to_owned()
    };
    let rows = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with('\u{2500}')).skip(1);
        let is_row =
            |line: &&str| line.starts_with("window.") || line.starts_with("restore.") || line.starts_with("as it");
        lines.take_while(is_row).count()
    };
    let all = table(&["--top=0"]);
    assert_eq!(rows(&all), 8, "{all}");
    assert!(!all.contains("shown:"), "{all}");
    let front = table(&[]);
    assert!(
        front.contains("5 of 8 policies shown: the present one, and those"),
        "{front}"
    );
    assert!(front.contains("Saved in the table is of cost alone"), "{front}");
    let two = table(&["--top=2"]);
    assert_eq!(rows(&two), 2, "{two}");
    assert!(
        two.contains("2 of 8 policies shown: the present one and the best of the 5"),
        "{two}"
    );
    let three = table(&["--top=3"]);
    assert_eq!(rows(&three), 3, "{three}");
    assert!(three.contains("the best, and some of the 5"), "{three}");
    let alike = table(&["--vary=restore.large=cut,skip", "--top=0"]);
    for value in ["restore.large=\"cut\"", "restore.large=\"skip\"", "as it is"] {
        assert!(alike.contains(value), "{alike}");
    }
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
