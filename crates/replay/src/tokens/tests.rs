//! Tests of [`super::calibrate`]: each rule as a log of a few lines, read by the real parser.

use crate::tokens::calibrate::{ChainSizes, TokenOrigin, UnfitReason, size_rounds};
use crate::tokens::equation::Equation;
use crate::tokens::ratios::{Coefficient, RatioTable};
use serde_json::{Value, json};
use std::ops::Range;
use transcript::bytes::LineConsumer;
use transcript::log::{Block, BlockKind};
use transcript::thread::{Chain, Session, SessionLog, thread};
use transcript::walk::Walker;

const OPUS: &str = "claude-opus-4-5-20251101";
const SONNET: &str = "claude-sonnet-4-5-20250929";

/// A log under construction: every record follows the one before.
#[derive(Default)]
struct LogScript {
    lines: Vec<Value>,
}

impl LogScript {
    fn push(mut self, mut record: Value) -> LogScript {
        let number = self.lines.len();
        record["uuid"] = json!(format!("u{number}"));
        record["sessionId"] = json!("s");
        if number > 0 {
            record["parentUuid"] = json!(format!("u{}", number - 1));
        }
        self.lines.push(record);
        self
    }

    fn prompt(self, text: &str) -> LogScript {
        self.push(json!({"type": "user", "message": {"content": text}}))
    }

    fn result(self, call: &str, text: &str) -> LogScript {
        let block = json!({"type": "tool_result", "tool_use_id": call, "content": text});
        self.push(json!({"type": "user", "message": {"content": [block]}}))
    }

    /// Adds a response whose output count was taken while it was streaming, so it says nothing.
    fn partial(self, id: &str, model: &str, input: u64, blocks: Value) -> LogScript {
        let usage = json!({"cache_read_input_tokens": input, "output_tokens": 1});
        self.push(
            json!({"type": "assistant", "message": {"id": id, "model": model, "content": blocks, "usage": usage}}),
        )
    }

    /// Adds a finished response.
    fn response(self, id: &str, model: &str, (input, output): (u64, u64), blocks: Value) -> LogScript {
        let mut script = self.partial(id, model, input, blocks);
        if let Some(record) = script.lines.last_mut() {
            record["message"]["usage"]["output_tokens"] = json!(output);
            record["message"]["stop_reason"] = json!("end_turn");
        }
        script
    }

    fn system(self, subtype: &str) -> LogScript {
        self.push(json!({"type": "system", "subtype": subtype}))
    }

    /// Parses, threads and sizes the log.
    fn check(self, check: impl Fn(&Session<'_>, &Chain, &ChainSizes, &[BlockShare])) {
        let mut walker = Walker::new(1 << 20, &|_| {});
        for line in &self.lines {
            walker.take_lines(format!("{line}\n").as_bytes(), 0);
        }
        let parts = [SessionLog {
            path: "s.jsonl".into(),
            log: walker.into_builder().finish(),
            copied: Vec::new(),
            lines: Default::default(),
        }];
        let session = Session::new("s", &parts);
        let threaded = thread(&session);
        let chain = &threaded.chains[0];
        let sized = |rounds: Range<usize>, shares: &mut Vec<BlockShare>| {
            let mut share = |node, block: &Block, tokens, origin| {
                shares.push(BlockShare {
                    line: session.record(node).line,
                    kind: block.kind,
                    tokens,
                    origin,
                });
            };
            size_rounds(&session, chain, rounds, RatioTable::built_in(), &mut share)
        };
        let (all, mut shares) = (chain.rounds.len(), Vec::new());
        let sizes = sized(0..all, &mut shares);
        // Sizing a chain in two pieces gives the same as sizing the whole, wherever it is cut.
        for cut in 0..=all {
            let mut of_pieces = Vec::new();
            let mut pieces = sized(0..cut, &mut of_pieces);
            let rest = sized(cut..all, &mut of_pieces);
            pieces.rounds.extend(rest.rounds);
            pieces.pairs.extend(rest.pairs);
            pieces.unfit.extend(rest.unfit);
            assert_eq!((&pieces, &of_pieces), (&sizes, &shares), "cut at {cut}");
        }
        check(&session, chain, &sizes, &shares);
    }
}

/// The size that a block was given.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BlockShare {
    line: u32,
    kind: BlockKind,
    tokens: f64,
    origin: TokenOrigin,
}

