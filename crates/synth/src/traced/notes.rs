//! Cases about session notes: when they are updated, and what a compaction by notes keeps.

use crate::cases::CaseFolder;
use crate::traced::{PlantedSession, write_expected};
use std::io;

/// First notes at 3,000, growth 1,000, three tool calls; notes are a tenth of the conversation, which is W - 1,900. Outputs
/// of 100. W after: c0 2,100; c1 2,500; c2 2,900; c3 3,300 (four tool calls: notes of 140); c4 3,700 (grew 400); c5 4,400
/// (grew 1,100, two tool calls); c6 4,800 (grew 1,500, three tool calls: 290); c7 5,200 (grew 400); c8 6,200 (grew 1,400;
/// one tool call since, but none in this response: 430); c9 6,350 (grew 150). An update sends W + 100 and reads what the
/// last call left in the cache: all but 100 + 100 + 2. It also sends the present notes and writes only what they gain:
/// 140; 150 more, with 140 sent; 140 more, with 290 sent.
/// Costs: 202 x 5 + 140 x 25 + 3,198 / 2 = 6,109; 342 x 5 + 150 x 25 + 4,698 / 2 = 7,809;
/// 492 x 5 + 140 x 25 + 6,098 / 2 = 9,009.
pub(super) fn notes_gate(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for result in [300, 300, 300, 300, 600, 300, 300, 900] {
        plant.bash(100, result)?;
    }
    plant.say(100)?;
    plant.ask(50)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.first", "3000"),
            ("notes.growth", "1000"),
            ("notes.share", "0.1"),
        ],
        r#"
        {"call":3,"event":"notes","tokens":140}
        {"call":3,"event":"side-call","purpose":"notes","input":202,"cache_read":3198,"cache_write_5m":0,"cache_write_1h":0,"output":140,"cost_micro_usd":6109}
        {"call":6,"event":"notes","tokens":290}
        {"call":6,"event":"side-call","purpose":"notes","input":342,"cache_read":4698,"cache_write_5m":0,"cache_write_1h":0,"output":150,"cost_micro_usd":7809}
        {"call":8,"event":"notes","tokens":430}
        {"call":8,"event":"side-call","purpose":"notes","input":492,"cache_read":6098,"cache_write_5m":0,"cache_write_1h":0,"output":140,"cost_micro_usd":9009}
        "#,
    )
}

/// Writes the session of the keep rules. Outputs and prompts of 100.
///
/// | call | W | records | |
/// | --- | --- | --- | --- |
/// | c0 | 2,000 | r0 prompt, r1 call, r2 result 1,000 | |
/// | c1 | 3,100 | r3 text | |
/// | c2 | 3,300 | r4 prompt, r5 call, r6 result 1,000 | |
/// | c3 | 4,400 | r7 read, r8 result 500 | |
/// | c4 | 5,000 | r9 text | W 5,100 after it: notes of (5,100 - 1,900) / 10 = 320, covering up to r9 |
/// | c5 | 5,200 | r10 prompt, r11 call, r12 result 700 | |
/// | c6 | 6,000 | r13 text | |
/// | c7 | 6,200 | r14 prompt, r15 call, r16 result 1,700 | |
/// | c8 | 8,000 | | due: 6,200 + 100 + 1,700 = 8,000 |
///
/// With `thinking`, c4 is r9 thinking 100 and r10 text 100: later record numbers are one higher, later sizes 100 larger.
/// The notes do not cover 100 + 100 + 700 + 100 + 100 + 100 + 1,700 = 2,900 with three messages of text.
fn keep_log(folder: &mut CaseFolder, thinking: bool) -> io::Result<()> {
    keep_log_with(folder, thinking, 0)
}

/// Writes the same session with a pause of `hours` after c4, in which the cache expires.
fn keep_log_with(folder: &mut CaseFolder, thinking: bool, hours: u64) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 1_000)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.bash(100, 1_000)?;
    plant.read("ladder.rs", 100, 500)?;
    match thinking {
        true => plant.think_and_say(200)?,
        false => plant.say(100)?,
    }
    if hours > 0 {
        plant.pause(hours * 3600);
        plant.held = 0;
    }
    plant.ask(100)?;
    plant.bash(100, 700)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.bash(100, 1_700)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// Returns the policy of the keep rules: one update of the notes, at 5,000; at least 1,000 tokens and three messages are
