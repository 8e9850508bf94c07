//! Jobs of the engine: plans, their results as they come, and what it means when one fails.

use crate::collected::{CollectedParts, MapOptions};
use crate::function::{MAX_MESSAGE_BYTES, MapSite, RowKind, map_function, read_result};
use crate::keys::{LogTask, key_rows, key_schema};
use crate::status::{SchedulerAddress, ask_status};
use anyhow::{Result, anyhow};
use backcast::run::cache::BUILD_ID;
use backcast::run::parts::MapJob;
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{CancelJobParams, RemoveSessionParams};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt32Type;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::StreamExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// How long the next result of a finished job may take. An executor that stopped since is not waited for: what it has is
/// mapped again.
const RESULT_TIME: Duration = Duration::from_secs(20);

/// How a job ended that did not end well.
#[derive(Debug)]
pub enum JobFailure {
    /// The engine gave it up, or a result makes no sense. It would end so again.
    Final(anyhow::Error),
    /// The connection to the scheduler or to an executor broke. What did not arrive may be asked for again.
    Lost(anyhow::Error),
}

/// Client of the engine for the jobs of one submit.
pub struct JobClient<'a> {
    scheduler: &'a SchedulerAddress,
    job: &'a MapJob<'a>,
    options: MapOptions,
    /// What the names of its jobs start with.
    name: String,
}

impl<'a> JobClient<'a> {
    /// Creates a client.
    pub fn new(scheduler: &'a SchedulerAddress, job: &'a MapJob<'a>, options: MapOptions) -> JobClient<'a> {
        // Two submits at the same time must not take each other's jobs for their own.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("backcast-{}-{:x}-", std::process::id(), now.as_nanos());
        JobClient {
            scheduler,
            job,
            options,
            name,
        }
    }

    /// Returns whether a job is one of this client's.
    pub fn owns(&self, job_name: &str) -> bool {
        job_name.starts_with(&self.name)
    }

    /// Returns the plan of a job: the table of keys, a partition per task, and the function on every row.
    pub fn plan(&self, tasks: &[LogTask]) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = tasks.iter().map(|task| Ok(vec![key_rows(self.job, task)?]));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let table = MemorySourceConfig::try_new_exec(&rows, key_schema(), None)?;
        let schema = table.schema();
        let column =
            |name: &str| -> Result<Arc<dyn PhysicalExpr>> { Ok(Arc::new(Column::new_with_schema(name, &schema)?)) };
        let arguments = vec![
            column("path")?,
            column("location")?,
            column("packing")?,
            column("size")?,
            column("etag")?,
            lit(ScalarValue::UInt64(Some(self.options.max_line as u64))),
            lit(self.options.texts),
            lit(BUILD_ID),
        ];
        let function = map_function(MapSite::Plan);
        let part = ScalarFunctionExpr::try_new(function, arguments, &schema, Arc::new(ConfigOptions::default()))?;
        let columns: Vec<(Arc<dyn PhysicalExpr>, String)> = vec![
            (column("number")?, "number".to_owned()),
            (Arc::new(part), "result".to_owned()),
        ];
        Ok(Arc::new(ProjectionExec::try_new(columns, table)?))
    }

    /// Returns the plan of a job as text.
    pub fn explain(&self, tasks: &[LogTask]) -> Result<String> {
        Ok(displayable(self.plan(tasks)?.as_ref()).indent(false).to_string())
    }

    /// Runs a job and hands its results to `collected` as they come.
    pub async fn run(
        &self,
        number: usize,
        tasks: &[LogTask],
        collected: &CollectedParts<'_>,
    ) -> Result<(), JobFailure> {
        let session = format!("{}{number}", self.name);
        let ended = self.run_in(&session, tasks, collected).await;
        // The scheduler keeps sessions until it is told otherwise.
        let forget = async {
            let mut client = SchedulerGrpcClient::connect(format!("http://{}", self.scheduler)).await?;
            let session_id = session.clone();
            client.remove_session(RemoveSessionParams { session_id }).await?;
            anyhow::Ok(())
        };
        let _ = timeout(Duration::from_secs(2), forget).await;
        ended
    }

    async fn run_in(&self, session: &str, tasks: &[LogTask], collected: &CollectedParts<'_>) -> Result<(), JobFailure> {
        let plan = self.plan(tasks).map_err(JobFailure::Final)?;
        let config = engine_session(session);
        let engine = config.ballista_config();
        let codec = config.ballista_physical_extension_codec();
        let results = execute_physical_plan::<PhysicalPlanNode>(
            format!("http://{}", self.scheduler),
            &engine,
            plan,
            codec.as_ref(),
            session.to_owned(),
            config,
        );
        let mut results = results.await.map_err(|error| name_failure(&error.to_string()))?;
        loop {
            let next = timeout(RESULT_TIME, results.next()).await;
            match next.map_err(|_| JobFailure::Lost(anyhow!("an executor does not deliver its results")))? {
                Some(Ok(rows)) => take_rows(&rows, collected).map_err(JobFailure::Final)?,
                Some(Err(error)) => return Err(JobFailure::Lost(anyhow!("results were lost: {error}"))),
                None => break,
            }
        }
        let missing = collected.missing();
        let is_missing = |task: &LogTask| task.logs.iter().any(|log| missing.binary_search(log).is_ok());
        match tasks.iter().any(is_missing) {
            true => Err(JobFailure::Lost(anyhow!("results are missing"))),
            false => Ok(()),
        }
    }

