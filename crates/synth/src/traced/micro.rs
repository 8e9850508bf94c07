//! Cases about micro-compaction.

use crate::cases::CaseFolder;
use crate::json::quoted;
use crate::traced::{PlantedSession, path, write_expected};
use std::io;

/// Results of 100 after outputs of 20: c0 writes a to-do list (r2), c1 to c7 read files (r4, r6, .. r16); c8 says 30.
/// W at c8 2,000 + 8 x 120 = 2,960. Prompts of 50 after 59 minutes (c9: 3,040) and after 61 more (c10: 3,120).
/// Seven results are clearable, five stay: r4 and r6 become placeholders of 10, 180 are freed, c10 sends 2,940.
pub(super) fn micro_gap(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let todos = "{\"todos\":[{\"content\":\"Count the apples\",\"status\":\"pending\",\"activeForm\":\"Counting the apples\"}]}";
    plant.call("TodoWrite", todos, 20, 100)?;
    for name in ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs", "g.rs"] {
        plant.read(name, 20, 100)?;
    }
    plant.say(30)?;
    for minutes in [59, 61] {
        plant.pause(minutes * 60);
        plant.held = 0;
        plant.ask(50)?;
        plant.say(30)?;
    }
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("micro.gap.on", "true")],
        r#"
        {"call":10,"event":"micro","kind":"gap","eligible":0,"saved":180,"cleared":[{"record":4,"tool":"Read","path":"/home/dev/projects/orchard/a.rs","tokens":100},{"record":6,"tool":"Read","path":"/home/dev/projects/orchard/b.rs","tokens":100}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2120}
        {"call":2,"event":"called","window":2240}
        {"call":3,"event":"called","window":2360}
        {"call":4,"event":"called","window":2480}
        {"call":5,"event":"called","window":2600}
        {"call":6,"event":"called","window":2720}
        {"call":7,"event":"called","window":2840}
        {"call":8,"event":"called","window":2960}
        {"call":9,"event":"called","window":3040,"in_step":true}
        {"call":10,"event":"called","window":2940,"in_step":false}
        "#,
    )
}