/// kept, no more than 6,000; restored files are cut to 400.
fn keep_policy(settings: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let common = [
        ("notes.on", "true"),
        ("notes.compact", "true"),
        ("notes.first", "5000"),
        ("notes.growth", "5000"),
        ("notes.share", "0.1"),
        ("notes.keep_tokens", "1000"),
        ("notes.keep_messages", "3"),
        ("notes.keep_most", "6000"),
        ("restore.files", "5"),
        ("restore.file_tokens", "400"),
        ("restore.large", "\"cut\""),
    ];
    common.iter().chain(settings).copied().collect()
}

/// An update of the notes at c4, and a compaction by notes at c8.
const NOTES_USED: &str = r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8000,"threshold":8000,"before":8000,"after":5570,"summary":320,"restored":400,"records":10,"last_record":16,"kept":{"from":10,"to":16},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#;

/// An update of the notes at c4, but a full compaction at c8.
const NOTES_UNUSED: &str = r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"side-call","purpose":"compact","input":1902,"cache_read":6198,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":25109}
        {"call":8,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2850,"summary":500,"restored":400,"records":17,"last_record":16,"kept":null,"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#;

/// Keeping r10 to r16 is enough: 2,900, three messages. The file of r8 is not kept: 400 of its 500 are restored.
/// After: 1,900 + 320 + 50 + 400 + 2,900 = 5,570.
/// The notes at c4 cost 202 x 5 + 320 x 25 + 4,998 / 2 = 11,509.
pub(super) fn notes_keep_covered(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(folder, &keep_policy(&[]), NOTES_USED)
}

/// Five messages are required: r9 is the fourth (3,000), then r8 3,500, r7 3,600, r6 4,600, r5 4,700, and r4 is the fifth:
/// 4,800. The file of r8 is kept, so it is not restored. After: 1,900 + 320 + 50 + 4,800 = 7,070.
pub(super) fn notes_keep_messages(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.keep_messages", "5")]),
        r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8000,"threshold":8000,"before":8000,"after":7070,"summary":320,"restored":0,"records":4,"last_record":16,"kept":{"from":4,"to":16},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// Five messages are required, but nothing more is kept from 3,200 on: r9 3,000, r8 3,500. r8 is a result, so its call r7
/// stays too: 3,600.
/// After: 1,900 + 320 + 50 + 3,600 = 5,870.
pub(super) fn notes_keep_cap(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.keep_messages", "5"), ("notes.keep_most", "3200")]),
        r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8000,"threshold":8000,"before":8000,"after":5870,"summary":320,"restored":0,"records":7,"last_record":16,"kept":{"from":7,"to":16},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// With thinking: notes of (5,200 - 1,900) / 10 = 330, sent 5,300, 4,998 read: 302 x 5 + 330 x 25 + 2,499 = 12,259.
/// Four messages are required: r11 to r17 have three (2,900), r10 is the fourth (3,000); its thinking r9 stays with it:
/// 3,100. The file of r8 is restored. After: 1,900 + 330 + 50 + 400 + 3,100 = 5,780. Due at 6,300 + 100 + 1,700 = 8,100.
pub(super) fn notes_keep_thinking(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, true)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.keep_messages", "4")]),
        r#"
        {"call":4,"event":"notes","tokens":330}
        {"call":4,"event":"side-call","purpose":"notes","input":302,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":330,"cost_micro_usd":12259}
        {"call":8,"event":"due","context":8100,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8100,"threshold":8000,"before":8100,"after":5780,"summary":330,"restored":400,"records":9,"last_record":17,"kept":{"from":9,"to":17},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// A hundred messages would keep everything: 6,100 of conversation, and 1,900 + 320 + 50 + 6,100 = 8,370 is not below 8,000.
/// So a full compaction happens: sent 8,000 + 100, 6,198 read: 1,902 x 5 + 500 x 25 + 3,099 = 25,109.
/// After: 1,900 + 500 + 50 + 400 restored = 2,850.
pub(super) fn notes_not_usable(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.keep_messages", "100"), ("notes.keep_most", "100000")]),
        NOTES_UNUSED,
    )
}

/// W never reaches the 9,000 at which notes start: a full compaction, as in `notes-not-usable`.
pub(super) fn notes_empty(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.first", "9000")]),
        r#"
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"side-call","purpose":"compact","input":1902,"cache_read":6198,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":25109}
        {"call":8,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2850,"summary":500,"restored":400,"records":17,"last_record":16,"kept":null,"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// An update takes two hours, and c8 comes minutes after c4. A compaction waits only 15 seconds, so there are no notes yet:
/// a full compaction, as in `notes-not-usable`.
pub(super) fn notes_running(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.seconds", "7200"), ("notes.stale_seconds", "9000")]),
        NOTES_UNUSED,
    )
}

/// The same, but a compaction waits for two hours, so the update is done in time. As `notes-keep-covered`.
pub(super) fn notes_waited(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log(folder, false)?;
    write_expected(
        folder,
        &keep_policy(&[
            ("notes.seconds", "7200"),
            ("notes.wait_seconds", "7200"),
            ("notes.stale_seconds", "9000"),
        ]),
        NOTES_USED,
    )
}

/// As `notes-running` with a pause of three hours after c4: the update has finished. As `notes-keep-covered`.
pub(super) fn notes_late(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log_with(folder, false, 3)?;
    write_expected(
        folder,
        &keep_policy(&[("notes.seconds", "7200"), ("notes.stale_seconds", "9000")]),
        NOTES_USED,
    )
}

/// As `notes-late`, but an update that takes longer than a minute is given up: no notes.
pub(super) fn notes_stale(folder: &mut CaseFolder) -> io::Result<()> {
    keep_log_with(folder, false, 3)?;
    write_expected(folder, &keep_policy(&[("notes.seconds", "7200")]), NOTES_UNUSED)
}

/// First notes at 2,000, growth 1,000, one tool call; a hundred messages are required.
/// c0 (r1) W 2,100: notes of 20, sent 2,200, 1,998 read: 202 x 5 + 20 x 25 + 999 = 2,509. Result r2 of 5,900: c1 due at
/// 8,000. Keeping r0 to r2 (6,100) would give 1,900 + 20 + 50 + 6,100 = 8,070: not usable. Full: sent 8,100, 1,998 read:
/// 6,102 x 5 + 500 x 25 + 999 = 44,009. After: 1,900 + 550 = 2,450.
/// c1 (r3) at 2,450 reads the 1,900 of system prompt and tools; r4 2,000. c2 (r5) at 4,550; W 4,650 grew 2,200: notes of
/// 2,750 / 10 = 275, 255 more than the 20 that are sent, 4,548 read: 222 x 5 + 255 x 25 + 2,274 = 9,759. r6 3,400: c3 due at 4,550 + 100 + 3,400 = 8,050.
/// Everything since the boundary stays, nothing before it: r3 to r6, 5,600. After: 1,900 + 275 + 50 + 5,600 = 7,825.
pub(super) fn notes_floor(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for result in [5_900, 2_000, 3_400] {
        plant.bash(100, result)?;
    }
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.compact", "true"),
            ("notes.first", "2000"),
            ("notes.growth", "1000"),
            ("notes.calls", "1"),
            ("notes.share", "0.1"),
            ("notes.keep_messages", "100"),
            ("notes.keep_most", "100000"),
        ],
        r#"
        {"call":0,"event":"notes","tokens":20}
        {"call":0,"event":"side-call","purpose":"notes","input":202,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":20,"cost_micro_usd":2509}
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":44009}
        {"call":1,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2450,"summary":500,"restored":0,"records":3,"last_record":2,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":false,"recorded":false}
        {"call":2,"event":"notes","tokens":275}
        {"call":2,"event":"side-call","purpose":"notes","input":222,"cache_read":4548,"cache_write_5m":0,"cache_write_1h":0,"output":255,"cost_micro_usd":9759}
        {"call":3,"event":"due","context":8050,"threshold":8000}
        {"call":3,"event":"boundary","cause":"auto","kind":"session-memory","context":8050,"threshold":8000,"before":8050,"after":7825,"summary":275,"restored":0,"records":0,"last_record":6,"kept":{"from":3,"to":6},"retries":0,"calls_since":2,"turns_since":0,"again":true,"recorded":false}
        "#,
    )
}
