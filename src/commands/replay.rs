//! `backcast replay`: sessions run through a policy.

mod consumer;
mod explain;
mod files;

pub(super) use consumer::{ReplayConsumer, ReplayWants, SessionReplayOutput};

use crate::cli::{InputArgs, PageArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::compare::Comparison;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::writing::{ensure_absent, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{LogNeeds, LogSource, SessionView, with_logs};
use crate::views::compare::ComparisonReport;
use crate::views::replay::{ROUND_COLUMNS, ReplayOutcome, RoundRow, SCHEMA};
use anyhow::{Context, Result};
use clap::Args;
use files::ReplayFiles;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use std::io;
use std::path::PathBuf;
use table::atomic;
use table::stream::{RowBatch, RowStream, StreamFormat};
use transcript::problem::{Problem, sort_problems};

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The policy acts: it clears, compacts and restores; the messages are as recorded. As long as it does what the recorded client
did, recorded sizes are used; after that, the window is the sum of its blocks. The replay is
open-loop: what an agent would have done after losing something is not simulated.

--format json prints the summary; csv, jsonl and parquet print a row per session. With --compare, --top limits its lists together.

With --out, the folder gets sessions.csv, rounds.csv (or .parquet), boundaries.jsonl, summary.json and manifest.json; with
--working-set, --compare or --html also misses.jsonl, with --events events.jsonl, and with --compare compare.csv and
compare.json; the other files are about the first policy. --force removes the files of an earlier run that its manifest lists.

Examples:
  backcast replay corpus                                    what the recorded policy does
  backcast replay logs/ --policy article --out reports/run  all rows, for other programs
  backcast replay logs/ --set window.percent=60             a lower threshold
  backcast replay logs/ --compare never                     what compaction saves and loses
  backcast replay logs/ --explain 7ff477a9                  what one session lost, line by line
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
    /// Compare a second policy with the first on the same sessions: a preset or a file, as for --policy. Implies --working-set.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Policy")]
    pub compare: Option<String>,
    /// Set one value of the second policy; repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "compare", help_heading = "Policy")]
    pub compare_set: Vec<String>,
    /// Check whether the window still held what was used again: hits, misses, repeated reads. --compare and --html imply it.
    #[arg(long, help_heading = "Output")]
    pub working_set: bool,
    /// Use real texts at compactions: the notes at that point, or an offline summary. Their sizes count, and so does what the
    /// rest of the session needed that they lack. Sub-agents keep assumed sizes.
    #[arg(long, conflicts_with = "compare", help_heading = "Output")]
    pub with_text: bool,
    /// List the misses of one session instead: the file, the lines that were gone, the call that needed them, and when they
    /// were dropped. The beginning of its id is enough, or a part of its title.
    #[arg(
        long,
        value_name = "SESSION",
        conflicts_with_all = ["compare", "with_text", "events", "out", "html"],
        help_heading = "Output"
    )]
    pub explain: Option<String>,
    /// Also write every event to events.jsonl.
    #[arg(long, requires = "out", help_heading = "Output")]
    pub events: bool,
    /// Folder for the files of the run; created if missing.
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
    /// Whether a table is printed, and no file is written.
    fn shows_table_only(&self) -> bool {
        self.print.shows_table() && self.out.is_none() && self.page.html.is_none()
    }

    /// Whether hits and misses are wanted.
    pub fn wants_working_set(&self) -> bool {
        self.working_set || self.compare.is_some() || self.page.html.is_some()
    }
}

/// Runs it.
pub fn run(args: &ReplayArgs) -> Result<RunStatus> {
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    if let Some(wanted) = &args.explain {
        explain::check_format(&args.print)?;
        return explain::explain_session(args, wanted, &policies, &prices);
    }
    let compare = Comparison::new(args, &policies)?;
    let files = args
        .out
        .as_deref()
        .map(|folder| ReplayFiles::new(folder, args))
        .transpose()?;
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    let needs = LogNeeds {
        line_hashes: args.wants_working_set(),
        content_hashes: files.is_some(),
        windows: true,
        texts: args.with_text,
    };
    let run = ReplayRun {
        args,
        policies: &policies,
        prices: &prices,
        compare: compare.as_ref(),
        files: files.as_ref(),
    };
    let mut outcome = with_logs(args.input.shown_as_table(args.shows_table_only()), needs, |source| {
        run.replay(&source)
    })??;
    if let Some(files) = &files {
        files.write_files(&outcome, &policies, compare.as_ref(), args)?;
    }
    if let Some(path) = &args.page.html {
        let compared = compare
            .as_ref()
            .map(|compare| outcome.comparison_report(compare, args.print.top).page_document());
        let drawn = outcome.to_page_replay(policy_name(&policies, &args.policy.set), &policies, compared);
        write_page(
            path,
            args.page.force,
            args.input.quiet,
            PageContent {
                name: drawn.name.clone(),
                runs: vec![drawn],
                with_text: args.with_text,
                ..PageContent::default()
            },
        )?;
    }
    write_output(&args.print, |out, style| match &compare {
        Some(compare) => outcome
            .comparison_report(compare, args.print.top)
            .write(args.print.format, style, out),
        None => outcome.write(args.print.format, args.print.top, &policies, style, out),
    })?;
    Ok(report_problems(&args.input, &outcome.problems))
}

