//! Tests of the working set on logs small enough to be followed by hand.

use crate::policy::presets::PolicySet;
use crate::prices::PriceTable;
use crate::sim::event::Event;
use crate::sim::trace::build_trace;
use crate::sim::uses::{FileUses, find_file_uses};
use crate::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use crate::tokens::ratios::RatioTable;
use crate::windows::{ProjectWindows, WindowQuery, infer_windows};
use serde_json::{Value, json};
use transcript::bytes::LineConsumer;
use transcript::thread::{Session, SessionLog, thread};
use transcript::walk::Walker;

/// A log of tool calls and their results, one call per response.
#[derive(Default)]
struct ToolScript {
    text: String,
    records: u32,
    sent: u64,
}

impl ToolScript {
    fn record(&mut self, mut fields: Value) {
        let parent = self.records.checked_sub(1).map(|before| format!("r{before}"));
        fields["uuid"] = json!(format!("r{}", self.records));
        fields["parentUuid"] = json!(parent);
        fields["sessionId"] = json!("S");
        fields["version"] = json!("2.1.31");
        fields["cwd"] = json!("/p");
        fields["timestamp"] = json!(format!("2026-01-01T00:{:02}:00.000Z", self.records));
        self.records += 1;
        self.text.push_str(&format!("{fields}\n"));
    }

    /// Adds a call and its result.
    fn call(mut self, tool: &str, input: Value, result: &str) -> ToolScript {
        let id = format!("t{}", self.records);
        self.sent += 1_000;
        let usage = json!({"input_tokens": 2, "cache_read_input_tokens": self.sent, "output_tokens": 50});
        self.record(json!({"type": "assistant", "message": {
            "id": format!("m{}", self.records), "model": "claude-opus-4-5", "stop_reason": "tool_use", "usage": usage,
            "content": [{"type": "tool_use", "id": id, "name": tool, "input": input}],
        }}));
        self.record(json!({"type": "user", "message": {
            "content": [{"type": "tool_result", "tool_use_id": id, "content": result}],
        }}));
        self
    }

    fn read(self, lines: &str) -> ToolScript {
        self.call("Read", json!({"file_path": "/p/a.go"}), lines)
    }

    fn read_range(self, offset: u32, limit: u32, lines: &str) -> ToolScript {
        self.call(
            "Read",
            json!({"file_path": "/p/a.go", "offset": offset, "limit": limit}),
            lines,
        )
    }

    fn edit(self, old: &str, new: &str) -> ToolScript {
        let input = json!({"file_path": "/p/a.go", "old_string": old, "new_string": new});
        self.call("Edit", input, "done and written")
    }

    fn write(self, text: &str) -> ToolScript {
        self.call(
            "Write",
            json!({"file_path": "/p/a.go", "content": text}),
            "done and written",
        )
    }

    fn shell(self, command: &str, output: &str) -> ToolScript {
        self.call("Bash", json!({"command": command}), output)
    }

    /// Adds a manual compaction.
    fn compact(mut self) -> ToolScript {
        let leaf = format!("r{}", self.records - 1);
        self.record(json!({
            "type": "system", "subtype": "compact_boundary", "logicalParentUuid": leaf,
            "compactMetadata": {"trigger": "manual", "preTokens": self.sent},
        }));
        self.record(json!({"type": "user", "isCompactSummary": true, "message": {"content": "what was done so far"}}));
        self
    }

    /// Replays the log and returns the outcomes of uses and mentions, and the kinds of reads, in order.
    fn outcomes(self, policy: &str, settings: &[&str]) -> (FileUses, Vec<String>) {
        let mut walker = Walker::new(1 << 20, &|_| ()).with_line_hashes();
        walker.take_lines(self.text.as_bytes(), 0);
        let (builder, lines) = walker.into_parts();
        let parts = [SessionLog {
            path: "log".into(),
            log: builder.finish(),
            copied: Vec::new(),
            lines: lines.unwrap_or_default(),
        }];
        let session = Session::new("S", &parts);
        let trace = build_trace(&session, &thread(&session).chains[0], RatioTable::built_in());
        let uses = find_file_uses(&session, &trace);
        let mut policies = PolicySet::preset(policy).unwrap();
        for setting in settings {
            policies.assign(setting, "test").unwrap();
        }
        let (by_version, by_model) = policies_and_prices(&policies, PriceTable::built_in(), &trace);
        let query = WindowQuery {
            policies: &by_version,
            prices: &by_model,
            siblings: &ProjectWindows::default(),
        };
        let windows = infer_windows(&trace, &query);
        let input = ReplayInput {
            policies: &by_version,
            prices: &by_model,
            windows: &windows,
            summary: None,
            mode: ReplayMode::Free,
            uses: Some(&uses),
            texts: None,
            key: 0,
        };
        let mut outcomes = Vec::new();
        replay(&trace, &input, &mut |_: u32, event: &Event<'_>| match event {
            Event::Used { outcome, .. } => outcomes.push(outcome.name().to_owned()),
            Event::Referred { outcome, .. } => outcomes.push(format!("named {}", outcome.name())),
            Event::Fetched { kind, .. } => outcomes.push(kind.name().to_owned()),
            _ => {}
        });
        (uses, outcomes)
    }
}

