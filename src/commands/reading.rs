//! What every command that reads logs does first: find them, read them with a progress bar, and say at the end what was
//! wrong with them.

use crate::cli::InputArgs;
use crate::commands::RunStatus;
use crate::run::cache::Cache;
use crate::run::{Corpus, ReadOptions, read_messages};
use crate::views::problem_counts;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use table::findings::{CheckFinding, Severity, format_annotations};
use table::sanitize;
use transcript::bytes::ReadLimits;
use transcript::discover::{DiscoveredLog, Discovery, discover};
use transcript::messages::{Message, PartSelection};
use transcript::parallel::with_threads;
use transcript::problem::{Problem, ProblemKind};

/// Logs that were found and how they are to be read.
pub struct LogSource<'a> {
    /// The logs.
    pub logs: &'a [DiscoveredLog],
    /// How they are read.
    pub options: ReadOptions<'a>,
    problems: Vec<Problem>,
    bar: &'a ProgressBar,
    quiet: bool,
}

impl LogSource<'_> {
    /// A bar for the work on sessions, once all logs are read. It goes when it is dropped.
    pub fn work_bar(&self, corpus: &Corpus) -> ProgressBar {
        self.bar.finish_and_clear();
        progress_with_template(
            corpus.session_count() as u64,
            self.quiet,
            "{pos} of {len} sessions, {eta} left",
        )
    }

    /// What stood in the way of finding the logs, and what was wrong with the cache. Asked for once they are read.
    pub fn into_problems(self) -> Vec<Problem> {
        self.bar.finish_and_clear();
        let mut problems = self.problems;
        let rebuilt = self.options.cache.map_or(0, Cache::rebuilt_count);
        if rebuilt > 0 {
            let detail = format!("{rebuilt} entries");
            problems.push(Problem::file("(cache)", ProblemKind::CacheRebuilt, detail));
        }
        problems
    }
}

/// Reads the messages of the logs that the arguments name, in the order of the logs, then runs `work` on them.
pub fn with_messages<R: Send>(
    args: &InputArgs,
    wanted: PartSelection,
    work: impl FnOnce(Vec<Message>, Vec<Problem>) -> R + Send,
) -> Result<R> {
    // Somebody who wants to know whether anything was lost wants every line read.
    let wanted = PartSelection {
        every_line: args.wants_problem_list(),
        ..wanted
    };
    with_discovered_logs(args, |logs, options, finish| {
        let (messages, problems) = read_messages(logs, wanted, options);
        work(messages, finish(problems))
    })
}

/// Finds the logs that the arguments name and runs `work` on them. Once it has read them, `work` calls what it is given with
/// their problems: that ends the progress bar and adds what stood in the way of finding them.
pub fn with_discovered_logs<R: Send>(
    args: &InputArgs,
    work: impl FnOnce(&[DiscoveredLog], &ReadOptions<'_>, &dyn Fn(Vec<Problem>) -> Vec<Problem>) -> R + Send,
) -> Result<R> {
    with_threads(args.threads.map(usize::from), || {
        let (found, limits) = find_logs(args)?;
        let total = found.logs.iter().map(|log| log.stamp.size).sum();
        let bar = progress_bar(total, args.quiet);
        let options = ReadOptions {
            io: args.io.into(),
            limits,
            cache: None,
            with_line_hashes: false,
            progress: &|bytes| bar.inc(bytes),
        };
        Ok(work(&found.logs, &options, &|mut problems| {
            bar.finish_and_clear();
            problems.extend(found.problems.iter().cloned());
            problems.sort();
            problems
        }))
    })?
}

/// What somebody can do who has no logs where they usually are.
const NO_LOGS: &str =
    "  hint: name logs or folders (backcast overview PATH), or set CLAUDE_CONFIG_DIR to the client's home
  hint: to try it on made-up sessions: backcast synth bulk --out demo --bytes 4MiB && backcast overview demo";

/// Finds the logs that the arguments name.
fn find_logs(args: &InputArgs) -> Result<(Discovery, ReadLimits)> {
    let roots = input_roots(&args.paths)?;
    let found = discover(&roots, args.follow_links)?;
    if found.logs.is_empty() && found.problems.is_empty() {
        let places = roots
            .iter()
            .map(|root| root.display().to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let why = if args.paths.is_empty() {
            NO_LOGS
        } else {
            "  hint: logs are files ending in .jsonl, .jsonl.gz or .jsonl.zst; name a file, a folder or a pattern"
        };
        bail!("no logs in {places}\n{why}");
    }
    let max_line = usize::try_from(args.max_line).context("--max-line is larger than this machine can address")?;
    Ok((found, ReadLimits::new(max_line)))
}

/// Reads the logs that the arguments name, then runs `work` on them, all on the same threads.
pub fn with_logs<R: Send>(
    args: &InputArgs,
    with_lines: bool,
    work: impl FnOnce(LogSource<'_>) -> R + Send,
) -> Result<R> {
    with_threads(args.threads.map(usize::from), || {
        let (found, limits) = find_logs(args)?;
        let cache = cache_folder(args).map(|folder| Cache::open(&folder, limits.max_line));
        let total = found.logs.iter().map(|log| log.stamp.size).sum();
        let bar = progress_bar(total, args.quiet);
        let result = work(LogSource {
            logs: &found.logs,
            options: ReadOptions {
                io: args.io.into(),
                limits,
                cache: cache.as_ref(),
                with_line_hashes: with_lines,
                progress: &|bytes| bar.inc(bytes),
            },
            problems: found.problems,
            bar: &bar,
            quiet: args.quiet,
        });
        if let Some(cache) = cache {
            cache.close();
        }
        Ok(result)
    })?
}

/// The paths that were named, or the client's own folder.
pub fn input_roots(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if paths.is_empty() {
        let home = client_home();
        let folder = home
            .map(|home| home.join("projects"))
            .context("no path given, and no home folder to look for sessions in")?;
        if !folder.is_dir() {
            bail!(
                "no path given, and {} does not exist, where Claude Code keeps its session logs\n{NO_LOGS}",
                folder.display()
            );
        }
        return Ok(vec![folder]);
    }
    let mut roots = Vec::new();
    for path in paths {
        if path.as_os_str() != "-" {
            roots.push(path.clone());
            continue;
        }
        for line in io::stdin().lock().split(b'\n') {
            let line = line.context("reading the list of paths from standard input")?;
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if !line.is_empty() {
                roots.push(parse_listed_path(line)?);
            }
        }
    }
    if roots.is_empty() {
        bail!("the list of paths on standard input is empty");
    }
    Ok(roots)
}

/// A path as it stands in a list. Where the system knows paths that are not UTF-8, so does a list.
#[cfg(unix)]
fn parse_listed_path(line: &[u8]) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(line)))
}

