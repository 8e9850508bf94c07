//! Cases about the rest of the client: how notes and memories are billed, what a prompt recalls, what is forgotten.

use crate::cases::{CaseFolder, PROJECT};
use crate::session::{ToolOutput, string_value};
use crate::tools::{call_block, text_block};
use crate::traced::{PlantedSession, path, words, write_expected};
use std::io;

/// c0 runs a command, 100 and 900: W 2,100, notes of (2,100 - 1,900) / 10 = 20. The edits write these 20 and 60 around them;
/// sent 2,200, 1,998 read: 202 x 5 + 80 x 25 + 999 = 4,009. c1 (3,000) runs another, 100 and 500: W 3,100, notes of 120. They
/// gain 100, so 160 are written; the 20 of before are sent too: 222 x 5 + 160 x 25 + 1,499 = 6,609. c2 says 100: W 3,700 has
/// grown by 600 only.
pub(super) fn notes_edits(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 900)?;
    plant.bash(100, 500)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.first", "2000"),
            ("notes.growth", "1000"),
            ("notes.calls", "1"),
            ("notes.share", "0.1"),
            ("notes.edit_output", "60"),
        ],
        r#"
        {"call":0,"event":"notes","tokens":20}
        {"call":0,"event":"side-call","purpose":"notes","input":202,"cache_read":1998,"output":80,"cost_micro_usd":4009}
        {"call":1,"event":"notes","tokens":120}
        {"call":1,"event":"side-call","purpose":"notes","input":222,"cache_read":2998,"output":160,"cost_micro_usd":6609}
        "#,
    )
}

/// The same log, but automatic compaction is off: notes would serve nothing, so there are none.
pub(super) fn notes_need_auto(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 900)?;
    plant.bash(100, 500)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("switch.auto", "false"),
            ("notes.on", "true"),
            ("notes.first", "2000"),
            ("notes.growth", "1000"),
            ("notes.calls", "1"),
        ],
        r#"
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":3000}
        {"call":2,"event":"called","window":3600}
        "#,
    )
}

/// c0 runs a command, 100 and 1,900; c1 (4,000) says 100: W 4,100, notes of (4,100 - 1,900) / 10 = 220; sent 4,200, 3,998
/// read: 202 x 5 + 220 x 25 + 1,999 = 8,509. Then the client is restarted, which shows as a prompt that is 600 smaller and a
/// cold cache: c2 would send 4,000 + 100 - 600 + 100 = 3,600. It reads its notes: 3,820.
pub(super) fn notes_resume(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 1_900)?;
    plant.say(100)?;
    plant.size -= 600;
    plant.held = 0;
    plant.ask_estimated()?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.first", "4000"),
            ("notes.growth", "1000"),
            ("notes.share", "0.1"),
        ],
        r#"
        {"call":1,"event":"notes","tokens":220}
        {"call":1,"event":"side-call","purpose":"notes","input":202,"cache_read":3998,"output":220,"cost_micro_usd":8509}
        {"call":2,"event":"notes-read","tokens":220}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":4000,"in_step":true}
        {"call":2,"event":"called","window":3820,"in_step":false}
        "#,
    )
}

/// Memories are asked for at every prompt: 1,500 and the prompt of 100, 60 out, by claude-sonnet-4-5 (input 3, output 15):
/// 1,600 x 3 + 60 x 15 = 5,700. Each time 400 bytes are found, 100 tokens; after 700 bytes no more are asked for.
/// c0 sends 2,000 + 100 and runs a command, 100 and 300: c1 2,500 says 100. The prompt of c2 gets the other 300 bytes:
/// 2,500 + 100 + 100 + 75 = 2,775. c3 gets nothing: 2,975; it runs a command, 100 and 5,100: c4 is due at 8,175. Sent 8,275,
/// 2,973 read: 5,302 x 5 + 500 x 25 + 1,486.5 = 40,496.5. After: 2,450. The boundary forgets what was recalled, so the
/// prompt of c5 gets 100 again: 2,450 + 100 + 100 + 100 = 2,750.
pub(super) fn recall(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 300)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.bash(100, 5_100)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("recall.on", "true"),
            ("recall.query_tokens", "1500"),
            ("recall.query_output", "60"),
            ("recall.found", "1"),
            ("recall.found_bytes", "400"),
            ("recall.session_bytes", "700"),
        ],
        r#"
        {"call":0,"event":"side-call","purpose":"recall","input":1600,"cache_read":0,"output":60,"cost_micro_usd":5700}
        {"call":0,"event":"recalled","tokens":100}
        {"call":2,"event":"side-call","purpose":"recall","input":1600,"cache_read":0,"output":60,"cost_micro_usd":5700}
        {"call":2,"event":"recalled","tokens":75}
        {"call":4,"event":"due","context":8175,"threshold":8000}
        {"call":4,"event":"side-call","purpose":"compact","input":5302,"cache_read":2973,"output":500,"cost_micro_usd":40497}
        {"call":4,"event":"boundary","kind":"full","before":8175,"after":2450}
        {"call":5,"event":"side-call","purpose":"recall","input":1600,"cache_read":0,"output":60,"cost_micro_usd":5700}
        {"call":5,"event":"recalled","tokens":100}
        {"call":0,"event":"called","window":2100,"in_step":false}
        {"call":1,"event":"called","window":2500}
        {"call":2,"event":"called","window":2775}
        {"call":3,"event":"called","window":2975}
        {"call":4,"event":"called","window":2450}
        {"call":5,"event":"called","window":2750}
        "#,
    )
}

