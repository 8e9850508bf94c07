//! `backcast replay`: sessions run through a policy.

mod consumer;
mod files;

pub(super) use consumer::{ReplayConsumer, ReplayWants, SessionReplayOutput};

use crate::cli::ReplayArgs;
use crate::commands::RunStatus;
use crate::commands::compare::{Comparison, ComparisonReport};
use crate::commands::policy::resolve_policy;
use crate::commands::reading::{problem_counts, report_problems};
use crate::commands::replay_texts::TextLosses;
use crate::commands::writing::{OutputTarget, ensure_absent, load_prices, write_output, write_page};
use crate::page;
use crate::page::PageContent;
use crate::page::rounds::SessionRounds;
use crate::run::{LogHash, LogNeeds, LogSource, SessionView, with_logs};
use crate::views::compare_rows::CompareRow;
use crate::views::replay_rows::{
    MICRO_KINDS, ROUND_COLUMNS, RoundRow, SCHEMA_VERSION, SESSION_COLUMNS, SessionRow, part_names,
};
use anyhow::{Context, Result};
use files::ReplayFiles;
use replay::policy::presets::PolicySet;
use replay::prices::{PriceTable, micro_usd};
use replay::sim::event::{CompactionCause, SideCallPurpose};
use replay::sim::use_counts::UseCounts;
use replay::sim::working_set::{FETCH_KINDS, FetchKind, UseOutcome};
use replay::tokens::ledger::{CATEGORIES, Category};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::stream::{RowBatch, RowStream};
use table::words::{format_count, format_dollars, format_percent, group_digits};
use table::{Column, ColumnUnit, OutputFormat, Sheet, TableStyle, TableVisibility, atomic, column, sparkline};
use transcript::problem::{Problem, ProblemRow};

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
    ensure_absent(args.html.as_deref(), args.force)?;
    let needs = LogNeeds {
        line_hashes: args.wants_working_set(),
        content_hashes: files.is_some(),
    };
    let run = ReplayRun {
        args,
        policies: &policies,
        prices: &prices,
        compare: compare.as_ref(),
        files: files.as_ref(),
    };
    let mut outcome = with_logs(&args.input, needs, |source| run.replay(&source))??;
    if let Some(files) = &files {
        files.write_files(&outcome, &policies, compare.as_ref(), args)?;
    }
    if let Some(path) = &args.html {
        let compared = compare
            .as_ref()
            .map(|compare| outcome.comparison_report(compare, args.top).document());
        let drawn = outcome.to_page_replay(&policies, &args.policy.set, compared);
        write_page(
            path,
            args.force,
            args.input.quiet,
            PageContent {
                name: drawn.name.clone(),
                runs: vec![drawn],
                ..PageContent::default()
            },
        )?;
    }
    write_output(OutputTarget::stdout(args.format), |out, look| match &compare {
        Some(compare) => outcome
            .comparison_report(compare, args.top)
            .write(args.format, look, out),
        None => outcome.write(args, &policies, out, look),
    })?;
    Ok(report_problems(&args.input, &outcome.problems))
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
                page: self.args.html.is_some(),
            },
        };
        let bar = source.session_bar(&run);
        let mut outcome = ReplayOutcome::new(run.log_count(), consumer.summary);
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
                    let mut stream = RowStream::new(self.args.rounds, SCHEMA_VERSION, ROUND_COLUMNS, out)?;
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
        Ok(outcome)
    }
}

