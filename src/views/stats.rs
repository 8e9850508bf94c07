//! `backcast stats`: the JSON document, and the sentences and tables for people.

mod columns;

use crate::page;
use crate::page::overview::overview_from_stats;
use crate::usage::account::UsageAccount;
use crate::usage::cells::usage_cells;
use crate::usage::models::ModelSums;
use crate::usage::period::{GroupBy, day_of};
use crate::usage::quality::{Quality, QualityRow, quality};
use crate::usage::session_rows::SessionRows;
use crate::usage::summary::UsageSummary;
use crate::usage::tally::{UsageRow, UsageSums, UsageTally, group_calls, window_series};
use crate::views::problems_json;
pub use columns::breakdown_columns;
use columns::{LEDGER_TABLE, LedgerRow, ledger_rows, tool_rows, usage_table_columns};
pub use columns::{QUALITY_COLUMNS, TOOL_COLUMNS, usage_columns};
use jiff::tz::TimeZone;
use replay::prices::{PriceTable, micro_usd};
use replay::tokens::calibrate::TokenOrigin;
use replay::tokens::ledger::{Amount, CATEGORIES, TokenLedger};
use replay::tokens::ratios::RatioTable;
use replay::tokens::reads::ReadTotals;
use serde_json::{Map, Value as Json, json};
use std::cmp::Reverse;
use std::io::{self, Write};
use table::human::{format_count, format_percent, format_price, group_digits};
use table::{Legend, OutputFormat, OutputSchema, Sheet, TableStyle, write_json_with_rows};
use transcript::log::Time;
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("stats", 1);

/// Words of the table of usage.
const USAGE_LEGEND: Legend<'_> = &[
    ("Calls", "requests to the model"),
    ("Peak", "largest window, in tokens"),
    ("Compacted", "compactions"),
    ("Window", "its size from call to call"),
    ("Read", "tokens from the prompt cache"),
    ("Written", "tokens written to it"),
    ("Uncached", "other input tokens"),
];

/// Words of the table of tools.
const TOOL_LEGEND: Legend<'_> = &[
    ("In calls", "tokens of the calls"),
    ("In results", "tokens of the results"),
    ("Share", "of all that filled the window"),
];

/// Words of the ledger.
const LEDGER_LEGEND: Legend<'_> = &[
    ("Blocks", "prompts, calls, results and other pieces"),
    ("Tokens", "their size"),
];

/// The usage of all logs.
pub struct StatsResult {
    pub summary: UsageSummary,
    pub problems: Vec<Problem>,
    pub logs: usize,
    /// Tokens of system prompt and tools at the first call of each session, ascending.
    pub base: Vec<u64>,
    /// Bytes of the trace and of its line hashes, with `--quality`.
    pub trace_bytes: (u64, Option<u64>),
}

impl StatsResult {
    fn active_sessions(&self) -> usize {
        self.summary.counted_sessions().count()
    }
}

/// What the command line asks of the output.
pub struct StatsOptions {
    pub by: GroupBy,
    /// Whether sub-agents have rows of their own.
    pub subagents: bool,
    /// Rows of the table; 0 for all. Without it, a table of periods has all of them, others the first few.
    pub top: Option<usize>,
    /// Whether every row is split by model.
    pub breakdown: bool,
    /// Whether the table of what filled the window is shown.
    pub ledger: bool,
    /// Whether the quality of the estimates is shown.
    pub quality: bool,
    /// Whether the document lists every problem.
    pub list_problems: bool,
    /// The format of the output.
    pub format: OutputFormat,
}

/// The usage of all logs, grouped and priced.
pub struct StatsView<'a> {
    stats: &'a StatsResult,
    tally: UsageTally,
    /// The rows, if there is one for each session and none is needed before it is written; the tally has none then.
    session_rows: Option<SessionRows<'a>>,
    /// The sum of all rows.
    total: UsageRow,
    /// The sums over all calls.
    total_sums: UsageSums,
    account: UsageAccount,
    zone: &'a TimeZone,
    prices: &'a PriceTable,
    quality: Option<Quality>,
    options: StatsOptions,
}

