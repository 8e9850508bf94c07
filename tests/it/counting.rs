//! Every call counts once: the figures of the cases that other counters get wrong, written out.

use crate::fixture::{Figures, Fixture, case, figures};

/// Responses, input, output, cache reads, five-minute writes, one-hour writes.
#[track_caller]
fn check(name: &str, expected: Figures) {
    let stats = Fixture::new().stats(case(name), &["--no-cache"]);
    assert_eq!(figures(&stats["totals"]), expected, "{name}");
}

#[test]
fn streaming_partials_count_once_with_the_largest_output() {
    check("streaming-partials", [7, 53, 802, 174_059, 39_246, 0]);
}

#[test]
fn lines_without_request_id_are_still_one_response() {
    check("missing-request-id", [2, 12, 129, 38_630, 4_569, 0]);
}

#[test]
fn a_message_in_two_sessions_counts_once() {
    check("resumed-copy", [4, 22, 26, 108_633, 47_168, 0]);
    check("forked-copies", [5, 28, 132, 88_262, 132_984, 0]);
}

#[test]
fn a_shared_message_belongs_to_the_session_that_made_it() {
    let stats = Fixture::new().stats(case("resumed-copy"), &["--no-cache"]);
    let rows = stats["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    let sum = rows
        .iter()
        .map(|row| row["responses"].as_u64().expect("a count"))
        .sum::<u64>();
    assert_eq!(sum, 4, "rows add up to the totals");
    assert!(
        rows.iter().all(|row| row["responses"] != 0),
        "each session made calls of its own"
    );
    assert_eq!(stats["input"]["copied_records"], 9);
}

#[test]
fn a_replay_in_a_sidechain_counts_once() {
    check("sidechain-replay", [5, 39, 216, 53_511, 30_688, 0]);
}

#[test]
fn a_replayed_response_stays_with_the_main_agent() {
    let stats = Fixture::new().stats(case("sidechain-replay"), &["--no-cache", "--subagents"]);
    let rows = stats["rows"].as_array().expect("rows");
    let sum = |is_main: bool| {
        let of = rows.iter().filter(|row| (row["agent"] == "") == is_main);
        of.map(|row| row["responses"].as_u64().expect("a count")).sum::<u64>()
    };
    assert_eq!(sum(true) + sum(false), 5);
    assert_eq!(stats["totals"]["subagent_responses"], sum(false));
}

#[test]
fn cache_writes_of_both_lifetimes_are_kept_apart_and_priced_apart() {
    check("one-hour-writes", [3, 19, 140, 104_309, 700, 8_747]);
    // A price table where only cache writes cost anything: 1 and 1,000 dollars per million.
    let fixture = Fixture::new();
    let prices = fixture.write(
        "prices.json",
        r#"{"as_of": "2026-01-01", "source": "made up", "unit": "USD per million tokens", "models": {"claude-opus-5":
           {"input": 0, "output": 0, "cache_read": 0, "cache_write_5m": 1, "cache_write_1h": 1000}}}"#,
    );
    let prices = format!("--prices={}", prices.display());
    let stats = fixture.stats(case("one-hour-writes"), &["--no-cache", &prices]);
    assert_eq!(stats["totals"]["cost_micro_usd"], 700 + 8_747_000);
}

#[test]
fn the_top_level_of_several_iterations_is_their_sum() {
    check("several-iterations", [2, 7, 99, 224_482, 0, 112_797]);
}

#[test]
fn the_window_is_that_of_the_last_iteration() {
    let stats = Fixture::new().stats(case("several-iterations"), &["--no-cache"]);
    let totals = figures(&stats["totals"]);
    let billed = totals[1] + totals[3] + totals[4] + totals[5];
    let peak = stats["rows"][0]["context_peak"].as_u64().expect("a window");
    assert!(
        peak > 0 && peak < billed / 2,
        "{peak} is a window, not the bill of {billed}"
    );
}

