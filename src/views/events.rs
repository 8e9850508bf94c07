//! Events as JSON, one object per event, so that a person can follow a replay with the log open.
//!
//! Calls are numbered from 0, as in every output. Items are identified by their record: the records of the chain that have
//! content, numbered from 0 in the order of the conversation. Each kind of event always has the same keys; an unknown value
//! is null. Events of sub-agents have `agent`.

use replay::prices::{PicoUsd, micro_usd};
use replay::sim::event::{Event, SimBoundary, SimCall};
use replay::sim::restore::RestoredPart;
use replay::sim::trace::{Trace, flag};
use replay::tokens::ledger::CATEGORIES;
use replay::windows::known_level;
use serde_json::{Map, Value, json};
use transcript::record::Tokens;

/// Returns one event. `call` is the API call before or at which it happens.
pub fn event_json(trace: &Trace, call: u32, event: &Event<'_>) -> Value {
    let (kind, mut fields) = match event {
        Event::Micro {
            kind,
            eligible,
            saved,
            cleared,
        } => (
            "micro",
            json!({
                "kind": kind.name(), "eligible": eligible, "saved": saved, "cleared": items_json(trace, cleared),
            }),
        ),
        Event::Due { context, threshold } => ("due", json!({"context": context, "threshold": threshold})),
        Event::Reached {
            recorded,
            count,
            threshold,
            is_due,
        } => (
            "reached",
            json!({
                "boundary": recorded, "context": count.map(|count| count.context), "threshold": threshold, "due": is_due,
            }),
        ),
        Event::Boundary(found) => ("boundary", boundary_json(trace, found)),
        Event::Failed {
            cause,
            failure,
            in_a_row,
        } => (
            "failed",
            json!({"cause": cause.name(), "failure": failure.name(), "in_a_row": in_a_row}),
        ),
        Event::BreakerOpen => ("breaker-open", json!({})),
        Event::Used { one, outcome, .. } => (
            "used",
            json!({
                "path": trace.paths[one.path as usize], "outcome": outcome.name(), "distance": one.distance,
            }),
        ),
        Event::Referred { path, outcome } => (
            "referred",
            json!({"path": trace.paths[*path as usize], "outcome": outcome.name()}),
        ),
        Event::Fetched { kind, tokens } => ("fetched", json!({"kind": kind.name(), "tokens": tokens})),
        Event::TooLong { tokens, limit } => ("prompt-too-long", json!({"tokens": tokens, "limit": limit})),
        Event::Blocked => ("blocked", json!({})),
        Event::Called(found) => ("called", call_json(trace, call, found)),
        Event::Side { purpose, tokens, cost } => {
            let mut fields = tokens_json(tokens, *cost);
            put_key(&mut fields, "purpose", json!(purpose.name()));
            ("side-call", fields)
        }
        Event::Inner { tokens, cost } => ("call-within-response", tokens_json(tokens, *cost)),
        Event::Notes { tokens } => ("notes", json!({"tokens": tokens})),
        Event::Extract => ("extract", json!({})),
        Event::Recalled { tokens } => ("recalled", json!({"tokens": tokens})),
        Event::NotesRead { tokens } => ("notes-read", json!({"tokens": tokens})),
        Event::Nested { path, tokens } => ("nested", json!({"path": trace.paths[*path as usize], "tokens": tokens})),
        Event::NeedsRead { path } => ("needs-read", json!({"path": trace.paths[*path as usize]})),
        Event::Orphans(results) => ("orphans", json!({"results": results})),
        Event::Defect { running, counted } => ("defect", json!({"running": running, "counted": counted})),
    };
    put_key(&mut fields, "event", json!(kind));
    put_key(&mut fields, "call", json!(call));
    if trace.is_sidechain {
        put_key(&mut fields, "agent", json!(trace.agent));
    }
    fields
}

fn put_key(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(key.to_owned(), value);
    }
}

/// Returns the number of the record that an item belongs to.
fn record_number(trace: &Trace, item: u32) -> usize {
    let starts = trace.items.iter().take(item as usize + 1);
    let started = starts.filter(|item| item.has_flag(flag::STARTS_RECORD)).count();
    started.saturating_sub(1)
}

fn items_json(trace: &Trace, items: &[u32]) -> Vec<Value> {
    let objects = items.iter().map(|&at| {
        let item = &trace.items[at as usize];
        json!({
            "record": record_number(trace, at),
            "tool": trace.tools[usize::from(item.tool)],
            "path": trace.paths[path_of(trace, at) as usize],
            "tokens": item.tokens,
        })
    });
    objects.collect()
}

