//! `backcast-cluster scheduler`: hands out the work. It reads no logs and keeps nothing on disk.

use crate::function::{MAX_MESSAGE_BYTES, MapSite, map_function};
use crate::notices::print_engine_notices;
use crate::status::serve_status;
use anyhow::{Context, Result};
use backcast::commands::RunStatus;
use backcast::commands::terminal::print_notice;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::utils::default_session_builder;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use clap::Args;
use datafusion::execution::FunctionRegistry;
use log::LevelFilter;
use std::sync::Arc;
use tokio::net::TcpListener;

/// How often a task is tried whose logs cannot be read for a reason that may pass.
const MAX_TRIES: usize = 8;

/// Arguments of `scheduler`.
#[derive(Debug, Args)]
#[command(after_help = "\
It runs until it is stopped. The port after its own tells how the cluster is, as a line of JSON: nc 127.0.0.1 50051.
Nothing of the two ports is encrypted or guarded: open them to the machines of the cluster alone.")]
pub struct SchedulerArgs {
    /// Address to listen on; all of this machine's with `0.0.0.0`.
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST")]
    pub bind: String,
    /// Port to listen on; the next one tells the status.
    #[arg(long, default_value_t = 50050, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..65535))]
    pub port: u16,
    /// Seconds of silence after which an executor is lost and its tasks run elsewhere. Executors are heard from every five
    /// seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(10..=3600))]
    pub executor_timeout: u64,
    /// Print what the engine does.
    #[arg(long, short)]
    pub verbose: bool,
}

/// Runs it.
pub fn run(args: &SchedulerArgs) -> Result<RunStatus> {
    print_engine_notices(if args.verbose {
        LevelFilter::Info
    } else {
        LevelFilter::Error
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &SchedulerArgs) -> Result<RunStatus> {
    let listen = |port: u16| async move {
        let bound = TcpListener::bind((args.bind.as_str(), port)).await;
        bound.with_context(|| format!("listening on {}:{port}", args.bind))
    };
    let (engine, status) = (listen(args.port).await?, listen(args.port + 1).await?);
    let config = Arc::new(engine_config(args));
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let scheduler = create_scheduler(cluster, config).await?;
    print_notice(format_args!(
        "scheduler on {}:{}, status on port {}",
        args.bind,
        args.port,
        args.port + 1
    ));
    tokio::select! {
        ended = start_grpc_service_with_listener(engine, scheduler.clone()) => ended?,
        ended = serve_status(status, scheduler) => ended?,
        stopped = tokio::signal::ctrl_c() => stopped?,
        stopped = ballista_executor::terminate::sig_term() => stopped?,
    }
    Ok(RunStatus::Done)
}

fn engine_config(args: &SchedulerArgs) -> SchedulerConfig {
    SchedulerConfig {
        bind_host: args.bind.clone(),
        bind_port: args.port,
        // An executor is alive as long as it asks for work.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: args.executor_timeout,
        expire_dead_executor_interval_seconds: (args.executor_timeout / 6).max(1),
        no_executors_grace_period_seconds: args.executor_timeout,
        grpc_server_max_decoding_message_size: MAX_MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MAX_MESSAGE_BYTES,
        grpc_client_max_message_size: MAX_MESSAGE_BYTES,
        task_max_failures: MAX_TRIES,
        stage_max_failures: MAX_TRIES,
        finished_job_state_clean_up_interval_seconds: 600,
        // Plans name the function, so the scheduler must know it.
        override_session_builder: Some(Arc::new(|config| {
            let mut state = default_session_builder(config)?;
            state.register_udf(map_function(MapSite::Plan))?;
            Ok(state)
        })),
        ..SchedulerConfig::default()
    }
}