#[test]
fn zeroed_usage_counts_by_its_iterations_or_its_other_lines() {
    check("zeroed-usage", [2, 14, 421, 38_107, 38_458, 0]);
    check("preserved-segment", [3, 13, 99, 224_361, 0, 164_376]);
}

#[test]
fn records_made_by_the_client_are_never_billed() {
    check("synthetic-model", [2, 9, 14, 19_369, 40_537, 0]);
    check("no-usage", [1, 4, 4, 32_728, 8_200, 0]);
}

#[test]
fn progress_records_do_not_count_again() {
    check("agent-progress", [4, 21, 14, 64_213, 44_554, 0]);
}

#[test]
fn a_rewound_branch_was_still_billed() {
    check("rewind", [4, 26, 140, 162_654, 8_846, 0]);
    let stats = Fixture::new().stats(case("rewind"), &["--no-cache"]);
    assert_eq!(stats["rows"][0]["rewound_branches"], 1);
    assert!(stats["totals"]["rewound_responses"].as_u64() > Some(0));
    assert!(stats["rewound_tokens"].as_u64() > Some(0));
}

#[test]
fn an_id_of_the_api_is_one_call_and_any_other_gives_way_to_the_request() {
    let fixture = Fixture::new();
    let line = |uuid: &str, request: &str, output: u64| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","sessionId":"s","timestamp":"2026-01-01T00:00:00Z"{request},"message":{{"id":"msg_1","role":"assistant","model":"claude-opus-5","content":[],"usage":{{"input_tokens":10,"output_tokens":{output}}}}}}}"#
        )
    };
    let two = [
        line("a", r#","requestId":"req_1""#, 5),
        line("b", r#","requestId":"req_2""#, 7),
    ]
    .join("\n");
    let path = fixture.write("two.jsonl", two);
    assert_eq!(
        figures(&fixture.stats(path, &["--no-cache"])["totals"]),
        [1, 10, 7, 0, 0, 0]
    );
    let foreign = |ids: [&str; 2], requests: [&str; 2]| {
        let lines = [("a", 5), ("b", 7)].iter().zip(std::iter::zip(ids, requests));
        let lines = lines.map(|((uuid, output), (id, request))| {
            line(uuid, &format!(r#","requestId":"{request}""#), *output).replace("msg_1", id)
        });
        let path = fixture.write("foreign.jsonl", lines.collect::<Vec<_>>().join("\n"));
        figures(&fixture.stats(path, &["--no-cache"])["totals"])
    };
    assert_eq!(foreign(["x", "y"], ["req_1", "req_1"]), [1, 10, 7, 0, 0, 0]);
    assert_eq!(foreign(["x", "x"], ["req_1", "req_2"]), [2, 20, 12, 0, 0, 0]);
    let one = [line("a", r#","requestId":"req_1""#, 5), line("b", "", 7)].join("\n");
    let path = fixture.write("one.jsonl", one);
    assert_eq!(
        figures(&fixture.stats(path, &["--no-cache"])["totals"]),
        [1, 10, 7, 0, 0, 0]
    );
}

/// A line of a call: its message, its request, its output, when and as which record.
fn response_line(message: &str, request: &str, output: &str, time: &str, uuid: &str) -> String {
    format!(
        "{{\"type\":\"assistant\",\"uuid\":\"{uuid}\",\"sessionId\":\"s\",\"timestamp\":\"{time}\",\"requestId\":\"{request}\",\
         \"message\":{{\"id\":\"{message}\",\"model\":\"claude-opus-5\",\"role\":\"assistant\",\"content\":[],\
         \"usage\":{{\"input_tokens\":10,\"output_tokens\":{output}}}}}}}\n"
    )
}

const NOON: &str = "2026-01-01T12:00:00.000Z";

/// Responses and output of a log of these lines, and the kinds of its problems.
fn of_lines(lines: &[String], options: &[&str]) -> (u64, u64, Vec<String>) {
    let fixture = Fixture::new();
    let log = fixture.write("a.jsonl", lines.concat());
    let stats = fixture.stats(&log, &[&["--no-cache"], options].concat());
    let kinds = stats["problems"]["by_kind"].as_object().expect("kinds");
    let [responses, _, output, ..] = figures(&stats["totals"]);
    (responses, output, kinds.keys().cloned().collect())
}

#[test]
fn an_empty_id_counts_as_missing() {
    let lines = [
        response_line("m", "q", "5", NOON, "a"),
        response_line("m", "", "50", NOON, "b"),
    ];
    assert_eq!(of_lines(&lines, &[]), (1, 50, vec![]), "a request");
    let lines = [
        response_line("m", "q", "5", NOON, ""),
        response_line("n", "r", "7", NOON, ""),
    ];
    assert_eq!(of_lines(&lines, &[]), (2, 12, vec![]), "records");
}

#[test]
fn records_that_repeat_an_id_inside_a_log_are_billed_all_the_same() {
    let lines = [
        response_line("m", "q", "1", NOON, "a"),
        response_line("m", "q", "50", NOON, "a"),
    ];
    assert_eq!(of_lines(&lines, &[]), (1, 50, vec![]), "the complete telling counts");
    let lines = [
        response_line("m", "q", "5", NOON, "a"),
        response_line("n", "r", "7", NOON, "a"),
    ];
    assert_eq!(of_lines(&lines, &[]), (2, 12, vec![]), "two calls are two");
}

#[test]
fn a_call_across_the_edge_of_two_ranges_is_in_one_of_them() {
    let lines = [
        response_line("m", "q", "1", "2026-01-01T23:59:59.000Z", "a"),
        response_line("m", "q", "50", "2026-01-02T00:00:01.000Z", "b"),
    ];
    let (before, after) = (["--until=2026-01-01"], ["--since=2026-01-02"]);
    assert_eq!(
        of_lines(&lines, &before),
        (1, 50, vec![]),
        "whole, on the day of its first line"
    );
    assert_eq!(of_lines(&lines, &after), (0, 0, vec![]));
}

#[test]
fn an_invalid_count_is_reported_and_the_others_still_count() {
    let good = response_line("m", "q", "5", NOON, "a");
    for nonsense in ["18446744073709551615", "1000000000001", "-3", "2e3", "7.5", "\"9\""] {
        let lines = [good.clone(), response_line("n", "r", nonsense, NOON, "b")];
        assert_eq!(of_lines(&lines, &[]), (2, 5, vec!["bad-count".into()]), "{nonsense}");
    }
    for (fine, output) in [("1000000000000", 1_000_000_000_005), ("null", 5), ("-0", 5)] {
        let lines = [good.clone(), response_line("n", "r", fine, NOON, "b")];
        assert_eq!(of_lines(&lines, &[]), (2, output, vec![]), "{fine}");
    }
}

#[test]
fn cache_writes_without_their_sum_are_added_up() {
    let fixture = Fixture::new();
    let split = "7,\"cache_creation\":{\"ephemeral_5m_input_tokens\":20,\"ephemeral_1h_input_tokens\":300}";
    let log = fixture.write("a.jsonl", response_line("m", "q", split, NOON, "a"));
    let stats = fixture.stats(&log, &["--no-cache"]);
    assert_eq!(figures(&stats["totals"]), [1, 10, 7, 0, 20, 300]);
}

#[test]
fn any_number_of_records_on_one_line_is_read() {
    let record = |at: usize| response_line(&format!("msg_{at}"), "q", "1", NOON, &format!("u{at}"));
    let glued = (0..300).map(record).collect::<String>().replace('\n', "");
    assert_eq!(of_lines(&[glued], &[]), (300, 300, vec!["records-split".into()]));
    // A torn record with more blocks than the repair tries as starts of a record, then a whole one.
    let torn = "{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":[".to_owned()
        + &"{\"type\":\"text\"},".repeat(200);
    assert_eq!(of_lines(&[torn, record(1)], &[]), (1, 1, vec!["record-torn".into()]));
}
