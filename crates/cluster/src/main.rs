//! The `backcast-cluster` binary: `backcast map` on the machines of a Ballista cluster.
//!
//! [`scheduler`] and [`executor`] are the processes of the cluster, [`submit`] is its client. A job is a table of [`keys`]
//! and the function of [`function`], which maps the log behind a key; the engine distributes the rows, tries again what
//! failed for a passing reason, and survives the loss of executors. [`jobs`] runs jobs, [`collected`] keeps the parts that
//! came back, [`status`] tells how the cluster is. Nothing but the map is done here: what becomes of the parts is
//! `backcast reduce`.

mod collected;
mod executor;
#[cfg(feature = "faults")]
mod faults;
mod function;
mod jobs;
mod keys;
mod notices;
mod scheduler;
mod status;
mod submit;

use backcast::commands::RunStatus;
use backcast::commands::terminal::print_notice;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Maps session logs on many machines, into the part that `backcast map` makes of them on one.
#[derive(Debug, Parser)]
#[command(name = "backcast-cluster", version, about, propagate_version = true)]
#[command(after_help = "\
A cluster on one machine:
  backcast-cluster scheduler &
  backcast-cluster executor &
  backcast-cluster executor --port 50062 &
  backcast-cluster submit logs/ --out parts -- stats --by day

docs/cluster.md says when a cluster is worth it and how to start one on real machines.")]
struct ClusterCli {
    #[command(subcommand)]
    command: ClusterCommand,
}

/// What a process of the cluster does.
#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Hand out the work; one process per cluster
    Scheduler(scheduler::SchedulerArgs),
    /// Do the work; one process per machine
    Executor(executor::ExecutorArgs),
    /// Map logs on the cluster, collect their parts, and run a command on them
    Submit(submit::SubmitArgs),
}

fn main() -> ExitCode {
    let done = match ClusterCli::parse().command {
        ClusterCommand::Scheduler(args) => scheduler::run(&args),
        ClusterCommand::Executor(args) => executor::run(&args),
        ClusterCommand::Submit(args) => submit::run(&args),
    };
    match done {
        Ok(RunStatus::Done) => ExitCode::SUCCESS,
        Ok(RunStatus::Found) => ExitCode::from(1),
        Ok(RunStatus::InputLost) => ExitCode::from(3),
        Err(error) => {
            print_notice(format_args!("backcast-cluster: {error:#}"));
            ExitCode::from(2)
        }
    }
}
