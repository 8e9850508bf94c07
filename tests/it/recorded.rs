//! Recorded logs of real sessions, which are not part of the repository. Every test here is ignored unless it is asked for;
//! CONTRIBUTING.md says how.

#[path = "../../examples/summaryeval/comparison.rs"]
mod comparison;

use crate::fixture::{FIGURES, Fixture, figures, files_below};
use crate::independent_count::{count_agents_independently, count_independently};
use crate::notes::notes_of;
use backcast::run::{ReadOptions, Run};
use comparison::{compare_summaries, mean_coverage};
use language::secrets;
use notes::offline::OfflineBackend;
use notes::size;
use notes::template::NotesTemplate;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use transcript::discover::discover;

/// All recorded logs. Panics where a checkout has none next to it.
fn recorded_logs() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/transcripts");
    assert!(folder.is_dir(), "no recorded logs in ../shared/transcripts");
    folder
}

/// One run over all logs serves three checks, because it takes long in a debug build.
#[test]
#[ignore = "needs recorded logs in ../shared/transcripts, and python3 and zstd"]
fn recorded_logs_add_up_and_context_sizes_are_predicted() {
    let folder = recorded_logs();
    let stats = Fixture::new().stats(&folder, &["--no-cache", "--quality", "--problems"]);
    let counted = count_independently(&folder);
    assert_eq!(figures(&stats["totals"]), figures(&counted), "{FIGURES:?}");
    check_that_every_line_is_used_or_explained(&stats);

    let families = stats["quality"]["families"].as_array().expect("families");
    let all = families
        .iter()
        .find(|row| row["family"] == "all")
        .expect("a row for all families");
    assert!(all["rounds"].as_u64() > Some(1_000), "{all}");
    assert!(all["median_error"].as_f64().expect("a number") <= 45.0, "{all}");
    assert!(all["p95_relative_error"].as_f64().expect("a number") <= 0.007, "{all}");
}

/// A line is one record, several records (reported as `records-split`), or a problem. Blank lines would be neither; recorded
/// logs have none.
fn check_that_every_line_is_used_or_explained(stats: &Value) {
    let number = |value: &Value| value.as_u64().expect("a count");
    let lines = number(&stats["input"]["lines"]);
    let records = stats["input"]["records"]
        .as_object()
        .expect("an object")
        .values()
        .map(number)
        .sum::<u64>();
    let problems = stats["problems"]["by_kind"].as_object().expect("an object");
    let count = |kinds: &[&str]| {
        kinds
            .iter()
            .filter_map(|kind| problems.get(*kind))
            .map(number)
            .sum::<u64>()
    };
    let refused = count(&[
        "malformed",
        "not-an-object",
        "too-deep",
        "only-nul",
        "too-long",
        "torn-tail",
    ]);
    let several = count(&["records-split"]);
    let used = lines - refused;
    if several == 0 {
        assert_eq!(records, used);
    } else {
        // Each split line holds two records or more.
        assert!(
            records >= used + several,
            "{records} records, {used} lines, {several} of them with several"
        );
    }
    for unread in ["unreadable", "special-file", "broken-stream"] {
        assert!(!problems.contains_key(unread), "{unread}");
    }
    let named = stats["problems"]["list"].as_array().expect("a list").len();
    assert_eq!(stats["problems"]["total"], named);
}

/// Returns the ratios that benchmarks on generated logs depend on: bytes per line, shares of record kinds and of tools.
fn mix(stats: &Value, by_tool: &Value) -> Vec<(String, f64)> {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let lines = number(&stats["input"]["lines"]);
    let mut mix = vec![("bytes per line".to_owned(), number(&stats["input"]["bytes"]) / lines)];
    let records = &stats["input"]["records"];
    for kind in ["user", "assistant"] {
        mix.push((kind.to_owned(), number(&records[kind]) / lines));
    }
    mix.push(("calls".to_owned(), number(&stats["totals"]["responses"]) / lines));
    let tools = by_tool["rows"].as_array().expect("rows");
    let calls = |tool: &Value| number(&tool["calls"]);
    let all = tools.iter().map(calls).sum::<f64>();
    for name in ["Bash", "Read", "Edit", "Grep"] {
        let of = tools.iter().filter(|tool| tool["tool"] == name).map(calls).sum::<f64>();
        mix.push((name.to_owned(), of / all));
    }
    mix
}