/// Returns the path of an item. A result without one has that of its call.
fn path_of(trace: &Trace, at: u32) -> u32 {
    let item = &trace.items[at as usize];
    match trace.items.get(item.pair as usize) {
        Some(pair) if item.path == 0 => pair.path,
        _ => item.path,
    }
}

fn boundary_json(trace: &Trace, found: &SimBoundary) -> Value {
    let kept = (!found.kept.is_empty()).then(|| {
        let last = found.kept.end - 1;
        json!({"from": record_number(trace, found.kept.start), "to": record_number(trace, last)})
    });
    json!({
        "cause": found.cause.name(),
        "kind": found.kind.name(),
        "context": found.context,
        "threshold": known_level(found.threshold),
        "before": found.size.before,
        "after": found.size.after,
        "summary": found.size.summary,
        "restored": found.size.restored,
        "restored_parts": restored_parts_json(found),
        "records": found.summarized.records,
        "last_record": found.last_item.map(|item| record_number(trace, item)),
        "kept": kept,
        "retries": found.retries,
        "calls_since": found.since.calls,
        "turns_since": found.since.turns,
        "again": found.since.is_recompaction,
        "previous_call": found.since.previous.map(|(call, _)| call),
        "previous_turn": found.since.previous.map(|(_, turn)| turn),
        "call_source": trace.call_source(),
        "recorded": found.is_recorded,
    })
}

/// Returns the restored tokens of a boundary by kind, without kinds that did not come back.
pub fn restored_parts_json(found: &SimBoundary) -> Value {
    let parts = std::iter::zip(RestoredPart::ALL, found.restored_parts).filter(|(_, tokens)| *tokens > 0);
    Value::Object(
        parts
            .map(|(part, tokens)| (part.name().to_owned(), json!(tokens)))
            .collect(),
    )
}

fn call_json(trace: &Trace, call: u32, found: &SimCall) -> Value {
    let parts =
        std::iter::zip(CATEGORIES, found.parts).map(|(category, tokens)| (category.name().to_owned(), json!(tokens)));
    let mut fields = tokens_json(&found.tokens, found.cost);
    for (key, value) in [
        (
            "model",
            json!(trace.calls.get(call as usize).map(|call| trace.model(call))),
        ),
        ("window", json!(found.tokens.input_side())),
        ("parts", Value::Object(parts.collect::<Map<_, _>>())),
        ("base", json!(found.base)),
        ("drift", json!(found.drift)),
        ("threshold", json!(known_level(found.threshold))),
        ("level", json!(found.level.name())),
        ("in_step", json!(found.in_step)),
        ("miss", json!(found.miss.map(|miss| miss.name()))),
    ] {
        put_key(&mut fields, key, value);
    }
    fields
}