    /// Cancels the jobs of this client that still run.
    pub async fn cancel_all(&self) {
        let cancel = async {
            let status = ask_status(self.scheduler).await?;
            let mut client = SchedulerGrpcClient::connect(format!("http://{}", self.scheduler)).await?;
            for job in status.jobs.into_iter().filter(|job| self.owns(&job.name)) {
                client.cancel_job(CancelJobParams { job_id: job.id }).await?;
            }
            anyhow::Ok(())
        };
        // Jobs that cannot be cancelled end by themselves, and nobody fetches their results.
        let _ = timeout(Duration::from_secs(5), cancel).await;
    }
}

/// The engine's settings for a job.
fn engine_session(name: &str) -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_ballista_job_name(name)
        .with_ballista_grpc_client_max_message_size(MAX_MESSAGE_BYTES as usize)
        // There is one stage: nothing to adapt.
        .with_ballista_adaptive_query_planner(false)
        .set_usize("ballista.scheduler.max_partitions_per_task", 1)
        // Parts are compressed where that pays.
        .set_str("ballista.shuffle.compression.codec", "none")
        // What is lost is mapped again, which takes less time than to insist.
        .set_usize("ballista.client.io_retries_times", 1)
        .set_usize("ballista.client.io_retry_wait_time_ms", 500)
        .set_usize("ballista.client.grpc_connect_timeout_seconds", 5)
}

/// Tells by the words of the engine whether it gave a job up, or was lost while the job ran.
fn name_failure(message: &str) -> JobFailure {
    let text = message.trim_start_matches("Execution error: ");
    let is_final = text.starts_with("Job ") && text.contains(" failed: ");
    match is_final {
        true => JobFailure::Final(anyhow!("the cluster gave up: {}", shorten(text))),
        false => JobFailure::Lost(anyhow!("the scheduler was lost: {text}")),
    }
}

/// Takes the engine's wrapping off the reason of a task that failed.
fn shorten(message: &str) -> &str {
    let inner = || {
        let (_, custom) = message.split_once("IoError(Custom")?;
        let (_, reason) = custom.split_once("error: ")?;
        let reason = reason.trim_start_matches(['\\', '"']);
        let end = reason
            .find("\" })")
            .or_else(|| reason.find('\n'))
            .unwrap_or(reason.len());
        Some(reason[..end].trim_end_matches('\\'))
    };
    inner().unwrap_or(message)
}

/// Hands rows on.
fn take_rows(rows: &RecordBatch, collected: &CollectedParts<'_>) -> Result<()> {
    let strange = || anyhow!("an executor sent a result of another form");
    let numbers = rows.column(0).as_primitive_opt::<UInt32Type>().ok_or_else(strange)?;
    for at in 0..rows.num_rows() {
        let number = numbers.value(at) as usize;
        let row = read_result(rows.column(1), at).ok_or_else(strange)?;
        match (row.kind, row.part) {
            (RowKind::Part, Some(part)) => collected.put(number, part)?,
            (RowKind::Panicked, _) => collected.put_panic(number, row.detail.unwrap_or_default())?,
            (RowKind::TooBig, _) => collected.map_here(number)?,
            (RowKind::Part, None) => return Err(strange()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_the_engine_gave_up_is_not_submitted_again() {
        let given_up = "Execution error: Job abc failed: Job failed due to stage 1 failed: Task 3 failed 4 times: Task failed due to \
                        IO error: DataFusionError(IoError(Custom { kind: Other, error: \"executor n:1: /l/a.jsonl: No such file\" }))";
        let JobFailure::Final(error) = name_failure(given_up) else {
            panic!("final");
        };
        let wanted = "the cluster gave up: executor n:1: /l/a.jsonl: No such file";
        assert_eq!(error.to_string(), wanted);
        let quoted = given_up.replace('"', "\\\"");
        assert!(matches!(name_failure(&quoted), JobFailure::Final(error) if error.to_string() == wanted));
        for lost in [
            "Execution error: Stream closed without job completing",
            "transport error",
        ] {
            assert!(matches!(name_failure(lost), JobFailure::Lost(_)), "{lost}");
        }
    }
}
