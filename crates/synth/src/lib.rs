//! Generates session logs: a bulk corpus for benchmarks, and the small bundled cases of the tests.
//!
//! The contents are invented; the record formats are those of the recorded client, version by version. Each tree of logs
//! comes with the [`Truth`] that a correct reader must find in it. No other crate of the pipeline depends on this one.
//!
//! `rng`, `json`, `words` and `client` are the raw material; `session` writes records and counts the truth; `damage` turns
//! records into lines; `tools` and `drive` run a bulk session; `cases` contains the bundled corpus, and `traced` the part of
//! it that is replayed; `agents` writes logs of other agents; `sample` makes what a first look shows where there are no logs.

#![allow(clippy::disallowed_methods, reason = "this crate writes generated logs")]
#![allow(
    clippy::expect_used,
    reason = "the generator takes no input; it only serializes its own data"
)]

mod agents;
mod cases;
mod client;
mod damage;
mod drive;
mod json;
mod rng;
mod sample;
mod session;
mod tools;
mod traced;
mod truth;
mod words;

#[cfg(test)]
mod tests;

pub use agents::{SynthAgent, write_agent_bulk};
pub use cases::{cases, write_corpus};
pub use sample::{SampleLog, sample_logs};
pub use truth::{Truth, TruthTally};

use crate::client::{CLIENTS, SMALL_MODEL};
use crate::damage::LineSink;
use crate::drive::{AgentRun, SessionDriver};
use crate::json::{Uuid, hex_id, quoted, timestamp};
use crate::rng::{Rng, SizeBand, band};
use crate::session::{AgentTranscript, LogIdentity, SessionPrefix, SessionStart, SynthSession};
use crate::words::{LinePools, SynthText, TextFlavor, fill, slug};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Parameters of a bulk corpus.
#[derive(Clone, Debug)]
pub struct BulkOptions {
    pub seed: u64,
    /// Size of all logs together, met within 2 %.
    pub bytes: u64,
    /// Number of `.jsonl` files, including sub-agents.
    pub files: u32,
    /// Share of records to damage, from 0.0 to 1.0.
    pub corruption: f64,
}

/// The plan of one session.
struct BulkPlan {
    /// Share of the whole size.
    weight: u64,
    /// Number of sub-agents.
    agents: u32,
}

/// Weights of sessions: most are small, a few are hundreds of times larger.
const SESSION_WEIGHTS: &[SizeBand] = &[
    band(300, 4, 30),
    band(400, 30, 250),
    band(220, 250, 1_200),
    band(70, 1_200, 5_000),
    band(10, 5_000, 30_000),
];
/// Logs up to this size contain no copies and are not copied.
const SMALL_LOG: u64 = 60_000;
/// Size of the write buffer of a log.
const BUFFER: usize = 1 << 18;

/// Writes logs with a heavy-tailed size distribution below `dir`, in the client's folder layout, and returns their truth.
/// The same options give the same bytes on every platform. `progress` receives the bytes written so far after each
/// session.
pub fn write_bulk(dir: &Path, options: &BulkOptions, progress: &dyn Fn(u64)) -> io::Result<Truth> {
    let pools = LinePools::new();
    let plans = plan(options);
    let mut weight_left: u64 = plans.iter().map(|plan| plan.weight).sum();
    let mut truth = Truth::default();
    let mut copied: Option<SessionPrefix> = None;
    for (index, plan) in plans.iter().enumerate() {
        // Redistribute the remaining bytes after every session, so that one file's overshoot is taken from the next ones.
        let left = options.bytes.saturating_sub(truth.bytes);
        let target = (u128::from(left) * u128::from(plan.weight) / u128::from(weight_left.max(1))) as u64;
        weight_left -= plan.weight;
        let bulk = BulkWriter {
            dir,
            options,
            pools: &pools,
            rng: Rng::fork(options.seed, index as u64 + 1),
        };
        let (session_truth, prefix) = bulk.session(plan, target, copied.take())?;
        truth.merge(&session_truth);
        progress(truth.bytes);
        copied = prefix.filter(SessionPrefix::is_useful);
    }
    Ok(truth)
}

