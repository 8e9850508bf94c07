//! `backcast-cluster submit`: maps logs on the cluster, collects their parts, joins them into the part that `backcast map` makes
//! on one machine, and runs a command on it.

use crate::collected::{CollectedParts, MapOptions};
use crate::jobs::{JobClient, JobFailure};
use crate::keys::{LogTask, job_tasks, plan_tasks};
use crate::notices::print_engine_notices;
use crate::status::{SchedulerAddress, ask_status, meet_scheduler};
use anyhow::{Context, Result, anyhow, bail};
use backcast::cli::ReadingArgs;
use backcast::commands::RunStatus;
use backcast::commands::map::{say_path, say_size, write_file};
use backcast::commands::reading::report_problems;
use backcast::commands::reduce::{self, ReduceArgs};
use backcast::commands::terminal::{print_notice, write_stdout};
use backcast::run::parts::{MapJob, MapTask};
use backcast::run::{LogInput, LogNeeds, LogSource, progress_with_template, with_logs};
use clap::Args;
use futures::stream::{self, StreamExt};
use indicatif::ProgressBar;
use log::LevelFilter;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use table::human::{format_count, format_size};
use tokio::time::sleep;
use transcript::problem::{Problem, sort_problems};

/// Jobs at a time: while the last tasks of one run, the first of the next fill the other cores.
const JOBS_AT_A_TIME: usize = 2;

/// Rounds without a single new part after which there is no more hope.
const MAX_IDLE_ROUNDS: usize = 3;

/// How long a scheduler that is gone may take to come back.
const RETURN_TIME: Duration = Duration::from_secs(5);

/// Logs that are named if no more are missing.
const MAX_NAMED: usize = 20;

/// How often the cluster is asked how it is.
const STATUS_TIME: Duration = Duration::from_millis(500);

/// Arguments of `submit`.
#[derive(Debug, Args)]
#[command(mut_arg("io", |arg| arg.hide(true)))]
#[command(mut_arg("no_cache", |arg| arg.hide(true)))]
#[command(mut_arg("cache_dir", |arg| arg.hide(true)))]
#[command(mut_arg("shared_cache", |arg| arg.hide(true)))]
#[command(after_long_help = "\
The part is byte for byte that of `backcast map` on this machine, and so is the output of the command. Executors read the logs
themselves, under the paths that this machine finds. Whatever breaks off, the parts that came back stay in the folder, and the
same command finishes the rest.

Exit statuses: 0 done, 2 the cluster failed (run it again), 3 with --strict if input was lost; with a command, its own.

Examples:
  backcast-cluster submit logs/ --out parts                        one part
  backcast-cluster submit logs/ --out parts -- stats --by day      and a command on it
  backcast-cluster submit logs/ --out parts --explain              what would be done
  backcast-cluster submit /shared/logs --out parts --scheduler node-1:50050")]
pub struct SubmitArgs {
    /// Which logs.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// The scheduler.
    #[arg(
        long,
        default_value = "127.0.0.1:50050",
        value_name = "HOST:PORT",
        help_heading = "Cluster"
    )]
    pub scheduler: SchedulerAddress,
    /// Seconds to wait for the scheduler, and for an executor, to be there.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", help_heading = "Cluster")]
    pub wait: u64,
    /// Print the tasks and the plan of the engine, and do nothing.
    #[arg(long, help_heading = "Cluster")]
    pub explain: bool,
    /// Print what the engine does.
    #[arg(long, short, help_heading = "Cluster")]
    pub verbose: bool,
    /// Put the logs themselves into the part, compressed, for commands that read words.
    #[arg(long, help_heading = "Output")]
    pub texts: bool,
    /// Folder for the part; made if it is missing.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,
    /// A command to run on the part, as after `backcast reduce`.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Runs it.
pub fn run(args: &SubmitArgs) -> Result<RunStatus> {
    print_engine_notices(if args.verbose {
        LevelFilter::Info
    } else {
        LevelFilter::Off
    });
    let input = LogInput {
        // Executors have no cache, and the bar here counts their work.
        cache: None,
        quiet: true,
        ..LogInput::from(&args.reading)
    };
    let made = with_logs(input, LogNeeds::default(), |source| submit_source(args, &source))??;
    let Some((part, problems)) = made else {
        return Ok(RunStatus::Done);
    };
    if args.command.is_empty() {
        return Ok(report_problems(&args.reading, &problems));
    }
    let reduce = ReduceArgs {
        parts: vec![part],
        command: args.command.clone(),
    };
    reduce::run(&reduce, false)
}