/// A path as it stands in a list.
#[cfg(not(unix))]
fn path_of(line: &[u8]) -> Result<PathBuf> {
    let line = std::str::from_utf8(line).context("a path on standard input")?;
    Ok(PathBuf::from(line))
}

/// `$CLAUDE_CONFIG_DIR`, or `~/.claude`.
pub fn client_home() -> Option<PathBuf> {
    let named = std::env::var_os("CLAUDE_CONFIG_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    named.or_else(|| std::env::home_dir().map(|home| home.join(".claude")))
}

/// Where the cache lies; `None` if it is switched off or there is no place for it.
fn cache_folder(args: &InputArgs) -> Option<PathBuf> {
    if args.no_cache {
        return None;
    }
    resolve_cache_folder(args.cache_dir.as_deref())
}

/// Where the cache lies: the folder that was named, or the user's.
pub fn resolve_cache_folder(named: Option<&Path>) -> Option<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let user = || {
        variable("XDG_CACHE_HOME")
            .filter(|folder| folder.is_absolute())
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
            .map(|folder| folder.join("backcast"))
    };
    let named = named.map(Path::to_path_buf);
    named.or_else(|| variable("BACKCAST_CACHE")).or_else(user)
}

/// A bar with bytes, rate and time left.
pub fn progress_bar(total: u64, quiet: bool) -> ProgressBar {
    progress_with_template(total, quiet, "{bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
}

/// A bar with what `words` say; silent where nobody watches.
pub fn progress_with_template(total: u64, quiet: bool, words: &str) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() || std::env::var_os("CI").is_some() {
        return ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
    }
    let style =
        ProgressStyle::with_template(&format!("{{bar:30}} {words}")).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total)
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

/// Says on standard error what was wrong, and decides how the run ends.
pub fn report_problems(args: &InputArgs, problems: &[Problem]) -> RunStatus {
    if args.annotate {
        eprint!(
            "{}",
            format_annotations(&problems.iter().map(finding).collect::<Vec<_>>())
        );
    } else if args.problems {
        for problem in problems {
            eprintln!("{}", sanitize(&problem.to_string()));
        }
    } else if !args.quiet && !problems.is_empty() {
        eprintln!("problems (--problems lists them with file and line):");
        for (kind, count) in problem_counts(problems) {
            eprintln!("{count:>8}  {kind}");
        }
    }
    run_status(args, problems)
}

/// Decides how the run ends, and says what was wrong only to somebody who asked.
pub fn report_problems_if_asked(args: &InputArgs, problems: &[Problem]) -> RunStatus {
    if args.problems || args.annotate {
        report_problems(args, problems)
    } else {
        run_status(args, problems)
    }
}

fn run_status(args: &InputArgs, problems: &[Problem]) -> RunStatus {
    let lost = problems.iter().any(|problem| problem.kind.is_loss());
    if args.strict && lost {
        RunStatus::InputLost
    } else {
        RunStatus::Done
    }
}

/// Returns a problem as a finding for CI systems.
fn finding(problem: &Problem) -> CheckFinding {
    let detail = if problem.detail.is_empty() {
        String::new()
    } else {
        format!(" ({})", problem.detail)
    };
    CheckFinding {
        level: if problem.kind.is_loss() {
            Severity::Warning
        } else {
            Severity::Notice
        },
        title: problem.kind.name().to_owned(),
        message: format!("{}{detail}", problem.kind.about()),
        location: Some((problem.path.clone(), problem.line)),
    }
}
