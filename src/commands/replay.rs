//! `backcast replay`: sessions run through a policy.

use crate::cli::{InputArgs, PageArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::compare::{ComparedChain, Comparison};
use crate::commands::notes::read_conversation;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::{LogSource, report_problems, with_logs};
use crate::commands::replay_texts::ChainTexts;
use crate::commands::writing::{ensure_absent, load_prices, write_output, write_page};
use crate::page;
use crate::page::PageContent;
use crate::page::rounds::SessionRounds;
use crate::run::Corpus;
use crate::views::compare::{CompareRow, ComparisonReport};
use crate::views::replay::{
    ROUND_COLUMNS, ReplayCollector, ReplayDetail, ReplayOutcome, ReplayResult, RoundRow, SCHEMA, TextLosses,
    session_sheet,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::{Event, EventSink};
use replay::sim::trace::build_trace;
use replay::sim::uses::find_file_uses;
use replay::sim::{BoundaryTextWriter, ReplayInput, ReplayMode, infer_replay_windows, policies_and_prices, replay};
use replay::tokens::ratios::RatioTable;
use replay::tune::score::chain_key;
use serde_json::Value as Json;
use std::io;
use std::path::{Path, PathBuf};
use table::stream::{RowBatch, RowStream, StreamFormat};
use table::{OutputFormat, TableStyle, atomic, write_json};
use transcript::problem::{Problem, ProblemKind};
use transcript::thread::{Session, SessionLog, thread};

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The policy acts: it clears, compacts and restores, and recorded messages are taken as they came. As long as it does what the
recorded client did, recorded sizes are used; after that, the window is made of the sizes of its blocks. The replay is
open-loop: what an agent would have done after losing something is not simulated.

--format json prints the summary, and row formats a row a session. With --compare, --top is about its lists together.

With --out, the folder gets sessions.csv, rounds.csv (or .parquet), boundaries.jsonl, summary.json and manifest.json; with
--working-set, --compare or --html also misses.jsonl, with --events events.jsonl, and with --compare compare.csv and
compare.json, while the other files are about the first policy. --force takes the files of an earlier run away, as far as
its manifest lists them.

Examples:
  backcast replay corpus                                    what the recorded policy does
  backcast replay logs/ --policy article --out reports/run  all rows, for other programs
  backcast replay logs/ --set window.percent=60             a lower threshold
  backcast replay logs/ --compare never                     what compaction saves and loses
  backcast replay logs/ --html run.html                     every session drawn, on one page
  backcast replay logs/ --policy article --with-text        what real notes and summaries would carry over")]
#[command(mut_arg("top", |arg| arg.default_value("10")))]
pub struct ReplayArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Hold a second policy against the first, on the same sessions: a preset or a file, as for --policy. Implies
    /// --working-set.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Policy")]
    pub compare: Option<String>,
    /// Sets one value of the second policy; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", requires = "compare", help_heading = "Policy")]
    pub compare_set: Vec<String>,
    /// Look whether what was used again was still in the window: hits, misses, reads of what had been dropped. --compare and
    /// --html imply it.
    #[arg(long, help_heading = "Output")]
    pub working_set: bool,
    /// Put real texts into the boundaries: the notes as they stand there, or an offline summary. Sizes are theirs, and what
    /// the rest of the session needed and they do not carry is counted. Sub-agents keep assumed sizes.
    #[arg(long, conflicts_with = "compare", help_heading = "Output")]
    pub with_text: bool,
    /// Write every event to events.jsonl, too.
    #[arg(long, requires = "out", help_heading = "Output")]
    pub events: bool,
    /// Folder for the files of the run; made if it is missing.
    #[arg(long, value_name = "DIR", group = "files", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// The HTML page.
    #[command(flatten)]
    pub page: PageArgs,
    /// Format of the rounds.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        requires = "out",
        help_heading = "Output"
    )]
    pub rounds: StreamFormat,
    /// What is printed.
    #[command(flatten)]
    pub print: PrintArgs,
}

impl ReplayArgs {
    /// Whether hits and misses are wanted.
    pub fn wants_working_set(&self) -> bool {
        self.working_set || self.compare.is_some() || self.page.html.is_some()
    }
}