/// Maps the logs of a source on the cluster. Returns where the part is, and what was wrong with the logs; `None` if that was
/// only explained.
fn submit_source(args: &SubmitArgs, source: &LogSource<'_>) -> Result<Option<(PathBuf, Vec<Problem>)>> {
    let found = source.problems();
    let job = MapJob::new(MapTask {
        logs: source.logs,
        shard: None,
        roots: &args.reading.paths,
        problems: found.into_iter().filter(|problem| problem.kind.is_of_input()).collect(),
        texts: args.texts,
        options: source.options,
    });
    let options = MapOptions {
        max_line: source.options.limits.max_line,
        texts: args.texts,
    };
    let client = JobClient::new(&args.scheduler, &job, options);
    if args.explain {
        explain(&client, &job)?;
        return Ok(None);
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let path = args.out.join(job.part_name());
    let collected = CollectedParts::open(&job, options, &args.out)?;
    let run = ClusterRun {
        args,
        job: &job,
        client: &client,
        collected: &collected,
    };
    run.map_all()?;
    let mut problems = write_file(&path, |out| {
        job.write_collected(out, &mut |number| collected.take(number))
    })?;
    collected.remove();
    if args.command.is_empty() {
        say_path(&path)?;
    }
    say_size(args.reading.quiet, &job, &path);
    sort_problems(&mut problems);
    Ok(Some((path, problems)))
}

/// Prints what a submit would do.
fn explain(client: &JobClient<'_>, job: &MapJob<'_>) -> Result<()> {
    let tasks = plan_tasks(job.logs(), 0..job.logs().len());
    let bytes = tasks.iter().map(|task| task.bytes).sum::<u64>();
    let mut text = format!(
        "{} ({}) in {}, at most {} to a job, more where there are many cores\n",
        format_count(job.log_count() as u64, "log"),
        format_size(bytes),
        format_count(tasks.len() as u64, "task"),
        job_tasks(0),
    );
    if let (Some(first), Some(last)) = (tasks.first(), tasks.last()) {
        let describe = |task: &LogTask| {
            let logs = format_count(task.logs.len() as u64, "log");
            format!("{logs} of {}", format_size(task.bytes))
        };
        text += &format!("first task: {}; last task: {}\n", describe(first), describe(last));
        let first_job = &tasks[..tasks.len().min(job_tasks(0))];
        text += &format!("plan of the first job:\n{}", client.explain(first_job)?);
    }
    Ok(write_stdout(|out| out.write_all(text.as_bytes()))?)
}

/// The logs of a submit on their way through the cluster.
struct ClusterRun<'a> {
    args: &'a SubmitArgs,
    job: &'a MapJob<'a>,
    client: &'a JobClient<'a>,
    collected: &'a CollectedParts<'a>,
}

