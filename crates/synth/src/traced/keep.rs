//! Replay cases: what a compaction by a model call keeps verbatim, as agents other than Claude Code do.

use super::{PlantedSession, write_expected};
use crate::cases::CaseFolder;
use std::io;

/// c0 (r1, r2 5,400), c1 sends 2,000 + 100 + 5,400 = 7,500 (r3, r4 400); c2 is due at 7,500 + 100 + 400 = 8,000. Of the newest
/// messages r4 and its call r3 take 500; with r2 they would take 5,900, more than 600. Sent: 8,000 - 500 + 100 = 7,600, of
/// which 7,498 are read: 102 x 5 + 500 x 25 + 7,498 x 0.5 = 16,759. After: 1,900 + 550 + 500 = 2,950.
pub(super) fn keep_tail(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 5_400)?;
    plant.bash(100, 400)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("compact.keep", "\"tail\""), ("compact.keep_most", "600")],
        r#"
        {"call":2,"event":"due","context":8000,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":102,"cache_read":7498,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":16759}
        {"call":2,"event":"boundary","cause":"auto","kind":"partial","before":8000,"after":2950,"summary":500,"restored":0,"records":3,"last_record":4,"kept":{"from":3,"to":4}}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":7500}
        {"call":2,"event":"called","window":2950,"miss":"compaction","parts":{"human":0,"assistant_text":0,"thinking":0,"tool_calls":100,"tool_results":400,"local_commands":0,"attachments":0,"images":0,"summaries":550,"other":0}}
        "#,
    )
}

/// A prompt of 100 (r0); c0 (r1 100), a prompt of 200 (r2); c1 sends 2,000 + 100 + 200 = 2,300 (r3 100, r4 5,600); c2 is due at
/// 8,000. A quarter of the effective window of 9,000 would be 2,250 tokens of prompts; at most 250 are kept: r2, but not r0
/// as well. The whole window is sent: 8,100, of which 2,298 are read: 5,802 x 5 + 500 x 25 + 2,298 x 0.5 = 42,659. After:
/// 1,900 + 550 + 200 = 2,650.
pub(super) fn keep_prompts(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.say(100)?;
    plant.ask(200)?;
    plant.bash(100, 5_600)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("compact.keep", "\"prompts\""),
            ("compact.keep_percent", "25.0"),
            ("compact.keep_most", "250"),
        ],
        r#"
        {"call":2,"event":"due","context":8000,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":5802,"cache_read":2298,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":42659}
        {"call":2,"event":"boundary","cause":"auto","kind":"partial","before":8000,"after":2650,"summary":500,"restored":0,"records":4,"last_record":4,"kept":null}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2300}
        {"call":2,"event":"called","window":2650,"miss":"compaction","parts":{"human":200,"assistant_text":0,"thinking":0,"tool_calls":0,"tool_results":0,"local_commands":0,"attachments":0,"images":0,"summaries":550,"other":0}}
        "#,
    )
}