/// c0 runs a command, 100 and 100; c1 (2,200) says 100 and ends the turn. The first call of the extraction sends 2,300 and
/// instructions of 2,000, 2,198 read; the other 2,102 are written to the cache for the second one, and 250 come out:
/// 2,102 x 6.25 + 250 x 25 + 1,099 = 20,486.5. The second sends these 4,300 again, all read, and 50 of memories that it read:
/// 50 x 5 + 250 x 25 + 2,150 = 8,650.
pub(super) fn extract_calls(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("extract.on", "true"), ("extract.calls", "2"), ("extract.reads", "50")],
        r#"
        {"call":1,"event":"extract"}
        {"call":1,"event":"side-call","purpose":"extract","input":0,"cache_write_5m":2102,"cache_read":2198,"output":250,"cost_micro_usd":20487}
        {"call":1,"event":"side-call","purpose":"extract","input":50,"cache_write_5m":0,"cache_read":4300,"output":250,"cost_micro_usd":8650}
        "#,
    )
}

/// An extraction takes an hour. It starts at the end of c0 (W 2,100): 2,102 x 5 + 500 x 25 + 999 = 24,009. The turns of c1 and
/// c2 end meanwhile, and only the newest waits: W 2,300 + 100 = 2,400. Two hours later c3 (2,450) ends a turn: by then the
/// waiting one has run, all 2,400 of it in the cache of c3: 2,000 x 5 + 500 x 25 + 1,200 = 23,700. Then that of c3 itself,
/// W 2,550, 2,448 read: 2,102 x 5 + 12,500 + 1,224 = 24,234.
pub(super) fn extract_waits(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.say(100)?;
    for _ in 0..2 {
        plant.ask(50)?;
        plant.say(100)?;
    }
    plant.pause(2 * 3600 + 600);
    plant.held = 0;
    plant.ask(50)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("extract.on", "true"), ("extract.seconds", "3600")],
        r#"
        {"call":0,"event":"extract"}
        {"call":0,"event":"side-call","purpose":"extract","input":2102,"cache_read":1998,"output":500,"cost_micro_usd":24009}
        {"call":3,"event":"extract"}
        {"call":3,"event":"side-call","purpose":"extract","input":2000,"cache_read":2400,"output":500,"cost_micro_usd":23700}
        {"call":3,"event":"extract"}
        {"call":3,"event":"side-call","purpose":"extract","input":2102,"cache_read":2448,"output":500,"cost_micro_usd":24234}
        "#,
    )
}

/// As `extract-waits` up to c1 (2,150), where the session ends. The client waits long enough for the extraction of c0, so
/// that of c1 runs too: W 2,250, 2,148 read: 2,102 x 5 + 12,500 + 1,074 = 24,084.
pub(super) fn extract_drain(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.say(100)?;
    plant.ask(50)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("extract.on", "true"),
            ("extract.seconds", "3600"),
            ("extract.drain_seconds", "3600"),
        ],
        r#"
        {"call":0,"event":"extract"}
        {"call":0,"event":"side-call","purpose":"extract","input":2102,"cache_read":1998,"output":500,"cost_micro_usd":24009}
        {"call":1,"event":"extract"}
        {"call":1,"event":"side-call","purpose":"extract","input":2102,"cache_read":2148,"output":500,"cost_micro_usd":24084}
        "#,
    )
}

/// As `subagent-apart`, but the agent is the client itself, which writes a summary: its calls are not replayed, so only those
/// of the main chain are seen.
pub(super) fn own_calls(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = PlantedSession::new(folder, 2_000)?;
    let id = "acompact-3f0c5a7d91e24b68".to_owned();
    let log = folder.named_agent_log(&main.log, "claude-opus-5", id.clone());
    let mut agent = PlantedSession::on(log, 2_000)?;
    agent.bash(100, 5_900)?;
    agent.say(100)?;
    main.say(100)?;
    let place = format!("{PROJECT}/{}/subagents/agent-{id}.jsonl", main.log.identity.session_id);
    folder.save_at(&place, agent.log, |bytes| bytes)?;
    folder.save(main.log)?;
    let events = r#"
        {"call":0,"event":"called","window":2000,"in_step":true}
        "#;
    write_expected(folder, &[], events)
}

