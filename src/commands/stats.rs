//! `backcast stats`: what the logs add up to.

use crate::cli::StatsArgs;
use crate::commands::RunStatus;
use crate::commands::reading::{problem_counts, report_problems};
use crate::commands::times::TimeSelection;
use crate::commands::writing::{load_prices, write_output};
use crate::page;
use crate::page::overview::overview_from_stats;
use crate::run::{LogNeeds, LogSource, TraceBytes, summarize, with_logs};
use crate::usage::quality;
use crate::usage::quality::{Quality, quality};
use crate::usage::session::ReportOptions;
use crate::usage::summary::UsageSummary;
use crate::usage::tally::{GroupBy, UsageRow, UsageTally, columns, group_calls, screen_columns, window_series};
use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use replay::prices::PriceTable;
use replay::tokens::calibrate::TokenOrigin;
use replay::tokens::ledger::{Amount, CATEGORIES, Category, TokenLedger};
use replay::tokens::ratios::RatioTable;
use replay::tokens::reads::ReadTotals;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use table::words::{format_count, format_dollars, format_percent, format_size, group_digits};
use table::{Column, ColumnUnit, OutputFormat, Sheet, TableStyle, TableVisibility};
use transcript::problem::{Problem, ProblemRow};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// What is shown of the usage of logs.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatsOptions {
    /// What rows are grouped by.
    by: GroupBy,
    /// Whether sub-agents have rows of their own.
    subagents: bool,
    /// Most rows of the table; 0 for all.
    top: usize,
    format: OutputFormat,
    /// Whether it says how well sizes are estimated.
    quality: bool,
    /// Whether the document lists every problem.
    lists_problems: bool,
}

/// Runs it.
pub fn run(args: &StatsArgs) -> Result<RunStatus> {
    if args.subagents && args.by == GroupBy::Tool {
        bail!("--subagents does not go with --by tool: tools are counted over all agents together");
    }
    let times = TimeSelection::new(&args.times)?;
    let prices = load_prices(args.prices.as_deref())?;
    let needs = LogNeeds {
        line_hashes: args.quality,
        ..LogNeeds::default()
    };
    let stats = with_logs(&args.input, needs, |source| {
        StatsResult::read(&source, &times, args.quality)
    })?;
    let options = StatsOptions {
        by: args.by,
        subagents: args.subagents,
        top: args.top,
        format: args.out.format,
        quality: args.quality,
        lists_problems: args.input.problems,
    };
    let view = StatsView::new(&stats, options, &times.zone, &prices);
    write_output(&args.out, |out, look| view.write(out, look))?;
    Ok(report_problems(&args.input, &stats.problems))
}

/// Returns what a page shows of recorded usage.
pub(super) fn usage_overview(stats: &StatsResult, prices: &PriceTable) -> Json {
    let options = StatsOptions {
        by: GroupBy::Model,
        subagents: false,
        top: 0,
        format: OutputFormat::Json,
        quality: false,
        lists_problems: true,
    };
    let view = StatsView::new(stats, options, &TimeZone::UTC, prices);
    let by = [GroupBy::Day, GroupBy::Model, GroupBy::Project].map(|by| {
        let grouped = group_calls(&stats.summary, by, false, &TimeZone::UTC, prices);
        (
            by.name(),
            page::sheet_rows(usage_sheet(&columns(by, false), &grouped.rows, None).to_json()),
        )
    });
    overview_from_stats(&view.document(), &by)
}

/// Everything that was found out.
pub(super) struct StatsResult {
    summary: UsageSummary,
    /// Problems with logs and sessions, sorted.
    pub problems: Vec<Problem>,
    logs: usize,
    base: Vec<u64>,
    /// Bytes of the trace and of its line hashes, where they are shown.
    trace_bytes: TraceBytes,
}

impl StatsResult {
    /// Reads logs and sums them up.
    fn read(source: &LogSource<'_>, times: &TimeSelection, predictions: bool) -> StatsResult {
        let table = RatioTable::built_in();
        let report_on = |filter| ReportOptions { filter, predictions };
        let (summary, trace_bytes) = if times.needs_newest() {
            // The range is known once the logs are read: there is no early report.
            let run = source.read();
            let wanted = report_on(times.range(|| run.newest_time(&source.options)));
            let trace_bytes = match source.options.with_line_hashes {
                true => run.trace_bytes(),
                false => (0, None),
            };
            (run.summarize(table, &wanted, source.options.cache), trace_bytes)
        } else {
            let wanted = report_on(times.range(|| None));
            summarize(source.logs, &source.options, table, &wanted)
        };
        StatsResult {
            trace_bytes,
            ..StatsResult::new(summary, source)
        }
    }

