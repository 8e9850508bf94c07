//! The bundled cases of other agents. Every expectation is worked out by hand; the sums stand in the comments.

use super::codex::CodexThread;
use super::opencode::OpenCodeExport;
use super::pi::PiSession;
use super::{AgentUsage, usage};
use crate::cases::{CaseFolder, CorpusCase, case};
use crate::damage::{Damage, LineSink};
use crate::rng::Rng;
use serde_json::json;
use std::io;

/// Cases that are seeded by their names: new ones go here, in any order.
pub(crate) const CASES: &[CorpusCase] = &[
    case(
        "codex-plain",
        "Codex: shell reads, a search, a patch of two files, a title; rows that repeat the totals are no calls",
        codex_plain,
    ),
    case(
        "codex-fork",
        "Codex: a fork repeats its parent's lines with their times; its calls count once",
        |folder| codex_forks(folder, true, 1),
    ),
    case(
        "codex-fork-of-fork",
        "Codex: a fork of a fork, with all timestamps rewritten",
        |folder| codex_forks(folder, false, 2),
    ),
    case(
        "codex-subagent",
        "Codex: a spawned thread repeats prompts and rows of its parent, and belongs to its session",
        codex_subagent,
    ),
    case(
        "codex-rollback",
        "Codex: a turn that was rolled back was billed",
        codex_rollback,
    ),
    case(
        "codex-compaction",
        "Codex: compaction within the margin that masked reasoning leaves; the row after it only estimates",
        codex_compaction,
    ),
    case(
        "codex-damage",
        "Codex: garbage, a glued and a truncated line, and a log that is being written",
        codex_damage,
    ),
    case(
        "opencode-compaction",
        "OpenCode: automatic compaction that keeps the newest turn; the summary's call is billed",
        |folder| opencode_compaction(folder, false),
    ),
    case(
        "opencode-overflow",
        "OpenCode: the provider reports an overflow below the threshold; the prompt is asked again",
        |folder| opencode_compaction(folder, true),
    ),
    case(
        "opencode-prune",
        "OpenCode: old tool results are pruned; a sub-agent has a session of its own",
        opencode_prune,
    ),
    case(
        "opencode-cut",
        "OpenCode: an export that ends in the middle: whole messages count",
        opencode_cut,
    ),
    case(
        "pi-tree",
        "Pi: a branch that was left, and a fork that repeats the entries",
        pi_tree,
    ),
    case(
        "pi-compaction",
        "Pi: a compaction that keeps the newest entries, among damaged lines",
        pi_compaction,
    ),
];

/// A call of 1,000 tokens input, 600 of them cached, and 100 output with 40 of reasoning.
const CALL: AgentUsage = usage(400, 600, 100, 40);

fn save_thread(folder: &mut CaseFolder, thread: CodexThread) -> io::Result<()> {
    let path = thread.path();
    let sink = LineSink::new(Vec::new(), Rng::new(folder.rng().next()), 0);
    let (bytes, truth) = thread.write(sink)?;
    folder.add_truth(&truth);
    folder.write(&path, &bytes)
}

fn save_export(folder: &mut CaseFolder, export: OpenCodeExport) -> io::Result<()> {
    let path = format!("exports/{}.json", export.id);
    let (bytes, truth) = export.finish();
    folder.add_truth(&truth);
    folder.write(&path, &bytes)
}

fn save_session(folder: &mut CaseFolder, session: PiSession) -> io::Result<()> {
    let path = session.path();
    let sink = LineSink::new(Vec::new(), Rng::new(folder.rng().next()), 0);
    let (bytes, truth) = session.write(sink)?;
    folder.add_truth(&truth);
    folder.write(&path, &bytes)
}

/// Writes a turn of one call: a prompt and an answer.
fn turn(thread: &mut CodexThread, prompt: &str) {
    thread.start_turn();
    thread.prompt(prompt);
    thread.reason();
    thread.say(&format!("Done: {prompt}"));
    thread.count(CALL);
    thread.end_turn();
}