/// As `micro-cached` up to c4 (2,300), which runs a fifth command; the log of c5 shows that nothing was read from the cache.
/// c5: 2,300 + 120 = 2,420; it says 20. So before c6 the deletions of r2 and r4 are no longer in force: with a prompt of 50
/// c6 sends 2,420 + 20 + 50 + 180 = 2,670 and reads nothing.
pub(super) fn micro_cached_stale(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for _ in 0..5 {
        plant.bash(20, 100)?;
    }
    plant.held = 0;
    plant.say(20)?;
    plant.ask(50)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("micro.cached.on", "true"),
            ("micro.cached.trigger", "4"),
            ("micro.cached.keep", "2"),
        ],
        r#"
        {"call":4,"event":"micro","kind":"cached","saved":180}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2120}
        {"call":2,"event":"called","window":2240}
        {"call":3,"event":"called","window":2360}
        {"call":4,"event":"called","window":2300,"cache_read":2298}
        {"call":5,"event":"called","window":2420}
        {"call":6,"event":"called","window":2670,"cache_read":0,"miss":"expired"}
        "#,
    )
}

/// A caller clears down to 250 before every call and leaves the newest result. Commands of 50 and 200, +250 a round: c1
/// 2,250; before c2 (2,500) two results are 400: r2 is cleared for a placeholder of 10: 2,310. Before c3 (2,560) again, r4:
/// 2,370.
pub(super) fn micro_target(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for _ in 0..3 {
        plant.bash(50, 200)?;
    }
    plant.say(50)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("micro.target.on", "true"),
            ("micro.target.tokens", "250"),
            ("micro.budget.protect", "1"),
        ],
        r#"
        {"call":2,"event":"micro","kind":"target","eligible":400,"saved":200,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":200}]}
        {"call":3,"event":"micro","kind":"target","eligible":400,"saved":200,"cleared":[{"record":4,"tool":"Bash","path":"","tokens":200}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2250}
        {"call":2,"event":"called","window":2310}
        {"call":3,"event":"called","window":2370}
        "#,
    )
}

/// Reads of 20 and 100: a.rs to f.rs (c0 to c5); c6 (2,720) says 30. After 61 minutes a prompt of 50: the read of a.rs (r2)
/// is cleared for a placeholder of 10: c7 sends 2,800 - 90 = 2,710. Its edit of a.rs needs a read first, because clearing made
/// the client forget the file; the edit of b.rs by c8 does not.
pub(super) fn reads_needed(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for name in ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs"] {
        plant.read(name, 20, 100)?;
    }
    plant.say(30)?;
    plant.pause(61 * 60);
    plant.held = 0;
    plant.ask(50)?;
    for name in ["a.rs", "b.rs"] {
        let edit = format!(
            "{{\"replace_all\":false,\"file_path\":\"{}\",\"old_string\":\"one\",\"new_string\":\"two\"}}",
            path(name)
        );
        plant.call("Edit", &edit, 20, 100)?;
    }
    plant.say(30)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("micro.gap.on", "true")],
        r#"
        {"call":7,"event":"micro","kind":"gap","saved":90}
        {"call":7,"event":"needs-read","path":"/home/dev/projects/orchard/a.rs"}
        "#,
    )
}

/// c0 answers with a text and, on a second line, a command: 300, result 5,690. The client counts from the first line of the
/// response, so it estimates the second one: `Bash` and 55 characters of input, 59 / 4 = 15. At 2,000 + 300 + 5,690 + 15 =
/// 8,005 c1 is due, although only 7,990 would be sent. Sent 8,090, 1,998 read: 6,092 x 5 + 500 x 25 + 999 = 43,959.
pub(super) fn later_lines(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let shown = words(2 * 5_690);
    let outcome = ToolOutput {
        content: string_value(&shown),
        units: shown.units,
        tokens: 5_690,
        ..ToolOutput::default()
    };
    let text = text_block(&mut plant.log, &words(60));
    let input = b"{\"command\":\"make check\",\"description\":\"Run the checks\"}";
    let call = call_block(&mut plant.log, "Bash", input, outcome);
    plant.respond(&[text, call], 300)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":1,"event":"due","context":8005,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6092,"cache_read":1998,"output":500,"cost_micro_usd":43959}
        {"call":1,"event":"boundary","kind":"full","context":8005,"before":7990,"after":2450}
        "#,
    )
}
