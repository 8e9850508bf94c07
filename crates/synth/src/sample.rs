//! A few sessions of ordinary work, for a first look where there are no logs. They are made in memory, always the same.

use crate::client::by_version;
use crate::damage::LineSink;
use crate::drive::SessionDriver;
use crate::json::{Uuid, quoted};
use crate::rng::Rng;
use crate::session::{LogIdentity, SessionStart, SynthSession};
use crate::words::{LinePools, slug};
use std::io;

/// Seed of the sample.
const SEED: u64 = 12;

/// Milliseconds of an hour.
const HOUR: u64 = 3_600_000;

/// A log of the sample.
#[derive(Debug, Clone)]
pub struct SampleLog {
    /// Where the client would have put it, below its home.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// A session of the sample.
struct SamplePlan {
    project: &'static str,
    title: &'static str,
    version: &'static str,
    model: &'static str,
    /// Hours after the release of the version.
    start: u64,
    /// Size of the log.
    kilobytes: u64,
}

const fn plan(
    project: &'static str,
    title: &'static str,
    version: &'static str,
    model: &'static str,
    start: u64,
    kilobytes: u64,
) -> SamplePlan {
    SamplePlan {
        project,
        title,
        version,
        model,
        start,
        kilobytes,
    }
}

/// The sessions, oldest first.
const PLANS: &[SamplePlan] = &[
    plan(
        "shop",
        "Move checkout to the new payment API",
        "2.1.212",
        "claude-opus-5",
        12,
        4_200,
    ),
    plan(
        "shop",
        "Fix rounding in invoice totals",
        "2.1.212",
        "claude-sonnet-5",
        60,
        700,
    ),
    plan("notes-app", "Add offline sync", "2.1.220", "claude-opus-5", 5, 3_600),
    plan(
        "notes-app",
        "Flaky test in the search index",
        "2.1.220",
        "claude-sonnet-5",
        30,
        900,
    ),
    plan(
        "infra",
        "Upgrade the database to version 17",
        "2.1.220",
        "claude-opus-5",
        80,
        1_700,
    ),
    plan("shop", "Cache product pages", "2.1.226", "claude-opus-5", 8, 1_900),
    plan("infra", "Rotate the deploy keys", "2.1.226", "claude-sonnet-5", 33, 350),
    plan(
        "notes-app",
        "Export notes as Markdown",
        "2.1.226",
        "claude-opus-5",
        57,
        1_200,
    ),
];

/// Makes the logs of the sample.
pub fn sample_logs() -> io::Result<Vec<SampleLog>> {
    let pools = LinePools::new();
    let numbered = std::iter::zip(1.., PLANS);
    numbered
        .map(|(number, plan)| plan.log(&pools, Rng::fork(SEED, number)))
        .collect()
}

impl SamplePlan {
    fn log(&self, pools: &LinePools, mut rng: Rng) -> io::Result<SampleLog> {
        let client = by_version(self.version);
        let cwd = format!("/home/dev/{}", self.project);
        let id = Uuid::new(&mut rng).as_str().to_owned();
        let path = format!("projects/{}/{id}.jsonl", cwd.replace('/', "-"));
        let identity = LogIdentity {
            session_id: id.clone(),
            branch: "main".to_owned(),
            slug: slug(&mut rng),
            cwd,
            agent_id: None,
        };
        let sink = LineSink::new(Vec::new(), Rng::new(rng.next()), 0);
        let mut log = SynthSession::new(SessionStart {
            rng: Rng::new(rng.next()),
            pools,
            client,
            model: self.model.to_owned(),
            identity,
            now: client.since + self.start * HOUR,
            sink,
        });
        log.hour_cache = client.may_write_for_an_hour();
        SessionDriver::new(&mut log, self.kilobytes * 1_000)
            .with_lines_up_to(60_000)
            .run(0, |_| unreachable!("the sample has no sub-agents"))?;
        let (mut bytes, _, _) = log.finish()?;
        let title = format!(
            "{{\"type\":\"custom-title\",\"customTitle\":{},\"sessionId\":\"{id}\"}}\n",
            quoted(self.title)
        );
        bytes.extend_from_slice(title.as_bytes());
        Ok(SampleLog { path, bytes })
    }
}
