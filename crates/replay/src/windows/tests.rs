//! The grounds of a window, on small logs.

use super::survey::WindowSurvey;
use super::*;
use crate::audit::boundaries::boundaries;
use crate::audit::sample::{script_log, with_chain};
use crate::audit::validate::validate;
use crate::windows::evidence::shown_windows;
use std::sync::Arc;
use transcript::thread::Session;

/// Returns the windows of a script's calls: tokens, grounds and confidence.
fn windows(version: &str, script: &str, setting: &str) -> Vec<InferredWindow> {
    with_chain(script_log(version, script), setting, |chain, _, with_setting| {
        let query = WindowQuery {
            policies: with_setting,
            prices: chain.prices,
            siblings: &ProjectWindows::default(),
        };
        infer_windows(chain.trace, &query)
    })
}

/// Compares the windows of a script's calls, written as `TOKENS:GROUNDS:CONFIDENCE` in thousands.
fn check(version: &str, script: &str, expected: &str) {
    let found = windows(version, script, "");
    let found = found.iter().map(|window| {
        let tokens = window
            .tokens
            .map_or("?".to_owned(), |tokens| (tokens / 1000).to_string());
        format!("{tokens}:{}:{}", window.grounds.name(), window.confidence.name())
    });
    let found = found.collect::<Vec<_>>().join(" ");
    assert_eq!(found, expected, "{version}: {script}");
}

#[test]
fn stronger_grounds_win() {
    let opus = "a:150000:10:claude-opus-5";
    check("2.1.200", &format!("u {opus}"), "1000:table:likely");
    check(
        "2.1.200",
        &format!("u {opus} u a:1000:10:claude-opus-4-7"),
        "1000:table:likely 1000:table:weak",
    );
    check("2.1.200", "u commit:150000:10:claude-opus-5", "1000:text:certain");
    check("2.1.200", "u a:250000:10:claude-opus-5", "1000:usage:certain");
    check(
        "2.1.200",
        &format!("u {opus} u auto:167100 s a:40000:10:claude-opus-5"),
        "200:boundary:certain 200:boundary:certain",
    );
    // The trailer says a million tokens, but a compaction happened below.
    check(
        "2.1.200",
        "u commit:150000:10:claude-opus-5 u auto:167100 s a:40000:10:claude-opus-5",
        "200:boundary:certain 200:boundary:certain",
    );
    let given = windows(
        "2.1.200",
        &format!("u {opus} u auto:167100 s {opus}"),
        "window.tokens=300000",
    );
    assert!(
        given
            .iter()
            .all(|window| window.tokens == Some(300_000) && window.grounds == WindowGrounds::Given)
    );
}

#[test]
fn old_clients_had_one_size() {
    check("2.1.44", "u a:150000:10", "200:table:certain");
    check("2.1.44", "u a:250000:10", "1000:usage:certain");
    check("2.1.45", "u a:150000:10", "200:table:weak");
}

#[test]
fn the_answer_of_the_model_command_holds_until_the_next_one() {
    let opus = "a:50000:10:claude-opus-5";
    check(
        "2.1.200",
        &format!("u {opus} large u {opus} u {opus} other u {opus}"),
        "1000:table:likely 1000:text:certain 1000:text:certain 1000:table:likely",
    );
}

#[test]
fn a_model_of_another_vendor_never_gets_the_size_of_the_client() {
    let glm = "a:150000:10:glm-9";
    check("2.1.44", &format!("u {glm}"), "?:unknown:none");
    check("2.1.200", &format!("u {glm}"), "?:unknown:none");
    check("2.1.44", "u a:90000:10:glm-4.5-air", "131:table:weak");
    check(
        "2.1.44",
        &format!("u {glm} u auto:167100 s a:40000:10:glm-9"),
        "200:boundary:certain 200:boundary:certain",
    );
    // 128,000 - 33,000 = 95,000.
    check(
        "2.1.60",
        "u a:94000:10:doubao-x u auto:95400 s a:40000:10:doubao-x",
        "128:boundary:certain 128:boundary:certain",
    );
    // A prompt larger than the table's window refutes it; the next size that holds it is a guess.
    check("2.1.60", "u a:230000:10:glm-4.6", "256:usage:weak");
    check("2.1.60", "u a:180000:10:deepseek/deepseek-v3.9", "200:usage:weak");
}