    /// Takes a summary of the logs of a source.
    pub(super) fn new(mut summary: UsageSummary, source: &LogSource<'_>) -> StatsResult {
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(source.problems());
        problems.sort();
        let mut base = summary
            .sessions
            .iter()
            .filter_map(|session| session.occupancy.base)
            .collect::<Vec<_>>();
        base.sort_unstable();
        StatsResult {
            summary,
            problems,
            logs: source.logs.len(),
            base,
            trace_bytes: (0, None),
        }
    }

    fn active_sessions(&self) -> usize {
        let sessions = &self.summary.sessions;
        sessions.iter().filter(|session| session.times.is_some()).count()
    }
}

/// What is shown of it.
struct StatsView<'a> {
    stats: &'a StatsResult,
    tally: UsageTally,
    /// All rows in one.
    total: UsageRow,
    prices: &'a PriceTable,
    quality: Option<Quality>,
    options: StatsOptions,
}

impl<'a> StatsView<'a> {
    fn new(stats: &'a StatsResult, options: StatsOptions, zone: &TimeZone, prices: &'a PriceTable) -> StatsView<'a> {
        let summary = &stats.summary;
        let tally = group_calls(summary, options.by, options.subagents, zone, prices);
        let table = RatioTable::built_in();
        StatsView {
            stats,
            total: UsageRow::total(&tally.rows),
            tally,
            prices,
            quality: options.quality.then(|| quality(&summary.sessions, table)),
            options,
        }
    }

    fn write(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let format = self.options.format;
        match format {
            OutputFormat::Table => self.write_text(out, look),
            OutputFormat::Json => self.write_json(out),
            _ if self.options.quality => self.quality_sheet().write(format, look, out),
            _ if self.options.by == GroupBy::Tool => {
                let rows = tool_rows(&self.stats.summary.ledger);
                tool_sheet(&rows, None).write(format, look, out)
            }
            _ => {
                let columns = columns(self.options.by, self.options.subagents);
                usage_sheet(&columns, &self.tally.rows, None).write(format, look, out)
            }
        }
    }

    fn write_text(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let stats = self.stats;
        writeln!(
            out,
            "{} logs, {} sessions, {} lines, {}\n",
            group_digits(stats.logs as u64),
            group_digits(stats.active_sessions() as u64),
            group_digits(stats.summary.facts.lines),
            format_size(stats.summary.facts.bytes)
        )?;
        if self.options.by == GroupBy::Tool {
            let rows = tool_rows(&stats.summary.ledger);
            let shown = &rows[..self.shown_rows(rows.len())];
            tool_sheet(shown, None).write(OutputFormat::Table, look, out)?;
            if shown.len() < rows.len() {
                let (shown, all) = (shown.len(), rows.len());
                writeln!(out, "The {shown} largest of {all} tools; --top 0 shows all.")?;
            }
        } else {
            self.write_usage(out, look)?;
        }
        writeln!(out)?;
        let ledger = ledger_rows(&stats.summary.ledger, self.options.by != GroupBy::Tool);
        let ledger_total = LedgerRow::new(
            "total",
            &stats.summary.ledger.total(),
            stats.summary.ledger.total().tokens(),
        );
        ledger_sheet(&ledger, Some(&ledger_total)).write(OutputFormat::Table, look, out)?;
        self.write_facts(out)?;
        if self.options.quality {
            writeln!(out, "\nEvery round predicted from the one before:\n")?;
            self.quality_sheet().write(OutputFormat::Table, look, out)?;
            let share = |bytes: u64| {
                format!(
                    "{:.2} %",
                    100.0 * bytes as f64 / stats.summary.facts.bytes.max(1) as f64
                )
            };
            let (trace, lines) = stats.trace_bytes;
            let lines = lines.unwrap_or_default();
            writeln!(
                out,
                "\nTrace: {} of the logs' bytes; line hashes: {}.",
                share(trace),
                share(lines)
            )?;
        }
        Ok(())
    }

    /// How many of so many rows the table has.
    fn shown_rows(&self, rows: usize) -> usize {
        match self.options.top {
            0 => rows,
            top => top.min(rows),
        }
    }

    /// The table of rows, cut to the costliest.
    fn write_usage(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let columns = screen_columns(self.options.by, self.options.subagents);
        let mut order = (0..self.tally.rows.len()).collect::<Vec<_>>();
        let weight = |at: usize| (self.tally.rows[at].sums.cost, self.tally.rows[at].sums.responses);
        order.sort_by_key(|&at| (std::cmp::Reverse(weight(at)), at));
        order.truncate(self.shown_rows(self.tally.rows.len()));
        order.sort_unstable();
        let mut shown = order.iter().map(|&at| self.tally.rows[at].clone()).collect::<Vec<_>>();
        if self.options.by == GroupBy::Session {
            // Sub-agents that are shown apart have windows of their own.
            for row in shown
                .iter_mut()
                .filter(|row| row.agent.as_ref().is_none_or(String::is_empty))
            {
                row.course = window_series(&self.stats.summary, row);
            }
        }
        usage_sheet(&columns, &shown, Some(&self.total)).write(OutputFormat::Table, look, out)?;
        if shown.len() < self.tally.rows.len() {
            writeln!(
                out,
                "The {} costliest of {} rows; --top 0 shows all.",
                shown.len(),
                group_digits(self.tally.rows.len() as u64)
            )?;
        }
        Ok(())
    }

    fn write_facts(&self, out: &mut dyn Write) -> io::Result<()> {
        let stats = self.stats;
        let total = stats.summary.ledger.total();
        let share = |origin: TokenOrigin| format_percent(total.of_origin(origin), total.tokens());
        writeln!(
            out,
            "Sizes: {} recorded, {} calibrated, {} estimated.",
            share(TokenOrigin::Recorded),
            share(TokenOrigin::Calibrated),
            share(TokenOrigin::Estimated)
        )?;
        if let Some(base) = stats.base.get(stats.base.len() / 2) {
            writeln!(
                out,
                "System prompt and tools at a session's first call: {} tokens in the median.",
                group_digits(*base)
            )?;
        }
        let reads = &stats.summary.reads;
        if reads.repeated_files > 0 {
            writeln!(
                out,
                "Files read more than once: {}. Of {} tokens read, {} by the simple\n  formula \
                 and {} truly (same version, range covered) were there already.",
                group_digits(reads.repeated_files),
                group_digits(reads.tokens),
                format_percent(reads.duplicate_tokens, reads.tokens),
                format_percent(reads.redundant_tokens, reads.tokens)
            )?;
        }
        let rewound = stats.summary.rewound.total().tokens();
        if rewound > 0 {
            writeln!(
                out,
                "On rewound branches, not in the ledger: {} tokens (estimated).",
                group_digits(rewound)
            )?;
        }
        if self.tally.progress_only.responses > 0 {
            writeln!(
                out,
                "Sub-agents' calls that only progress records show, not in the totals:\n  {} calls, {}.",
                group_digits(self.tally.progress_only.responses),
                format_dollars(self.tally.progress_only.cost_micro_usd())
            )?;
        }
        if !self.tally.unknown.is_empty() {
            let models = self
                .tally
                .unknown
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            writeln!(
                out,
                "No price is known for {models} ({}).\n  `backcast config prices` prints the table; --prices takes one that has more.",
                format_count(self.total.sums.unpriced, "call")
            )?;
        }
        Ok(())
    }

    fn quality_sheet(&self) -> Sheet<'_, quality::QualityRow> {
        Sheet {
            schema_version: SCHEMA_VERSION,
            columns: quality::COLUMNS,
            rows: self.quality.as_ref().map_or(&[][..], |quality| &quality.rows),
            total: None,
        }
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, &self.document())?;
        writeln!(out)
    }

    fn document(&self) -> Json {
        let stats = self.stats;
        let row_columns = columns(self.options.by, self.options.subagents);
        let rows = match self.options.by {
            GroupBy::Tool => tool_sheet(&tool_rows(&stats.summary.ledger), None).to_json(),
            _ => usage_sheet(&row_columns, &self.tally.rows, None).to_json(),
        };
        let mut problems = json!({
            "total": stats.problems.len(),
            "by_kind": problem_counts(&stats.problems),
        });
        if self.options.lists_problems {
            problems["list"] = json!(stats.problems.iter().map(ProblemRow::from).collect::<Vec<_>>());
        }
        let mut document = json!({
            "schema_version": SCHEMA_VERSION,
            "totals": self.total.sums.to_json(),
            "by": self.options.by.name(),
            "rows": rows,
            "ledger": ledger_json(&stats.summary.ledger),
            "rewound_tokens": stats.summary.rewound.total().tokens(),
            "reads": reads_json(&stats.summary.reads),
            "progress_only": self.tally.progress_only.to_json(),
            "unknown_models": self.tally.unknown,
            "prices": {"as_of": self.prices.as_of, "source": self.prices.source},
            "input": {
                "logs": stats.logs,
                "sessions": stats.active_sessions(),
                "copied_records": stats.summary.sessions.iter().map(|session| session.copied_records).sum::<u64>(),
                "lines": stats.summary.facts.lines,
                "bytes": stats.summary.facts.bytes,
                "records": stats.summary.facts.kinds,
            },
            "problems": problems,
        });
        if let Some(quality) = &self.quality {
            let (trace, lines) = stats.trace_bytes;
            document["quality"] = json!({
                "families": self.quality_sheet().to_json(),
                "not_predicted": quality.unfit,
                "trace_bytes": trace,
                "line_hash_bytes": lines,
            });
        }
        document
    }
}

