//! Cases about sub-agents, the prompt cache, window levels, and the extraction of memories.

use crate::cases::{CaseFolder, PROJECT, agent_name};
use crate::json::quoted;
use crate::traced::{PlantedSession, write_expected};
use std::io;

/// The sub-agent runs a command, 100 and 5,900: its second call is due at 8,000 (cost 44,009, as in `recompaction`). The
/// main agent gets a report of 300 and stays in step: 2,000 + 100 + 300 = 2,400, 1,998 read.
pub(super) fn subagent_apart(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = PlantedSession::new(folder, 2_000)?;
    let log = folder.agent_log(&main.log, "claude-opus-5");
    let mut agent = PlantedSession::on(log, 2_000)?;
    agent.bash(100, 5_900)?;
    agent.say(100)?;
    main.log.now = agent.log.now;
    let input = "{\"description\":\"Count the apples\",\"prompt\":\"Count the apples.\",\"subagent_type\":\"Explore\"}";
    main.call("Agent", input, 100, 300)?;
    // The call was made before the agent started, but its result came only now; the cache is still warm.
    main.say(100)?;
    let id = agent.log.identity.agent_id.clone().unwrap_or_default();
    let place = format!(
        "{PROJECT}/{}/subagents/{}",
        main.log.identity.session_id,
        agent_name(&agent.log)
    );
    folder.write(&format!("{place}.meta.json"), b"{\"agentType\":\"Explore\"}\n")?;
    folder.save_at(&format!("{place}.jsonl"), agent.log, |bytes| bytes)?;
    folder.save(main.log)?;
    let events = r#"
        {"call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"call":1,"event":"called","window":2400,"in_step":true,"miss":null,"cache_read":1998}
        {"agent":"AGENT","call":1,"event":"due","context":8000,"threshold":8000}
        {"agent":"AGENT","call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":44009}
        {"agent":"AGENT","call":1,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2450,"summary":500,"restored":0,"records":3,"last_record":2,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":false,"recorded":false}
        {"agent":"AGENT","call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"agent":"AGENT","call":1,"event":"called","window":2450,"in_step":false,"miss":"compaction"}
        "#;
    write_expected(folder, &[], &events.replace("AGENT", &id))
}

/// Texts of 100 and prompts of 100: W 2,000; 2,200; 2,400; 2,600; 2,800; 3,000. Other sessions had left 1,500 in the cache
/// before c0. c2 comes after a pause of 200 seconds, c3 after 400 seconds; c4 and c5 use another model (claude-sonnet-5:
/// input 2, output 10, writes 2.5, reads 0.2).
/// c0 2 x 5 + 1,500 / 2 + 498 x 6.25 + 2,500 = 6,372.5; c1 10 + 999 + 1,250 + 2,500 = 4,759; c2 10 + 1,099 + 1,250 + 2,500 =
/// 4,859; c3 10 + 2,598 x 6.25 + 2,500 = 18,747.5; c4 4 + 2,798 x 2.5 + 1,000 = 7,999; c5 4 + 2,798 / 5 + 500 + 1,000 = 2,063.6.
pub(super) fn cache_five_minutes(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.held = 1_500;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(200);
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(400);
    plant.held = 0;
    plant.ask(100)?;
    plant.say(100)?;
    plant.log.model = "claude-sonnet-5".to_owned();
    plant.held = 0;
    plant.ask_estimated()?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":0,"event":"called","model":"claude-opus-5","window":2000,"miss":"first","input":2,"cache_read":1500,"cache_write_5m":498,"cache_write_1h":0,"output":100,"cost_micro_usd":6373}
        {"call":1,"event":"called","model":"claude-opus-5","window":2200,"miss":null,"input":2,"cache_read":1998,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":4759}
        {"call":2,"event":"called","model":"claude-opus-5","window":2400,"miss":null,"input":2,"cache_read":2198,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":4859}
        {"call":3,"event":"called","model":"claude-opus-5","window":2600,"miss":"expired","input":2,"cache_read":0,"cache_write_5m":2598,"cache_write_1h":0,"output":100,"cost_micro_usd":18748}
        {"call":4,"event":"called","model":"claude-sonnet-5","window":2800,"miss":"model","input":2,"cache_read":0,"cache_write_5m":2798,"cache_write_1h":0,"output":100,"cost_micro_usd":7999}
        {"call":5,"event":"called","model":"claude-sonnet-5","window":3000,"miss":null,"input":2,"cache_read":2798,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":2064}
        "#,
    )
}

/// The same texts with one-hour cache writes: c1 after 40 minutes, c2 after 61 more, when only the 1,900 of system prompt
/// and tools are left. c0 10 + 750 + 4,980 + 2,500 = 8,240; c1 10 + 999 + 2,000 + 2,500 = 5,509; c2 10 + 950 + 4,980 + 2,500
/// = 8,440.
pub(super) fn cache_hour(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.log.hour_cache = true;
    plant.held = 1_500;
    plant.say(100)?;
    plant.pause(40 * 60);
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(61 * 60);
    plant.held = 1_900;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":0,"event":"called","window":2000,"miss":"first","input":2,"cache_read":1500,"cache_write_5m":0,"cache_write_1h":498,"output":100,"cost_micro_usd":8240}
        {"call":1,"event":"called","window":2200,"miss":null,"input":2,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":200,"output":100,"cost_micro_usd":5509}
        {"call":2,"event":"called","window":2400,"miss":"expired","input":2,"cache_read":1900,"cache_write_5m":0,"cache_write_1h":498,"output":100,"cost_micro_usd":8440}
        "#,
    )
}

/// c0 writes for an hour. c1 comes 40 minutes later, reads all of it, and writes for five minutes; c2 comes ten minutes after
/// that, too late. c0 10 + 750 + 4,980 + 2,500 = 8,240; c1 10 + 999 + 1,250 + 2,500 = 4,759; c2 10 + 2,398 x 6.25 + 2,500 =
/// 17,497.5.
pub(super) fn cache_held_life(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.log.hour_cache = true;
    plant.held = 1_500;
    plant.say(100)?;
    plant.pause(40 * 60);
    plant.log.hour_cache = false;
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(10 * 60);
    plant.held = 0;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[],
        r#"
        {"call":0,"event":"called","window":2000,"miss":"first","input":2,"cache_read":1500,"cache_write_5m":0,"cache_write_1h":498,"output":100,"cost_micro_usd":8240}
        {"call":1,"event":"called","window":2200,"miss":null,"input":2,"cache_read":1998,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":4759}
        {"call":2,"event":"called","window":2400,"miss":"expired","input":2,"cache_read":0,"cache_write_5m":2398,"cache_write_1h":0,"output":100,"cost_micro_usd":17498}
        "#,
    )
}

/// Window 20,000, reserve 2,000: effective 18,000; 50 % of that is 9,000, below the usual threshold of 17,000. Warning at
/// 7,000, error at 8,000. Automatic compaction is off, so the window just grows: 6,900; 7,000; 8,000; 9,000.
pub(super) fn levels(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 6_900)?;
    plant.say(50)?;
    plant.ask(50)?;
    plant.bash(100, 900)?;
    plant.bash(100, 900)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[
            ("window.tokens", "20000"),
            ("window.reserve", "2000"),
            ("window.percent", "50.0"),
            ("switch.auto", "false"),
        ],
        r#"
        {"call":0,"event":"called","window":6900,"threshold":9000,"level":"normal"}
        {"call":1,"event":"called","window":7000,"threshold":9000,"level":"warning"}
        {"call":2,"event":"called","window":8000,"threshold":9000,"level":"error"}
        {"call":3,"event":"called","window":9000,"threshold":9000,"level":"threshold"}
        "#,
    )
}

/// Turns end at c1 (c0 has a tool call), c2, c3 and c4, so memories are extracted at c2 and c4.
///
/// An extraction reads the last prompt from the prompt cache, all but the two tokens at its end: 2,350 - 2 and 2,650 - 2.
/// New input are these two tokens, the response of 100, and 2,000 of instructions: 2,102. The output is 500. The costs are
/// 10,510 + 1,174 + 12,500 = 24,184, and 10,510 + 1,324 + 12,500 = 24,334.
pub(super) fn extract_turns(folder: &mut CaseFolder) -> io::Result<()> {
    let mut plant = PlantedSession::new(folder, 2_000)?;
    plant.bash(100, 100)?;
    plant.say(100)?;
    for _ in 0..3 {
        plant.ask(50)?;
        plant.say(100)?;
    }
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("extract.on", "true"), ("extract.turns", "2")],
        r#"
        {"call":2,"event":"extract"}
        {"cache_read":2348,"cache_write_1h":0,"cache_write_5m":0,"call":2,"cost_micro_usd":24184,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        {"call":4,"event":"extract"}
        {"cache_read":2648,"cache_write_1h":0,"cache_write_5m":0,"call":4,"cost_micro_usd":24334,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        "#,
    )
}

/// c0 writes a memory, so the turn that ends at c1 needs no extraction. The turn of c2 ends with one. c3 only reads the
/// memory, so its turn ends with another extraction at c4.
///
/// Sizes: 2,000 at c0; 2,200 at c1; 2,350 at c2; 2,500 at c3; 2,700 at c4. As above, all but two tokens are read from the
/// cache, 2,348 and 2,698: 10,510 + 1,174 + 12,500 = 24,184, and 10,510 + 1,349 + 12,500 = 24,359.
pub(super) fn extract_own_memory(folder: &mut CaseFolder) -> io::Result<()> {
    let memory = quoted("/home/dev/.claude/projects/-home-dev-projects-orchard/memory/style.md");
    let mut plant = PlantedSession::new(folder, 2_000)?;
    let input = format!("{{\"file_path\":{memory},\"content\":\"Tabs, not spaces.\"}}");
    plant.call("Write", &input, 100, 100)?;
    plant.say(100)?;
    plant.ask(50)?;
    plant.say(100)?;
    plant.ask(50)?;
    plant.call("Read", &format!("{{\"file_path\":{memory}}}"), 100, 100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    write_expected(
        folder,
        &[("extract.on", "true"), ("extract.turns", "1")],
        r#"
        {"call":2,"event":"extract"}
        {"cache_read":2348,"cache_write_1h":0,"cache_write_5m":0,"call":2,"cost_micro_usd":24184,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        {"call":4,"event":"extract"}
        {"cache_read":2698,"cache_write_1h":0,"cache_write_5m":0,"call":4,"cost_micro_usd":24359,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        "#,
    )
}