fn text(of: &str) -> Value {
    json!({"type": "text", "text": of})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "/a.rs"}})
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "", "signature": "x".repeat(2000)})
}

fn words(count: usize) -> String {
    "word ".repeat(count)
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

fn sum(shares: &[BlockShare], lines: std::ops::RangeInclusive<u32>) -> f64 {
    shares
        .iter()
        .filter(|share| lines.contains(&share.line))
        .map(|share| share.tokens)
        .sum()
}

fn origins(shares: &[BlockShare], lines: std::ops::RangeInclusive<u32>) -> Vec<TokenOrigin> {
    shares
        .iter()
        .filter(|share| lines.contains(&share.line))
        .map(|share| share.origin)
        .collect()
}

#[test]
fn a_difference_is_shared_out_completely() {
    let script = LogScript::default()
        .prompt("go")
        .partial("m1", OPUS, 20_000, json!([text(&words(40)), call("c1")]))
        .result("c1", &words(200))
        .partial("m2", OPUS, 20_500, json!([text("done")]));
    script.check(|_, _, sizes, shares| {
        assert_eq!(sizes.unfit, [UnfitReason::First]);
        assert_near(sum(shares, 2..=3), 500.0);
        assert_eq!(origins(shares, 2..=3), [TokenOrigin::Calibrated; 3]);
        assert_eq!(
            origins(shares, 4..=4),
            [TokenOrigin::Estimated],
            "no call after it says how large it is"
        );
    });
}

#[test]
fn a_final_output_is_shared_exactly() {
    let script = LogScript::default()
        .prompt("go")
        .response(
            "m1",
            OPUS,
            (20_000, 333),
            json!([thinking(), text(&words(40)), call("c1")]),
        )
        .result("c1", &words(200))
        .response("m2", OPUS, (20_650, 7), json!([text("done")]));
    script.check(|_, _, sizes, shares| {
        assert_near(sum(shares, 2..=2), 333.0);
        assert_near(sum(shares, 3..=3), 650.0 - 333.0);
        assert_near(sum(shares, 4..=4), 7.0);
        assert_eq!(origins(shares, 2..=2), [TokenOrigin::Calibrated; 3]);
        assert_eq!(
            origins(shares, 4..=4),
            [TokenOrigin::Recorded],
            "the only block is the whole output"
        );
        assert_eq!(sizes.rounds[1].context(), Some(20_657));
    });
}

#[test]
fn an_implausible_difference_is_not_shared_out() {
    let script = LogScript::default()
        .prompt("go")
        .response("m1", OPUS, (20_000, 100), json!([call("c1")]))
        .result("c1", "ok")
        .response("m2", OPUS, (29_000, 7), json!([text("done")]));
    script.check(|_, _, sizes, shares| {
        assert_eq!(sizes.pairs.len(), 1, "it still counts against the estimates");
        assert_eq!(origins(shares, 3..=3), [TokenOrigin::Estimated]);
        assert!(sum(shares, 3..=3) < 100.0);
    });
}

#[test]
fn what_breaks_the_chain_of_windows_leaves_estimates() {
    let start = || {
        LogScript::default()
            .prompt("go")
            .partial("m1", OPUS, 90_000, json!([text(&words(40)), call("c1")]))
            .result("c1", &words(200))
    };
    let cases = [
        (
            start().system("compact_boundary").prompt("next"),
            OPUS,
            91_000,
            UnfitReason::Boundary,
        ),
        (
            start().system("microcompact_boundary"),
            OPUS,
            60_000,
            UnfitReason::Micro,
        ),
        (start(), SONNET, 90_500, UnfitReason::ModelSwitch),
        (start(), OPUS, 30_000, UnfitReason::Resume),
        (start(), OPUS, 0, UnfitReason::NoUsage),
    ];
    for (script, model, input, reason) in cases {
        let script = script.partial("m2", model, input, json!([text("done")]));
        script.check(|_, _, sizes, shares| {
            assert_eq!(sizes.unfit, [UnfitReason::First, reason]);
            assert!(sizes.pairs.is_empty(), "{reason:?}");
            assert!(
                shares.iter().all(|share| share.origin == TokenOrigin::Estimated),
                "{reason:?}"
            );
            let has_base = reason == UnfitReason::Boundary;
            assert_eq!(sizes.rounds[1].base.is_some(), has_base, "{reason:?}");
        });
    }
}

/// Two turns; both calls of the first one contain thinking.
fn two_turns(model: &str, last_input: u64) -> LogScript {
    LogScript::default()
        .prompt("go")
        .response("m1", model, (50_000, 500), json!([thinking(), call("c1")]))
        .result("c1", &words(200))
        .partial("m2", model, 50_800, json!([thinking(), text("done")]))
        .prompt(&words(100))
        .response("m3", model, (last_input, 7), json!([text("done")]))
}

#[test]
fn some_models_forget_the_thinking_of_past_turns() {
    let predicted = |model: &str| {
        let found = std::cell::Cell::new(0.0);
        two_turns(model, 50_300).check(|_, _, sizes, _| found.set(sizes.pairs[1].predicted));
        found.get()
    };
    let table = RatioTable::built_in();
    let ratios = table.for_model(SONNET);
    assert_eq!(ratios, table.for_model(OPUS));
    let forgotten = 2.0 * (2000.0 * ratios.signature + ratios.per_signature);
    assert_near(predicted(OPUS) - predicted(SONNET), forgotten);

    // The growth is distributed as it was before the API dropped the thinking.
    two_turns(SONNET, 50_300).check(|_, _, _, shares| {
        assert!(shares.iter().any(|share| share.kind == BlockKind::Thinking));
        assert_near(sum(shares, 4..=5), 50_300.0 - 50_800.0 + forgotten);
    });
}

#[test]
fn predictions_are_amounts_times_coefficients() {
    let image = json!({"type": "image", "source": {"type": "base64", "data": ""}});
    let script = LogScript::default()
        .prompt("go")
        .partial(
            "m0",
            SONNET,
            49_000,
            json!([thinking(), text("größer \"quoted\"\n"), call("c0")]),
        )
        .push(json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "c0", "content": [{"type": "text", "text": "中文 text"}, image]},
        ]}}))
        .push(json!({"type": "attachment", "attachment": {"type": "date_change", "newDate": "2026-01-01"}}))
        .response("m1", SONNET, (50_000, 500), json!([thinking(), call("c1")]))
        .result("c1", &words(200))
        .partial(
            "m2",
            SONNET,
            50_800,
            json!([{"type": "thinking", "thinking": "hm"}, text("done")]),
        )
        .prompt(&words(100))
        .response("m3", SONNET, (50_300, 7), json!([text("done")]));
    let table = RatioTable::built_in();
    let ratios = table.for_model(SONNET);
    let worth = |equation: &Equation| {
        std::iter::zip(Coefficient::ALL, equation.amounts)
            .map(|(of, amount)| ratios[of] * amount)
            .sum::<f64>()
    };
    script.check(|session, chain, sizes, _| {
        assert_eq!(sizes.pairs.len(), 3);
        for pair in &sizes.pairs {
            let equation = Equation::growth(session, chain, sizes, pair, table);
            assert_near(worth(&equation) - equation.tokens, pair.predicted - pair.actual);
        }
        let output = |round| Equation::output(session, chain, sizes, round, table);
        assert_eq!(output(0), None, "a partial count says nothing");
        assert_eq!(output(1).map(|equation| equation.tokens), Some(500.0));
    });
}

#[test]
fn coefficients_are_named_as_in_the_data_file() {
    let table = RatioTable::built_in();
    let mut ratios = table.families[0].clone();
    for (at, of) in Coefficient::ALL.into_iter().enumerate() {
        assert_eq!(of as usize, at);
        ratios[of] = 1000.0 + at as f64;
        let written = serde_json::to_value(&ratios).unwrap();
        assert_eq!(written[of.name()], json!(1000.0 + at as f64));
    }
}
