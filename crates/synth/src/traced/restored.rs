//! Cases about what comes back after a compaction, and what its call sends.

use crate::cases::CaseFolder;
use crate::session::SynthBlock;
use crate::traced::{PlantedSession, path, write_expected};
use std::io;

/// c0 reads lines 51 to 100 of a.rs, 20 and 200: the whole of it is 200 x 100 / 50 = 400. c1 writes b.rs, 300 and 50. c2 reads
/// c.rs, 20 and 500, above the limit of 400: a reference of 45. c3 edits b.rs, 50 and 50, so that it is the newest.
/// W: 2,000; 2,220; 2,570; 3,090; 3,190. c4 runs a command, 100 and 4,710: c5 is due at 8,000.
/// Sent 8,100, 3,188 read: 4,912 x 5 + 500 x 25 + 1,594 = 38,654. After: 1,900 + 550 + 300 + 45 + 400 = 3,195.
pub(super) fn restore_current(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let part = format!("{{\"file_path\":\"{}\",\"offset\":51,\"limit\":50}}", path("a.rs"));
    plant.call("Read", &part, 20, 200)?;
    let write = format!("{{\"file_path\":\"{}\",\"content\":\"three\"}}", path("b.rs"));
    plant.call("Write", &write, 300, 50)?;
    plant.read("c.rs", 20, 500)?;
    let edit = format!(
        "{{\"replace_all\":false,\"file_path\":\"{}\",\"old_string\":\"three\",\"new_string\":\"four\"}}",
        path("b.rs")
    );
    plant.call("Edit", &edit, 50, 50)?;
    plant.bash(100, 4_710)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("restore.files", "5"), ("restore.file_tokens", "400")],
        r#"
        {"call":5,"event":"due","context":8000,"threshold":8000}
        {"call":5,"event":"side-call","purpose":"compact","input":4912,"cache_read":3188,"output":500,"cost_micro_usd":38654}
        {"call":5,"event":"boundary","before":8000,"after":3195,"restored":745,"restored_parts":{"files":745},"previous_call":null,"previous_turn":null,"call_source":"main"}
        "#,
    )
}

/// c0 reads ladder.rs, 100 and 500. c1 (2,600) says 100: W 2,700, notes of (2,700 - 1,900) / 10 = 80, covering up to r3; sent
/// 2,800, 2,598 read: 202 x 5 + 80 x 25 + 1,299 = 4,309. A prompt of 100 (r4): c2 2,800 reads ladder.rs again, 100 and 50:
/// the client only says that the file is unchanged. c3 (2,950) runs a command, 100 and 4,950: c4 is due at 8,000. Kept is
/// what the notes do not cover: r4 to r8, 100 + 100 + 50 + 100 + 4,950 = 5,300. The read in it shows nothing, so the file of
/// r2 is restored, 500. After: 1,900 + 80 + 50 + 500 + 5,300 = 7,830.
pub(super) fn restore_stub(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.read("ladder.rs", 100, 500)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.read("ladder.rs", 100, 50)?;
    plant.bash(100, 4_950)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.compact", "true"),
            ("notes.first", "2500"),
            ("notes.growth", "2700"),
            ("notes.share", "0.1"),
            ("notes.keep_tokens", "1000"),
            ("notes.keep_messages", "1"),
            ("restore.files", "5"),
        ],
        r#"
        {"call":1,"event":"notes","tokens":80}
        {"call":1,"event":"side-call","purpose":"notes","input":202,"cache_read":2598,"output":80,"cost_micro_usd":4309}
        {"call":4,"event":"due","context":8000,"threshold":8000}
        {"call":4,"event":"boundary","kind":"session-memory","before":8000,"after":7830,"summary":80,"restored_parts":{"files":500},"kept":{"from":4,"to":8}}
        "#,
    )
}

