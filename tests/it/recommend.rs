//! What `tune` recommends on generated logs whose best answer is planted, and what it says where it must not recommend.

use crate::fixture::Fixture;
use serde_json::{Value, json};

/// Sessions of one kind: shell calls with results of one size, until the context reaches a peak, then small ones.
struct PlantedSessions {
    model: &'static str,
    sessions: std::ops::Range<u32>,
    calls: u32,
    /// Tokens of a result before the peak.
    growth: u64,
    peak: u64,
    /// Tokens of system prompt and tools.
    base: u64,
}

/// Sessions that end a little above the threshold of a 200,000-token window, and read that much again at every call.
const LINGERING: PlantedSessions = PlantedSessions {
    model: "claude-sonnet-4-6",
    sessions: 0..12,
    calls: 100,
    growth: 3_000,
    peak: 160_000,
    base: 30_000,
};

impl PlantedSessions {
    fn write(&self, fixture: &Fixture) {
        for number in self.sessions.clone() {
            let name = format!("logs/project-{}/{number}.jsonl", number % 6);
            fixture.write(&name, self.log(number));
        }
    }

    /// Returns the log of a session. Sessions differ by the sizes of their results.
    fn log(&self, number: u32) -> String {
        let mut records = vec![json!({"type": "user", "message": {"role": "user", "content": "Start the work."}})];
        let (mut context, mut held) = (self.base, 0);
        for call in 0..self.calls {
            let spread = u64::from((number * 31 + call * 17) % 60);
            let size = if context < self.peak {
                self.growth * (70 + spread) / 100
            } else {
                60
            };
            let id = format!("{number:04}{call:05}");
            let written = context - held;
            records.push(json!({"type": "assistant", "requestId": format!("req_{id}"), "message": {
                "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": self.model,
                "stop_reason": "tool_use",
                "content": [{"type": "tool_use", "id": format!("toolu_{id}"), "name": "Bash", "input": {"command": "make"}}],
                "usage": {"input_tokens": 3, "cache_creation_input_tokens": written, "cache_read_input_tokens": held,
                    "output_tokens": 40},
            }}));
            records.push(json!({"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": format!("toolu_{id}"), "content": "x".repeat(4 * size as usize)},
            ]}}));
            held = context;
            context += size + 50;
        }
        let mut log = String::new();
        for (at, record) in records.iter_mut().enumerate() {
            let uuid = |at: usize| format!("{number:08}-0000-4000-8000-{at:012}");
            let fields = json!({
                "parentUuid": at.checked_sub(1).map(uuid), "uuid": uuid(at), "isSidechain": false, "userType": "external",
                "cwd": format!("/home/dev/project-{}", number % 6), "sessionId": uuid(0), "version": "2.1.150",
                "gitBranch": "main",
                "timestamp": format!("2026-07-{:02}T10:{:02}:{:02}.000Z", 1 + number % 28, at / 20 % 60, at % 20 * 3),
            });
            let record = record.as_object_mut().unwrap();
            record.extend(fields.as_object().unwrap().clone());
            log.push_str(&Value::Object(record.clone()).to_string());
            log.push('\n');
        }
        log
    }
}

fn tune(fixture: &Fixture, more: &[&str]) -> Value {
    let logs = fixture.path("logs").display().to_string();
    let args = ["tune", &logs, "--no-cache", "--format=json"];
    fixture.run(args.iter().chain(more)).success().json()
}

