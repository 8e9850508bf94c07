//! `backcast map`: logs into parts, on any machine, for `reduce`.

use crate::cli::ReadingArgs;
use crate::commands::RunStatus;
use crate::commands::reading::report_problems;
use crate::commands::terminal::{is_stdout_terminal, notice, write_stdout};
use crate::commands::writing::read_head;
use crate::run::parts::{MapJob, MapTask, Shard, is_part};
use crate::run::{LogNeeds, LogSource, with_logs};
use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use table::atomic;
use table::human::{format_count, format_size};
use transcript::problem::{Problem, sort_problems};

/// Arguments of `map`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("target").args(["out", "output"]).required(true)))]
#[command(after_long_help = "\
A part holds what commands need from the logs, in about a fiftieth of their size: numbers, ids and the titles of sessions, no
other text. With --texts it also holds the logs themselves, compressed, for commands that read texts. It depends only on the
logs, the options and the build, so an interrupted map is simply run again. docs/scale.md has recipes for schedulers.

Examples:
  backcast map logs/ --out parts                  one part
  backcast map logs/ --shard 1/2 --out parts      the first of two machines
  backcast map logs/ --shard 2/2 --out parts      the second
  backcast map logs/ --texts -o texts.part        with words, to a file")]
pub struct MapArgs {
    /// Which logs.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Map a share of the logs, such as `3/7`: each machine is given the same paths and another share. A log is in the share
    /// that its path falls to.
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = "Selection")]
    pub shard: Option<Shard>,
    /// Also put the logs themselves into the part, compressed, for commands that read texts (`backcast reduce --help` lists
    /// them).
    #[arg(long, help_heading = "Output")]
    pub texts: bool,
    /// Folder for the part; made if it is missing. The part is named after what is mapped and replaces an earlier one of that
    /// name. Its path is printed.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// File for the part; `-` is standard output. Only an earlier part is replaced.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Write lines of text, each a part, for channels that carry lines: `pipe` of Spark, for instance.
    #[arg(long, help_heading = "Output")]
    pub base64: bool,
}

/// Runs it.
pub fn run(args: &MapArgs) -> Result<RunStatus> {
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    if is_stdout && !args.base64 && is_stdout_terminal() {
        bail!("a part is binary and is not printed to a terminal\n  hint: use --output or --out, or add --base64");
    }
    let problems = with_logs(&args.reading, LogNeeds::default(), |source| map_source(args, &source))??;
    Ok(report_problems(&args.reading, &problems))
}

/// Maps the logs of a source. Returns what was wrong with them.
fn map_source(args: &MapArgs, source: &LogSource<'_>) -> Result<Vec<Problem>> {
    let found = source.problems();
    let job = MapJob::new(MapTask {
        logs: source.logs,
        shard: args.shard,
        roots: &args.reading.paths,
        problems: found.into_iter().filter(|problem| problem.kind.is_of_input()).collect(),
        texts: args.texts,
        options: source.options,
    });
    let write = |out: &mut dyn Write| match args.base64 {
        true => job.write_lines(out),
        false => job.write_part(out),
    };
    let mut problems = match (&args.out, &args.output) {
        (Some(folder), _) => {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            let path = folder.join(job.part_name());
            let problems = write_file(&path, write)?;
            say_path(&path)?;
            say_size(args.reading.quiet, &job, &path);
            problems
        }
        (None, Some(path)) if path.as_os_str() != "-" => {
            let problems = write_file(path, write)?;
            say_size(args.reading.quiet, &job, path);
            problems
        }
        _ => {
            // A part that nobody reads to its end is of no use: a closed pipe is an error here.
            let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
            let problems = write(&mut out)?;
            out.flush().context("writing the part")?;
            problems
        }
    };
    sort_problems(&mut problems);
    Ok(problems)
}

/// Writes a part to a file and replaces an earlier part there. Nothing but a part is ever replaced.
pub fn write_file<E: Into<anyhow::Error> + Display>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<Vec<Problem>, E>,
) -> Result<Vec<Problem>> {
    let is_there = path.symlink_metadata().is_ok();
    if is_there && !(path.is_file() && read_head(path, 16).is_ok_and(|head| is_part(&head))) {
        bail!(
            "{} exists and is not a part\n  hint: use another file; only an earlier part is replaced",
            path.display()
        );
    }
    let mut done = None;
    let written = atomic::write_with(path, true, |out| match write(out) {
        Ok(problems) => {
            done = Some(Ok(problems));
            Ok(())
        }
        Err(failure) => {
            let stopped = io::Error::other(failure.to_string());
            done = Some(Err(failure));
            Err(stopped)
        }
    });
    match done {
        Some(Err(failure)) => Err(failure.into()),
        Some(Ok(problems)) => written.map(|()| problems).map_err(Into::into),
        None => written.map(|()| Vec::new()).map_err(Into::into),
    }
}

/// Prints the path of a part.
pub fn say_path(path: &Path) -> Result<()> {
    let line = format!("{}\n", path.display());
    Ok(write_stdout(|out| out.write_all(line.as_bytes()))?)
}

/// Says on standard error what a part holds.
pub fn say_size(is_quiet: bool, job: &MapJob<'_>, path: &Path) {
    if is_quiet {
        return;
    }
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    notice!(
        "{}: {}, {}",
        path.display(),
        format_count(job.log_count() as u64, "log"),
        format_size(size)
    );
}