/// Commands with outputs of 20 and results of 100. Deletion starts at four results and keeps two; placeholders of 10.
/// c4: four results (r2, r4, r6, r8), r2 and r4 are deleted: 2,480 - 180 = 2,300; the cache holds 2,358 of c3, all 2,298
/// are read. c5: three results, 2,300 + 120 = 2,420: 2,298 read, 120 written. c6: r6, r8, r10, r12 are left, r6 and r8 are
/// deleted: 2,540 - 180 = 2,360; the cache holds 2,418, all 2,358 are read.
pub(super) fn micro_cached(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for _ in 0..6 {
        plant.bash(20, 100)?;
    }
    plant.say(20)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        CACHED,
        r#"
        {"call":4,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":100},{"record":4,"tool":"Bash","path":"","tokens":100}]}
        {"call":6,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":6,"tool":"Bash","path":"","tokens":100},{"record":8,"tool":"Bash","path":"","tokens":100}]}
        {"call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"call":1,"event":"called","window":2120,"cache_read":1998,"cache_write_5m":120,"miss":null}
        {"call":2,"event":"called","window":2240,"cache_read":2118,"cache_write_5m":120,"miss":null}
        {"call":3,"event":"called","window":2360,"cache_read":2238,"cache_write_5m":120,"miss":null}
        {"call":4,"event":"called","window":2300,"cache_read":2298,"cache_write_5m":0,"miss":null,"in_step":false}
        {"call":5,"event":"called","window":2420,"cache_read":2298,"cache_write_5m":120,"miss":null}
        {"call":6,"event":"called","window":2360,"cache_read":2358,"cache_write_5m":0,"miss":null}
        "#,
    )
}

const CACHED: &[(&str, &str)] = &[
    ("micro.cached.on", "true"),
    ("micro.cached.trigger", "4"),
    ("micro.cached.keep", "2"),
];

/// As `micro-cached` up to c4, which says 20: 2,300. After ten minutes a prompt of 50: the five-minute cache has expired, so
/// r2 and r4 come back: 2,300 + 20 + 50 + 180 = 2,550, nothing read. There are four results again, but nothing is deleted
/// while the cache is cold, and later r2 and r4 are not deleted twice. c5 runs a command (r11, r12: 120), so c6 finds r6,
/// r8, r12: three. c6 runs another (r13, r14: 120), so c7 finds four that were never deleted: r6 and r8 are deleted.
/// c6: 2,550 + 120 = 2,670. c7: 2,670 + 120 - 180 = 2,610.
pub(super) fn micro_cached_cold(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    for _ in 0..4 {
        plant.bash(20, 100)?;
    }
    plant.say(20)?;
    plant.pause(600);
    plant.held = 0;
    plant.ask(50)?;
    plant.bash(20, 100)?;
    plant.bash(20, 100)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        CACHED,
        r#"
        {"call":4,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":100},{"record":4,"tool":"Bash","path":"","tokens":100}]}
        {"call":7,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":6,"tool":"Bash","path":"","tokens":100},{"record":8,"tool":"Bash","path":"","tokens":100}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2120}
        {"call":2,"event":"called","window":2240}
        {"call":3,"event":"called","window":2360}
        {"call":4,"event":"called","window":2300,"cache_read":2298}
        {"call":5,"event":"called","window":2550,"cache_read":0,"miss":"expired"}
        {"call":6,"event":"called","window":2670,"cache_read":2548,"cache_write_5m":120}
        {"call":7,"event":"called","window":2610,"cache_read":2608,"cache_write_5m":0}
        "#,
    )
}

/// Warning level 8,000 - 2,400 = 5,600. First call 5,000; commands with outputs of 50 and results of 200, +250 per round.
/// Before c3 the last usage is 5,500 + 50 = 5,550: below. Before c4 it is 5,800: four results are 800; all but the newest
/// are 600, less than the 700 that must be freed. Before c5: five are 1,000; the target of 100 would clear all, but the
/// newest stays: 800 saved by the client's count, 4 x 190 = 760 with placeholders of 10: c5 sends 6,250 - 760 = 5,490.
pub(super) fn micro_budget(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 5_000)?;
    for _ in 0..5 {
        plant.bash(50, 200)?;
    }
    plant.say(50)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("window.warning", "2400"),
            ("micro.budget.on", "true"),
            ("micro.budget.target", "100"),
            ("micro.budget.protect", "1"),
            ("micro.budget.at_least", "700"),
        ],
        r#"
        {"call":5,"event":"micro","kind":"budget","eligible":1000,"saved":800,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":200},{"record":4,"tool":"Bash","path":"","tokens":200},{"record":6,"tool":"Bash","path":"","tokens":200},{"record":8,"tool":"Bash","path":"","tokens":200}]}
        {"call":0,"event":"called","window":5000,"level":"normal"}
        {"call":1,"event":"called","window":5250,"level":"normal"}
        {"call":2,"event":"called","window":5500,"level":"normal"}
        {"call":3,"event":"called","window":5750,"level":"warning"}
        {"call":4,"event":"called","window":6000,"level":"warning"}
        {"call":5,"event":"called","window":5490,"level":"normal","in_step":false}
        "#,
    )
}

/// c0 edits (100, result 50), c1 writes (200, 50), c2 and c3 read (20, 200), c4 runs a command (20, 200).
/// W: 2,000; 2,150; 2,400; 2,620; 2,840; before c5 3,060, which is above the trigger of 3,000. Results of the other tools are
/// 200 + 200 + 200 = 600; the oldest are cleared until at most 250 stay: 400, 200. Of Edit and Write whole calls count: 150 +
/// 250 = 400; without the edit 250 are left. 150 + 200 + 200 = 550 saved of 1,000. The edit leaves nothing, the others two
/// placeholders: c5 sends 3,060 - 150 - 380 = 2,530.
pub(super) fn micro_api(folder: &mut CaseFolder) -> io::Result<()> {
    api_log(folder)?;
    write_expected(folder, API, API_EVENTS)
}

fn api_log(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let edit = format!(
        "{{\"replace_all\":false,\"file_path\":{},\"old_string\":\"one\",\"new_string\":\"two\"}}",
        quoted(&path("a.rs"))
    );
    plant.call("Edit", &edit, 100, 50)?;
    let write = format!("{{\"file_path\":{},\"content\":\"three\"}}", quoted(&path("b.rs")));
    plant.call("Write", &write, 200, 50)?;
    plant.read("c.rs", 20, 200)?;
    plant.read("d.rs", 20, 200)?;
    plant.bash(20, 200)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    Ok(())
}

const API: &[(&str, &str)] = &[
    ("micro.api.on", "true"),
    ("micro.api.trigger", "3000"),
    ("micro.api.keep", "250"),
];

const API_EVENTS: &str = r#"
        {"call":5,"event":"micro","kind":"api","eligible":1000,"saved":550,"cleared":[{"record":2,"tool":"Edit","path":"/home/dev/projects/orchard/a.rs","tokens":50},{"record":6,"tool":"Read","path":"/home/dev/projects/orchard/c.rs","tokens":200},{"record":8,"tool":"Read","path":"/home/dev/projects/orchard/d.rs","tokens":200}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2150}
        {"call":2,"event":"called","window":2400}
        {"call":3,"event":"called","window":2620}
        {"call":4,"event":"called","window":2840}
        {"call":5,"event":"called","window":2530,"in_step":false}
        "#;

/// The same, but 600 must come free and only 550 would: c5 sends 3,060.
pub(super) fn micro_api_least(folder: &mut CaseFolder) -> io::Result<()> {
    api_log(folder)?;
    let settings = [API, &[("micro.api.at_least", "600")]].concat();
    write_expected(
        folder,
        &settings,
        r#"
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2150}
        {"call":2,"event":"called","window":2400}
        {"call":3,"event":"called","window":2620}
        {"call":4,"event":"called","window":2840}
        {"call":5,"event":"called","window":3060,"in_step":true}
        "#,
    )
}

/// Turns of thinking 200 and text 200: r1, r2 (c0), r4, r5 (c1). Prompts of 50. The third prompt comes after 61 minutes:
/// the thinking of c1 belongs to the last turn and stays, that of c0 is dropped. W: 2,000; 2,450; 2,900 - 200 = 2,700.
pub(super) fn micro_api_thinking(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.think_and_say(400)?;
    plant.ask(50)?;
    plant.think_and_say(400)?;
    plant.pause(61 * 60);
    plant.held = 0;
    plant.ask(50)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("micro.api.on", "true")],
        r#"
        {"call":2,"event":"micro","kind":"thinking","eligible":0,"saved":200,"cleared":[{"record":1,"tool":"","path":"","tokens":200}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2450}
        {"call":2,"event":"called","window":2700,"in_step":false}
        "#,
    )
}