fn usage_sheet<'a>(
    columns: &'a [Column<UsageRow>],
    rows: &'a [UsageRow],
    total: Option<&'a UsageRow>,
) -> Sheet<'a, UsageRow> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns,
        rows,
        total,
    }
}

/// One line of the ledger.
struct LedgerRow {
    name: String,
    amount: Amount,
    whole: u64,
}

impl LedgerRow {
    fn new(name: &str, amount: &Amount, whole: u64) -> LedgerRow {
        LedgerRow {
            name: name.to_owned(),
            amount: *amount,
            whole,
        }
    }
}

/// Categories, and below the big ones their tools or kinds.
fn ledger_rows(ledger: &TokenLedger, with_details: bool) -> Vec<LedgerRow> {
    const DETAILS: usize = 6;
    let whole = ledger.total().tokens();
    let mut rows = Vec::new();
    for category in CATEGORIES {
        let amount = ledger.category(category);
        if amount.count == 0 {
            continue;
        }
        rows.push(LedgerRow::new(&category.name().replace('_', " "), &amount, whole));
        let mut details = (ledger.entries.iter())
            .filter(|((of, name), _)| *of == category && !name.is_empty())
            .map(|((_, name), amount)| (name, amount))
            .collect::<Vec<_>>();
        if !with_details || details.is_empty() {
            continue;
        }
        details.sort_by_key(|(name, amount)| (std::cmp::Reverse(amount.tokens()), *name));
        let shown = details.iter().take(DETAILS);
        rows.extend(shown.map(|(name, amount)| LedgerRow::new(&format!("  {name}"), amount, whole)));
        if details.len() > DETAILS {
            let mut rest = TokenLedger::default();
            for (name, amount) in &details[DETAILS..] {
                rest.entries.insert((category, (*name).clone()), **amount);
            }
            rows.push(LedgerRow::new(
                &format!("  {} more", details.len() - DETAILS),
                &rest.total(),
                whole,
            ));
        }
    }
    rows
}

