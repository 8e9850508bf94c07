//! Cases: sub-agents, in every layout.

use super::{CaseFolder, CaseLog, PROJECT, ask, run, say, turn};
use crate::client::SMALL_MODEL;
use crate::json::{Uuid, quoted};
use crate::session::ResultOrder;
use crate::tools;
use crate::words::SynthText;
use std::io;

/// Runs a sub-agent in a log of its own, and writes the call that started it into the main log.
fn delegate(folder: &mut CaseFolder, main: &mut CaseLog, agent: &mut CaseLog) -> io::Result<()> {
    let prompt = "Find every stale ribbon.";
    ask(agent, prompt)?;
    run(agent, 500)?;
    say(agent, "Three stale ribbons: one in the cellar, two in the pantry.")?;
    main.now = agent.now;
    let report = SynthText::of("Three stale ribbons: one in the cellar, two in the pantry.");
    let id = agent.identity.agent_id.clone().unwrap_or_default();
    let mut progress = Vec::new();
    if main.client.has_progress() {
        // The progress record repeats the agent's own last line.
        let line = String::from_utf8_lossy(&agent.copies.last_assistant).into_owned();
        let message = line
            .find("\"message\":{")
            .zip(line.find(",\"type\":\"assistant\",\"uuid\":"));
        if let Some((start, end)) = message {
            let uuid = Uuid::new(&mut folder.rng);
            let data = format!(
                "{{\"message\":{{\"type\":\"assistant\",{},\"uuid\":\"{}\"}},\"normalizedMessages\":[],\
                 \"type\":\"agent_progress\",\"prompt\":{},\"agentId\":\"{id}\"}}",
                &line[start..end],
                uuid.as_str(),
                quoted(prompt)
            );
            progress.push((data.into_bytes(), "agent_msg_1".to_owned()));
        }
    }
    let block = tools::agent(main, &id, prompt, &report, progress);
    main.respond(&[block], ResultOrder::CallsFirst)
}

/// Returns the file name of a sub-agent's log without its ending.
pub(crate) fn agent_name(agent: &CaseLog) -> String {
    format!("agent-{}", agent.identity.agent_id.as_deref().unwrap_or_default())
}

pub(super) fn sidechain_replay(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.0.76");
    turn(&mut main, "Look after the ribbons.", "I will ask a helper.")?;
    let mut agent = folder.agent_log(&main, SMALL_MODEL);
    agent.replay(&main.copies.last_assistant)?;
    delegate(folder, &mut main, &mut agent)?;
    say(&mut main, "Three ribbons are stale.")?;
    let path = format!("{PROJECT}/{}.jsonl", agent_name(&agent));
    folder.save_at(&path, agent, |bytes| bytes)?;
    folder.save(main)?;
    Ok(())
}

pub(super) fn subagents_beside(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.0.44");
    ask(&mut main, "Look after the ribbons.")?;
    let mut agent = folder.agent_log(&main, SMALL_MODEL);
    delegate(folder, &mut main, &mut agent)?;
    say(&mut main, "Three ribbons are stale.")?;
    let path = format!("{PROJECT}/{}.jsonl", agent_name(&agent));
    folder.save_at(&path, agent, |bytes| bytes)?;
    folder.save(main)?;
    Ok(())
}

pub(super) fn subagents_nested(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.1.220");
    let nested = format!("{PROJECT}/{}/subagents", main.identity.session_id);
    ask(&mut main, "Look after the ribbons, twice.")?;
    for place in [nested.clone(), format!("{nested}/workflows/wf_0a1b2c3d")] {
        let mut agent = folder.agent_log(&main, "claude-sonnet-5");
        delegate(folder, &mut main, &mut agent)?;
        let name = agent_name(&agent);
        folder.write(&format!("{place}/{name}.meta.json"), b"{\"agentType\":\"Explore\"}\n")?;
        folder.save_at(&format!("{place}/{name}.jsonl"), agent, |bytes| bytes)?;
    }
    say(&mut main, "Both helpers found the same three.")?;
    folder.save(main)?;
    Ok(())
}

pub(super) fn agent_progress(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.1.29");
    let nested = format!("{PROJECT}/{}/subagents", main.identity.session_id);
    ask(&mut main, "Look after the ribbons.")?;
    let mut agent = folder.agent_log(&main, SMALL_MODEL);
    delegate(folder, &mut main, &mut agent)?;
    say(&mut main, "Three ribbons are stale.")?;
    let path = format!("{nested}/{}.jsonl", agent_name(&agent));
    folder.save_at(&path, agent, |bytes| bytes)?;
    folder.save(main)?;
    Ok(())
}