/// Each attachment is the only input of its call, so its size follows from the usage. c0 to c5 say 100. Before c1 the client
/// announces tools, 300; before c2 types of agents, 180; before c3 instructions of a server, 120; before c4 the skills, 400;
/// before c5 plan mode, 1,000. W: 2,000; 2,400; 2,680; 2,900; 3,400; 4,500. A prompt of 50: c6 (4,650) writes a to-do list,
/// 150 and 50; c7 (4,850) starts an agent, 100, that has not reported at the next prompt of 100: c8 5,050 runs a command, 100
/// and 2,850: c9 is due at 8,000. Restored: 300 + 180 + 120 + 1,000 + 150, and 100 for the agent: 1,850. The listing of
/// skills is not sent again. Sent 8,100, 5,048 read: 3,052 x 5 + 500 x 25 + 2,524 = 30,284.
/// After: 1,900 + 550 + 1,850 = 4,300.
pub(super) fn restore_states(folder: &mut CaseFolder) -> io::Result<()> {
    states_log(folder)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":9,"event":"due","context":8000,"threshold":8000}
        {"call":9,"event":"side-call","purpose":"compact","input":3052,"cache_read":5048,"output":500,"cost_micro_usd":30284}
        {"call":9,"event":"boundary","before":8000,"after":4300,"restored":1850,"restored_parts":{"plan_mode":1000,"todo":150,"agents":100,"tools":300,"agent_types":180,"mcp":120}}
        "#,
    )
}

/// The same, but the policy sends the listing of skills again: 400 more.
pub(super) fn restore_skill_listing(folder: &mut CaseFolder) -> io::Result<()> {
    states_log(folder)?;
    write_expected(
        folder,
        &[("restore.skill_listing", "true")],
        r#"
        {"call":9,"event":"due","context":8000,"threshold":8000}
        {"call":9,"event":"side-call","purpose":"compact","input":3052,"cache_read":5048,"output":500,"cost_micro_usd":30284}
        {"call":9,"event":"boundary","before":8000,"after":4700,"restored":2250,"restored_parts":{"plan_mode":1000,"todo":150,"agents":100,"tools":300,"agent_types":180,"mcp":120,"skill_listing":400}}
        "#,
    )
}

fn states_log(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.say(100)?;
    for (body, units, tokens) in [
        (
            "\"type\":\"deferred_tools_delta\",\"addedNames\":[],\"addedLines\":[\"TEXT\"],\"removedNames\":[]",
            580,
            300,
        ),
        (
            "\"type\":\"agent_listing_delta\",\"addedTypes\":[],\"addedLines\":[\"TEXT\"],\"removedTypes\":[]",
            470,
            180,
        ),
        (
            "\"type\":\"mcp_instructions_delta\",\"addedNames\":[],\"addedBlocks\":[\"TEXT\"],\"removedNames\":[]",
            260,
            120,
        ),
        (
            "\"type\":\"skill_listing\",\"content\":\"TEXT\",\"skillCount\":3,\"isInitial\":true",
            1_140,
            400,
        ),
        (
            "\"type\":\"plan_mode\",\"reminderType\":\"full\",\"isSubAgent\":false,\"planExists\":false",
            0,
            1_000,
        ),
    ] {
        plant.attach(body, units, tokens)?;
        plant.say(100)?;
    }
    plant.ask(50)?;
    let todos = "{\"todos\":[{\"content\":\"Count the apples\",\"status\":\"pending\",\"activeForm\":\"Counting the apples\"}]}";
    plant.call("TodoWrite", todos, 150, 50)?;
    let agent = "{\"description\":\"Count\",\"prompt\":\"Count the apples.\",\"subagent_type\":\"Explore\"}";
    plant.call_of("Agent", agent, 100)?;
    plant.ask(100)?;
    plant.bash(100, 2_850)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// c0 writes a plan, 300 and 50; c1 (2,350) reads a file, 100 and 500; c2 (2,950) says 100 (r5): W 3,050, notes of
/// (3,050 - 1,900) / 10 = 115; sent 3,150, 2,948 read: 202 x 5 + 115 x 25 + 1,474 = 5,359. A prompt of 100 (r6): c3 3,150 runs
/// a command, 100 and 4,750: c4 is due at 8,000. Kept: r6 to r8, 4,950. A compaction by notes restores the plan and nothing
/// else: 300. After: 1,900 + 115 + 50 + 300 + 4,950 = 7,315.
pub(super) fn notes_plan_only(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let plan = "{\"file_path\":\"/home/dev/.claude/plans/calm-plan.md\",\"content\":\"Count, then stack.\"}";
    plant.call("Write", plan, 300, 50)?;
    plant.read("ladder.rs", 100, 500)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.bash(100, 4_750)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.compact", "true"),
            ("notes.restore", "\"plan\""),
            ("notes.first", "3000"),
            ("notes.growth", "3000"),
            ("notes.share", "0.1"),
            ("notes.keep_tokens", "1000"),
            ("notes.keep_messages", "1"),
            ("restore.files", "5"),
            ("restore.state_tokens", "700"),
        ],
        r#"
        {"call":2,"event":"notes","tokens":115}
        {"call":2,"event":"side-call","purpose":"notes","input":202,"cache_read":2948,"output":115,"cost_micro_usd":5359}
        {"call":4,"event":"due","context":8000,"threshold":8000}
        {"call":4,"event":"boundary","kind":"session-memory","before":8000,"after":7315,"summary":115,"restored":300,"restored_parts":{"plan":300},"kept":{"from":6,"to":8}}
        "#,
    )
}