#[test]
#[ignore = "needs recorded logs in ../shared/transcripts"]
fn generated_sessions_have_the_mix_of_recorded_ones() {
    let folder = recorded_logs();
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    let args = ["synth", "bulk", "--bytes=48MiB", "--files=120", "--seed=1", "--out"];
    fixture
        .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
        .success();
    let [recorded, generated] =
        [folder, out].map(|logs| mix(&fixture.stats(&logs, &[]), &fixture.stats(&logs, &["--by=tool"])));
    for ((name, recorded), (_, generated)) in std::iter::zip(recorded, generated) {
        let ratio = generated / recorded;
        assert!(
            (0.7..1.4).contains(&ratio),
            "{name}: {generated:.3}, recorded {recorded:.3}"
        );
    }
}

/// The last client version whose boundaries must all be predicted.
const LAST_SETTLED: [u64; 3] = [2, 1, 44];

/// Returns the recorded logs that were written by client versions up to [`LAST_SETTLED`] alone.
fn settled_logs() -> Vec<PathBuf> {
    let folder = recorded_logs();
    let logs = files_below(&folder).into_iter().map(|log| folder.join(log));
    let is_settled = |log: &PathBuf| {
        let last = client_versions(log).into_iter().max();
        last.is_some_and(|last| last <= LAST_SETTLED)
    };
    logs.filter(is_settled).collect()
}

/// Returns every client version that the records of a log name; none for other files.
fn client_versions(log: &Path) -> Vec<[u64; 3]> {
    let bytes = std::fs::read(log).expect("a file");
    let bytes = match log.extension().and_then(OsStr::to_str) {
        Some("zst") => zstd::decode_all(&bytes[..]).expect("zstd"),
        Some("jsonl") => bytes,
        _ => return Vec::new(),
    };
    const KEY: &[u8] = b"\"version\":\"";
    let found = memchr::memmem::find_iter(&bytes, KEY).filter_map(|at| {
        let rest = &bytes[at + KEY.len()..];
        let version = std::str::from_utf8(rest.split(|byte| *byte == b'"').next()?).ok()?;
        let numbers = version.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>();
        numbers.ok()?.try_into().ok()
    });
    found.collect()
}

/// The promise on recorded logs, up to client 2.1.44: every decidable boundary at the exact call, none spurious, sizes and
/// costs close.
#[test]
#[ignore = "needs recorded logs in ../shared/transcripts"]
fn boundaries_up_to_client_2_1_44_are_predicted_at_the_exact_call() {
    const SCOPE: &str = "client versions up to 2.1.44; nothing is asserted about later ones";
    let document = validate_all(&settled_logs());
    let number = |part: &str, name: &str| document[part][name].as_f64().unwrap_or_else(|| panic!("{part}.{name}"));
    // At least as many as when this was written: new logs may add some.
    assert!(number("auto", "decidable") >= 26.0, "automatic boundaries, {SCOPE}");
    assert_eq!(number("auto", "exact"), number("auto", "decidable"), "{SCOPE}");
    assert_eq!(number("auto", "spurious"), 0.0, "{SCOPE}");
    assert!(number("micro", "decidable") >= 6.0, "micro-compactions, {SCOPE}");
    assert_eq!(number("micro", "exact_ids"), number("micro", "decidable"), "{SCOPE}");
    assert_eq!(number("micro", "spurious"), 0.0, "{SCOPE}");
    let exact = number("pre_tokens_error", "exact") / number("pre_tokens_error", "count");
    assert!(exact >= 0.5, "tokens before a boundary, {SCOPE}");
    // Expected misses make the sum right and the bill of a session without a miss too high by what misses cost on average.
    for (part, name, limit) in [
        ("pre_tokens_error", "relative_p95", 0.001),
        ("cost_error", "total", 0.02),
        ("cost_error", "total_by_rules", 0.04),
        ("cost_error", "p50", 0.03),
        ("segments", "p50", 0.03),
        ("segments", "p90", 0.10),
    ] {
        let error = number(part, name).abs();
        assert!(error <= limit, "{part}.{name} is {error}, above {limit}; {SCOPE}");
    }
}

/// Runs `validate -f json` on a list of logs.
fn validate_all(logs: &[PathBuf]) -> Value {
    let args = ["validate", "-f", "json", "--no-cache"].map(OsString::from);
    let logs = logs.iter().map(|log| log.clone().into_os_string());
    Fixture::new().run(args.into_iter().chain(logs)).success().json()
}