fn tokens_json(tokens: &Tokens, cost: Option<PicoUsd>) -> Value {
    json!({
        "input": tokens.input,
        "cache_read": tokens.cache_read,
        "cache_write_5m": tokens.cache_write - tokens.cache_write_1h,
        "cache_write_1h": tokens.cache_write_1h,
        "output": tokens.output,
        "cost_micro_usd": cost.map(micro_usd),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::sim::event::{
        BoundaryDistance, BoundarySize, CacheExpectation, CompactionCause, CompactionFailure, CompactionKind,
        MicroKind, RecordCount, SideCallPurpose, WindowLevel,
    };
    use replay::sim::trace::{NONE, TraceItem};
    use replay::tokens::ledger::Category;

    fn item(category: Category, flags: u16, tool: u16, pair: u32, path: u32) -> TraceItem {
        TraceItem {
            tokens: 7,
            quarters: 7,
            category,
            flags,
            images: 0,
            tool,
            pair,
            path,
        }
    }

    /// A prompt, a response of one record with a text and a call, and its result.
    fn trace() -> Trace {
        Trace {
            items: vec![
                item(Category::Human, flag::STARTS_RECORD, 0, NONE, 0),
                item(Category::Text, flag::STARTS_RECORD, 0, NONE, 0),
                item(Category::ToolCall, 0, 1, 3, 1),
                item(Category::ToolResult, flag::STARTS_RECORD, 1, 2, 0),
            ],
            tools: vec![String::new(), "Read".to_owned()],
            paths: vec![String::new(), "/src/main.rs".to_owned()],
            ..Trace::default()
        }
    }

    #[test]
    fn items_have_record_tool_and_path() {
        let event = Event::Micro {
            kind: MicroKind::Gap,
            eligible: 0,
            saved: 5,
            cleared: &[3],
        };
        let expected = json!({
            "event": "micro", "call": 4, "kind": "gap", "eligible": 0, "saved": 5,
            "cleared": [{"record": 2, "tool": "Read", "path": "/src/main.rs", "tokens": 7}],
        });
        assert_eq!(event_json(&trace(), 4, &event), expected);
    }

    #[test]
    fn a_boundary_says_which_records_were_kept() {
        let mut found = SimBoundary {
            cause: CompactionCause::Auto,
            kind: CompactionKind::Full,
            context: 10,
            threshold: 9,
            size: BoundarySize {
                before: 10,
                after: 3,
                summary: 1,
                restored: 0,
            },
            restored_files: Vec::new(),
            restored_parts: [0; RestoredPart::ALL.len()],
            dropped: [0; replay::sim::event::PARTS],
            kept_parts: [0; replay::sim::event::PARTS],
            summarized: RecordCount { records: 2, prompts: 0 },
            last_item: Some(3),
            kept: 4..4,
            retries: 0,
            since: BoundaryDistance {
                calls: 1,
                turns: 0,
                is_recompaction: false,
                previous: None,
            },
            is_recorded: false,
        };
        assert_eq!(event_json(&trace(), 1, &Event::Boundary(&found))["kept"], Value::Null);
        found.kept = 1..4;
        let object = event_json(&trace(), 1, &Event::Boundary(&found));
        assert_eq!(object["kept"], json!({"from": 1, "to": 2}));
        assert_eq!(object["last_record"], 2);
    }

    #[test]
    fn every_kind_has_its_name_and_its_call() {
        let called = SimCall {
            tokens: Tokens::default(),
            cost: None,
            parts: [0; replay::sim::event::PARTS],
            base: 0,
            drift: -1,
            threshold: 0,
            level: WindowLevel::Normal,
            in_step: true,
            miss: None,
            cache: CacheExpectation {
                situation: None,
                is_hour: false,
                held: 0,
                low: 0,
                by_rule: 0,
            },
        };
        let events = [
            (
                Event::Due {
                    context: 1,
                    threshold: 1,
                },
                "due",
            ),
            (Event::BreakerOpen, "breaker-open"),
            (Event::TooLong { tokens: 2, limit: 1 }, "prompt-too-long"),
            (Event::Blocked, "blocked"),
            (Event::Called(&called), "called"),
            (Event::Notes { tokens: 1 }, "notes"),
            (Event::Extract, "extract"),
            (Event::Orphans(1), "orphans"),
            (Event::Recalled { tokens: 1 }, "recalled"),
            (Event::NotesRead { tokens: 1 }, "notes-read"),
            (Event::Nested { path: 1, tokens: 1 }, "nested"),
            (Event::NeedsRead { path: 1 }, "needs-read"),
            (Event::Defect { running: 1, counted: 2 }, "defect"),
            (
                Event::Reached {
                    recorded: 0,
                    count: None,
                    threshold: 1,
                    is_due: false,
                },
                "reached",
            ),
            (
                Event::Failed {
                    cause: CompactionCause::Auto,
                    failure: CompactionFailure::Injected,
                    in_a_row: 1,
                },
                "failed",
            ),
            (
                Event::Side {
                    purpose: SideCallPurpose::Notes,
                    tokens: Tokens::default(),
                    cost: Some(1_500_000),
                },
                "side-call",
            ),
        ];
        for (event, name) in events {
            let object = event_json(&trace(), 3, &event);
            assert_eq!((&object["event"], &object["call"]), (&json!(name), &json!(3)));
            assert!(object.get("agent").is_none(), "{object}");
        }
    }

    #[test]
    fn costs_are_micro_dollars_and_unknown_ones_are_null() {
        let side = |cost| Event::Side {
            purpose: SideCallPurpose::Compact,
            tokens: Tokens::default(),
            cost,
        };
        assert_eq!(event_json(&trace(), 0, &side(Some(1_500_000)))["cost_micro_usd"], 2);
        assert_eq!(event_json(&trace(), 0, &side(None))["cost_micro_usd"], Value::Null);
    }

    #[test]
    fn a_sub_agent_is_named() {
        let trace = Trace {
            agent: "a17".to_owned(),
            is_sidechain: true,
            ..trace()
        };
        assert_eq!(event_json(&trace, 0, &Event::Blocked)["agent"], "a17");
    }
}
