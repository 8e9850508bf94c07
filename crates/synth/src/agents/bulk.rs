//! Any amount of logs of other agents: sessions of ordinary work that compact, fork and spawn.

use super::codex::CodexThread;
use super::opencode::OpenCodeExport;
use super::pi::PiSession;
use super::{AgentUsage, usage};
use crate::damage::LineSink;
use crate::rng::Rng;
use crate::truth::Truth;
use crate::words::{LinePools, SynthText, TextFlavor};
use crate::{BulkOptions, json::Uuid};
use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;

/// An agent whose logs can be made, other than Claude Code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynthAgent {
    Codex,
    OpenCode,
    Pi,
}

/// Context at which the imaginary sessions compact.
const DUE: [u64; 3] = [244_800, 168_000, 183_616];

/// Context right after a compaction, and of a first call.
const FRESH: u64 = 14_000;

/// Writes logs of one agent below `dir` and returns their truth. The same options give the same bytes on every platform.
/// `progress` receives the bytes written so far after each session.
pub fn write_agent_bulk(
    dir: &Path,
    agent: SynthAgent,
    options: &BulkOptions,
    progress: &dyn Fn(u64),
) -> io::Result<Truth> {
    let mut bulk = AgentBulk {
        dir,
        agent,
        rate: (options.corruption.clamp(0.0, 1.0) * 1_000_000.0) as u64,
        pools: LinePools::new(),
        rng: Rng::fork(options.seed, 0),
        truth: Truth::default(),
    };
    let mut last = LastSession::default();
    for number in 0..options.files {
        bulk.rng = Rng::fork(options.seed, u64::from(number) + 1);
        let left = options.bytes.saturating_sub(bulk.truth.bytes);
        bulk.write_log(number, left / u64::from(options.files - number), &mut last)?;
        progress(bulk.truth.bytes);
    }
    Ok(bulk.truth)
}

/// What the next log may descend from.
#[derive(Default)]
struct LastSession {
    codex: Option<CodexThread>,
    opencode: Option<OpenCodeExport>,
    pi: Option<PiSession>,
}

struct AgentBulk<'a> {
    dir: &'a Path,
    agent: SynthAgent,
    /// Damaged lines per million.
    rate: u64,
    pools: LinePools,
    rng: Rng,
    truth: Truth,
}

/// One call of the imaginary work.
struct Step {
    prompt: Option<String>,
    path: String,
    shown: String,
    words: String,
    usage: AgentUsage,
    /// Whether the session compacts before it.
    compacts: bool,
}