impl ClusterRun<'_> {
    /// Maps all logs that are not collected yet.
    fn map_all(&self) -> Result<()> {
        if self.collected.missing().is_empty() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            let ended = tokio::select! {
                ended = self.map_rounds() => ended,
                stopped = tokio::signal::ctrl_c() => Err(stopped.map_or_else(Into::into, |()| anyhow!("stopped"))),
            };
            if ended.is_err() {
                self.client.cancel_all().await;
            }
            ended
        });
        runtime.shutdown_background();
        ended.map_err(|error| anyhow!("{error:#}\n  hint: {}", self.describe_rest()))
    }

    /// Says what is left for the next submit. Few logs are named: one of them may be the reason.
    fn describe_rest(&self) -> String {
        let missing = self.collected.missing();
        let (done, _) = self.collected.progress();
        let all = format_count(self.job.log_count() as u64, "log");
        let mut text = format!("{done} of {all} are mapped; the same command finishes the rest");
        if missing.len() <= MAX_NAMED {
            for number in missing {
                text += &format!("\n  not mapped: {}", self.job.logs()[number].path.display());
            }
        }
        text
    }

    /// Runs rounds of jobs until nothing is missing.
    async fn map_rounds(&self) -> Result<()> {
        let patience = Duration::from_secs(self.args.wait);
        meet_scheduler(&self.args.scheduler, patience).await?;
        let cores = self.await_executor(patience).await?;
        let start = Instant::now();
        let total = self.job.logs().iter().map(|found| found.stamp.size).sum();
        let bar = progress_with_template(total, self.args.reading.quiet, "{bytes} of {total_bytes}, {msg}");
        let mut idle = 0;
        loop {
            let missing = self.collected.missing();
            if missing.is_empty() {
                break;
            }
            let tasks = plan_tasks(self.job.logs(), missing.iter().copied());
            let failure = tokio::select! {
                failure = self.run_round(&tasks, job_tasks(cores)) => failure?,
                lost = self.watch(&tasks, &bar) => return Err(lost),
            };
            let Some(failure) = failure else { continue };
            idle = if self.collected.missing().len() == missing.len() {
                idle + 1
            } else {
                0
            };
            if idle == MAX_IDLE_ROUNDS {
                return Err(failure);
            }
            sleep(Duration::from_secs(1)).await;
        }
        bar.finish_and_clear();
        if !self.args.reading.quiet {
            let time = start.elapsed().as_secs_f64();
            print_notice(format_args!("mapped on the cluster in {time:.1} s"));
        }
        Ok(())
    }

    /// Waits until there is an executor. Returns how many cores there are.
    async fn await_executor(&self, patience: Duration) -> Result<usize> {
        let start = Instant::now();
        loop {
            let executors = ask_status(&self.args.scheduler).await?.executors;
            if !executors.is_empty() {
                return Ok(executors.iter().map(|executor| executor.cores as usize).sum());
            }
            if start.elapsed() >= patience {
                bail!(
                    "the scheduler at {} has no executor\n  hint: start one with `backcast-cluster executor --scheduler {}`",
                    self.args.scheduler,
                    self.args.scheduler
                );
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Runs the jobs of a round. Returns why results are missing, if any are.
    async fn run_round(&self, tasks: &[LogTask], per_job: usize) -> Result<Option<anyhow::Error>> {
        let jobs = stream::iter(tasks.chunks(per_job).enumerate());
        let jobs = jobs.map(|(number, tasks)| self.client.run(number, tasks, self.collected));
        let mut jobs = jobs.buffer_unordered(JOBS_AT_A_TIME);
        let mut lost = None;
        while let Some(ended) = jobs.next().await {
            match ended {
                Ok(()) => {}
                Err(JobFailure::Final(error)) => return Err(error),
                // The scheduler may be gone for good, and then every other job is lost as well.
                Err(JobFailure::Lost(error)) => {
                    meet_scheduler(&self.args.scheduler, RETURN_TIME).await?;
                    lost = Some(error);
                }
            }
        }
        Ok(lost)
    }

    /// Shows progress. Returns only when the cluster is lost: no scheduler, or no executor, for as long as it may take one to
    /// be started.
    async fn watch(&self, tasks: &[LogTask], bar: &ProgressBar) -> anyhow::Error {
        let patience = Duration::from_secs(self.args.wait);
        let mut alive = Instant::now();
        loop {
            match ask_status(&self.args.scheduler).await {
                Ok(status) => {
                    if !status.executors.is_empty() {
                        alive = Instant::now();
                    }
                    let own = status.jobs.iter().filter(|job| self.client.owns(&job.name));
                    let running = own.map(|job| job.running).sum::<usize>();
                    let missing = self.collected.missing();
                    let is_done = |task: &&LogTask| task.logs.iter().all(|log| missing.binary_search(log).is_err());
                    let done = tasks.iter().filter(is_done).count();
                    bar.set_message(format!(
                        "{done} of {} done, {running} running on {}",
                        format_count(tasks.len() as u64, "task"),
                        format_count(status.executors.len() as u64, "executor")
                    ));
                    bar.set_position(self.collected.progress().1);
                    if alive.elapsed() > patience {
                        return anyhow!("all executors of {} are lost", self.args.scheduler);
                    }
                }
                Err(error) if alive.elapsed() > patience => return error,
                Err(_) => {}
            }
            sleep(STATUS_TIME).await;
        }
    }
}
