//! Logs that would mislead a prediction: thresholds that the user moved or switched off, usage as gateways write it, clients
//! that recorded no compactions, models of other vendors. Each must be scored exact, undecidable, or not at all.

use super::{ScriptedLog, UsageOn, call_block, text_block, write_verdicts};
use crate::cases::{CaseFolder, PROJECT};
use crate::json::{Uuid, quoted};
use std::io;

/// A session of 2.1.30, which compacts at 167,000, that grows beyond it: 166,000; 168,000; 170,000; 172,000, each answered with
/// 100, and prompts of 400 characters (100).
fn passing_log(folder: &mut CaseFolder, model: &'static str) -> ScriptedLog {
    let mut log = ScriptedLog::new(folder, "2.1.30", model);
    for sent in [166_000, 168_000, 170_000, 172_000] {
        log.prompt(folder, 400);
        log.say(folder, sent, 100);
    }
    log
}

/// The first prediction is that of call 2, at 168,000 + 100 + 100. Recorded usage alone is above the threshold before calls 2
/// and 3, so automatic compaction was off.
pub(in crate::traced) fn auto_off(folder: &mut CaseFolder) -> io::Result<()> {
    passing_log(folder, "claude-opus-4-6").save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"auto","verdict":"undecidable","reason":"not-in-force","call":2,"recorded":null,"predicted":168200,"threshold":167000}"#,
    )
}

/// The same, but the client compacts at 189,900 + 100: its threshold was higher, so the predictions before say nothing.
pub(in crate::traced) fn higher_threshold(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = passing_log(folder, "claude-opus-4-6");
    log.prompt(folder, 400);
    log.say(folder, 189_900, 100);
    log.compact(folder, 190_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"auto","verdict":"undecidable","reason":"not-in-force","call":5,"recorded":190000,"predicted":190000}"#,
    )
}

/// The user lowered the threshold: 119,900 + 100 is far below 167,000.
pub(in crate::traced) fn lower_threshold(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.30", "claude-opus-4-6");
    log.prompt(folder, 400);
    log.say(folder, 119_900, 100);
    log.compact(folder, 120_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"auto","verdict":"undecidable","reason":"other-threshold","call":1,"recorded":120000,"predicted":120000,"threshold":167000}"#,
    )
}

/// A gateway writes a guess of a hundredth on the first two lines and the count on the last one, which is counted from:
/// 166,000 + 500 + 500 (a result of 2,000 characters) = 167,000.
pub(in crate::traced) fn usage_guessed(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.120", "anthropic/claude-sonnet-4.6");
    log.prompt(folder, 400);
    let blocks = [text_block(80), text_block(800), call_block("call_01")];
    log.respond(folder, &blocks, 166_000, 500, UsageOn::LastAfterGuess);
    log.count(166_000, 500);
    log.result(folder, "call_01", 2_000);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(folder, &super::AT_THRESHOLD.replace("\"call\":2", "\"call\":1"))
}

/// A gateway without request ids and cache counts, and a model whose window of 128,000 the compaction shows: 94,000 + 500 + 500
/// = 95,000.
pub(in crate::traced) fn bare_usage(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.120", "deepseek/deepseek-v3.2");
    log.is_bare = true;
    log.prompt(folder, 400);
    let blocks = [text_block(80), call_block("call_01")];
    log.respond(folder, &blocks, 94_000, 500, UsageOn::Last);
    log.count(94_000, 500);
    log.result(folder, "call_01", 2_000);
    log.compact(folder, 95_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"auto","verdict":"exact","call":1,"recorded":95000,"predicted":95000,"threshold":95000,"window":128000,"window_grounds":"boundary"}"#,
    )
}

/// Clients before 2.0.65 left no boundary on record, so a prediction of 154,950 + 100 without one is not wrong.
pub(in crate::traced) fn unrecorded_boundaries(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.0.30", "claude-sonnet-4-5-20250929");
    log.prompt(folder, 400);
    log.say(folder, 154_950, 100);
    log.prompt(folder, 400);
    log.say(folder, 155_500, 20);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"auto","verdict":"unrecorded","call":1,"recorded":null,"predicted":155050}"#,
    )
}

/// The name of the model says that its window has a million tokens, so nothing is predicted at 190,000.
pub(in crate::traced) fn large_by_name(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = passing_log(folder, "claude-sonnet-4-5-20250929[1m]");
    log.prompt(folder, 400);
    log.say(folder, 190_000, 100);
    log.save(folder)?;
    write_verdicts(folder, "")
}

/// The user compacts just below the threshold: 166,000 + 100 + 3 (10 characters, 2.5).
pub(in crate::traced) fn manual_before_threshold(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.30", "claude-opus-4-6");
    log.prompt(folder, 400);
    log.say(folder, 166_000, 100);
    log.prompt(folder, 10);
    log.compact_by(folder, "manual", 166_103);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"manual","verdict":"undecidable","reason":null,"call":1,"recorded":166103,"predicted":166103}"#,
    )
}

/// The API fails once, which the client writes as a response of its own without usage. It is not counted from: 166,800 + 100 +
/// 100 = 167,000.
pub(in crate::traced) fn made_up_response(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.30", "claude-opus-4-6");
    log.prompt(folder, 400);
    log.say(folder, 166_800, 100);
    let id = Uuid::new(folder.rng()).as_str().to_owned();
    let fields = format!(
        "\"isApiErrorMessage\":true,\"message\":{{\"model\":\"<synthetic>\",\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{}],\"stop_reason\":\"stop_sequence\",\"usage\":{{\"input_tokens\":0,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0}}}}",
        text_block(40)
    );
    log.record(folder, "assistant", &fields);
    log.prompt(folder, 400);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(folder, &super::AT_THRESHOLD.replace("\"call\":2", "\"call\":1"))
}

/// A log that starts in the middle of a session, one call before a compaction: 166,950 + 50.
pub(in crate::traced) fn full_from_the_start(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.60", "claude-sonnet-4-6");
    log.leaf = Some(Uuid::new(folder.rng()).as_str().to_owned());
    log.prompt(folder, 400);
    log.say(folder, 166_950, 50);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(folder, &super::AT_THRESHOLD.replace("\"call\":2", "\"call\":1"))
}

/// A sub-agent on another vendor's model beside a main agent of Claude: its window is not the client's, so nothing is predicted.
pub(in crate::traced) fn foreign_subagent(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.30", "claude-opus-4-6");
    log.prompt(folder, 400);
    log.say(folder, 30_000, 100);
    let mut agent = ScriptedLog::new(folder, "2.1.30", "qwen3.9-coder");
    agent.session = log.session.clone();
    (agent.truth.sessions, agent.truth.subagents) = (0, 1);
    agent.agent = format!(",\"agentId\":{}", quoted("b7c8d9e0"));
    for sent in [150_000, 168_000, 170_000, 172_000] {
        agent.prompt(folder, 400);
        agent.say(folder, sent, 100);
    }
    let path = format!("{PROJECT}/{}/subagents/agent-b7c8d9e0.jsonl", log.session);
    log.save(folder)?;
    agent.save_at(folder, &path)?;
    write_verdicts(folder, "")
}