/// Runs it.
pub fn run(args: &ReplayArgs) -> Result<RunStatus> {
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let compare = Comparison::new(args, &policies)?;
    let files = args
        .out
        .as_deref()
        .map(|folder| ReplayFiles::new(folder, args))
        .transpose()?;
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    let run = ReplayRun {
        args,
        policies: &policies,
        prices: &prices,
        compare: compare.as_ref(),
        files: files.as_ref(),
        wants_page: args.page.html.is_some(),
    };
    let mut outcome = with_logs(&args.input, args.wants_working_set(), |reading| run.replay(reading))??;
    if let Some(files) = &files {
        files.write_files(&outcome, &policies, compare.as_ref(), args)?;
    }
    if let Some(path) = &args.page.html {
        let compared = compare
            .as_ref()
            .map(|compare| outcome.comparison_report(compare, args).document());
        let drawn = outcome.to_page_replay(policy_name(args, &policies), &policies, compared);
        write_page(
            path,
            args.page.force,
            args.input.quiet,
            PageContent {
                name: drawn.name.clone(),
                runs: vec![drawn],
                ..PageContent::default()
            },
        )?;
    }
    write_output(&args.print.stdout_args(), |out, style| match &compare {
        Some(compare) => outcome
            .comparison_report(compare, args)
            .write(args.print.format, style, out),
        None => outcome.write(args.print.format, args.print.top, &policies, style, out),
    })?;
    Ok(report_problems(&args.input, &outcome.problems))
}

/// A replay for a page that shows more than that.
pub(super) fn replay_for_page(args: &ReplayArgs) -> Result<(page::PageReplay, Vec<Problem>)> {
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let run = ReplayRun {
        args,
        policies: &policies,
        prices: &prices,
        compare: None,
        files: None,
        wants_page: true,
    };
    let mut outcome = with_logs(&args.input, args.wants_working_set(), |reading| run.replay(reading))??;
    Ok((
        outcome.to_page_replay(policy_name(args, &policies), &policies, None),
        outcome.problems,
    ))
}

/// Returns the name of the policy with what `--set` changed.
fn policy_name(args: &ReplayArgs, policies: &PolicySet) -> String {
    let words = [std::slice::from_ref(&policies.name), &args.policy.set];
    words.concat().join(" ")
}

/// The last file of a run: it says that the rest is whole, and lists it.
const MANIFEST: &str = "manifest.json";

/// Every other file that a run may write.
const FILES: [&str; 9] = [
    "sessions.csv",
    "rounds.csv",
    "rounds.parquet",
    "boundaries.jsonl",
    "summary.json",
    "misses.jsonl",
    "events.jsonl",
    "compare.csv",
    "compare.json",
];

/// Those of this run.
fn output_files(args: &ReplayArgs) -> Vec<&'static str> {
    let rounds = format!("rounds.{}", args.rounds.extension());
    let is_written = |name: &str| match name {
        "rounds.csv" | "rounds.parquet" => name == rounds,
        "misses.jsonl" => args.wants_working_set(),
        "events.jsonl" => args.events,
        "compare.csv" | "compare.json" => args.compare.is_some(),
        _ => true,
    };
    FILES.into_iter().filter(|name| is_written(name)).collect()
}

/// Where the files of a run go.
struct ReplayFiles {
    folder: PathBuf,
    names: Vec<&'static str>,
    rounds: PathBuf,
    force: bool,
}

impl ReplayFiles {
    /// Looks whether anything is in the way before the work begins.
    fn new(folder: &Path, args: &ReplayArgs) -> Result<ReplayFiles> {
        let names = output_files(args);
        let targets = names.iter().chain([&MANIFEST]).map(|name| folder.join(name));
        if let Some(target) = targets.into_iter().find(|target| !args.page.force && target.exists()) {
            bail!("{} exists; use --force to replace it", target.display());
        }
        Ok(ReplayFiles {
            folder: folder.to_path_buf(),
            names,
            rounds: folder.join(format!("rounds.{}", args.rounds.extension())),
            force: args.page.force,
        })
    }

