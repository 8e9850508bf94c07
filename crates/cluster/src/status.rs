//! How the cluster is: one line of JSON, on the port after the scheduler's, for whoever connects there. The engine's own
//! protocol has no question for it. Executors and clients ask before anything else which build the scheduler is.

use anyhow::{Context, Result, bail};
use backcast::run::cache::BUILD_ID;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Executors ask for work at least every five seconds. One that was silent for this long is not counted as alive.
const ALIVE_SECONDS: u64 = 12;

/// Most bytes of an answer.
const MAX_ANSWER: u64 = 64 << 20;

/// The scheduler of this cluster.
pub type MapScheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Where a scheduler is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerAddress {
    /// Name or number of the machine.
    pub host: String,
    /// Port of the engine; the next one tells the status.
    pub port: u16,
}

impl FromStr for SchedulerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<SchedulerAddress, String> {
        let parsed = text
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)));
        match parsed {
            Some((host, port)) if !host.is_empty() && (1..u16::MAX).contains(&port) => Ok(SchedulerAddress {
                host: host.to_owned(),
                port,
            }),
            _ => Err("an address is a host and a port: node-1:50050".to_owned()),
        }
    }
}

impl fmt::Display for SchedulerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How the cluster is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Build of the scheduler.
    pub build: String,
    /// Executors that asked for work a short while ago.
    pub executors: Vec<LiveExecutor>,
    /// Jobs that run.
    pub jobs: Vec<RunningJob>,
}

/// An executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveExecutor {
    /// Where its results are fetched.
    pub address: String,
    /// How many tasks it runs at a time.
    pub cores: u32,
}

/// A job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunningJob {
    /// Its id in the engine.
    pub id: String,
    /// The name that the client gave it.
    pub name: String,
    /// Tasks that wait.
    pub waiting: usize,
    /// Tasks that run.
    pub running: usize,
}

impl ClusterStatus {
    /// Collects it from a scheduler.
    async fn read(scheduler: &MapScheduler) -> Result<ClusterStatus> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let known = scheduler.state.executor_manager.get_executors_state().await?;
        let is_alive = |heard: &Option<Duration>| {
            heard.is_some_and(|heard| now.saturating_sub(heard) <= Duration::from_secs(ALIVE_SECONDS))
        };
        let alive = known.into_iter().filter(|(_, heard, _)| is_alive(heard));
        let mut executors = alive
            .map(|(metadata, _, _)| LiveExecutor {
                address: format!("{}:{}", metadata.host, metadata.port),
                cores: metadata.specification.vcores,
            })
            .collect::<Vec<_>>();
        executors.sort_by(|one, other| one.address.cmp(&other.address));
        let mut jobs = Vec::new();
        for (id, job) in scheduler.state.task_manager.get_running_job_cache().iter() {
            let graph = job.execution_graph.read().await;
            jobs.push(RunningJob {
                id: id.to_string(),
                name: graph.job_name().to_owned(),
                waiting: graph.available_tasks(),
                running: graph.running_tasks().len(),
            });
        }
        jobs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(ClusterStatus {
            build: BUILD_ID.to_owned(),
            executors,
            jobs,
        })
    }
}

/// Answers everyone who connects.
pub async fn serve_status(listener: TcpListener, scheduler: MapScheduler) -> Result<()> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            // Too many open files, for instance: that passes.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let scheduler = scheduler.clone();
        tokio::spawn(async move {
            let answer = async {
                let mut line = serde_json::to_vec(&ClusterStatus::read(&scheduler).await?)?;
                line.push(b'\n');
                stream.write_all(&line).await?;
                stream.shutdown().await?;
                anyhow::Ok(())
            };
            // Someone who goes away or never reads is none of our business.
            let _ = timeout(ANSWER_TIME, answer).await;
        });
    }
}

/// Asks a scheduler how the cluster is.
pub async fn ask_status(scheduler: &SchedulerAddress) -> Result<ClusterStatus> {
    let answer = async {
        let stream = TcpStream::connect((scheduler.host.as_str(), scheduler.port + 1)).await?;
        let mut line = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut line).await?;
        io::Result::Ok(line)
    };
    let line = timeout(ANSWER_TIME, answer)
        .await
        .with_context(|| format!("the scheduler at {scheduler} does not answer"))?
        .with_context(|| format!("the scheduler at {scheduler} cannot be reached"))?;
    serde_json::from_slice(&line).with_context(|| format!("{scheduler} is no scheduler of backcast-cluster"))
}

/// Asks a scheduler how the cluster is, and waits for it to start. Fails if it is of another build.
pub async fn meet_scheduler(scheduler: &SchedulerAddress, patience: Duration) -> Result<ClusterStatus> {
    let start = Instant::now();
    loop {
        match ask_status(scheduler).await {
            Ok(status) if status.build == BUILD_ID => return Ok(status),
            Ok(status) => bail!(
                "the scheduler at {scheduler} is backcast {}, and this is {BUILD_ID}\n  hint: start the same build everywhere",
                status.build
            ),
            Err(error) if start.elapsed() >= patience => return Err(error),
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_and_ports() {
        let address = "node-1:50050".parse::<SchedulerAddress>().expect("an address");
        assert_eq!((address.host.as_str(), address.port), ("node-1", 50050));
        assert_eq!(address.to_string(), "node-1:50050");
        for wrong in ["node-1", ":50050", "node-1:0", "node-1:65535", "node-1:x", ""] {
            assert!(wrong.parse::<SchedulerAddress>().is_err(), "{wrong:?}");
        }
    }

    /// Answers every connection with a line.
    async fn answer_with(line: &'static str) -> SchedulerAddress {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(line.as_bytes()).await;
            }
        });
        SchedulerAddress {
            host: "127.0.0.1".to_owned(),
            port: port - 1,
        }
    }

    #[tokio::test]
    async fn a_scheduler_of_another_build_is_refused() {
        let other = answer_with("{\"build\":\"0.0.1-else\",\"executors\":[],\"jobs\":[]}\n").await;
        let error = meet_scheduler(&other, Duration::from_secs(60))
            .await
            .expect_err("refused");
        assert!(
            error.to_string().contains("is backcast 0.0.1-else, and this is"),
            "{error}"
        );
        let stranger = answer_with("HTTP/1.1 400 Bad Request\r\n").await;
        let error = meet_scheduler(&stranger, Duration::ZERO).await.expect_err("refused");
        assert!(
            error.to_string().contains("no scheduler of backcast-cluster"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_scheduler_that_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port() - 1;
        drop(listener);
        let address = SchedulerAddress {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let error = meet_scheduler(&address, Duration::ZERO).await.expect_err("nobody");
        assert!(
            error
                .to_string()
                .contains(&format!("127.0.0.1:{port} cannot be reached")),
            "{error}"
        );
    }
}