impl<'a> StatsView<'a> {
    /// Groups and prices the usage. Days are those of `zone`.
    pub fn new(
        stats: &'a StatsResult,
        options: StatsOptions,
        zone: &'a TimeZone,
        prices: &'a PriceTable,
    ) -> StatsView<'a> {
        let summary = &stats.summary;
        let is_document = options.format == OutputFormat::Json && !options.breakdown;
        let (session_rows, total, tally) = match options.by {
            GroupBy::Session if is_document && !options.subagents => {
                let (rows, total, tally) = SessionRows::new(summary, zone, prices);
                (Some(rows), total, tally)
            }
            by => {
                let tally = group_calls(summary, by, options.subagents, zone, prices);
                (None, UsageRow::total(&tally.rows), tally)
            }
        };
        StatsView {
            stats,
            session_rows,
            total_sums: total.sums.clone(),
            account: UsageAccount::new(summary, prices),
            total,
            zone,
            tally,
            prices,
            quality: options
                .quality
                .then(|| quality(&summary.sessions, RatioTable::built_in())),
            options,
        }
    }

    pub fn write(&self, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let format = self.options.format;
        match format {
            OutputFormat::Table => self.write_text(out, style),
            OutputFormat::Json => self.write_json(out),
            _ if self.quality.is_some() => self.quality_sheet().write(format, style, out),
            _ if self.options.breakdown => {
                let columns = breakdown_columns(self.options.by, self.options.subagents);
                SCHEMA.sheet(&columns, &self.breakdown_rows()).write(format, style, out)
            }
            _ if self.options.by == GroupBy::Tool => {
                let rows = tool_rows(&self.stats.summary.ledger);
                SCHEMA.sheet(TOOL_COLUMNS, &rows).write(format, style, out)
            }
            _ => {
                let columns = usage_columns(self.options.by, self.options.subagents);
                SCHEMA.sheet(&columns, &self.tally.rows).write(format, style, out)
            }
        }
    }

    fn write_text(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        if self.stats.summary.is_nothing_selected() {
            return Ok(());
        }
        let stats = self.stats;
        writeln!(out, "{}\n", self.answer())?;
        if self.options.by == GroupBy::Tool {
            self.write_tools(out, style)?;
        } else {
            self.write_usage(out, style)?;
        }
        if self.options.ledger {
            self.write_ledger(out, style)?;
        }
        self.write_facts(out)?;
        if self.quality.is_some() {
            writeln!(out, "\nEvery round predicted from the one before:\n")?;
            self.quality_sheet().write(OutputFormat::Table, style, out)?;
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

    /// Returns what was spent, in one sentence.
    fn answer(&self) -> String {
        let sums = &self.total_sums;
        let times = self
            .stats
            .summary
            .counted_sessions()
            .filter_map(|(_, session)| session.times);
        let (first, last) = times.fold((Time::MAX, Time::MIN), |(first, last), times| {
            (first.min(times.0), last.max(times.1))
        });
        let day = |time| day_of(time, self.zone);
        let selection = &self.stats.summary.selection;
        let when = match (selection.is_empty(), first <= last) {
            (false, _) => format!(" ({selection})"),
            (true, true) => format!(", {} to {}", day(first), day(last)),
            (true, false) => String::new(),
        };
        format!(
            "{} for {} in {}{when}.",
            format_price(sums.cost_micro_usd()),
            format_count(sums.responses, "API call"),
            format_count(self.stats.active_sessions() as u64, "session"),
        )
    }

    /// Writes the table of tools.
    fn write_tools(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let rows = tool_rows(&self.stats.summary.ledger);
        let shown = &rows[..self.shown_rows(rows.len())];
        SCHEMA
            .sheet(TOOL_COLUMNS, shown)
            .write_with_legend(TOOL_LEGEND, style, out)?;
        if shown.len() < rows.len() {
            let (shown, all) = (shown.len(), rows.len());
            writeln!(out, "The {shown} largest of {all} tools; --top 0 shows all.")?;
        }
        Ok(())
    }

    /// Writes what filled the window.
    fn write_ledger(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let ledger = &self.stats.summary.ledger;
        let rows = ledger_rows(ledger, self.options.by != GroupBy::Tool);
        let total = LedgerRow::new("total", &ledger.total(), ledger.total().tokens());
        let sheet = Sheet {
            total: Some(&total),
            ..SCHEMA.sheet(LEDGER_TABLE, &rows)
        };
        writeln!(out)?;
        sheet.write_with_legend(LEDGER_LEGEND, style, out)
    }

    /// Returns how many of so many rows the table shows.
    fn shown_rows(&self, rows: usize) -> usize {
        const DEFAULT: usize = 20;
        let usual = if self.options.by.period().is_some() { 0 } else { DEFAULT };
        match self.options.top.unwrap_or(usual) {
            0 => rows,
            top => top.min(rows),
        }
    }

    /// Returns all rows, each split by model.
    fn breakdown_rows(&self) -> Vec<UsageRow> {
        self.tally.rows.iter().flat_map(UsageRow::by_model).collect()
    }

    /// Writes the table of the costliest rows.
    fn write_usage(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let with_models = self.options.breakdown && self.options.by != GroupBy::Model;
        let columns = usage_table_columns(self.options.by, self.options.subagents, with_models, &self.tally.rows);
        let mut order = (0..self.tally.rows.len()).collect::<Vec<_>>();
        let weight = |at: usize| (self.tally.rows[at].sums.cost, self.tally.rows[at].sums.responses);
        order.sort_by_key(|&at| (Reverse(weight(at)), at));
        order.truncate(self.shown_rows(self.tally.rows.len()));
        order.sort_unstable();
        let mut shown = Vec::with_capacity(order.len());
        for at in &order {
            let mut row = self.tally.rows[*at].clone();
            // The drawing is of the main agent, not of sub-agents with rows of their own.
            if self.options.by == GroupBy::Session && row.agent.as_ref().is_none_or(String::is_empty) {
                row.course = window_series(&self.stats.summary, &row);
            }
            let parts = if with_models { row.by_model() } else { Vec::new() };
            row.models = ModelSums::default();
            shown.push(row);
            if parts.len() > 1 || !parts.is_empty() && with_models {
                shown.extend(parts.into_iter().map(|part| UsageRow {
                    title: " ".to_owned(),
                    key: " ".to_owned(),
                    ..part
                }));
            }
        }
        let total = UsageRow {
            models: ModelSums::default(),
            ..self.total.clone()
        };
        let sheet = Sheet {
            total: Some(&total),
            ..SCHEMA.sheet(&columns, &shown)
        };
        sheet.write_with_legend(USAGE_LEGEND, style, out)?;
        if order.len() < self.tally.rows.len() {
            writeln!(
                out,
                "The {} costliest of {} rows; --top 0 shows all.",
                order.len(),
                group_digits(self.tally.rows.len() as u64)
            )?;
        }
        Ok(())
    }

    fn write_facts(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.options.ledger {
            self.write_ledger_facts(out)?;
        }
        let notes = [self.account.explain_left_out(), self.account.explain_output_rest()];
        for note in notes.into_iter().flatten() {
            writeln!(out, "{note}")?;
        }
        let own = self.tally.rows.iter().map(|row| &row.sums);
        let client_responses = own.clone().map(|sums| sums.client_responses).sum::<u64>();
        if client_responses > 0 {
            writeln!(
                out,
                "Calls of the client for itself, such as summaries at compactions: {}, {} of the cost above.",
                group_digits(client_responses),
                format_price(Some(micro_usd(own.map(|sums| sums.client_cost).sum())))
            )?;
        }
        if self.tally.progress_only.responses > 0 {
            writeln!(
                out,
                "Not in the totals: {} of sub-agents that only progress records show, {}.",
                format_count(self.tally.progress_only.responses, "call"),
                format_price(self.tally.progress_only.cost_micro_usd())
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
                "No price is known for {models} ({}). `backcast config prices` prints the table; --prices takes one that has more.",
                format_count(self.total.sums.unpriced, "call")
            )?;
        }
        Ok(())
    }

    /// Writes where the sizes of the ledger come from, and what was read again.
    fn write_ledger_facts(&self, out: &mut dyn Write) -> io::Result<()> {
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
        let (reads, whole) = (&stats.summary.reads, stats.summary.ledger.total().tokens());
        if reads.repeated_files > 0 {
            writeln!(
                out,
                "Files read more than once: {}. Of {} tokens read, {} by the simple formula and {} truly (same version, range \
                 covered) were there already: {} and {} of all tokens.",
                group_digits(reads.repeated_files),
                group_digits(reads.tokens),
                format_percent(reads.duplicate_tokens, reads.tokens),
                format_percent(reads.redundant_tokens, reads.tokens),
                format_percent(reads.duplicate_tokens, whole),
                format_percent(reads.redundant_tokens, whole)
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
        Ok(())
    }

    fn quality_sheet(&self) -> Sheet<'_, QualityRow> {
        let rows = self.quality.as_ref().map_or(&[][..], |quality| &quality.rows);
        SCHEMA.sheet(QUALITY_COLUMNS, rows)
    }

    /// Returns what the page shows of recorded usage.
    pub fn page_overview(&self) -> Json {
        let summary = &self.stats.summary;
        // The page groups by day, model and project itself, because its reader chooses from them.
        let mut overview = overview_from_stats(&self.document(), &[]);
        let sessions = summary
            .counted_sessions()
            .map(|(_, session)| session)
            .collect::<Vec<_>>();
        let cells = usage_cells(summary, self.prices);
        overview["usage"] = page::overview::usage_columns(sessions.iter().copied(), &cells);
        overview
    }

    fn document(&self) -> Json {
        let columns = usage_columns(self.options.by, self.options.subagents);
        self.document_with(match self.options.by {
            GroupBy::Tool => SCHEMA
                .sheet(TOOL_COLUMNS, &tool_rows(&self.stats.summary.ledger))
                .to_json(),
            _ => SCHEMA.sheet(&columns, &self.tally.rows).to_json(),
        })
    }

    /// Writes the document without holding all of it.
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let document = self.document_with(json!([]));
        let columns = usage_columns(self.options.by, self.options.subagents);
        match (self.options.by, &self.session_rows) {
            (GroupBy::Tool, _) => {
                let rows = tool_rows(&self.stats.summary.ledger);
                write_json_with_rows(&document, TOOL_COLUMNS, rows.iter(), out)
            }
            (_, Some(rows)) => write_json_with_rows(&document, &columns, rows.iter(), out),
            (_, None) => write_json_with_rows(&document, &columns, self.tally.rows.iter(), out),
        }
    }

    fn document_with(&self, rows: Json) -> Json {
        let stats = self.stats;
        let mut document = SCHEMA.document(json!({
            "selection": stats.summary.selection,
            "totals": self.total.sums.to_json(),
            "recorded": self.account.to_json(),
            "by": self.options.by.name(),
            "rows": rows,
            "ledger": ledger_json(&stats.summary.ledger),
            "rewound_tokens": stats.summary.rewound.total().tokens(),
            "reads": reads_json(&stats.summary.reads, stats.summary.ledger.total().tokens()),
            "progress_only": self.tally.progress_only.to_json(),
            "unknown_models": self.tally.unknown,
            "prices": {"as_of": self.prices.as_of, "source": self.prices.source},
            "input": {
                "logs": stats.logs,
                "sessions": stats.active_sessions(),
                "left_out": stats.summary.left_out_sessions(),
                "copied_records": stats.summary.sessions.iter().map(|session| session.copied_records).sum::<u64>(),
                "lines": stats.summary.facts.lines,
                "bytes": stats.summary.facts.bytes,
                "records": stats.summary.facts.kinds,
            },
            "problems": problems_json(&stats.problems, self.options.list_problems),
        }));
        if self.options.breakdown {
            let columns = breakdown_columns(self.options.by, self.options.subagents);
            document["breakdown"] = SCHEMA.sheet(&columns, &self.breakdown_rows()).to_json();
        }
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

fn reads_json(reads: &ReadTotals, whole: u64) -> Json {
    let share = |tokens: u64| (whole > 0).then(|| tokens as f64 / whole as f64);
    json!({
        "count": reads.count,
        "tokens": reads.tokens,
        "repeated_files": reads.repeated_files,
        "duplicate_tokens": reads.duplicate_tokens,
        "redundant": reads.redundant,
        "redundant_tokens": reads.redundant_tokens,
        "duplicate_share_of_all": share(reads.duplicate_tokens),
        "redundant_share_of_all": share(reads.redundant_tokens),
    })
}
