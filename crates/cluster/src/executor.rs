//! `backcast-cluster executor`: asks the scheduler for work and does it.

use crate::function::{ExecutorSite, MAP_FUNCTION, MAX_MESSAGE_BYTES, MapSite, map_function};
use crate::notices::print_engine_notices;
use crate::status::{SchedulerAddress, meet_scheduler};
use anyhow::{Context, Result, bail};
use backcast::commands::RunStatus;
use backcast::commands::terminal::print_notice;
use backcast::run::cache::BUILD_ID;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::ExecutorStoppedParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use clap::Args;
use log::LevelFilter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Arguments of `executor`.
#[derive(Debug, Args)]
#[command(after_help = "\
It runs until it is stopped, and leaves the cluster in order on SIGTERM. It must see the logs under the same paths as the machine
that submits, and be of the same build as the scheduler. Results wait in --work-dir until they are fetched.")]
pub struct ExecutorArgs {
    /// The scheduler.
    #[arg(long, default_value = "127.0.0.1:50050", value_name = "HOST:PORT")]
    pub scheduler: SchedulerAddress,
    /// Address to listen on, a number; all of this machine's with `0.0.0.0`.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub bind: String,
    /// Port where results are fetched.
    #[arg(long, default_value_t = 50061, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Name under which clients reach this machine [default: the address that the scheduler sees].
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Logs that are mapped at a time [default: all cores].
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: Option<u16>,
    /// Folder for results; a temporary one is made in it [default: the system's].
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Seconds to wait for the scheduler to start.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub wait: u64,
    /// Print what the engine does.
    #[arg(long, short)]
    pub verbose: bool,
}

/// Runs it.
pub fn run(args: &ExecutorArgs) -> Result<RunStatus> {
    print_engine_notices(if args.verbose {
        LevelFilter::Info
    } else {
        LevelFilter::Error
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(work(args));
    // Work that was refused never ends.
    runtime.shutdown_background();
    ended
}

async fn work(args: &ExecutorArgs) -> Result<RunStatus> {
    meet_scheduler(&args.scheduler, Duration::from_secs(args.wait)).await?;
    let folder = args.work_dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new()
        .prefix("backcast-executor-")
        .tempdir_in(&folder)
        .with_context(|| format!("making a folder in {}", folder.display()))?;
    let Some(work_dir) = folder.path().to_str() else {
        bail!(
            "{}: the engine takes only UTF-8\n  hint: name another --work-dir",
            folder.path().display()
        );
    };
    let host = args.external_host.as_deref().unwrap_or(&args.bind);
    let site = Arc::new(ExecutorSite {
        name: format!("{host}:{}", args.port),
        refused: Notify::new(),
    });
    let config = engine_config(args, work_dir, Arc::clone(&site));
    let id = config.executor_id.clone();
    let cores = config.vcores;
    print_notice(format_args!("executor on {}, {cores} logs at a time", site.name));
    tokio::select! {
        ended = start_executor_process(Arc::new(config)) => {
            ended?;
            Ok(RunStatus::Done)
        }
        () = site.refused.notified() => {
            leave(&args.scheduler, id).await;
            bail!(
                "refused work of another build: this is {BUILD_ID}\n  hint: start the build of the scheduler on this machine"
            )
        }
    }
}

/// Tells the scheduler that this executor is gone, so that its tasks run elsewhere at once. If that fails, silence tells it.
async fn leave(scheduler: &SchedulerAddress, executor_id: String) {
    let tell = async {
        let mut client = SchedulerGrpcClient::connect(format!("http://{scheduler}")).await?;
        let reason = format!("it is backcast {BUILD_ID}, and the work is not");
        client
            .executor_stopped(ExecutorStoppedParams { executor_id, reason })
            .await?;
        anyhow::Ok(())
    };
    let _ = timeout(Duration::from_secs(5), tell).await;
}

fn engine_config(args: &ExecutorArgs, work_dir: &str, site: Arc<ExecutorSite>) -> ExecutorProcessConfig {
    let mut functions = BallistaFunctionRegistry::default();
    functions
        .scalar_functions
        .insert(MAP_FUNCTION.to_owned(), map_function(MapSite::Executor(site)));
    let default = ExecutorProcessConfig::default();
    ExecutorProcessConfig {
        bind_host: args.bind.clone(),
        external_host: args.external_host.clone(),
        port: args.port,
        scheduler_host: args.scheduler.host.clone(),
        scheduler_port: args.scheduler.port,
        vcores: args.cores.map_or(default.vcores, usize::from),
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(work_dir.to_owned()),
        job_data_ttl_seconds: 3600,
        job_data_clean_up_interval_seconds: 600,
        grpc_max_decoding_message_size: MAX_MESSAGE_BYTES,
        grpc_max_encoding_message_size: MAX_MESSAGE_BYTES,
        // No operator of these plans keeps rows.
        memory_pool_size: Some(0),
        override_function_registry: Some(Arc::new(functions)),
        ..default
    }
}