/// Returns the name of the policy with the values that were set by hand.
pub(super) fn policy_name(policies: &PolicySet, set: &[String]) -> String {
    [std::slice::from_ref(&policies.name), set].concat().join(" ")
}

struct ReplayRun<'a> {
    args: &'a ReplayArgs,
    policies: &'a PolicySet,
    prices: &'a PriceTable,
    compare: Option<&'a Comparison>,
    files: Option<&'a ReplayFiles>,
}

impl ReplayRun<'_> {
    fn replay(&self, source: &LogSource<'_>) -> Result<ReplayOutcome> {
        let run = source.read();
        let consumer = ReplayConsumer {
            policies: self.policies,
            prices: self.prices,
            compare: self.compare,
            summary: run.learn_summary(),
            wants: ReplayWants {
                working_set: self.args.wants_working_set(),
                text: self.args.with_text,
                events: self.args.events,
                round_rows: self.files.map(|_| self.args.rounds),
                page: self.args.page.html.is_some(),
            },
        };
        let account = run.count_usage(source.options.cache, self.prices);
        let bar = source.session_bar(&run);
        let mut outcome = ReplayOutcome::new(run.log_count(), consumer.summary);
        outcome.selection.clone_from(&run.selection.label);
        let replay = |view: &SessionView<'_>| consumer.replay(view);
        let defects = match self.files {
            None => run.stream_sessions(replay, |done| {
                bar.inc(1);
                outcome.add_session(done).map(|_| ())
            })?,
            Some(files) => {
                outcome.inputs = run.log_hashes();
                std::fs::create_dir_all(&files.folder).with_context(|| format!("making {}", files.folder.display()))?;
                let mut defects = Vec::new();
                atomic::write_with(&files.rounds, files.force, |out| {
                    let mut stream = RowStream::new(self.args.rounds, SCHEMA, ROUND_COLUMNS, out)?;
                    defects = run.stream_sessions(replay, |done| {
                        bar.inc(1);
                        let batch = outcome.add_session(done)?;
                        stream.push(batch, out)
                    })?;
                    stream.finish(out)?;
                    // Nothing can go wrong any more but the disk: now the earlier run may go.
                    files.remove_stale_files()
                })?;
                defects
            }
        };
        outcome.add_problems(run.problems.into_iter().chain(source.problems()).chain(defects));
        outcome.bill_consolidations(self.policies);
        outcome.account = account;
        Ok(outcome)
    }
}

impl ReplayOutcome {
    /// Nothing yet, of so many logs.
    pub(super) fn new(logs: usize, learned_summary: Option<u64>) -> ReplayOutcome {
        ReplayOutcome {
            logs,
            learned_summary,
            ..ReplayOutcome::default()
        }
    }

    /// Adds problems; the list is sorted then.
    pub(super) fn add_problems(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.problems.extend(problems);
        sort_problems(&mut self.problems);
    }

    /// Adds a session. Returns the rows of its calls.
    pub(super) fn add_session(&mut self, done: SessionReplayOutput) -> io::Result<RowBatch<RoundRow>> {
        self.total.merge(&done.row);
        self.sessions.push(done.row);
        self.comparisons.extend(done.comparison);
        if let Some(losses) = done.losses {
            self.losses.get_or_insert_default().add(losses);
        }
        self.boundaries.extend(done.replayed.boundaries);
        self.misses.extend(done.replayed.misses);
        if let Some(rounds) = done.page_rounds {
            self.page_rounds.push(rounds);
        }
        for (of, (blocks, tokens)) in done.replayed.ledger {
            let sum = self.ledger.entry(of).or_default();
            sum.0 += blocks;
            sum.1 += tokens;
        }
        self.events.extend(done.replayed.events);
        self.problems.extend(done.problems);
        done.batch
    }

    /// Returns the comparison of all sessions, with lists of `top` rows.
    pub(super) fn comparison_report<'a>(&'a self, compare: &'a Comparison, top: usize) -> ComparisonReport<'a> {
        ComparisonReport {
            names: &compare.names,
            rows: &self.comparisons,
            logs: self.logs,
            account: &self.account,
            selection: &self.selection,
            top,
        }
    }
}
