//! Where the logs of a run come from: the paths that were named or the agents' own folders, the cache, and the threads that read
//! them.

#![allow(clippy::disallowed_methods, reason = "looks for folders, and reads lists of paths")]

use crate::run::cache::Cache;
use crate::run::fetching::is_remote;
use crate::run::messages::read_messages;
use crate::run::parts::PartSet;
use crate::run::progress::{progress_bar, progress_with_template};
use crate::run::read::ReadOptions;
use crate::run::remote::discover_all;
use crate::run::selection::SelectionQuery;
use crate::run::shared::SharedCache;
use crate::run::trail::{NothingFound, ReadTrail};
use crate::run::{Run, folders};
use crate::usage::session::TimeRange;
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transcript::agents::Agent;
use transcript::bytes::{ByteSource, Compression, IoMode, OpenBytes, ReadLimits};
use transcript::discover::{DiscoveredLog, Discovery, FileStamp, LogOrigin};
use transcript::log::{NO_TIME, Time};
use transcript::messages::{Message, PartSelection};
use transcript::parallel::with_threads;
use transcript::problem::{Problem, ProblemKind, sort_problems};

/// Longest line that is read where nothing else is said.
const DEFAULT_MAX_LINE: u64 = 32 << 20;

/// Which logs a command reads, and how.
#[derive(Debug, Clone)]
pub struct LogInput {
    /// Logs, folders, patterns; `-` for a list on standard input; none for the agents' own folders.
    pub paths: Vec<PathBuf>,
    /// Threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Mapping or reading.
    pub io: IoMode,
    /// The longest line that is read.
    pub max_line: u64,
    /// Whether links inside folders are followed.
    pub follow_links: bool,
    /// Folder of the cache, if one is used.
    pub cache: Option<PathBuf>,
    /// Prefix of a bucket where machines share what they made of logs in object stores.
    pub shared_cache: Option<PathBuf>,
    /// Parts that hold the logs, in place of the paths.
    pub parts: Option<PartSet>,
    /// Whether there are no progress bars.
    pub quiet: bool,
    /// Whether every problem of a line is reported, so that no line may be skipped unread.
    pub wants_all_problems: bool,
    /// Which sessions and calls count.
    pub selection: SelectionQuery,
    /// Whether the made-up sample is read and nothing else.
    pub is_sample: bool,
    /// Whether the made-up sample is read if the agents' own folders hold no log.
    pub falls_back_to_sample: bool,
    /// Whether people read the result as a table. If nothing is selected, a sentence takes its place.
    pub shows_table: bool,
}

impl LogInput {
    /// Says how the result is shown.
    pub fn shown_as_table(self, shows_table: bool) -> LogInput {
        LogInput { shows_table, ..self }
    }
}

impl Default for LogInput {
    fn default() -> LogInput {
        LogInput {
            paths: Vec::new(),
            threads: None,
            io: IoMode::default(),
            max_line: DEFAULT_MAX_LINE,
            follow_links: false,
            cache: None,
            shared_cache: None,
            parts: None,
            quiet: false,
            wants_all_problems: false,
            selection: SelectionQuery::default(),
            is_sample: false,
            falls_back_to_sample: false,
            shows_table: false,
        }
    }
}

/// What a command needs of logs beside the records.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogNeeds {
    /// Line hashes, for hits and misses.
    pub line_hashes: bool,
    /// Hashes of the files.
    pub content_hashes: bool,
    /// What sessions show about their windows, for [`crate::run::SessionView::infer_windows`].
    pub windows: bool,
    /// The words of the logs, for [`crate::run::SessionView::read_conversation`] and messages.
    pub texts: bool,
}

/// Logs that were found and how they are to be read.
pub struct LogSource<'a> {
    /// The logs.
    pub logs: &'a Arc<[DiscoveredLog]>,
    /// How they are read.
    pub options: ReadOptions<'a>,
    problems: Vec<Problem>,
    /// Whether the logs are the made-up sample.
    pub is_sample: bool,
    bar: &'a ProgressBar,
    quiet: bool,
    needs_windows: bool,
}