/// Three calls: 3 x (400, 600, 100). The repeated row and the row at the end of the turn are none.
fn codex_plain(folder: &mut CaseFolder) -> io::Result<()> {
    let mut thread = CodexThread::new("0196a0c0-0000-7000-8000-000000000001");
    thread.start_turn();
    thread.prompt("Which ribbons are stale?");
    thread.name_thread("Stale ribbons");
    thread.reason();
    let (read, search) = (
        thread.run("sed -n '1,3p' src/ribbons.rs"),
        thread.run("rg -n stale src"),
    );
    thread.count(CALL);
    thread.result(&read, "fn ribbons() -> usize {\n    3\n}\n");
    thread.result(&search, "src/ribbons.rs:1:fn ribbons() -> usize {\n");
    thread.repeat_counts();
    let patch = thread.patch(
        "*** Begin Patch\n*** Update File: src/ribbons.rs\n@@\n-    3\n+    4\n*** Add File: notes.md\n+Four ribbons.\n*** End Patch",
    );
    thread.count(CALL);
    thread.patch_result(&patch);
    thread.say("There are four ribbons now.");
    thread.count(CALL);
    thread.repeat_counts();
    thread.end_turn();
    thread.truth.sessions += 1;
    save_thread(folder, thread)
}

/// A parent of three calls, and forks with two calls of their own each. A turn has three records: prompt, reasoning, answer.
/// The first fork repeats 3 turns, the second one 3 + 2.
fn codex_forks(folder: &mut CaseFolder, keeps_times: bool, forks: usize) -> io::Result<()> {
    let name = |number: usize| format!("0196a0c0-0000-7000-8000-0000000001{forks}{number}");
    let mut threads = vec![CodexThread::new(&name(0))];
    for prompt in ["Count the ribbons.", "Sort them.", "Count the ribbons."] {
        turn(&mut threads[0], prompt);
    }
    for number in 1..=forks {
        let mut fork = CodexThread::fork(&threads[number - 1], &name(number), keeps_times);
        turn(&mut fork, "Paint them.");
        turn(&mut fork, "Count the ribbons.");
        threads.push(fork);
    }
    for mut thread in threads {
        thread.truth.sessions += 1;
        save_thread(folder, thread)?;
    }
    Ok(())
}

fn codex_subagent(folder: &mut CaseFolder) -> io::Result<()> {
    let mut parent = CodexThread::new("0196a0c0-0000-7000-8000-000000000020");
    turn(&mut parent, "Count the ribbons.");
    turn(&mut parent, "Ask a helper to paint them.");
    let mut child = CodexThread::spawn(&parent, "0196a0c0-0000-7000-8000-000000000021");
    turn(&mut child, "Paint the ribbons.");
    parent.truth.sessions += 1;
    child.truth.subagents += 1;
    save_thread(folder, parent)?;
    save_thread(folder, child)
}

fn codex_rollback(folder: &mut CaseFolder) -> io::Result<()> {
    let mut thread = CodexThread::new("0196a0c0-0000-7000-8000-000000000030");
    turn(&mut thread, "Count the ribbons.");
    turn(&mut thread, "Paint them red.");
    thread.roll_back(1);
    turn(&mut thread, "Paint them blue.");
    thread.truth.sessions += 1;
    save_thread(folder, thread)
}

/// The window shown is 258,400, 95 % of 272,000; nine tenths of that are 244,800. Before the last prompt the last usage says
/// 235,000, of which 2,000 are reasoning of a turn that is over by then. Reasoning so far is 5,000 + 5,000 + 2,000 = 12,000
/// tokens, counted as 15,000 at most: 235,000 to 250,000 and a few tokens for the prompt. 244,800 lies between.
/// No other call comes near: 200,000 + 12,500 at most.
fn codex_compaction(folder: &mut CaseFolder) -> io::Result<()> {
    let mut thread = CodexThread::new("0196a0c0-0000-7000-8000-000000000040");
    let calls = [
        ("Count the ribbons.", usage(94_900, 0, 5_100, 5_000)),
        ("Sort them.", usage(104_900, 90_000, 5_100, 5_000)),
        ("Paint them.", usage(42_900, 190_000, 2_100, 2_000)),
    ];
    for (prompt, call) in calls {
        thread.start_turn();
        thread.prompt(prompt);
        thread.reason();
        thread.say("Done.");
        thread.count(call);
        thread.end_turn();
    }
    thread.start_turn();
    thread.compact(&["Sort them.", "Paint them."]);
    thread.estimate(18_000);
    thread.prompt("Count them again.");
    thread.reason();
    thread.say("Twelve.");
    thread.count(usage(19_000, 0, 1_000, 900));
    thread.end_turn();
    thread.truth.sessions += 1;
    save_thread(folder, thread)?;
    let verdict =
        "{\"mechanism\":\"auto\",\"verdict\":\"within-margin\",\"call\":3,\"threshold\":244800,\"window\":272000}\n";
    folder.write("cases.ndjson", verdict.as_bytes())
}