const FILE: &str = "1\tpackage main\n2\tfunc first() {}\n3\tfunc second() {}\n4\tfunc third() {}";

fn check(script: ToolScript, expected: &[&str]) {
    let settings = ["restore.files=0"];
    assert_eq!(script.outcomes("client-2.1.30", &settings).1, expected);
}

#[test]
fn lines_that_are_in_the_window_are_hits() {
    let script = ToolScript::default()
        .read(FILE)
        .edit("func first() {}", "func first() { go() }");
    check(script, &["cold", "live"]);
}

#[test]
fn lines_that_a_boundary_dropped_are_missed_once() {
    let script = ToolScript::default()
        .read(FILE)
        .edit("func first() {}", "func one() {}")
        .compact();
    let script = script
        .edit("func second() {}", "func two() {}")
        .edit("func third() {}", "func three() {}");
    check(script, &["cold", "live", "missed", "filled"]);
}

#[test]
fn a_search_after_the_boundary_shows_them_again() {
    let script = ToolScript::default()
        .read(FILE)
        .edit("func first() {}", "func one() {}")
        .compact();
    let script = script.shell("grep -n second a.go", "a.go:3:func second() {}");
    check(
        script.edit("func second() {}", "func two() {}"),
        &["cold", "live", "named missed", "live"],
    );
}

#[test]
fn mentions_are_classified_by_file() {
    let script = ToolScript::default().shell("cat a.go", "cat: a.go: not there");
    let script = script
        .read(FILE)
        .shell("wc -l ./a.go && gofmt -l a.go", "4 lines")
        .compact();
    let script = script
        .shell("wc -l /p/a.go", "4 lines")
        .shell("wc -l a.go", "4 lines")
        .shell("wc -l b.go x/a.go", "none");
    // Unknown before the read; counted once per call; missed once; another path is another file.
    check(script, &["cold", "named live", "named missed", "named filled"]);
}

#[test]
fn an_end_that_two_paths_share_names_neither() {
    let other = |script: ToolScript| script.call("Read", json!({"file_path": "/p/lib/a.go"}), FILE);
    let script = other(ToolScript::default().read(FILE)).shell("wc -l a.go", "4 lines");
    check(
        other(script).shell("wc -l lib/a.go", "4 lines"),
        &["cold", "cold", "redundant", "named live"],
    );
}

#[test]
fn results_in_flight_have_their_own_outcome() {
    let script = ToolScript::default()
        .shell("ls", "nothing to see here")
        .read(FILE)
        .compact();
    check(script.edit("func second() {}", "func two() {}"), &["cold", "in-flight"]);
}

#[test]
fn a_file_that_came_back_is_credited_or_not() {
    let script = ToolScript::default()
        .read(FILE)
        .edit("func first() {}", "func one() {}")
        .compact();
    let script = script.edit("func second() {}", "func two() {}");
    assert_eq!(
        script.outcomes("client-2.1.30", &["restore.files=5"]).1,
        ["cold", "live", "restored"]
    );
}

#[test]
fn lines_never_seen_are_cold_and_left_out() {
    let script = ToolScript::default()
        .read(FILE)
        .edit("never seen before", "something else");
    let (uses, outcomes) = script.outcomes("client-2.1.30", &[]);
    assert_eq!((uses.cold, outcomes), (1, vec!["cold".to_owned()]));
    let half = ToolScript::default()
        .read(FILE)
        .edit("func first() {}\nnever seen before", "x");
    check(half, &["cold", "live"]);
}

#[test]
fn files_that_are_not_known_are_no_uses() {
    check(ToolScript::default().write("package main, all of it"), &[]);
}

#[test]
fn a_write_needs_any_copy() {
    let script = ToolScript::default()
        .read(FILE)
        .write("package other")
        .compact()
        .write("package third");
    check(script, &["cold", "live", "missed"]);
}

#[test]
fn reads_by_what_they_were_for() {
    let script = ToolScript::default()
        .read_range(1, 100, FILE)
        .read_range(10, 20, FILE)
        .read_range(200, 50, FILE);
    check(script, &["cold", "redundant", "other-range"]);
    let patched = ToolScript::default()
        .read(FILE)
        .edit("func first() {}", "func one() {}")
        .read(FILE);
    check(patched, &["cold", "live", "patched"]);
    let refetched = ToolScript::default()
        .read(FILE)
        .edit("func first() {}", "func one() {}")
        .compact()
        .read(FILE);
    check(refetched, &["cold", "live", "refetch"]);
}

#[test]
fn a_failed_edit_is_no_use() {
    let mut script = ToolScript::default().read(FILE);
    script.sent += 1_000;
    let usage = json!({"input_tokens": 2, "cache_read_input_tokens": script.sent, "output_tokens": 50});
    script.record(json!({"type": "assistant", "message": {
        "id": "m9", "model": "claude-opus-4-5", "stop_reason": "tool_use", "usage": usage,
        "content": [{"type": "tool_use", "id": "t9", "name": "Edit",
            "input": {"file_path": "/p/a.go", "old_string": "func first() {}", "new_string": "x"}}],
    }}));
    script.record(json!({"type": "user", "message": {
        "content": [{"type": "tool_result", "tool_use_id": "t9", "is_error": true, "content": "no such text"}],
    }}));
    check(script, &["cold"]);
}