/// c0 says 100. An image of 1,500: c1 3,600 says 100. The listing of skills, 1,000: c2 4,700 runs a command, 100 and 3,200: c3
/// is due at 8,000. The call does not share the prompt cache, so the image leaves a marker of 5 and the listing nothing:
/// 8,000 - 1,495 - 1,000 = 5,505. Sent 5,605: x 5 + 500 x 25 = 40,525. After: 2,450.
pub(super) fn compact_strip(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.say(100)?;
    plant.show_image(1_500)?;
    plant.say(100)?;
    plant.attach(
        "\"type\":\"skill_listing\",\"content\":\"TEXT\",\"skillCount\":3,\"isInitial\":true",
        2_950,
        1_000,
    )?;
    plant.bash(100, 3_200)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("compact.shares_cache", "false")],
        r#"
        {"call":3,"event":"due","context":8000,"threshold":8000}
        {"call":3,"event":"side-call","purpose":"compact","input":5605,"cache_read":0,"output":500,"cost_micro_usd":40525}
        {"call":3,"event":"boundary","kind":"full","before":8000,"after":2450}
        "#,
    )
}

/// Writes the log of the cases below: c0 runs a command, 100 and 5,900: c1 is due at 8,000 and sends 8,100, of which 1,998 are
/// in the prompt cache.
fn due_log(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 5_900)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// A scratch block of 50 times the summary: 500 x 51 = 25,500. A call that shares the cache has no limit of its own:
/// 6,102 x 5 + 25,500 x 25 + 999 = 669,009.
pub(super) fn compact_shared(folder: &mut CaseFolder) -> io::Result<()> {
    due_log(folder)?;
    write_expected(
        folder,
        &[("compact.scratch", "50.0")],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"output":25500,"cost_micro_usd":669009}
        {"call":1,"event":"boundary","kind":"full","before":8000,"after":2450}
        "#,
    )
}

/// The same, but the call that shares the cache fails. The next one reads nothing and writes 20,000 at most:
/// 8,100 x 5 + 20,000 x 25 = 540,500.
pub(super) fn compact_fallback(folder: &mut CaseFolder) -> io::Result<()> {
    due_log(folder)?;
    write_expected(
        folder,
        &[("compact.scratch", "50.0"), ("compact.fallback_rate", "1.0")],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":8100,"cache_read":0,"output":20000,"cost_micro_usd":540500}
        {"call":1,"event":"boundary","kind":"full","before":8000,"after":2450}
        "#,
    )
}