/// The truncated line is an answer: its row follows and counts.
fn codex_damage(folder: &mut CaseFolder) -> io::Result<()> {
    let mut thread = CodexThread::new("0196a0c0-0000-7000-8000-000000000050");
    turn(&mut thread, "Count the ribbons.");
    thread.start_turn();
    thread.damage(Damage::Garbage);
    thread.prompt("Paint them.");
    thread.reason();
    thread.say("Done.");
    thread.count(CALL);
    thread.end_turn();
    thread.start_turn();
    thread.prompt("Sort them.");
    thread.damage(Damage::Truncated);
    thread.say("They are sorted by color, then by length.");
    thread.count(CALL);
    thread.end_turn();
    thread.truth.sessions += 1;
    thread.truth.pending_tails += 1;
    let path = thread.path();
    let (mut bytes, mut truth) = thread.write(LineSink::new(Vec::new(), Rng::new(0), 0))?;
    let tail = b"{\"timestamp\":\"2026-05-05T16:59:00.000Z\",\"type\":\"event_msg\",\"payload\":{\"type\":\"token_co";
    bytes.extend_from_slice(tail);
    truth.lines += 1;
    truth.bytes += tail.len() as u64;
    folder.add_truth(&truth);
    folder.write(&path, &bytes)
}

/// A window of 200,000 less 32,000 for the output: due at 168,000. The third call ends at 171,000; an overflow is reported
/// although the last one ended at 120,000.
fn opencode_compaction(folder: &mut CaseFolder, is_overflow: bool) -> io::Result<()> {
    let id = if is_overflow { "0f4c1a2b3c4d" } else { "0f4c1a2b3c4e" };
    let mut export = OpenCodeExport::new(id, "claude-sonnet-4-5");
    let last = if is_overflow { 120_000 } else { 171_000 };
    let mut tail = String::new();
    for (prompt, total) in [
        ("Count the ribbons.", 40_000),
        ("Sort them.", 110_000),
        ("Paint them.", last),
    ] {
        tail = export.prompt(prompt);
        export.respond("Done.", Vec::new(), usage(total / 2, total - total / 2 - 500, 500, 300));
    }
    if is_overflow {
        export.prompt("Paint all of them.");
    }
    let kept = (!is_overflow).then_some(tail.as_str());
    export.compact(
        is_overflow,
        kept,
        "Ribbons were counted, sorted and painted.",
        usage(last, 0, 800, 100),
    );
    export.prompt(if is_overflow {
        "Paint all of them."
    } else {
        "Count them again."
    });
    export.respond("Done.", Vec::new(), usage(12_000, 0, 500, 300));
    export.truth.sessions += 1;
    save_export(folder, export)?;
    let verdict = match is_overflow {
        true => {
            "{\"mechanism\":\"auto\",\"verdict\":\"undecidable\",\"reason\":\"other-threshold\",\"call\":3,\"recorded\":120000}\n"
        }
        false => {
            "{\"mechanism\":\"auto\",\"verdict\":\"exact\",\"call\":3,\"recorded\":171000,\"predicted\":171000,\"threshold\":168000,\"window\":200000}\n"
        }
    };
    folder.write("cases.ndjson", verdict.as_bytes())
}