fn objections(window: &Value) -> Vec<&str> {
    let list = window["choice"]["objections"].as_array().unwrap();
    list.iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn a_planted_saving_is_recommended_with_what_to_paste() {
    let fixture = Fixture::new();
    LINGERING.write(&fixture);
    let found = tune(&fixture, &["--vary=window.threshold=110000..160000:10000"]);
    assert_eq!(found["verdict"], "set", "{}", found["sentence"]);
    let sentence = found["sentence"].as_str().unwrap();
    let window = found["paste"]["autoCompactWindow"].as_u64().unwrap();
    let threshold = found["choice"]["settings"]["window.threshold"].as_u64().unwrap();
    assert_eq!(window, threshold + 33_000);
    assert!(sentence.starts_with("Set autoCompactWindow to 1"), "{sentence}");
    assert!(sentence.contains("no more misses"), "{sentence}");
    assert_eq!(found["in_other_windows"], json!([]));
}

#[test]
fn windows_get_a_verdict_each_and_the_setting_says_what_it_does_in_the_other() {
    let fixture = Fixture::new();
    LINGERING.write(&fixture);
    let large = PlantedSessions {
        model: "claude-opus-5",
        sessions: 12..24,
        calls: 150,
        growth: 6_000,
        peak: 500_000,
        ..LINGERING
    };
    large.write(&fixture);
    let thresholds = "--vary=window.threshold=120000,130000,140000,150000,160000,200000,250000,300000";
    let found = tune(&fixture, &[thresholds]);
    let windows = found["windows"].as_array().unwrap();
    let large = windows.iter().find(|one| one["window_tokens"] == 1_000_000).unwrap();
    let small = windows.iter().find(|one| one["window_tokens"] == 200_000).unwrap();
    assert_eq!(
        (large["sessions"].as_u64(), small["sessions"].as_u64()),
        (Some(12), Some(12))
    );
    assert_eq!(large["verdict"], "set", "{}", large["sentence"]);
    let threshold = large["choice"]["settings"]["window.threshold"].as_u64().unwrap();
    let elsewhere = large["in_other_windows"].as_array().unwrap();
    assert_eq!(elsewhere.len(), usize::from(threshold < 167_000), "{elsewhere:?}");

    let logs = fixture.path("logs").display().to_string();
    let text = fixture.run(["tune", &logs, "--no-cache", thresholds]).success();
    let starts = ["Windows of 1,000,000: Set ", "Windows of 200,000: "];
    let lines = text.text().lines().filter(|line| line.starts_with("Windows of "));
    let lines = lines.collect::<Vec<_>>();
    assert_eq!(lines.len(), 2, "{}", text.text());
    assert!(
        std::iter::zip(lines, starts).all(|(line, start)| line.starts_with(start)),
        "{}",
        text.text()
    );
    let is_told = text
        .text()
        .contains("The same setting lowers the threshold of windows of 200,000");
    assert_eq!(is_told, threshold < 167_000, "{}", text.text());
}

#[test]
fn a_session_that_decides_alone_is_named_and_nothing_is_recommended() {
    let fixture = Fixture::new();
    PlantedSessions {
        calls: 15,
        growth: 1_000,
        ..LINGERING
    }
    .write(&fixture);
    PlantedSessions {
        sessions: 99..100,
        calls: 150,
        ..LINGERING
    }
    .write(&fixture);
    let found = tune(&fixture, &[]);
    assert_eq!(found["verdict"], "no_difference", "{}", found["sentence"]);
    assert!(objections(&found).contains(&"one_session"), "{found}");
    let session = found["choice"]["without_heaviest_session"]["session"].as_str().unwrap();
    assert_eq!(session, "00000099-0000-4000-8000-000000000000");
}

/// The best lies below the lowest value that is tried.
#[test]
fn the_end_of_a_range_is_not_recommended() {
    let fixture = Fixture::new();
    PlantedSessions {
        calls: 200,
        growth: 1_500,
        ..LINGERING
    }
    .write(&fixture);
    let found = tune(&fixture, &["--vary=window.threshold=100000,120000,140000"]);
    assert_eq!(found["verdict"], "no_difference", "{}", found["sentence"]);
    assert!(objections(&found).contains(&"at_edge"), "{found}");
    let sentence = found["sentence"].as_str().unwrap();
    assert!(sentence.contains("is the lowest that can be tried"), "{sentence}");
}

/// One session starts with more than low thresholds leave room for, so compaction fails there.
#[test]
fn a_threshold_that_blocks_a_session_is_not_recommended() {
    let fixture = Fixture::new();
    LINGERING.write(&fixture);
    PlantedSessions {
        sessions: 99..100,
        growth: 1_500,
        base: 100_000,
        ..LINGERING
    }
    .write(&fixture);
    let found = tune(&fixture, &["--vary=window.threshold=90000,130000,140000,150000,160000"]);
    let points = found["points"].as_array().unwrap();
    let blocked = points
        .iter()
        .filter(|point| point["blocked_sessions"].as_u64() > Some(0));
    let blocked = blocked
        .map(|point| point["policy"].as_str().unwrap())
        .collect::<Vec<_>>();
    assert!(blocked.contains(&"window.threshold=90000"), "{blocked:?}");
    assert!(
        points
            .iter()
            .all(|point| (point["blocked_sessions"] == 0) != point["cost_micro_usd"].is_null())
    );
    let best = found["choice"]["best"].as_str().unwrap();
    assert!(!blocked.contains(&best), "{best}");
}