fn ledger_sheet<'a>(rows: &'a [LedgerRow], total: Option<&'a LedgerRow>) -> Sheet<'a, LedgerRow> {
    const COLUMNS: &[Column<LedgerRow>] = &[
        Column {
            name: "category",
            title: "What filled the window",
            unit: ColumnUnit::Text,
            about: "Category, tool or kind of attachment.",
            in_table: TableVisibility::Always,
            get: |row| row.name.as_str().into(),
        },
        Column {
            name: "blocks",
            title: "Blocks",
            unit: ColumnUnit::Count,
            about: "How many.",
            in_table: TableVisibility::Always,
            get: |row| row.amount.count.into(),
        },
        Column {
            name: "tokens",
            title: "Tokens",
            unit: ColumnUnit::Tokens,
            about: "Their size.",
            in_table: TableVisibility::Always,
            get: |row| row.amount.tokens().into(),
        },
        Column {
            name: "share",
            title: "Share",
            unit: ColumnUnit::Share,
            about: "Share of all tokens.",
            in_table: TableVisibility::Always,
            get: |row| {
                (row.whole > 0)
                    .then(|| row.amount.tokens() as f64 / row.whole as f64)
                    .into()
            },
        },
    ];
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns: COLUMNS,
        rows,
        total,
    }
}