/// Everything that was found out.
#[derive(Default)]
pub(super) struct ReplayOutcome {
    sessions: Vec<SessionRow>,
    total: SessionRow,
    comparisons: Vec<CompareRow>,
    losses: Option<TextLosses>,
    boundaries: Vec<Json>,
    misses: Vec<Json>,
    ledger: BTreeMap<(Category, String), (u64, u64)>,
    page_rounds: Vec<SessionRounds>,
    events: Vec<u8>,
    problems: Vec<Problem>,
    inputs: Vec<LogHash>,
    learned_summary: Option<u64>,
    logs: usize,
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
        self.problems.sort();
    }

    /// Adds a session. Returns the rows of its calls.
    pub(super) fn add_session(&mut self, done: SessionReplayOutput) -> io::Result<RowBatch<RoundRow>> {
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

    fn comparison_report<'a>(&'a self, compare: &'a Comparison, top: usize) -> ComparisonReport<'a> {
        ComparisonReport {
            comparison: compare,
            rows: &self.comparisons,
            logs: self.logs,
            top,
        }
    }

    /// Returns what a page shows of it. `set` are the values that were set by hand.
    pub(super) fn to_page_replay(
        &mut self,
        policies: &PolicySet,
        set: &[String],
        compare: Option<Json>,
    ) -> page::PageReplay {
        let mut summary = self.summary_json(policies);
        let listed = self.problems.iter().map(ProblemRow::from).collect::<Vec<_>>();
        summary["problems"]["list"] = json!(listed);
        let sessions = session_sheet(&self.sessions, None).to_json();
        page::PageReplay {
            name: [std::slice::from_ref(&policies.name), set].concat().join(" "),
            summary,
            sessions: page::sheet_rows(sessions),
            rounds: std::mem::take(&mut self.page_rounds),
            boundaries: std::mem::take(&mut self.boundaries),
            misses: std::mem::take(&mut self.misses),
            compare,
        }
    }

    /// What the blocks of all sessions are, in the form of the ledger of `stats`.
    fn ledger_json(&self) -> Json {
        let whole = self.ledger.values().map(|(_, tokens)| tokens).sum::<u64>();
        let amount = |blocks: u64, tokens: u64| json!({"blocks": blocks, "tokens": tokens, "share": (whole > 0).then(|| tokens as f64 / whole as f64)});
        let mut categories = serde_json::Map::new();
        for category in CATEGORIES {
            let of_category = self.ledger.iter().filter(|((of, _), _)| *of == category);
            let (mut blocks, mut tokens) = (0, 0);
            let mut named = serde_json::Map::new();
            for ((_, name), (more_blocks, more_tokens)) in of_category {
                blocks += more_blocks;
                tokens += more_tokens;
                if !name.is_empty() {
                    named.insert(name.clone(), amount(*more_blocks, *more_tokens));
                }
            }
            let mut entry = amount(blocks, tokens);
            if !named.is_empty() {
                entry["by_name"] = named.into();
            }
            categories.insert(category.name().to_owned(), entry);
        }
        let blocks = self.ledger.values().map(|(blocks, _)| blocks).sum();
        json!({"total": amount(blocks, whole), "categories": categories})
    }

    fn summary_json(&self, policies: &PolicySet) -> Json {
        let total = &self.total;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let window_total = total.parts_sum.iter().sum::<u128>().max(1);
        let parts = std::iter::zip(part_names(), total.parts_sum)
            .map(|(name, sum)| (name.replace(' ', "_"), json!(sum as f64 / window_total as f64)))
            .collect::<serde_json::Map<_, _>>();
        let micro = MICRO_KINDS
            .iter()
            .map(|kind| (kind.name().to_owned(), json!(total.micro[*kind as usize])));
        let purposes = [
            ("compact", SideCallPurpose::Compact),
            ("notes", SideCallPurpose::Notes),
            ("extract", SideCallPurpose::Extract),
        ];
        let side = purposes.map(|(name, purpose)| {
            let at = purpose as usize;
            let value = json!({"calls": total.side_calls[at], "cost_micro_usd": micro_usd(total.side_costs[at])});
            (name.to_owned(), value)
        });
        json!({
            "schema_version": SCHEMA_VERSION,
            "policy": policies.name,
            "sessions": self.sessions.len(),
            "sessions_with_compactions": self.sessions.iter().filter(|session| session.compactions() > 0).count(),
            "calls": total.calls,
            "boundaries": {
                "auto": total.boundaries[CompactionCause::Auto as usize],
                "manual": total.boundaries[CompactionCause::Manual as usize],
                "reactive": total.boundaries[CompactionCause::Reactive as usize],
                "by_notes": total.by_notes,
                "again": total.again,
                "at_recorded_places": total.as_recorded,
                "recorded": total.recorded,
                "freed_tokens": total.freed,
            },
            "micro": serde_json::Map::from_iter(micro),
            "micro_cleared": total.cleared,
            "micro_saved_tokens": total.saved,
            "failures": total.failures,
            "prompt_too_long": total.too_long,
            "blocked_calls": total.blocked_calls,
            "notes_updates": total.notes,
            "extractions": total.extractions,
            "consolidations": self.count_consolidations(policies),
            "window": {"peak": total.peak, "mean": total.mean(), "shares": parts},
            "cost_micro_usd": total.total_cost().map(micro_usd),
            "conversation_micro_usd": micro_usd(total.cost),
            "recorded_micro_usd": micro_usd(total.recorded_cost),
            "side_calls": serde_json::Map::from_iter(side),
            "side_cached_share": share(total.side_shared.0, total.side_shared.1),
            "unpriced_calls": total.unpriced,
            "unexplained_cache_misses": total.unexplained_misses,
            "limits": {
                "open_loop": true,
                "in_step_share": share(total.in_step, total.calls),
                "estimated_share": share(total.measured.1, total.measured.0 + total.measured.1),
                "assumed_window_calls": total.assumed_windows,
                "learned_summary_tokens": self.learned_summary,
            },
            "ledger": (!self.ledger.is_empty()).then(|| self.ledger_json()),
            "working_set": total.has_working_set.then(|| working_set_json(&total.working_set, total.calls)),
            "texts": self.losses.as_ref().map(TextLosses::to_json),
            "results_without_calls": total.orphans,
            "defects": total.defects,
            "problems": {"total": self.problems.len(), "by_kind": problem_counts(&self.problems)},
        })
    }

    /// How often the memories of the projects would have been consolidated: enough hours and enough sessions since.
    fn count_consolidations(&self, policies: &PolicySet) -> u64 {
        let policy = policies.for_version(None);
        if !policy.extract_on {
            return 0;
        }
        let mut projects = BTreeMap::<&str, Vec<i64>>::new();
        for session in &self.sessions {
            if let Some((_, last)) = session.times {
                projects.entry(&session.project).or_default().push(last);
            }
        }
        let mut count = 0;
        for ends in projects.values_mut() {
            ends.sort_unstable();
            let (mut since, mut sessions) = (ends[0], 0);
            for &end in ends.iter() {
                sessions += 1;
                let is_due = end - since >= policy.dream_hours as i64 * 3_600_000;
                if is_due && sessions >= policy.dream_sessions {
                    count += 1;
                    (since, sessions) = (end, 0);
                }
            }
        }
        count
    }

    fn manifest_json(
        &self,
        policies: &PolicySet,
        compare: Option<&Comparison>,
        args: &ReplayArgs,
        files: &[&str],
    ) -> Json {
        let inputs = self.inputs.iter().map(|(path, bytes, hash)| {
            let hash = hash.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string());
            json!({"path": path, "bytes": bytes, "blake3": hash})
        });
        let policy = |policies: &PolicySet| {
            let ranges = policies
                .ranges()
                .iter()
                .map(|(from, policy)| json!({"from_version": from.to_string(), "values": policy.to_toml()}));
            json!({"name": policies.name, "ranges": ranges.collect::<Vec<_>>(), "origins": policies.origins})
        };
        json!({
            "schema_version": SCHEMA_VERSION,
            "backcast": env!("CARGO_PKG_VERSION"),
            "policy": policy(policies),
            "compared_with": compare.map(|compare| policy(&compare.second)),
            "prices": args.policy.prices.as_ref().map_or_else(|| "built-in".into(), |path| path.display().to_string()),
            "files": files,
            "inputs": inputs.collect::<Vec<_>>(),
        })
    }

    fn write(&self, args: &ReplayArgs, policies: &PolicySet, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        match args.format {
            OutputFormat::Table => self.write_text(args, policies, out, look),
            OutputFormat::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.summary_json(policies))?;
                writeln!(out)
            }
            format => session_sheet(&self.sessions, None).write(format, look, out),
        }
    }

    fn write_text(
        &self,
        args: &ReplayArgs,
        policies: &PolicySet,
        out: &mut dyn Write,
        look: TableStyle,
    ) -> io::Result<()> {
        let total = &self.total;
        writeln!(
            out,
            "Policy {}: {} of {}, {}\n",
            policies.name,
            format_count(self.sessions.len() as u64, "session"),
            format_count(self.logs as u64, "log"),
            format_count(total.calls, "call")
        )?;
        let mut order = (0..self.sessions.len())
            .filter(|at| self.sessions[*at].calls > 0)
            .collect::<Vec<_>>();
        let weight = |at: usize| {
            (
                self.sessions[at].compactions(),
                self.sessions[at].total_cost().unwrap_or(0),
            )
        };
        order.sort_by_key(|&at| (std::cmp::Reverse(weight(at)), at));
        let with_calls = order.len();
        order.truncate(if args.top == 0 { with_calls } else { args.top });
        let shown = order
            .iter()
            .map(|&at| self.sessions[at].with_short_id())
            .collect::<Vec<_>>();
        let all = SessionRow {
            session: "all".to_owned(),
            ..total.clone()
        };
        let on_screen = screen_columns();
        let sheet = Sheet {
            columns: &on_screen,
            ..session_sheet(&shown, Some(&all))
        };
        sheet.write(OutputFormat::Table, look, out)?;
        if shown.len() < with_calls {
            writeln!(
                out,
                "The {} with most compactions of {} sessions; --top 0 shows all.",
                shown.len(),
                group_digits(with_calls as u64)
            )?;
        }
        writeln!(out)?;
        self.write_window(out, look)?;
        self.write_facts(policies, out)
    }

    fn write_window(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let calls = u128::from(self.total.window_calls.max(1));
        let whole = self.total.parts_sum.iter().sum::<u128>().max(1);
        let rows = std::iter::zip(part_names(), self.total.parts_sum)
            .filter(|(_, sum)| *sum > 0)
            .map(|(name, sum)| WindowPartRow {
                name: name.replace('_', " "),
                mean: (sum / calls) as u64,
                share: sum as f64 / whole as f64,
            })
            .collect::<Vec<_>>();
        let sheet = Sheet {
            schema_version: SCHEMA_VERSION,
            columns: PART_COLUMNS,
            rows: &rows,
            total: None,
        };
        sheet.write(OutputFormat::Table, look, out)
    }

    fn write_working_set(&self, out: &mut dyn Write) -> io::Result<()> {
        let counts = &self.total.working_set;
        let (Some((low, high)), true) = (counts.hit_ratio(), self.total.has_working_set) else {
            return Ok(());
        };
        let calls = self.total.calls.max(1) as f64;
        let (most, least) = (counts.misses(), counts.misses_credited());
        writeln!(
            out,
            "Uses of known files: {}; hits {:.1} to {:.1} % (restored files not credited,\n  credited), misses {:.2} to {:.2} in 100 calls.",
            group_digits(counts.uses()),
            100.0 * low,
            100.0 * high,
            100.0 * least as f64 / calls,
            100.0 * most as f64 / calls
        )?;
        if let Some((low, high)) = counts.at_risk_ratio() {
            writeln!(
                out,
                "  Of {} 20,000 tokens or more away, {:.1} to {:.1} % hit.",
                format_count(counts.at_risk_uses(), "use"),
                100.0 * low,
                100.0 * high
            )?;
        }
        let by_tool = counts
            .by_tool()
            .map(|(tool, uses, (most, least))| format!("{tool} {least} to {most} of {}", group_digits(uses)))
            .collect::<Vec<_>>();
        writeln!(out, "  Misses by tool: {}.", by_tool.join(", "))?;
        let (most, least) = counts.reference_misses();
        writeln!(
            out,
            "Files named: {}; nothing of the file in the window: {least} to {most}.",
            group_digits(counts.references.iter().sum())
        )?;
        writeln!(
            out,
            "Reads of what had been dropped: {} ({}); prompts summarised: {}.",
            group_digits(counts.fetches[FetchKind::Refetch as usize]),
            format_count(counts.fetch_tokens[FetchKind::Refetch as usize], "token"),
            group_digits(counts.prompts)
        )
    }

    fn write_facts(&self, policies: &PolicySet, out: &mut dyn Write) -> io::Result<()> {
        let total = &self.total;
        writeln!(
            out,
            "\nCompactions: {} automatic, {} asked for, {} after a refused prompt; {} by notes;\n  {} at the place of a recorded one ({} recorded).",
            total.boundaries[CompactionCause::Auto as usize],
            total.boundaries[CompactionCause::Manual as usize],
            total.boundaries[CompactionCause::Reactive as usize],
            total.by_notes,
            total.as_recorded,
            total.recorded
        )?;
        let micro = MICRO_KINDS
            .iter()
            .map(|kind| (kind.name(), total.micro[*kind as usize]))
            .filter(|(_, count)| *count > 0);
        let micro = micro.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>();
        if !micro.is_empty() {
            writeln!(
                out,
                "Micro-compactions: {}; {} cleared, {}.",
                micro.join(", "),
                format_count(total.cleared, "result"),
                format_count(total.saved, "token")
            )?;
        }
        if total.failures + total.too_long + total.blocked_calls > 0 {
            writeln!(
                out,
                "Failed compactions: {}; refused prompts: {}; calls of blocked sessions: {}.",
                total.failures, total.too_long, total.blocked_calls
            )?;
        }
        if total.notes + total.extractions > 0 {
            writeln!(
                out,
                "Notes updated {}, memories extracted {}, consolidated {}.",
                format_count(total.notes, "time"),
                format_count(total.extractions, "time"),
                format_count(self.count_consolidations(policies), "time")
            )?;
        }
        writeln!(
            out,
            "Cost: {} for the conversation ({} by recorded usage),\n  {} beside it, where {} of the input comes from the prompt cache.",
            format_dollars(Some(micro_usd(total.cost))),
            format_dollars(Some(micro_usd(total.recorded_cost))),
            format_dollars(Some(micro_usd(total.side_costs.iter().sum()))),
            format_percent(total.side_shared.0, total.side_shared.1)
        )?;
        self.write_working_set(out)?;
        writeln!(
            out,
            "Open loop: messages are taken as recorded, whatever the policy dropped.\n  {} of the calls are in step with the record; {} of the tokens are\n  estimated.",
            format_percent(total.in_step, total.calls),
            format_percent(total.measured.1, total.measured.0 + total.measured.1)
        )
    }
}