/// Returns every sixth recorded log, by name; all of them would take minutes in a debug build.
fn sampled_logs() -> Vec<PathBuf> {
    let folder = recorded_logs();
    let logs = files_below(&folder).into_iter();
    let logs = logs.filter(|path| path.to_string_lossy().contains(".jsonl"));
    logs.step_by(6).map(|log| folder.join(log)).collect()
}

#[test]
#[ignore = "needs recorded logs in ../shared/transcripts"]
fn offline_summaries_cover_most_of_what_recorded_summaries_do() {
    let files = sampled_logs();
    let found = discover(&files, false).expect("logs");
    let run = Run::read(&found.logs, &ReadOptions::default());
    let (compared, _) = run.map_sessions(|view| {
        view.chains().first()?;
        let (conversation, _) = view.read_conversation(0);
        Some(compare_summaries(&conversation, &OfflineBackend))
    });
    let compared = compared.into_iter().flatten().flatten().collect::<Vec<_>>();
    assert!(compared.len() > 2, "{}", compared.len());
    for one in &compared {
        assert!(
            one.size <= one.budget,
            "{} of {}: misses {:?}",
            one.size,
            one.budget,
            one.missed
        );
    }
    let [recorded, offline] = mean_coverage(&compared).expect("something was needed");
    assert!(offline >= 0.8 * recorded, "{offline:.3} of {recorded:.3}");
}

#[test]
#[ignore = "needs recorded logs in ../shared/transcripts"]
fn notes_of_recorded_sessions_keep_their_limits_and_their_form() {
    let files = sampled_logs();
    let fixture = Fixture::new();
    let files = files.iter().map(|path| path.to_str().expect("a path"));
    let args = [
        "notes",
        "--out",
        "notes",
        "--summary",
        "--to-end",
        "-f",
        "jsonl",
        "--quiet",
    ];
    let run = fixture.run(args.into_iter().chain(files)).success();
    let rows = String::from_utf8(run.stdout).expect("text");
    assert!(rows.lines().count() > 15);
    for (path, text) in notes_of(&fixture, "notes") {
        let name = path.display();
        assert!(
            secrets::find(&text).is_empty() || path.extension().is_some_and(|ending| ending == "json"),
            "{name}"
        );
        for noise in ["<system-reminder", "<command-name", "<local-command", "\u{1b}["] {
            assert!(!text.contains(noise), "{name}: {noise}");
        }
        if path.ends_with("compact.md") {
            assert!(size::tokens(&text) <= 20_000, "{name}");
            let titles = (1..=9)
                .filter(|number| text.contains(&format!("\n## {number}. ")))
                .count();
            assert_eq!(titles, 9, "{name}");
        } else if path.ends_with("summary.md") {
            assert!(NotesTemplate::built_in().has_same_sections(&text), "{name}");
            assert!(size::tokens(&text) <= 12_000, "{name}");
            for section in NotesTemplate::parse(&text).sections {
                let whole = format!("{}\n{}\n\n{}", section.heading, section.about, section.body);
                assert!(size::tokens(&whole) <= 2_000, "{name}: {}", section.heading);
            }
        }
    }
}

#[test]
#[ignore = "needs recorded logs in ../shared/agents, and python3 and zstd"]
fn logs_of_other_agents_add_up_and_compact_where_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/agents");
    assert!(folder.is_dir(), "no recorded logs in ../shared/agents");
    let counted = count_agents_independently(&folder);
    for agent in ["codex", "opencode", "pi"] {
        let stats = Fixture::new().stats(folder.join(agent), &["--no-cache", "--problems"]);
        assert_eq!(
            figures(&stats["totals"]),
            figures(&counted[agent]),
            "{agent}: {FIGURES:?}"
        );
        if agent != "opencode" {
            check_that_every_line_is_used_or_explained(&stats);
        }
    }
    let path = folder.into_os_string();
    let validate = [
        OsStr::new("validate"),
        &path,
        OsStr::new("--format=json"),
        OsStr::new("--quiet"),
    ];
    let auto = &Fixture::new().run(validate).success().json()["auto"];
    assert_eq!(
        (&auto["recorded"], &auto["within_margin"]),
        (&Value::from(2), &Value::from(2)),
        "{auto}"
    );
    assert_eq!(auto["spurious"], 0, "{auto}");
}