#[test]
fn a_model_called_large_has_a_large_window_under_every_client() {
    for model in ["claude-sonnet-4-5[1m]", "anthropic/claude-sonnet-4.5-1m"] {
        check("2.1.44", &format!("u a:180000:10:{model}"), "1000:text:certain");
    }
    // A compaction says more than a name.
    check(
        "2.1.44",
        "u a:160000:10:claude-sonnet-4-5[1m] u auto:167100 s a:40000:10:claude-sonnet-4-5[1m]",
        "200:boundary:certain 200:boundary:certain",
    );
}

#[test]
fn names_of_other_vendors_never_take_the_window_of_claude_models() {
    for model in [
        "deepseek/deepseek-v9",
        "Qwen3.9-Max",
        "doubao-seed-9-lite",
        "moonshotai/kimi-k9",
        "MiniMax-M9",
        "zai-org/GLM-9",
        "opus",
    ] {
        check("2.1.44", &format!("u a:180000:10:{model}"), "?:unknown:none");
    }
}

#[test]
fn an_unknown_window_predicts_nothing() {
    let script = "u a:150000:10:glm-9 u a:180000:10:glm-9 u a:190000:10:glm-9";
    with_chain(script_log("2.1.30", script), "", |chain, _, _| {
        let validation = validate(chain.trace, chain.policies, chain.prices, chain.windows);
        assert_eq!(validation.cases, []);
        assert_eq!(validation.unsure_calls, 3);
    });
}

#[test]
fn a_boundary_at_a_switch_is_judged_by_the_new_model() {
    // Opus has a million tokens, Haiku 200,000: the first check after the switch compacts.
    let opus = "a:500000:10:claude-opus-5";
    let haiku = "a:40000:10:claude-haiku-4-5";
    let script =
        format!("u {haiku} u a:150000:9:claude-haiku-4-5 u auto:167100 s {haiku} u {opus} u auto:500010 s {haiku}");
    with_chain(script_log("2.1.200", &script), "", |chain, _, _| {
        let audited = boundaries(chain);
        let windows = audited.iter().map(|found| found.window.tokens).collect::<Vec<_>>();
        let validation = validate(chain.trace, chain.policies, chain.prices, chain.windows);
        let judged = validation
            .cases
            .iter()
            .map(|case| case.window.tokens)
            .collect::<Vec<_>>();
        assert_eq!(windows, judged);
        assert_eq!(windows[1], Some(200_000));
        assert_eq!(validation.cases[1].verdict.name(), "exact");
    });
}

#[test]
fn other_sessions_of_the_project_are_evidence() {
    let mut survey = WindowSurvey::default();
    for (session, script) in [
        ("large", "u a:250000:10:claude-opus-4-7"),
        ("silent", "u a:100000:10:claude-opus-4-7"),
    ] {
        let parts = [script_log("2.1.200", script)];
        survey.add(
            "project",
            session,
            &shown_windows(&Session::new("S", &parts), &|_| None),
        );
    }
    let survey = Arc::new(survey);
    let find = |project: &str, session: &str, model: &str| {
        let siblings = ProjectWindows::new(Arc::clone(&survey), project, session);
        siblings.find(model, 0, false).and_then(|window| window.tokens)
    };
    assert_eq!(find("project", "silent", "anthropic/claude-opus-4-7"), Some(1_000_000));
    assert_eq!(find("project", "silent", "claude-opus-4-6"), None);
    assert_eq!(find("elsewhere", "silent", "claude-opus-4-7"), None);
    assert_eq!(
        find("project", "large", "claude-opus-4-7"),
        None,
        "no session is evidence for itself"
    );
    let own = ProjectWindows::new(survey, "project", "large").find("claude-opus-4-7", 0, true);
    assert_eq!(
        own.map(|window| window.grounds),
        Some(WindowGrounds::Sessions),
        "but for its sub-agents"
    );
}