/// Distributes the files over sessions and sub-agents and gives each session a weight. Light sessions come last, so that
/// the last ones can hit the total size exactly.
fn plan(options: &BulkOptions) -> Vec<BulkPlan> {
    let mut rng = Rng::fork(options.seed, 0);
    let mut files = options.files;
    let mut plans = Vec::new();
    while files > 0 {
        let wanted = if rng.permille(180) { rng.range(1, 3) as u32 } else { 0 };
        let agents = wanted.min(files - 1);
        files -= 1 + agents;
        let weight = rng.size(SESSION_WEIGHTS) + if agents > 0 { 300 } else { 0 };
        plans.push(BulkPlan { weight, agents });
    }
    // Alternate heavy and light sessions, heaviest first: sizes look unordered, and the end stays light.
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.weight));
    let light = plans.split_off(plans.len() / 2);
    let mut mixed = Vec::with_capacity(plans.len() + light.len());
    let mut light = light.into_iter();
    for heavy in plans {
        mixed.push(heavy);
        mixed.extend(light.next());
    }
    mixed.extend(light);
    mixed
}

/// Writes one session with its sub-agents.
struct BulkWriter<'a> {
    dir: &'a Path,
    options: &'a BulkOptions,
    pools: &'a LinePools,
    rng: Rng,
}

type BulkLog<'a> = SynthSession<'a, BufWriter<File>>;