    /// Takes away what an earlier run left and this one does not write, so that nobody takes it for a part of this one: the
    /// old manifest, and files that it lists as its own. Nothing else in the folder is touched.
    fn remove_stale_files(&self) -> io::Result<()> {
        let manifest = self.folder.join(MANIFEST);
        let old = std::fs::read(&manifest).ok();
        let old = old.and_then(|bytes| serde_json::from_slice::<Json>(&bytes).ok());
        let Some((true, listed)) = old
            .as_ref()
            .map(|old| (old["backcast"].is_string(), old["files"].as_array()))
        else {
            return Ok(());
        };
        // The manifest first: without it, a folder that is half replaced is known to be.
        std::fs::remove_file(&manifest)?;
        let listed = listed.into_iter().flatten().filter_map(Json::as_str);
        for name in listed.filter(|name| FILES.contains(name) && !self.names.contains(name)) {
            let file = self.folder.join(name);
            if file.symlink_metadata().is_ok_and(|file| file.is_file()) {
                std::fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// Everything but the rounds, which were written on the way. The manifest comes last: it says that the rest is whole.
    fn write_files(
        &self,
        outcome: &ReplayOutcome,
        policies: &PolicySet,
        compare: Option<&Comparison>,
        args: &ReplayArgs,
    ) -> Result<()> {
        atomic::write_with(&self.folder.join("sessions.csv"), self.force, |out| {
            session_sheet(&outcome.sessions).write(OutputFormat::Csv, TableStyle::default(), out)
        })?;
        self.write_json_lines("boundaries.jsonl", &outcome.boundaries)?;
        if args.wants_working_set() {
            self.write_json_lines("misses.jsonl", &outcome.misses)?;
        }
        if args.events {
            atomic::write(&self.folder.join("events.jsonl"), self.force, &outcome.events)?;
        }
        if let Some(compare) = compare {
            atomic::write_with(&self.folder.join("compare.csv"), self.force, |out| {
                outcome
                    .comparison_report(compare, args)
                    .write(OutputFormat::Csv, TableStyle::default(), out)
            })?;
            atomic::write_with(&self.folder.join("compare.json"), self.force, |out| {
                outcome
                    .comparison_report(compare, args)
                    .write(OutputFormat::Json, TableStyle::default(), out)
            })?;
        }
        let second = compare.map(|compare| &compare.second);
        let prices = args.policy.prices.as_deref();
        let documents = [
            ("summary.json", outcome.summary_json(policies)),
            (MANIFEST, outcome.manifest_json(policies, second, prices, &self.names)),
        ];
        for (name, document) in documents {
            atomic::write_with(&self.folder.join(name), self.force, |out| write_json(&document, out))?;
        }
        Ok(())
    }

    /// An object a line.
    fn write_json_lines(&self, name: &str, objects: &[Json]) -> Result<()> {
        atomic::write_with(&self.folder.join(name), self.force, |out| {
            for object in objects {
                serde_json::to_writer(&mut *out, object)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

struct ReplayRun<'a> {
    args: &'a ReplayArgs,
    policies: &'a PolicySet,
    prices: &'a PriceTable,
    compare: Option<&'a Comparison>,
    files: Option<&'a ReplayFiles>,
    /// Whether a page is wanted.
    wants_page: bool,
}

/// What one session gives, its rounds encoded.
struct SessionReplayOutput {
    replayed: ReplayResult,
    comparison: Option<CompareRow>,
    losses: Option<TextLosses>,
    batch: io::Result<RowBatch<RoundRow>>,
    page_rounds: Option<SessionRounds>,
    problems: Vec<Problem>,
}

impl ReplayRun<'_> {
    fn replay(&self, reading: LogSource<'_>) -> Result<ReplayOutcome> {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let summary = learned_summary(&corpus);
        let bar = reading.work_bar(&corpus);
        let mut outcome = ReplayOutcome {
            logs: reading.logs.len(),
            learned_summary: summary,
            ..ReplayOutcome::default()
        };
        let defects = match self.files {
            None => corpus.stream_sessions(
                |id, parts| self.replay_session(&corpus, id, parts, summary),
                |done| {
                    bar.inc(1);
                    outcome.add_session(done).map(|_| ())
                },
            )?,
            Some(files) => {
                outcome.inputs = corpus.hash_logs();
                std::fs::create_dir_all(&files.folder).with_context(|| format!("making {}", files.folder.display()))?;
                let mut defects = Vec::new();
                atomic::write_with(&files.rounds, files.force, |out| {
                    let mut stream = RowStream::new(self.args.rounds, SCHEMA, ROUND_COLUMNS, out)?;
                    defects = corpus.stream_sessions(
                        |id, parts| self.replay_session(&corpus, id, parts, summary),
                        |done| {
                            bar.inc(1);
                            let batch = outcome.add_session(done)?;
                            stream.push(batch, out)
                        },
                    )?;
                    stream.finish(out)?;
                    // Nothing can go wrong any more but the disk: now the earlier run may go.
                    files.remove_stale_files()
                })?;
                defects
            }
        };
        outcome.problems.extend(corpus.problems);
        outcome.problems.extend(reading.into_problems());
        outcome.problems.extend(defects);
        outcome.problems.sort();
        Ok(outcome)
    }

    fn replay_session(
        &self,
        corpus: &Corpus,
        id: &str,
        parts: &[SessionLog],
        summary: Option<u64>,
    ) -> SessionReplayOutput {
        let session = Session::new(id, parts);
        let mut threaded = thread(&session);
        let mut replayed = ReplayResult::default();
        replayed.row.session = id.to_owned();
        replayed.row.project = session_project(&session).to_owned();
        replayed.row.has_working_set = self.args.wants_working_set();
        let mut compared = self.compare.map(|_| CompareRow {
            session: replayed.row.session.clone(),
            project: replayed.row.project.clone(),
            ..CompareRow::default()
        });
        let mut losses = self.args.with_text.then(TextLosses::default);
        let mut unread = Vec::new();
        for (number, chain) in threaded.chains.iter().enumerate() {
            let trace = build_trace(&session, chain, RatioTable::built_in());
            let (by_version, by_model) = policies_and_prices(self.policies, self.prices, &trace);
            let windows = infer_replay_windows(&trace, &by_version, &by_model);
            let wants_rows = self.files.is_some() || self.wants_page;
            let detail = ReplayDetail {
                rounds: wants_rows,
                boundaries: wants_rows,
                events: self.args.events,
            };
            let uses = self.args.wants_working_set().then(|| find_file_uses(&session, &trace));
            let conversation = (self.args.with_text && !chain.is_sidechain).then(|| {
                let (conversation, problems) = read_conversation(corpus, &session, chain);
                unread.extend(problems);
                conversation
            });
            let policy = by_version.last().copied();
            let written = conversation.as_ref().zip(policy);
            let written = written.map(|(conversation, policy)| ChainTexts::new(conversation, &trace, policy));
            let first_boundary = replayed.boundaries.len();
            let mut collector =
                ReplayCollector::new(id, Some(&session), &trace, &windows, &by_model, &mut replayed, detail);
            let setting = ReplayInput {
                policies: &by_version,
                prices: &by_model,
                windows: &windows,
                summary,
                mode: ReplayMode::Free,
                uses: uses.as_ref(),
                texts: written.as_ref().map(|written| written as &dyn BoundaryTextWriter),
                key: chain_key(id, number),
            };
            replay(&trace, &setting, &mut |at: u32, event: &Event<'_>| {
                if let Some(written) = &written {
                    written.record_event(at, event);
                }
                collector.on_event(at, event);
            });
            collector.finish();
            if let (Some(written), Some(losses)) = (&written, &mut losses) {
                losses.add(written.collect_losses(&mut replayed.boundaries[first_boundary..]));
            }
            if let (Some(compare), Some(uses), Some(row)) = (self.compare, &uses, &mut compared) {
                let chain = ComparedChain {
                    session: &session,
                    trace: &trace,
                    uses,
                    summary,
                    key: setting.key,
                };
                compare.replay_chain(self.policies, self.prices, &chain, row);
            }
        }
        let mut problems = std::mem::take(&mut threaded.problems);
        problems.extend(unread);
        if replayed.row.defects > 0 {
            let path = &parts[0].path;
            problems.push(Problem::file(
                path,
                ProblemKind::Internal,
                format!("replay of session {id}"),
            ));
        }
        let mut rounds = std::mem::take(&mut replayed.rounds);
        let drawn = self.wants_page.then(|| SessionRounds::from_rows(id, &rounds));
        if self.files.is_none() {
            rounds.clear();
        }
        SessionReplayOutput {
            page_rounds: drawn,
            batch: RowBatch::new(self.args.rounds, SCHEMA, ROUND_COLUMNS, rounds),
            replayed,
            comparison: compared,
            losses,
            problems,
        }
    }
}

/// Working directory of the first own record.
fn session_project<'a>(session: &Session<'a>) -> &'a str {
    let first = session.own_nodes().next();
    first.map_or("", |node| {
        let log = session.log(node);
        log.string(log.scope_of(session.record(node)).cwd)
    })
}

/// Median size of the summaries of all sessions.
pub(super) fn learned_summary(corpus: &Corpus) -> Option<u64> {
    let summaries = corpus.map_compacted(|id, parts| {
        let session = Session::new(id, parts);
        let traces = thread(&session).chains;
        let traces = traces
            .iter()
            .map(|chain| build_trace(&session, chain, RatioTable::built_in()));
        let sizes = traces.flat_map(|trace| trace.recorded.into_iter().map(|boundary| u64::from(boundary.summary)));
        sizes.filter(|tokens| *tokens > 0).collect::<Vec<_>>()
    });
    let mut sizes = summaries.into_iter().flatten().collect::<Vec<_>>();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}

impl ReplayOutcome {
    fn add_session(&mut self, done: SessionReplayOutput) -> io::Result<RowBatch<RoundRow>> {
        self.total.merge(&done.replayed.row);
        self.sessions.push(done.replayed.row);
        self.comparisons.extend(done.comparison);
        if let Some(losses) = done.losses {
            self.losses.get_or_insert_default().add(losses);
        }
        self.boundaries.extend(done.replayed.boundaries);
        self.misses.extend(done.replayed.misses);
        self.page_rounds.extend(done.page_rounds);
        for (of, (blocks, tokens)) in done.replayed.ledger {
            let sum = self.ledger.entry(of).or_default();
            sum.0 += blocks;
            sum.1 += tokens;
        }
        self.events.extend(done.replayed.events);
        self.problems.extend(done.problems);
        done.batch
    }

    fn comparison_report<'a>(&'a self, compare: &'a Comparison, args: &ReplayArgs) -> ComparisonReport<'a> {
        ComparisonReport {
            names: &compare.names,
            rows: &self.comparisons,
            logs: self.logs,
            top: args.print.top,
        }
    }
}