impl AgentBulk<'_> {
    fn write_log(&mut self, number: u32, target: u64, last: &mut LastSession) -> io::Result<()> {
        let id = Uuid::new(&mut self.rng).as_str().to_owned();
        // A damaged line is no copy of the line that it was: damaged logs have no forks.
        let has_parent = self.rate == 0 && number % 4 == 3;
        match self.agent {
            SynthAgent::Codex => {
                let parent = last.codex.take().filter(|_| has_parent);
                let is_spawned = number % 8 == 7;
                let mut thread = match &parent {
                    Some(parent) if is_spawned => CodexThread::spawn(parent, &id),
                    Some(parent) => CodexThread::fork(parent, &id, self.rng.permille(500)),
                    None => CodexThread::new(&id),
                };
                match parent.is_some() && is_spawned {
                    true => thread.truth.subagents += 1,
                    false => thread.truth.sessions += 1,
                }
                self.work_codex(&mut thread, target);
                let kept = (self.rate == 0 && number % 4 == 2).then(|| thread.fork_source());
                self.save_lines(&thread.path(), |sink| thread.write(sink))?;
                last.codex = kept;
            }
            SynthAgent::OpenCode => {
                let parent = last.opencode.take().filter(|_| has_parent);
                let model = "claude-sonnet-4-5";
                let mut export = match &parent {
                    Some(parent) => OpenCodeExport::spawn(parent, &id[..12]),
                    None => OpenCodeExport::new(&id[..12], model),
                };
                match parent {
                    Some(_) => export.truth.subagents += 1,
                    None => export.truth.sessions += 1,
                }
                self.work_opencode(&mut export, target);
                last.opencode = (number % 4 == 2).then(|| OpenCodeExport::new(&id[..12], model));
                let path = self.dir.join("exports").join(format!("{}.json", export.id));
                let (bytes, truth) = export.finish();
                write_file(&path, &bytes)?;
                self.truth.merge(&truth);
            }
            SynthAgent::Pi => {
                let parent = last.pi.take().filter(|_| has_parent);
                let mut session = match &parent {
                    Some(parent) => PiSession::fork(parent, &id),
                    None => PiSession::new(&id),
                };
                self.work_pi(&mut session, target);
                let kept = (self.rate == 0 && number % 4 == 2).then(|| session.fork_source());
                self.save_lines(&session.path(), |sink| session.write(sink))?;
                last.pi = kept;
            }
        }
        Ok(())
    }

    fn save_lines(
        &mut self,
        path: &str,
        write: impl FnOnce(LineSink<Vec<u8>>) -> io::Result<(Vec<u8>, Truth)>,
    ) -> io::Result<()> {
        let sink = LineSink::new(Vec::new(), Rng::new(self.rng.next()), self.rate);
        let (bytes, truth) = write(sink)?;
        self.truth.merge(&truth);
        write_file(&self.dir.join(path), &bytes)
    }

    fn text(&mut self, flavor: TextFlavor, units: u64) -> String {
        let mut text = SynthText::default();
        self.pools.write(&mut self.rng, flavor, units, &mut text);
        // The pools hold text as it stands in JSON.
        let quoted = [b"\"", text.escaped.as_slice(), b"\""].concat();
        serde_json::from_slice(&quoted).unwrap_or_default()
    }

    /// Draws the next call after a context of `context` tokens.
    fn step(&mut self, context: u64, is_first: bool) -> Step {
        let compacts = context >= DUE[self.agent as usize];
        let before = if compacts || context == 0 { FRESH } else { context };
        let units = self.rng.range(400, 24_000);
        let flavor = *self.rng.pick(&[
            TextFlavor::Rust,
            TextFlavor::Python,
            TextFlavor::Console,
            TextFlavor::English,
        ]);
        let output = self.rng.range(60, 900);
        let fresh = self.rng.range(300, 6_000);
        let asks = is_first || compacts || self.rng.permille(150);
        let prompt_units = self.rng.range(20, 600);
        Step {
            prompt: asks.then(|| self.text(TextFlavor::English, prompt_units)),
            path: format!("src/part_{}.rs", self.rng.below(60)),
            shown: self.text(flavor, units),
            words: self.text(TextFlavor::Plain, output / 4),
            usage: usage(fresh, before, output, output / 3),
            compacts,
        }
    }

    fn work_codex(&mut self, thread: &mut CodexThread, target: u64) {
        let mut prompts = Vec::new();
        let mut is_first = true;
        while is_first || thread.bytes() < target {
            let step = self.step(thread.context(), is_first);
            if let Some(prompt) = step.prompt {
                if !is_first {
                    thread.end_turn();
                }
                thread.start_turn();
                if step.compacts {
                    let kept = prompts.iter().rev().take(3).map(String::as_str).collect::<Vec<_>>();
                    thread.compact(&kept);
                    thread.estimate(FRESH);
                }
                thread.prompt(&prompt);
                prompts.push(prompt);
            }
            thread.reason();
            let call = thread.run(&format!("sed -n '1,200p' {}", step.path));
            thread.count(step.usage);
            thread.result(&call, &step.shown);
            if self.rng.permille(200) {
                let line = step.shown.lines().next().unwrap_or("x");
                let patch = thread.patch(&format!(
                    "*** Begin Patch\n*** Update File: {}\n@@\n-{line}\n+{line} //\n*** End Patch",
                    step.path
                ));
                thread.count(usage(500, step.usage.total(), 90, 0));
                thread.patch_result(&patch);
                thread.repeat_counts();
            }
            is_first = false;
        }
        thread.say("Everything is done.");
        thread.count(usage(200, thread.context(), 12, 0));
        thread.end_turn();
    }

    fn work_opencode(&mut self, export: &mut OpenCodeExport, target: u64) {
        let (mut context, mut calls) = (0, 0);
        while calls == 0 || export.bytes() < target {
            let step = self.step(context, calls == 0);
            if step.compacts {
                export.compact(false, None, "What was done so far.", usage(context, 0, 700, 100));
            }
            if let Some(prompt) = step.prompt {
                export.prompt(&prompt);
            }
            calls += 1;
            let read = export.tool(calls, "read", json!({"filePath": step.path}), &step.shown, None);
            export.respond(&step.words, vec![read], step.usage);
            context = step.usage.total();
        }
    }

    fn work_pi(&mut self, session: &mut PiSession, target: u64) {
        let (mut context, mut calls) = (0, 0);
        session.choose_model();
        let mut kept = String::new();
        while calls == 0 || session.bytes() < target {
            let step = self.step(context, calls == 0);
            if step.compacts {
                session.compact(context, &kept, "What was done so far.");
            }
            if let Some(prompt) = step.prompt {
                kept = session.prompt(&prompt);
            }
            calls += 1;
            let call = format!("call_{calls}");
            session.respond(
                &step.words,
                Some((&call, "read", json!({"path": step.path}))),
                step.usage,
            );
            session.result(&call, &step.shown);
            context = step.usage.total();
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}