fn amount_json(amount: &Amount, whole: u64) -> Json {
    json!({
        "blocks": amount.count,
        "tokens": amount.tokens(),
        "share": (whole > 0).then(|| amount.tokens() as f64 / whole as f64),
        "recorded": amount.of_origin(TokenOrigin::Recorded),
        "calibrated": amount.of_origin(TokenOrigin::Calibrated),
        "estimated": amount.of_origin(TokenOrigin::Estimated),
    })
}

fn ledger_json(ledger: &TokenLedger) -> Json {
    let whole = ledger.total().tokens();
    let mut categories = Map::new();
    for category in CATEGORIES {
        let mut entry = amount_json(&ledger.category(category), whole);
        let named = (ledger.entries.iter())
            .filter(|((of, name), _)| *of == category && !name.is_empty())
            .map(|((_, name), amount)| (name.clone(), amount_json(amount, whole)))
            .collect::<Map<_, _>>();
        if !named.is_empty() {
            entry["by_name"] = named.into();
        }
        categories.insert(category.name().into(), entry);
    }
    json!({"total": amount_json(&ledger.total(), whole), "categories": categories})
}

fn reads_json(reads: &ReadTotals) -> Json {
    json!({
        "count": reads.count,
        "tokens": reads.tokens,
        "repeated_files": reads.repeated_files,
        "duplicate_tokens": reads.duplicate_tokens,
        "redundant": reads.redundant,
        "redundant_tokens": reads.redundant_tokens,
    })
}

/// One tool.
pub(super) struct ToolRow {
    tool: String,
    calls: Amount,
    results: Amount,
    whole: u64,
}

fn tool_rows(ledger: &TokenLedger) -> Vec<ToolRow> {
    let whole = ledger.total().tokens();
    let tools = (ledger.entries.keys())
        .filter(|(category, _)| matches!(category, Category::ToolCall | Category::ToolResult))
        .map(|(_, name)| name)
        .collect::<BTreeSet<_>>();
    let amount = |category: Category, tool: &str| {
        ledger
            .entries
            .get(&(category, tool.to_owned()))
            .copied()
            .unwrap_or_default()
    };
    let mut rows = tools
        .into_iter()
        .map(|tool| ToolRow {
            tool: tool.clone(),
            calls: amount(Category::ToolCall, tool),
            results: amount(Category::ToolResult, tool),
            whole,
        })
        .collect::<Vec<_>>();
    rows.sort_by_key(|row| {
        (
            std::cmp::Reverse(row.calls.tokens() + row.results.tokens()),
            row.tool.clone(),
        )
    });
    rows
}

fn tool_sheet<'a>(rows: &'a [ToolRow], total: Option<&'a ToolRow>) -> Sheet<'a, ToolRow> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns: TOOL_COLUMNS,
        rows,
        total,
    }
}

pub(super) const TOOL_COLUMNS: &[Column<ToolRow>] = &[
    Column {
        name: "tool",
        title: "Tool",
        unit: ColumnUnit::Text,
        about: "Name of the tool.",
        in_table: TableVisibility::Always,
        get: |row| row.tool.as_str().into(),
    },
    Column {
        name: "calls",
        title: "Calls",
        unit: ColumnUnit::Count,
        about: "Calls.",
        in_table: TableVisibility::Always,
        get: |row| row.calls.count.into(),
    },
    Column {
        name: "call_tokens",
        title: "In calls",
        unit: ColumnUnit::Tokens,
        about: "Tokens of the calls.",
        in_table: TableVisibility::Always,
        get: |row| row.calls.tokens().into(),
    },
    Column {
        name: "results",
        title: "Results",
        unit: ColumnUnit::Count,
        about: "Results.",
        in_table: TableVisibility::Always,
        get: |row| row.results.count.into(),
    },
    Column {
        name: "result_tokens",
        title: "In results",
        unit: ColumnUnit::Tokens,
        about: "Tokens of the results.",
        in_table: TableVisibility::Always,
        get: |row| row.results.tokens().into(),
    },
    Column {
        name: "share",
        title: "Share",
        unit: ColumnUnit::Share,
        about: "Share of all tokens in the ledger.",
        in_table: TableVisibility::Always,
        get: |row| {
            (row.whole > 0)
                .then(|| (row.calls.tokens() + row.results.tokens()) as f64 / row.whole as f64)
                .into()
        },
    },
];