fn working_set_json(counts: &UseCounts, calls: u64) -> Json {
    let pair = |range: Option<(f64, f64)>| range.map(|(low, high)| json!({"not_credited": low, "credited": high}));
    let fetches = FETCH_KINDS.map(|kind| {
        let at = kind as usize;
        let value = json!({"count": counts.fetches[at], "tokens": counts.fetch_tokens[at]});
        (kind.name().to_owned(), value)
    });
    let by_tool = counts.by_tool().map(|(tool, uses, (misses, misses_credited))| {
        let value = json!({"uses": uses, "misses": misses, "misses_credited": misses_credited});
        (tool.to_owned(), value)
    });
    let per_hundred = |misses: u64| (calls > 0).then(|| 100.0 * misses as f64 / calls as f64);
    json!({
        "uses": counts.uses(),
        "misses": counts.misses(),
        "misses_credited": counts.misses_credited(),
        "misses_in_flight": counts.outcomes[UseOutcome::InFlight as usize],
        "misses_per_100_calls": {
            "not_credited": per_hundred(counts.misses()),
            "credited": per_hundred(counts.misses_credited()),
        },
        "hit_share": pair(counts.hit_ratio()),
        "at_risk_uses": counts.at_risk_uses(),
        "at_risk_hit_share": pair(counts.at_risk_ratio()),
        "by_tool": serde_json::Map::from_iter(by_tool),
        "references": {
            "named": counts.references.iter().sum::<u64>(),
            "misses": counts.reference_misses().0,
            "misses_credited": counts.reference_misses().1,
        },
        "reads": serde_json::Map::from_iter(fetches),
        "prompts_summarized": counts.prompts,
    })
}

fn session_sheet<'a>(rows: &'a [SessionRow], total: Option<&'a SessionRow>) -> Sheet<'a, SessionRow> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns: SESSION_COLUMNS,
        rows,
        total,
    }
}

/// Columns for a screen: the course of the window says more than its mean.
fn screen_columns() -> Vec<Column<SessionRow>> {
    let course = column(
        "window",
        "Window",
        ColumnUnit::Drawing,
        TableVisibility::Always,
        "Its course.",
        |row: &SessionRow| sparkline(&row.course, 8).into(),
    );
    let kept = SESSION_COLUMNS.iter().filter(|column| column.name != "mean").copied();
    kept.chain([course]).collect()
}

/// A part of the window.
struct WindowPartRow {
    name: String,
    mean: u64,
    share: f64,
}

const PART_COLUMNS: &[Column<WindowPartRow>] = &[
    column(
        "part",
        "What is in the window",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Category.",
        |row| row.name.as_str().into(),
    ),
    column(
        "mean",
        "Mean",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Tokens, mean over calls.",
        |row| row.mean.into(),
    ),
    column(
        "share",
        "Share",
        ColumnUnit::Share,
        TableVisibility::Always,
        "Share of the window.",
        |row| row.share.into(),
    ),
];