fn opencode_prune(folder: &mut CaseFolder) -> io::Result<()> {
    let mut export = OpenCodeExport::new("0f4c1a2b3c50", "claude-sonnet-4-5");
    export.prompt("Read the list of ribbons.");
    // Pruned 20 seconds later: after the third response.
    let read = export.tool(
        1,
        "read",
        json!({"filePath": "/home/dev/projects/orchard/list.txt"}),
        "red\nblue\n",
        Some(20_000),
    );
    export.respond("I will read it.", vec![read], CALL);
    export.respond("Two ribbons.", Vec::new(), CALL);
    export.prompt("Ask a helper.");
    let mut child = OpenCodeExport::spawn(&export, "0f4c1a2b3c51");
    child.prompt("Paint the ribbons.");
    child.respond("Painted.", Vec::new(), CALL);
    export.respond("The helper painted them.", Vec::new(), CALL);
    export.now += 30_000;
    export.prompt("Thanks.");
    export.respond("You are welcome.", Vec::new(), CALL);
    export.truth.boundaries_micro += 1;
    export.truth.sessions += 1;
    child.truth.subagents += 1;
    save_export(folder, child)?;
    save_export(folder, export)?;
    let verdict = "{\"mechanism\":\"micro\",\"verdict\":\"undecidable\",\"reason\":\"not-modeled\"}\n";
    folder.write("cases.ndjson", verdict.as_bytes())
}

/// The last message is cut: it has one part, and its call is lost.
fn opencode_cut(folder: &mut CaseFolder) -> io::Result<()> {
    let write = |is_whole: bool| {
        let mut export = OpenCodeExport::new("0f4c1a2b3c52", "claude-sonnet-4-5");
        export.prompt("Count the ribbons.");
        export.respond("Three.", Vec::new(), CALL);
        if is_whole {
            export.prompt("Paint them, and tell me which paint you took.");
        }
        export.truth.sessions += 1;
        export
    };
    let (whole, _) = write(true).finish();
    let export = write(false);
    let path = format!("exports/{}.json", export.id);
    let (_, mut truth) = export.finish();
    let at = memchr::memmem::find(&whole, b"which paint").unwrap_or(whole.len());
    let cut = &whole[..at];
    truth.bytes = cut.len() as u64;
    truth.lines = memchr::memchr_iter(b'\n', cut).count() as u64 + 1;
    truth.pending_tails += 1;
    folder.add_truth(&truth);
    folder.write(&path, cut)
}

/// Three calls, two of them on a branch that was left; the fork was made before that and adds one. It repeats a prompt, two
/// answers and a result.
fn pi_tree(folder: &mut CaseFolder) -> io::Result<()> {
    let mut session = PiSession::new("0196a0c0-1111-7000-8000-000000000001");
    session.choose_model();
    let first = session.prompt("Count the ribbons.");
    let read = json!({"path": "/home/dev/projects/orchard/list.txt"});
    session.respond("I will look.", Some(("call_1", "read", read)), CALL);
    session.result("call_1", "red\nblue\n");
    session.respond("Two.", None, CALL);
    let mut fork = PiSession::fork(&session, "0196a0c0-1111-7000-8000-000000000002");
    session.go_back(&first);
    session.respond("There are two ribbons.", None, CALL);
    fork.prompt("Paint them.");
    fork.respond("Painted.", None, CALL);
    save_session(folder, session)?;
    save_session(folder, fork)
}

/// A window of 200,000 less 16,384: due above 183,616. The third call ends at 185,500.
fn pi_compaction(folder: &mut CaseFolder) -> io::Result<()> {
    let mut session = PiSession::new("0196a0c0-1111-7000-8000-000000000003");
    session.choose_model();
    session.prompt("Count the ribbons.");
    session.respond("Three.", None, usage(90_000, 0, 500, 0));
    session.damage(Damage::NulRun);
    session.prompt("Sort them.");
    session.respond("Sorted.", None, usage(10_000, 90_000, 500, 0));
    session.damage(Damage::Glued);
    let kept = session.prompt("Paint them.");
    session.respond("Painted.", None, usage(85_000, 100_000, 500, 0));
    session.compact(185_500, &kept, "Ribbons were counted and sorted.");
    session.prompt("Count them again.");
    session.respond("Twelve.", None, usage(12_000, 0, 500, 0));
    save_session(folder, session)?;
    let verdict = "{\"mechanism\":\"auto\",\"verdict\":\"exact\",\"call\":3,\"recorded\":185500,\"threshold\":183616,\"window\":200000}\n";
    folder.write("cases.ndjson", verdict.as_bytes())
}