impl<'a> BulkWriter<'a> {
    fn sink(&mut self, path: &Path) -> io::Result<LineSink<BufWriter<File>>> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let rate = (self.options.corruption.clamp(0.0, 1.0) * 1_000_000.0) as u64;
        let rng = Rng::new(self.rng.next());
        Ok(LineSink::new(
            BufWriter::with_capacity(BUFFER, File::create(path)?),
            rng,
            rate,
        ))
    }

    /// Writes the session. `copied` are the first lines of the previous session, which this one may resume. Returns its
    /// truth, and its own first lines if they were kept.
    fn session(
        mut self,
        plan: &BulkPlan,
        target: u64,
        copied: Option<SessionPrefix>,
    ) -> io::Result<(Truth, Option<SessionPrefix>)> {
        let copied = copied.filter(|_| target > SMALL_LOG && self.rng.permille(400));
        let client = copied
            .as_ref()
            .map_or_else(|| *self.rng.pick(CLIENTS), |prefix| prefix.client);
        let model = copied
            .as_ref()
            .map_or_else(|| (*self.rng.pick(client.models)).to_owned(), |p| p.model.clone());
        let cwd = fill(&mut self.rng, "/home/dev/projects/$n");
        let folder = self.dir.join("projects").join(cwd.replace('/', "-"));
        let identity = self.identity(cwd);
        let now = client.since + self.rng.below(500_000_000);
        let sink = self.sink(&folder.join(format!("{}.jsonl", identity.session_id)))?;
        let rng = Rng::new(self.rng.next());
        let mut log: BulkLog = SynthSession::new(SessionStart {
            rng,
            pools: self.pools,
            client,
            model,
            identity,
            now,
            sink,
        });
        log.hour_cache = client.may_write_for_an_hour() && self.rng.permille(600);
        log.request_ids = client.has_subtypes() || self.rng.permille(700);
        if client.may_have_large_window() && self.rng.permille(300) {
            log.threshold = 967_000;
        }
        match &copied {
            Some(prefix) => log.resume(prefix)?,
            None if target > SMALL_LOG => log.keep_prefix(),
            None => {}
        }
        // A third of the size goes to the sub-agents, in equal parts.
        let agent_bytes = target / 3 / u64::from(plan.agents.max(1));
        let main_bytes = target - agent_bytes * u64::from(plan.agents);
        let mut agents_truth = Truth::default();
        SessionDriver::new(&mut log, main_bytes).run(plan.agents, |drive| {
            let (run, truth) = self.agent(drive, &folder, agent_bytes)?;
            agents_truth.merge(&truth);
            Ok(run)
        })?;
        let (mut truth, prefix) = close(log)?;
        truth.merge(&agents_truth);
        Ok((truth, prefix))
    }

    /// Draws the identity of a main log.
    fn identity(&mut self, cwd: String) -> LogIdentity {
        LogIdentity {
            session_id: Uuid::new(&mut self.rng).as_str().to_owned(),
            branch: if self.rng.permille(500) {
                "main".to_owned()
            } else {
                fill(&mut self.rng, "$v/$a-$n")
            },
            slug: slug(&mut self.rng),
            cwd,
            agent_id: None,
        }
    }

    /// Writes the log of a sub-agent, before the main log reports its result.
    fn agent(
        &mut self,
        drive: &mut SessionDriver<'_, 'a, BufWriter<File>>,
        folder: &Path,
        target: u64,
    ) -> io::Result<(AgentRun, Truth)> {
        let transcript_limit = drive.bytes_left() / 2;
        let main = &mut *drive.session;
        let agent_id = hex_id(&mut self.rng, if main.client.has_late_envelope() { 17 } else { 8 });
        let mut log = self.agent_log(main, folder, &agent_id)?;
        if self.rng.permille(150) && !main.copies.last_assistant.is_empty() {
            log.replay(&main.copies.last_assistant)?;
        }
        let lines = self.rng.range(4, 40);
        let prompt = (0..lines)
            .map(|_| {
                fill(
                    &mut self.rng,
                    "Find every $a $n that can $v a $n. Report \"paths\" only.",
                )
            })
            .collect::<Vec<_>>()
            .join("\n");
        if main.client.has_progress() {
            log.copies.transcript = Some(AgentTranscript::with_limit(transcript_limit));
        }
        SessionDriver::new(&mut log, target).run(0, |_| unreachable!("a sub-agent starts none of its own"))?;
        let messages = nested_messages(&mut log, &prompt);
        main.now = log.now.max(main.now);
        let (truth, _) = close(log)?;
        let mut report = SynthText::default();
        let units = self.rng.range(800, 12_000).min(target / 8);
        self.pools.write(&mut self.rng, TextFlavor::English, units, &mut report);
        let run = AgentRun {
            agent_id,
            prompt,
            report,
            messages,
        };
        Ok((run, truth))
    }

    /// Creates the log of a sub-agent where the client would.
    fn agent_log(
        &mut self,
        main: &SynthSession<'a, BufWriter<File>>,
        folder: &Path,
        agent_id: &str,
    ) -> io::Result<BulkLog<'a>> {
        let name = format!("agent-{agent_id}");
        let folder = if main.client.nests_subagents() {
            let nested = folder.join(&main.identity.session_id).join("subagents");
            if main.client.has_late_envelope() && self.rng.permille(250) {
                nested
                    .join("workflows")
                    .join(format!("wf_{}", hex_id(&mut self.rng, 8)))
            } else {
                nested
            }
        } else {
            folder.to_owned()
        };
        let sink = self.sink(&folder.join(format!("{name}.jsonl")))?;
        if main.client.has_late_envelope() {
            fs::write(
                folder.join(format!("{name}.meta.json")),
                "{\"agentType\":\"Explore\"}\n",
            )?;
        }
        let model = if self.rng.permille(600) {
            SMALL_MODEL.to_owned()
        } else {
            main.model.clone()
        };
        let mut log = SynthSession::new(SessionStart {
            rng: Rng::new(self.rng.next()),
            pools: self.pools,
            client: main.client,
            model,
            identity: LogIdentity {
                agent_id: Some(agent_id.to_owned()),
                ..main.identity.clone()
            },
            now: main.now,
            sink,
        });
        log.hour_cache = main.hour_cache;
        Ok(log)
    }
}

/// Closes a log and sets the modification time of its file to the time of its last record. Readers use that time.
fn close(log: BulkLog<'_>) -> io::Result<(Truth, Option<SessionPrefix>)> {
    let ended = SystemTime::UNIX_EPOCH + Duration::from_millis(log.now);
    let (out, truth, prefix) = log.finish()?;
    out.get_ref().set_modified(ended)?;
    Ok((truth, prefix))
}

/// Returns the messages of a sub-agent that `agent_progress` records repeat: the prompt, then its calls and results. A
/// repeated call has the id and the usage of the agent's own line, so a reader must not count it again.
fn nested_messages(log: &mut BulkLog<'_>, prompt: &str) -> Vec<Vec<u8>> {
    let Some(transcript) = log.copies.transcript.take() else {
        return Vec::new();
    };
    let asked = format!(
        "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":{}}}]}},\
         \"uuid\":\"{}\",\"timestamp\":\"{}\"}}",
        quoted(prompt),
        Uuid::new(&mut log.rng).as_str(),
        timestamp(log.now)
    );
    std::iter::once(asked.into_bytes()).chain(transcript.messages).collect()
}