/// A hook adds 50 to the instructions: sent 8,150: 6,152 x 5 + 500 x 25 + 999 = 44,259. Hooks after it print 30, and those at
/// the start of the session 20. After: 1,900 + 550 + 50 = 2,500.
pub(super) fn hook_output(folder: &mut CaseFolder) -> io::Result<()> {
    due_log(folder)?;
    write_expected(
        folder,
        &[
            ("compact.hook_tokens", "50"),
            ("restore.after_hook_tokens", "30"),
            ("restore.hook_tokens", "20"),
        ],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6152,"cache_read":1998,"output":500,"cost_micro_usd":44259}
        {"call":1,"event":"boundary","kind":"full","before":8000,"after":2500,"restored_parts":{"hooks":50}}
        "#,
    )
}

/// A hook forbids the compaction. That is no failure for the circuit breaker, so c1 sends 8,000.
pub(super) fn hook_veto(folder: &mut CaseFolder) -> io::Result<()> {
    due_log(folder)?;
    write_expected(
        folder,
        &[("compact.hook_veto", "true")],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"failed","cause":"auto","failure":"vetoed","in_a_row":0}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":8000,"level":"threshold"}
        "#,
    )
}

/// Without a user the text around the summary is 40 longer: 1,900 + 500 + 50 + 40 = 2,490.
pub(super) fn autonomous(folder: &mut CaseFolder) -> io::Result<()> {
    due_log(folder)?;
    write_expected(
        folder,
        &[("compact.autonomous", "true")],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"output":500,"cost_micro_usd":44009}
        {"call":1,"event":"boundary","kind":"full","before":8000,"after":2490}
        "#,
    )
}

/// Before c1 the client attaches the instructions of sub/, 300: c1 2,400 runs a command, 100 and 5,500: c2 is due at 8,000.
/// Sent 8,100, 2,398 read: 5,702 x 5 + 500 x 25 + 1,199 = 42,209. After: 2,450. c2 reads a file of sub/, 100 and 200, so the
/// instructions come back: c3 sends 2,450 + 100 + 200 + 300.
pub(super) fn nested_memory(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.say(100)?;
    let instructions = path("sub/CLAUDE.md");
    let body = format!(
        "\"type\":\"nested_memory\",\"path\":\"{instructions}\",\"content\":{{\"path\":\"{instructions}\",\"type\":\"Project\",\"content\":\"TEXT\"}}"
    );
    plant.attach(&body, 780, 300)?;
    plant.bash(100, 5_500)?;
    plant.read("sub/a.rs", 100, 200)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":2,"event":"due","context":8000,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":5702,"cache_read":2398,"output":500,"cost_micro_usd":42209}
        {"call":2,"event":"boundary","kind":"full","before":8000,"after":2450}
        {"call":2,"event":"nested","path":"/home/dev/projects/orchard/sub/CLAUDE.md","tokens":300}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2400}
        {"call":2,"event":"called","window":2450}
        {"call":3,"event":"called","window":3050}
        "#,
    )
}

impl PlantedSession<'_> {
    /// Writes an attachment of `tokens` tokens; TEXT in its fields becomes a text of `units` characters.
    fn attach(&mut self, fields: &str, units: usize, tokens: u64) -> io::Result<()> {
        self.pause(5);
        let text = "the basket under the ladder holds one more apple "
            .chars()
            .cycle()
            .take(units);
        let body = fields.replace("TEXT", &text.collect::<String>());
        self.log.attachment(&format!("{{{body}}}"), 0)?;
        self.size += tokens;
        Ok(())
    }

    /// Writes a prompt that is only an image.
    fn show_image(&mut self, tokens: u64) -> io::Result<()> {
        self.pause(5);
        let image = b"[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}]";
        self.log.user(self.log.leaf, image, "", b"")?;
        self.size += tokens;
        Ok(())
    }

    /// Writes a response of one call of a tool, without its result.
    fn call_of(&mut self, name: &'static str, input: &str, output: u64) -> io::Result<()> {
        let block = crate::tools::call_block(&mut self.log, name, input.as_bytes(), Default::default());
        self.respond(&[SynthBlock { call: None, ..block }], output)
    }
}