impl LogSource<'_> {
    /// Reads all logs.
    pub fn read(&self) -> Run {
        let mut run = Run::read_shared(self.logs, &self.options);
        self.bar.finish_and_clear();
        if self.needs_windows {
            run.survey_windows();
        }
        run
    }

    /// Returns a bar for the pass over the sessions of a run. It vanishes when it is dropped.
    pub fn session_bar(&self, run: &Run) -> ProgressBar {
        progress_with_template(
            run.session_count() as u64,
            self.quiet,
            "{pos} of {len} sessions, {eta} left",
        )
    }

    /// Returns what went wrong beside reading: with finding the logs, and with the cache. To be called once all work is done.
    pub fn problems(&self) -> Vec<Problem> {
        self.bar.finish_and_clear();
        let mut problems = self.problems.clone();
        let rebuilt = self.options.cache.map_or(0, Cache::rebuilt_count);
        if rebuilt > 0 {
            let detail = format!("{rebuilt} entries");
            problems.push(Problem::file("(cache)", ProblemKind::CacheRebuilt, detail));
        }
        problems
    }
}

/// Finds logs and runs `work` on them, all on the same threads.
pub fn with_logs<R: Send>(
    input: impl Into<LogInput>,
    needs: LogNeeds,
    work: impl FnOnce(LogSource<'_>) -> R + Send,
) -> Result<R> {
    let input = input.into();
    input.selection.check()?;
    if let Some(url) = &input.shared_cache {
        SharedCache::check(url)?;
    }
    with_threads(input.threads, || {
        let (found, limits) = find_logs(&input, needs)?;
        let logs = Arc::<[DiscoveredLog]>::from(found.logs);
        let is_sample = logs.iter().any(is_sample_log);
        let cache = open_cache(&input, &logs, limits)?;
        let total = logs.iter().map(|log| log.stamp.size).sum();
        let bar = progress_bar(total, input.quiet);
        let trail = ReadTrail::default();
        let result = work(LogSource {
            logs: &logs,
            options: ReadOptions {
                io: input.io,
                limits,
                parts: input.parts.as_ref(),
                cache: cache.as_ref(),
                with_line_hashes: needs.line_hashes,
                with_content_hashes: needs.content_hashes,
                selection: Some(&input.selection),
                messages: None,
                trail: Some(&trail),
                progress: &|bytes| bar.inc(bytes),
            },
            problems: found.problems,
            is_sample,
            bar: &bar,
            quiet: input.quiet,
            needs_windows: needs.windows,
        });
        if let Some(parts) = &input.parts {
            bar.finish_and_clear();
            parts.check()?;
        }
        if let Some(cache) = cache {
            if let Some(failure) = cache.finish_sharing().filter(|_| !input.quiet) {
                bar.finish_and_clear();
                // A closed standard error is no reason to stop.
                let _ = writeln!(
                    std::io::stderr(),
                    "{failure}\n  the logs themselves were read in its place"
                );
            }
            cache.close();
        }
        bar.finish_and_clear();
        let newest = match logs.is_empty() && !input.shows_table {
            // The problems say why nothing could be read.
            true => None,
            false => explain_no_session(&logs, trail)?,
        };
        match input.selection.explain_nothing(newest) {
            Some(nothing) if input.shows_table => bail!(NothingFound::Selected(nothing)),
            // A closed standard error is no reason to stop.
            Some(nothing) if !input.quiet => {
                let _ = writeln!(std::io::stderr(), "{nothing}");
            }
            _ => {}
        }
        Ok(result)
    })?
}

/// Opens the cache, with that which machines share if some logs lie in object stores.
fn open_cache(input: &LogInput, logs: &[DiscoveredLog], limits: ReadLimits) -> Result<Option<Cache>> {
    // The sample is in no file whose state the cache could know.
    let Some(folder) = input.cache.as_deref().filter(|_| !logs.iter().any(is_sample_log)) else {
        return Ok(None);
    };
    let shared = input.shared_cache.as_deref();
    let shared = shared.filter(|_| logs.iter().any(is_remote)).map(SharedCache::open);
    Ok(Some(
        Cache::open(folder, limits.max_line).with_shared(shared.transpose()?),
    ))
}

/// Returns the time of the newest record. Fails if the logs were read and hold no record of a session.
fn explain_no_session(logs: &[DiscoveredLog], trail: ReadTrail) -> Result<Option<Time>> {
    let Some(read) = trail.into_summary() else {
        return Ok(None);
    };
    if read.newest.is_none() {
        let what = match logs {
            [only] => format!("{}: no line of it is", only.path.display()),
            [first, ..] => format!(
                "{} and {} more: no line of them is",
                first.path.display(),
                logs.len() - 1
            ),
            [] => "no log can be read, so nothing is".to_owned(),
        };
        bail!(NothingFound::NoSession {
            message: format!(
                "{what} a record of a session\n  hint: session logs are JSONL files that Claude Code, Codex or Pi wrote, and exports of OpenCode (.json)"
            ),
            problems: read.problems,
        });
    }
    Ok(read.newest)
}

/// Reads the selected messages of logs, in the order of the logs, then runs `work` on them and on the problems.
pub fn with_messages<R: Send>(
    input: impl Into<LogInput>,
    wanted: PartSelection,
    work: impl FnOnce(Vec<Message>, Vec<Problem>) -> R + Send,
) -> Result<R> {
    let input = input.into();
    let wanted = PartSelection {
        every_line: input.wants_all_problems,
        ..wanted
    };
    with_log_files(input, |logs, options, finish| {
        let (messages, problems) = read_messages(logs, wanted, options);
        work(messages, finish(problems))
    })
}

/// Finds logs and runs `work` on them without a cache. Once it has read them, `work` calls the function it is given with their
/// problems: that ends the progress bar and adds the problems of finding them.
pub fn with_log_files<R: Send>(
    input: impl Into<LogInput>,
    work: impl FnOnce(&[DiscoveredLog], &ReadOptions<'_>, &dyn Fn(Vec<Problem>) -> Vec<Problem>) -> R + Send,
) -> Result<R> {
    let input = LogInput {
        cache: None,
        ..input.into()
    };
    let needs = LogNeeds {
        texts: true,
        ..LogNeeds::default()
    };
    with_logs(input, needs, |source| {
        let filter = source.message_filter();
        let options = ReadOptions {
            messages: filter.as_ref(),
            ..source.options
        };
        work(source.logs, &options, &|mut problems| {
            problems.extend(source.problems());
            sort_problems(&mut problems);
            problems
        })
    })
}

/// Which messages count.
pub struct MessageFilter {
    range: TimeRange,
    sessions: HashSet<String>,
}

impl MessageFilter {
    /// Whether a message counts: it was written in the range, in a session that is selected.
    pub fn takes(&self, message: &Message) -> bool {
        self.range.contains(message.time.unwrap_or(NO_TIME)) && self.sessions.contains(&message.session)
    }
}

impl LogSource<'_> {
    /// Returns the filter of messages; `None` if all of them count. Only the numbers of all logs tell which sessions are
    /// selected, so they are read first.
    fn message_filter(&self) -> Option<MessageFilter> {
        let query = self.options.selection?;
        if query.resolve(None).is_everything() && !query.needs_newest() {
            return None;
        }
        let run = Run::read_shared(
            self.logs,
            &ReadOptions {
                progress: &|_| (),
                ..self.options
            },
        );
        let (sessions, _) = run.map_sessions(|view| view.id().to_owned());
        Some(MessageFilter {
            range: run.selection.range,
            sessions: sessions.into_iter().collect(),
        })
    }
}

/// What to do without logs where they usually are.
const NO_LOGS: &str =
    "  hint: pass logs or folders (backcast overview PATH), or set CLAUDE_CONFIG_DIR or CODEX_HOME to the agent's home
  hint: `backcast doctor` says where backcast looked; `backcast overview --sample` shows made-up sessions";

/// What the paths of the sample start with.
const SAMPLE_FOLDER: &str = "(sample)";

/// Finds the logs that are named.
fn find_logs(input: &LogInput, needs: LogNeeds) -> Result<(Discovery, ReadLimits)> {
    if let Some(parts) = &input.parts {
        return find_part_logs(parts, needs);
    }
    if input.is_sample {
        return find_sample_logs(input);
    }
    let roots = match log_roots(&input.paths, &input.selection.agents) {
        Err(_) if input.falls_back_to_sample => return find_sample_logs(input),
        roots => roots?,
    };
    let found = discover_all(&roots, input.follow_links, input.quiet)?;
    if found.logs.is_empty() && input.falls_back_to_sample {
        return find_sample_logs(input);
    }
    if found.logs.is_empty() && found.problems.is_empty() {
        let places = roots
            .iter()
            .map(|root| root.display().to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let why = if input.paths.is_empty() {
            NO_LOGS
        } else {
            "  hint: logs are files ending in .jsonl, .jsonl.gz or .jsonl.zst, and exports of OpenCode (.json); pass a file,\n  a folder or a pattern"
        };
        bail!("no logs in {places}\n{why}");
    }
    Ok((found, line_limit(input.max_line)?))
}

/// Whether a log is one of the sample: those are in memory, under a folder that no path names.
fn is_sample_log(log: &DiscoveredLog) -> bool {
    matches!(log.origin, LogOrigin::Source(_)) && log.path.starts_with(SAMPLE_FOLDER)
}

/// Makes the logs of the sample.
fn find_sample_logs(input: &LogInput) -> Result<(Discovery, ReadLimits)> {
    let logs = synth::sample_logs().context("making the sample")?;
    let logs = logs.into_iter().map(|log| DiscoveredLog {
        path: Path::new(SAMPLE_FOLDER).join(&log.path),
        packing: Compression::Plain,
        stamp: FileStamp {
            size: log.bytes.len() as u64,
            ..FileStamp::default()
        },
        origin: LogOrigin::Source(Arc::new(HeldBytes(log.bytes.into()))),
    });
    let found = Discovery {
        logs: logs.collect(),
        problems: Vec::new(),
    };
    Ok((found, line_limit(input.max_line)?))
}

/// Bytes that are held in memory.
#[derive(Debug, Clone)]
struct HeldBytes(Arc<[u8]>);

impl ByteSource for HeldBytes {
    fn open(&self) -> io::Result<Box<dyn OpenBytes>> {
        Ok(Box::new(self.clone()))
    }
}

impl OpenBytes for HeldBytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        let rest = &self.0[start..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

fn line_limit(max_line: u64) -> Result<ReadLimits> {
    let max_line = usize::try_from(max_line).context("--max-line is larger than this machine can address")?;
    Ok(ReadLimits::new(max_line))
}

/// Lists the logs of parts, once these are known to be whole.
fn find_part_logs(parts: &PartSet, needs: LogNeeds) -> Result<(Discovery, ReadLimits)> {
    if needs.texts {
        parts.ensure_texts()?;
    }
    parts.check_sections()?;
    let found = Discovery {
        logs: parts.logs().to_vec(),
        problems: parts.problems().to_vec(),
    };
    Ok((found, line_limit(parts.max_line())?))
}

/// Returns the paths that were named, those of a list on standard input among them, or the folders of the agents.
fn log_roots(paths: &[PathBuf], agents: &[Agent]) -> Result<Vec<PathBuf>> {
    if !paths.is_empty() {
        return folders::read_path_lists(paths);
    }
    if agents == [Agent::OpenCode] {
        bail!(
            "no path given, and OpenCode keeps its sessions in a database\n  hint: `opencode export SESSION > FILE.json` exports one; pass the files or their folder"
        );
    }
    let agents = if agents.is_empty() { Agent::ALL } else { agents };
    let places = agents.iter().flat_map(|agent| folders::session_folders(*agent));
    let places = places.collect::<Vec<_>>();
    if places.is_empty() {
        bail!("no path given, and there is no home folder to look for sessions in");
    }
    let found = places
        .iter()
        .filter(|place| place.is_dir())
        .cloned()
        .collect::<Vec<_>>();
    if found.is_empty() {
        let places = places.iter().map(|place| place.display().to_string());
        bail!(
            "no path given, and none of the folders where agents keep their session logs exists:\n  {}\n{NO_LOGS}",
            places.collect::<Vec<_>>().join("\n  ")
        );
    }
    Ok(found)
}
