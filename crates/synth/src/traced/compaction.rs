//! Cases about full compaction: restored files and skills, manual compaction, prompts that are too long, failures.

use crate::cases::CaseFolder;
use crate::traced::{PlantedSession, write_expected};
use std::io;

/// Writes a log of reads after outputs of 20: old 100, one 300, two 500, CLAUDE.md 200, three 350, four 400, one again 300,
/// five 250: W at c8 is 2,000 + 8 x 20 + 2,400 = 4,560. c8 runs a command, 40 and 3,400: c9 is due at 8,000.
fn restore_log(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for (name, tokens) in [
        ("old.rs", 100),
        ("one.rs", 300),
        ("two.rs", 500),
        ("CLAUDE.md", 200),
        ("three.rs", 350),
        ("four.rs", 400),
        ("one.rs", 300),
        ("five.rs", 250),
    ] {
        plant.read(name, 20, tokens)?;
    }
    plant.bash(40, 3_400)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// Restored, newest first: five 250, one 300, four 400, three 350, two 500 cut to 400; old would be the sixth. Total 1,700.
/// Sent 8,100, 4,558 read: 3,542 x 5 + 500 x 25 + 2,279 = 32,489. After: 1,900 + 550 + 1,700 = 4,150.
pub(super) fn restore_cut(folder: &mut CaseFolder) -> io::Result<()> {
    restore_log(folder)?;
    write_expected(
        folder,
        &[
            ("restore.files", "5"),
            ("restore.file_tokens", "400"),
            ("restore.files_tokens", "2000"),
            ("restore.large", "\"cut\""),
        ],
        r#"
        {"call":9,"event":"due","context":8000,"threshold":8000}
        {"call":9,"event":"side-call","purpose":"compact","input":3542,"cache_read":4558,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":32489}
        {"call":9,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":4150,"summary":500,"restored":1700,"records":19,"last_record":18,"kept":null,"retries":0,"calls_since":9,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// With a budget of 1,000: five 250 leaves 750, one 300 leaves 450, four 400 leaves 50, three 350 does not fit, two is too
/// large. All five places are taken, so old is not restored although it is small: 950. After: 1,900 + 550 + 950 = 3,400.
pub(super) fn restore_skip(folder: &mut CaseFolder) -> io::Result<()> {
    restore_log(folder)?;
    write_expected(
        folder,
        &[
            ("restore.files", "5"),
            ("restore.file_tokens", "400"),
            ("restore.files_tokens", "1000"),
            ("restore.large", "\"skip\""),
        ],
        r#"
        {"call":9,"event":"due","context":8000,"threshold":8000}
        {"call":9,"event":"side-call","purpose":"compact","input":3542,"cache_read":4558,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":32489}
        {"call":9,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":3400,"summary":500,"restored":950,"records":19,"last_record":18,"kept":null,"retries":0,"calls_since":9,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// Skills with outputs of 50: results of 400 (c0), 200 (c1: 6,450), 250 (c2: 6,700); c3 (7,000) runs a command, 1,000.
/// c4 is due at 8,050. Restored, newest first: 250, 200 (total 450); the third, cut to 300, would make 750, above the
/// budget of 500. Sent 8,150, 6,998 read: 1,152 x 5 + 500 x 25 + 3,499 = 21,759. After: 5,900 + 550 + 450 = 6,900.
pub(super) fn restore_skills(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 6_000)?;
    for (skill, tokens) in [("prune", 400), ("graft", 200), ("press", 250)] {
        plant.call("Skill", &format!("{{\"skill\":\"{skill}\"}}"), 50, tokens)?;
    }
    plant.bash(50, 1_000)?;
    plant.say(50)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("restore.skill_tokens", "300"), ("restore.skills_tokens", "500")],
        r#"
        {"call":4,"event":"due","context":8050,"threshold":8000}
        {"call":4,"event":"side-call","purpose":"compact","input":1152,"cache_read":6998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":21759}
        {"call":4,"event":"boundary","cause":"auto","kind":"full","context":8050,"threshold":8000,"before":8050,"after":6900,"summary":500,"restored":450,"records":9,"last_record":8,"kept":null,"retries":0,"calls_since":4,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// c0 (r1) 2,000, r2 5,900: c1 due at 8,000, sent 8,100, 1,998 read: 44,009 (as in `notes-floor`). After: 2,450.
/// c1 (r3) sends 2,450: 1,900 read, 548 written: 10 + 950 + 3,425 + 100 x 25 = 6,885. r4 5,500: c2 due at
/// 2,450 + 100 + 5,500 = 8,050, sent 8,150, 2,448 read: 5,702 x 5 + 500 x 25 + 1,224 = 42,234. After: 2,450 again.
pub(super) fn recompaction(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 5_900)?;
    plant.bash(100, 5_500)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":44009}
        {"call":1,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2450,"summary":500,"restored":0,"records":3,"last_record":2,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":false,"recorded":false}
        {"call":2,"event":"due","context":8050,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":5702,"cache_read":2448,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":42234}
        {"call":2,"event":"boundary","cause":"auto","kind":"full","context":8050,"threshold":8000,"before":8050,"after":2450,"summary":500,"restored":0,"records":2,"last_record":4,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":true,"recorded":false,"previous_call":1,"previous_turn":0,"call_source":"main"}
        {"call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"call":1,"event":"called","window":2450,"in_step":false,"miss":"compaction","input":2,"cache_read":1900,"cache_write_5m":548,"output":100,"cost_micro_usd":6885,"base":1900,"drift":0,"parts":{"human":0,"assistant_text":0,"thinking":0,"tool_calls":0,"tool_results":0,"local_commands":0,"attachments":0,"images":0,"summaries":550,"other":0}}
        {"call":2,"event":"called","window":2450,"in_step":false,"miss":"compaction","cache_read":1900}
        "#,
    )
}

// ---- recorded boundaries -----------------------------------------------------------------------------------------

/// c0 (r1) starts a command that takes long; the user continues (r2 100): c1 2,200. r4 5,800: c2 due at
/// 2,200 + 100 + 5,800 = 8,100, sent 8,200, 2,198 read: 6,002 x 5 + 500 x 25 + 1,099 = 43,609. After: 2,450. Then the result
/// of r1 arrives (r6 300), but r1 was dropped: c3 sends 2,450 + 100.
pub(super) fn orphan_result(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let call = plant.call_unanswered(100)?;
    plant.ask(100)?;
    plant.bash(100, 5_800)?;
    plant.say(100)?;
    plant.answer_late(&call, 300)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":2,"event":"due","context":8100,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":6002,"cache_read":2198,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":43609}
        {"call":2,"event":"boundary","cause":"auto","kind":"full","context":8100,"threshold":8000,"before":8100,"after":2450,"summary":500,"restored":0,"records":5,"last_record":4,"kept":null,"retries":0,"calls_since":2,"turns_since":1,"again":false,"recorded":false}
        {"call":3,"event":"orphans","results":1}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":2200,"in_step":true}
        {"call":2,"event":"called","window":2450,"in_step":false,"miss":"compaction"}
        {"call":3,"event":"called","window":2550,"in_step":false,"miss":null,"parts":{"human":0,"assistant_text":100,"thinking":0,"tool_calls":0,"tool_results":0,"local_commands":0,"attachments":0,"images":0,"summaries":550,"other":0}}
        "#,
    )
}

/// c0 (r1, r2 400), c1 says 100 (r3): W 2,600. The user compacts: sent 2,700, 2,498 read: 202 x 5 + 500 x 25 + 1,249 =
/// 14,759. After: 1,900 + 550 = 2,450; the recorded summary (r4) does not count. With the next prompt c2 sends 2,550.
pub(super) fn manual_whole(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 400)?;
    plant.say(100)?;
    plant.boundary("manual", 2_600, 3_900)?;
    plant.ask_estimated()?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":2,"event":"reached","boundary":0,"context":2600,"threshold":8000,"due":false}
        {"call":2,"event":"side-call","purpose":"compact","input":202,"cache_read":2498,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":14759}
        {"call":2,"event":"boundary","cause":"manual","kind":"full","context":2600,"threshold":8000,"before":2600,"after":2450,"summary":500,"restored":0,"records":4,"last_record":3,"kept":null,"retries":0,"calls_since":2,"turns_since":1,"again":false,"recorded":false}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2500}
        {"call":2,"event":"called","window":2550,"in_step":false,"miss":"compaction"}
        "#,
    )
}

/// Writes a log of three commands, 100 and 400 each (r1 to r6); c3 says 100 (r7): W 3,600. The pivot lies two rounds back,
/// at the input of c2: r4, the result of r3, so r3 stays with it.
fn pivot_log(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for _ in 0..3 {
        plant.bash(100, 400)?;
    }
    plant.say(100)?;
    plant.boundary("manual", 3_600, 3_900)?;
    plant.ask_estimated()?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// r0 to r2 (600) are summarized, r3 to r7 (1,100) stay. After: 1,900 + 550 + 1,100 = 3,550. The kept records are not sent:
/// 1,900 + 600 + 100, all read but the 100 of instructions: 100 x 5 + 500 x 25 + 2,500 / 2 = 14,250.
pub(super) fn manual_up_to(folder: &mut CaseFolder) -> io::Result<()> {
    pivot_log(folder)?;
    write_expected(
        folder,
        &[("compact.variant", "\"up_to\""), ("compact.pivot", "2")],
        r#"
        {"call":4,"event":"reached","boundary":0,"context":3600,"threshold":8000,"due":false}
        {"call":4,"event":"side-call","purpose":"compact","input":100,"cache_read":2500,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":14250}
        {"call":4,"event":"boundary","cause":"manual","kind":"partial","context":3600,"threshold":8000,"before":3600,"after":3550,"summary":500,"restored":0,"records":3,"last_record":7,"kept":{"from":3,"to":7},"retries":0,"calls_since":4,"turns_since":1,"again":false,"recorded":false}
        {"call":0,"event":"called"}
        {"call":1,"event":"called"}
        {"call":2,"event":"called"}
        {"call":3,"event":"called","window":3500}
        {"call":4,"event":"called","window":3650,"cache_read":1900,"miss":"compaction"}
        "#,
    )
}

/// r3 to r7 are summarized, r0 to r2 (600) stay. After: 1,900 + 550 + 600 = 3,050. Everything is sent: 3,700, 3,498 read:
/// 202 x 5 + 500 x 25 + 1,749 = 15,259. The kept records are the start of the old prompt: c4 sends 3,150 and reads
/// 1,900 + 600.
pub(super) fn manual_from(folder: &mut CaseFolder) -> io::Result<()> {
    pivot_log(folder)?;
    write_expected(
        folder,
        &[("compact.variant", "\"from\""), ("compact.pivot", "2")],
        r#"
        {"call":4,"event":"reached","boundary":0,"context":3600,"threshold":8000,"due":false}
        {"call":4,"event":"side-call","purpose":"compact","input":202,"cache_read":3498,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":15259}
        {"call":4,"event":"boundary","cause":"manual","kind":"partial","context":3600,"threshold":8000,"before":3600,"after":3050,"summary":500,"restored":0,"records":5,"last_record":7,"kept":{"from":0,"to":2},"retries":0,"calls_since":4,"turns_since":1,"again":false,"recorded":false}
        {"call":0,"event":"called"}
        {"call":1,"event":"called"}
        {"call":2,"event":"called"}
        {"call":3,"event":"called","window":3500}
        {"call":4,"event":"called","window":3150,"cache_read":2500,"cache_write_5m":648,"miss":null}
        "#,
    )
}

/// c0 (r1, r2 5,700), c1 says 200 (r3): the client compacted at 7,800 + 200 = 8,000, and so does the policy. The recorded
/// sizes are used: a summary of 1,000, and the window of c2, 4,000, of which 4,000 - 1,900 - 1,000 = 1,100 were restored.
/// The compaction sent 8,100, 7,798 read: 302 x 5 + 1,000 x 25 + 3,899 = 30,409. c2 reads system prompt and tools (1,900)
/// and writes 2,098. c3 stays in step: 4,000 + 100 + 100.
pub(super) fn boundary_in_step(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 5_700)?;
    plant.say(200)?;
    plant.boundary("auto", 8_000, 3_900)?;
    plant.ask_estimated()?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("compact.summary", "\"recorded\"")],
        r#"
        {"call":2,"event":"reached","boundary":0,"context":8000,"threshold":8000,"due":true}
        {"call":2,"event":"side-call","purpose":"compact","input":302,"cache_read":7798,"cache_write_5m":0,"cache_write_1h":0,"output":1000,"cost_micro_usd":30409}
        {"call":2,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":4000,"summary":1000,"restored":1100,"records":4,"last_record":3,"kept":null,"retries":0,"calls_since":2,"turns_since":1,"again":false,"recorded":true}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":7800,"in_step":true}
        {"call":2,"event":"called","window":4000,"in_step":true,"miss":"compaction","input":2,"cache_read":1900,"cache_write_5m":2098}
        {"call":3,"event":"called","window":4200,"in_step":true,"miss":null,"cache_read":3998}
        "#,
    )
}

/// Writes a log of two commands, 100 and 1,000 each, and a third whose result is `last`.
fn long_log(folder: &mut CaseFolder, last: u64) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 1_000)?;
    plant.bash(100, 1_000)?;
    plant.bash(100, last)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// c3 is due at 4,200 + 100 + 7,000 = 11,300. Rounds: r0 100; r1, r2 1,100; r3, r4 1,100; r5, r6 7,100. With 1,900 and the
/// instructions the prompt is 11,400, 1,400 above 10,000: 100 + 1,100 + 1,100 cover that, 9,100 are left after one retry.
/// None of it can be read from the cache: 9,100 x 5 + 500 x 25 = 58,000. After: 2,450.
pub(super) fn too_long_known(folder: &mut CaseFolder) -> io::Result<()> {
    long_log(folder, 7_000)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":3,"event":"due","context":11300,"threshold":8000}
        {"call":3,"event":"side-call","purpose":"compact","input":9100,"cache_read":0,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":58000}
        {"call":3,"event":"boundary","cause":"auto","kind":"full","context":11300,"threshold":8000,"before":11300,"after":2450,"summary":500,"restored":0,"records":7,"last_record":6,"kept":null,"retries":1,"calls_since":3,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// The same, but the refusal does not state the excess. A fifth of four rounds is less than one, so one is dropped: r0,
/// 11,300 are left; then one of three: 10,200; then one of two: 9,100, after three retries.
pub(super) fn too_long_unknown(folder: &mut CaseFolder) -> io::Result<()> {
    long_log(folder, 7_000)?;
    write_expected(
        folder,
        &[("compact.excess_known", "false")],
        r#"
        {"call":3,"event":"due","context":11300,"threshold":8000}
        {"call":3,"event":"side-call","purpose":"compact","input":9100,"cache_read":0,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":58000}
        {"call":3,"event":"boundary","cause":"auto","kind":"full","context":11300,"threshold":8000,"before":11300,"after":2450,"summary":500,"restored":0,"records":7,"last_record":6,"kept":null,"retries":3,"calls_since":3,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// With a last result of 9,000 c3 is due at 13,300; the last round alone is 9,100 + 2,000 = 11,100, and without it nothing
/// would be left. So the compaction fails, the API refuses the prompt, the reactive compaction fails too, and no call is
/// made after c2.
pub(super) fn too_long_blocked(folder: &mut CaseFolder) -> io::Result<()> {
    long_log(folder, 9_000)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":3,"event":"due","context":13300,"threshold":8000}
        {"call":3,"event":"failed","cause":"auto","failure":"prompt-too-long","in_a_row":1}
        {"call":3,"event":"prompt-too-long","tokens":13300,"limit":10000}
        {"call":3,"event":"failed","cause":"reactive","failure":"prompt-too-long","in_a_row":2}
        {"call":3,"event":"blocked"}
        {"call":0,"event":"called"}
        {"call":1,"event":"called"}
        {"call":2,"event":"called","window":4200}
        "#,
    )
}

/// System prompt and tools are 7,600: c0 7,700, 100 and 200, so c1 is due at 8,000. The new window would be larger:
/// 7,600 + 550 = 8,150. The summary is billed all the same: sent 8,100, 7,698 read: 402 x 5 + 500 x 25 + 3,849 = 18,359.
pub(super) fn no_gain(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 7_700)?;
    plant.bash(100, 200)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":402,"cache_read":7698,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":18359}
        {"call":1,"event":"failed","cause":"auto","failure":"no-gain","in_a_row":1}
        {"call":0,"event":"called","window":7700}
        {"call":1,"event":"called","window":8000,"level":"threshold"}
        "#,
    )
}

/// The window is 20,000; the override of 10,000 sets the threshold to 8,000. Every simulated compaction fails. c0 (r1, r2
/// 5,900), then results of 100: due at c1 8,000, c2 8,200, c3 8,400 (the third failure), c4 8,600 (not tried any more). c4
/// says 100: 8,700. The recorded manual compaction succeeds: sent 8,800, 8,598 read: 202 x 5 + 1,000 x 25 + 4,299 = 30,309;
/// c5 shows 4,000: 4,000 - 1,900 - 1,000 = 1,100 restored. c5 runs a command, 100 and 4,000: c6 is due at 8,100, and the
/// failure count starts at 1 again.
pub(super) fn breaker(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for result in [5_900, 100, 100, 100] {
        plant.bash(100, result)?;
    }
    plant.say(100)?;
    plant.boundary("manual", 8_700, 3_900)?;
    plant.ask_estimated()?;
    plant.bash(100, 4_000)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("window.tokens", "20000"),
            ("window.override", "10000"),
            ("compact.summary", "\"recorded\""),
            ("failure.rate", "1.0"),
        ],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"failed","cause":"auto","failure":"injected","in_a_row":1}
        {"call":2,"event":"due","context":8200,"threshold":8000}
        {"call":2,"event":"failed","cause":"auto","failure":"injected","in_a_row":2}
        {"call":3,"event":"due","context":8400,"threshold":8000}
        {"call":3,"event":"failed","cause":"auto","failure":"injected","in_a_row":3}
        {"call":3,"event":"breaker-open"}
        {"call":4,"event":"due","context":8600,"threshold":8000}
        {"call":5,"event":"reached","boundary":0,"context":8700,"threshold":8000,"due":true}
        {"call":5,"event":"side-call","purpose":"compact","input":202,"cache_read":8598,"cache_write_5m":0,"cache_write_1h":0,"output":1000,"cost_micro_usd":30309}
        {"call":5,"event":"boundary","cause":"manual","kind":"full","context":8700,"threshold":8000,"before":8700,"after":4000,"summary":1000,"restored":1100,"records":10,"last_record":9,"kept":null,"retries":0,"calls_since":5,"turns_since":1,"again":false,"recorded":true}
        {"call":6,"event":"due","context":8100,"threshold":8000}
        {"call":6,"event":"failed","cause":"auto","failure":"injected","in_a_row":1}
        "#,
    )
}

/// Automatic compaction is off. c0 (r1, r2 1,000), c1 (r3, r4 7,500): c2 would send 10,700. Rounds: 100; 1,100; 7,600; with
/// 2,000 around them 10,800: 100 + 1,100 cover the excess of 800, 9,600 are left: 9,600 x 5 + 12,500 = 60,500. After: 2,450.
pub(super) fn reactive(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 1_000)?;
    plant.bash(100, 7_500)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("switch.auto", "false")],
        r#"
        {"call":2,"event":"prompt-too-long","tokens":10700,"limit":10000}
        {"call":2,"event":"side-call","purpose":"compact","input":9600,"cache_read":0,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":60500}
        {"call":2,"event":"boundary","cause":"reactive","kind":"full","context":10700,"threshold":8000,"before":10700,"after":2450,"summary":500,"restored":0,"records":5,"last_record":4,"kept":null,"retries":1,"calls_since":2,"turns_since":0,"again":false,"recorded":false}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":3100,"in_step":true}
        {"call":2,"event":"called","window":2450,"in_step":false,"miss":"compaction"}
        "#,
    )
}
