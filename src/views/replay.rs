//! `backcast replay`: the JSON documents, and the sentences and tables for people.

mod collector;
pub mod explain;
mod losses;
mod rows;

use crate::page;
use crate::page::rounds::PageRounds;
use crate::usage::account::UsageAccount;
use crate::views::compare::CompareRow;
use crate::views::problems_json;
pub use collector::{BlockLedger, ReplayCollector, ReplayDetail, ReplayResult};
pub use losses::TextLosses;
use replay::policy::Policy;
use replay::policy::presets::PolicySet;
use replay::prices::micro_usd;
use replay::sim::event::{CompactionCause, MicroKind, SideCallPurpose};
use replay::sim::use_counts::UseCounts;
use replay::sim::working_set::{FetchKind, UseOutcome};
use replay::tokens::ledger::CATEGORIES;
use rows::share;
pub use rows::{ROUND_COLUMNS, RoundRow, SESSION_COLUMNS, SessionRow};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use table::human::{format_count, format_dollars, format_percent, format_price, group_digits};
use table::{Column, Legend, OutputFormat, OutputSchema, Sheet, TableStyle, columns, sparkline, write_json};
use transcript::problem::Problem;
use transcript::record::Tokens;

/// See docs/outputs.md.
pub const SCHEMA: OutputSchema = OutputSchema::new("replay", 1);

/// `manifest.json`, which lists the other files of a run.
const MANIFEST: OutputSchema = OutputSchema::new("manifest", SCHEMA.version);

/// Words of the table of sessions.
const SESSION_LEGEND: Legend<'_> = &[
    ("Compact", "compactions under the policy"),
    ("Recorded", "those in the log"),
    ("Same", "at the same call in both"),
    ("Micro", "micro-compactions"),
    ("Freed", "tokens"),
    ("Peak", "largest window, in tokens"),
    ("Recorded $", "cost as recorded, with estimated output"),
    ("Misses", "edits that needed dropped lines"),
    ("Window", "its size from call to call"),
];

/// Kinds of micro-compaction, in the order of [`rows::MicroTotals::by_kind`].
const MICRO_KINDS: [MicroKind; 6] = [
    MicroKind::Gap,
    MicroKind::Cached,
    MicroKind::Budget,
    MicroKind::Api,
    MicroKind::Thinking,
    MicroKind::Target,
];

/// Returns the names of [`rows::WindowTotals::parts`].
fn part_names() -> impl Iterator<Item = &'static str> {
    CATEGORIES
        .iter()
        .map(|category| category.name())
        .chain(["system prompt and tools", "unexplained"])
}

/// The replay of all sessions.
#[derive(Default)]
pub struct ReplayOutcome {
    /// Comparisons share them.
    pub sessions: Vec<Arc<SessionRow>>,
    pub total: SessionRow,
    pub comparisons: Vec<CompareRow>,
    pub losses: Option<TextLosses>,
    pub boundaries: Vec<Json>,
    pub misses: Vec<Json>,
    pub ledger: BlockLedger,
    pub page_rounds: PageRounds,
    pub events: Vec<u8>,
    pub problems: Vec<Problem>,
    /// Path, size and BLAKE3 hash of each log, for the manifest.
    pub inputs: Vec<(String, u64, Option<[u8; 32]>)>,
    /// Median size of the recorded summaries.
    pub learned_summary: Option<u64>,
    pub logs: usize,
    /// What the logs hold, whatever is replayed.
    pub account: UsageAccount,
    /// The filters in words; empty if everything counts.
    pub selection: String,
}

impl ReplayOutcome {
    /// Moves the rows into what the page shows. `name` is the policy with its settings.
    pub fn to_page_replay(&mut self, name: String, policies: &PolicySet, compare: Option<Json>) -> page::PageReplay {
        let mut summary = self.summary_json(policies);
        summary["problems"] = problems_json(&self.problems, true);
        page::PageReplay {
            name,
            summary,
            sessions: page::PageSessions::from_sheet(&session_sheet(&self.sessions)),
            rounds: std::mem::take(&mut self.page_rounds),
            boundaries: std::mem::take(&mut self.boundaries),
            misses: std::mem::take(&mut self.misses),
            compare,
        }
    }

    /// Returns the blocks of all sessions in the form of the ledger of `stats`.
    fn ledger_json(&self) -> Json {
        let whole = self.ledger.values().map(|(_, tokens)| tokens).sum::<u64>();
        let amount =
            |blocks: u64, tokens: u64| json!({"blocks": blocks, "tokens": tokens, "share": share(tokens, whole)});
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

    /// Returns `summary.json`.
    pub fn summary_json(&self, policies: &PolicySet) -> Json {
        let total = &self.total;
        let (compactions, costs) = (&total.compactions, &total.costs);
        let window_total = total.window.parts.iter().sum::<u128>().max(1);
        let parts = std::iter::zip(part_names(), total.window.parts)
            .map(|(name, sum)| (name.replace(' ', "_"), json!(sum as f64 / window_total as f64)))
            .collect::<serde_json::Map<_, _>>();
        let micro = MICRO_KINDS
            .iter()
            .map(|kind| (kind.name().to_owned(), json!(total.micro.by_kind[*kind as usize])));
        let purposes = [
            ("compact", SideCallPurpose::Compact),
            ("notes", SideCallPurpose::Notes),
            ("extract", SideCallPurpose::Extract),
            ("recall", SideCallPurpose::Recall),
            ("consolidate", SideCallPurpose::Consolidate),
        ];
        let side = purposes.map(|(name, purpose)| {
            let at = purpose as usize;
            let value = json!({"calls": costs.side_calls[at], "cost_micro_usd": micro_usd(costs.side[at])});
            (name.to_owned(), value)
        });
        SCHEMA.document(json!({
            "policy": policies.name,
            "sessions": self.account.sessions,
            "recorded": self.account.to_json(),
            "sessions_with_compactions": self.sessions.iter().filter(|session| session.compactions.count() > 0).count(),
            "calls": total.calls.made,
            "boundaries": {
                "auto": compactions.of_cause(CompactionCause::Auto),
                "manual": compactions.of_cause(CompactionCause::Manual),
                "reactive": compactions.of_cause(CompactionCause::Reactive),
                "by_notes": compactions.by_notes,
                "again": compactions.again,
                "at_recorded_places": compactions.as_recorded,
                "recorded": compactions.recorded,
                "freed_tokens": compactions.freed,
            },
            "micro": serde_json::Map::from_iter(micro),
            "micro_cleared": total.micro.cleared,
            "micro_saved_tokens": total.micro.saved,
            "failures": compactions.failures,
            "prompt_too_long": compactions.refused_prompts,
            "blocked_calls": total.calls.blocked,
            "notes_updates": total.notes,
            "extractions": total.extractions,
            "within_responses": {"calls": costs.inner_calls, "cost_micro_usd": micro_usd(costs.inner)},
            "consolidations": total.costs.side_calls[SideCallPurpose::Consolidate as usize],
            "recalled_tokens": total.recalled,
            "reads_needed": total.reads_needed,
            "window": {"peak": total.window.peak, "mean": total.window.mean(), "shares": parts},
            "cost_micro_usd": total.total_cost().map(micro_usd),
            "conversation_micro_usd": micro_usd(costs.conversation),
            "recorded_micro_usd": micro_usd(costs.recorded),
            "side_calls": serde_json::Map::from_iter(side),
            "progress_only": {"responses": costs.progress_calls, "cost_micro_usd": micro_usd(costs.progress_cost)},
            "side_cached_share": share(costs.side_cached, costs.side_input),
            "unpriced_calls": costs.unpriced_calls,
            "unexplained_cache_misses": total.calls.unexplained_misses,
            "limits": {
                "open_loop": true,
                "in_step_share": share(total.calls.in_step, total.calls.made),
                "estimated_share": total.window.estimated_share(),
                "assumed_window_calls": total.calls.assumed_windows,
                "learned_summary_tokens": self.learned_summary,
            },
            "ledger": (!self.ledger.is_empty()).then(|| self.ledger_json()),
            "working_set": total.has_working_set.then(|| working_set_json(&total.working_set, total.calls.made)),
            "texts": self.losses.as_ref().map(TextLosses::to_json),
            "results_without_calls": total.orphans,
            "defects": total.defects,
            "problems": problems_json(&self.problems, false),
        }))
    }

    /// Bills the consolidations of the projects' memories: one each time enough hours and sessions have passed, at the prices
    /// of the session that ends then. They belong to no session, so only the total has them.
    pub fn bill_consolidations(&mut self, policies: &PolicySet) {
        let policy = policies.for_version(None);
        if !policy.extract_on {
            return;
        }
        let mut projects = BTreeMap::<&str, Vec<(i64, &SessionRow)>>::new();
        for session in &self.sessions {
            if let Some((_, last)) = session.times {
                projects.entry(&session.project).or_default().push((last, session));
            }
        }
        let tokens = consolidation_tokens(policy);
        let at = SideCallPurpose::Consolidate as usize;
        let costs = &mut self.total.costs;
        for ends in projects.values_mut() {
            ends.sort_by_key(|(end, session)| (*end, session.session.as_str()));
            let (mut since, mut sessions) = (ends[0].0, 0);
            for (end, session) in ends.iter() {
                sessions += 1;
                let is_due = end - since >= policy.dream_hours as i64 * 3_600_000;
                if is_due && sessions >= policy.dream_sessions {
                    costs.side_calls[at] += 1;
                    let tariff = session.last_tariff.as_ref();
                    costs.side[at] += tariff.map_or(0, |tariff| tariff.cost(&tokens, policy.dream_input));
                    costs.side_input += tokens.input_side();
                    costs.side_cached += tokens.cache_read;
                    (since, sessions) = (*end, 0);
                }
            }
        }
    }

    /// Returns `manifest.json`. `second` is the policy of `--compare`, `prices` the file of the price table.
    pub fn manifest_json(
        &self,
        policies: &PolicySet,
        second: Option<&PolicySet>,
        prices: Option<&Path>,
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
        MANIFEST.document(json!({
            "backcast": env!("CARGO_PKG_VERSION"),
            "policy": policy(policies),
            "compared_with": second.map(policy),
            "prices": prices.map_or_else(|| "built-in".into(), |path| path.display().to_string()),
            "files": files,
            "inputs": inputs.collect::<Vec<_>>(),
        }))
    }

    /// Writes rows of sessions, the summary, or text with a table of `top` rows (0 for all).
    pub fn write(
        &self,
        format: OutputFormat,
        top: usize,
        policies: &PolicySet,
        style: TableStyle,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(top, policies, style, out),
            OutputFormat::Json => write_json(&self.summary_json(policies), out),
            format => session_sheet(&self.sessions).write(format, style, out),
        }
    }

    fn write_text(&self, top: usize, policies: &PolicySet, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let total = &self.total;
        writeln!(out, "{}\n", self.answer(policies))?;
        let mut order = (0..self.sessions.len())
            .filter(|at| self.sessions[*at].calls.made > 0)
            .collect::<Vec<_>>();
        let weight = |at: usize| {
            (
                self.sessions[at].compactions.count(),
                self.sessions[at].total_cost().unwrap_or(0),
            )
        };
        order.sort_by_key(|&at| (std::cmp::Reverse(weight(at)), at));
        let with_calls = order.len();
        order.truncate(if top == 0 { with_calls } else { top });
        let shown = order
            .iter()
            .map(|&at| Arc::new(self.sessions[at].with_short_id()))
            .collect::<Vec<_>>();
        let all = Arc::new(SessionRow {
            session: "all".to_owned(),
            ..total.clone()
        });
        let columns = session_table_columns();
        let sheet = Sheet {
            total: Some(&all),
            ..SCHEMA.sheet(&columns, &shown)
        };
        sheet.write_with_legend(SESSION_LEGEND, style, out)?;
        if shown.len() < with_calls {
            writeln!(
                out,
                "The {} sessions with most compactions, of {}; --top 0 shows all.",
                shown.len(),
                group_digits(with_calls as u64)
            )?;
        }
        writeln!(out)?;
        self.write_window(out, style)?;
        self.write_facts(out)
    }

    /// Returns what the policy does, in one sentence.
    fn answer(&self, policies: &PolicySet) -> String {
        let total = &self.total;
        let compacted = self.sessions.iter().filter(|session| session.compactions.count() > 0);
        let when = match self.selection.as_str() {
            "" => String::new(),
            selection => format!(" ({selection})"),
        };
        let compacted = compacted.count() as u64;
        format!(
            "Under policy {}, {} of {} compact{}, {} in all, and the cost is {} (as recorded, with estimated output: {}){when}.",
            policies.name,
            group_digits(compacted),
            format_count(self.account.sessions, "session"),
            if compacted == 1 { "s" } else { "" },
            format_count(total.compactions.count(), "time"),
            format_price(total.total_cost().map(micro_usd)),
            format_dollars(micro_usd(total.costs.recorded))
        )
    }

    fn write_window(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let calls = u128::from(self.total.window.calls.max(1));
        let whole = self.total.window.parts.iter().sum::<u128>().max(1);
        let rows = std::iter::zip(part_names(), self.total.window.parts)
            .filter(|(_, sum)| *sum > 0)
            .map(|(name, sum)| WindowPartRow {
                name: name.replace('_', " "),
                mean: (sum / calls) as u64,
                share: sum as f64 / whole as f64,
            })
            .collect::<Vec<_>>();
        SCHEMA.sheet(PART_TABLE, &rows).write(OutputFormat::Table, style, out)
    }

    fn write_working_set(&self, out: &mut dyn Write) -> io::Result<()> {
        let counts = &self.total.working_set;
        let (Some((low, high)), true) = (counts.hit_ratio(), self.total.has_working_set) else {
            return Ok(());
        };
        let calls = self.total.calls.made.max(1) as f64;
        let (most, least) = (counts.misses(), counts.misses_credited());
        writeln!(
            out,
            "Uses of known files: {}; hits {:.1} to {:.1} % (without and with files that came back), misses {:.2} to {:.2} in 100 calls.",
            group_digits(counts.uses()),
            100.0 * low,
            100.0 * high,
            100.0 * least as f64 / calls,
            100.0 * most as f64 / calls
        )?;
        if let Some((low, high)) = counts.at_risk_ratio() {
            writeln!(
                out,
                "Of {} 20,000 tokens or more away, {:.1} to {:.1} % hit.",
                format_count(counts.at_risk_uses(), "use"),
                100.0 * low,
                100.0 * high
            )?;
        }
        let by_tool = counts
            .by_tool()
            .map(|(tool, uses, (most, least))| format!("{tool} {least} to {most} of {}", group_digits(uses)))
            .collect::<Vec<_>>();
        writeln!(out, "Misses by tool: {}.", by_tool.join(", "))?;
        let (most, least) = counts.reference_misses();
        writeln!(
            out,
            "Files mentioned: {}; with nothing of the file in the window: {least} to {most}.",
            group_digits(counts.references.iter().sum())
        )?;
        writeln!(
            out,
            "Reads of what had been dropped: {} ({}); prompts summarized: {}.",
            group_digits(counts.fetches[FetchKind::Refetch as usize]),
            format_count(counts.fetch_tokens[FetchKind::Refetch as usize], "token"),
            group_digits(counts.prompts)
        )
    }

    fn write_facts(&self, out: &mut dyn Write) -> io::Result<()> {
        let total = &self.total;
        let (compactions, costs) = (&total.compactions, &total.costs);
        writeln!(
            out,
            "\nCompactions: {} automatic, {} manual, {} after a refused prompt; {} of them by notes; {} where the log has one, too ({} recorded in conversations).",
            compactions.of_cause(CompactionCause::Auto),
            compactions.of_cause(CompactionCause::Manual),
            compactions.of_cause(CompactionCause::Reactive),
            compactions.by_notes,
            compactions.as_recorded,
            compactions.recorded
        )?;
        let micro = MICRO_KINDS
            .iter()
            .map(|kind| (kind.name(), total.micro.by_kind[*kind as usize]))
            .filter(|(_, count)| *count > 0);
        let micro = micro.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>();
        if !micro.is_empty() {
            writeln!(
                out,
                "Micro-compactions: {}; {} cleared, {}.",
                micro.join(", "),
                format_count(total.micro.cleared, "result"),
                format_count(total.micro.saved, "token")
            )?;
        }
        if compactions.failures + compactions.refused_prompts + total.calls.blocked > 0 {
            writeln!(
                out,
                "Failed compactions: {}; refused prompts: {}; calls of blocked sessions: {}.",
                compactions.failures, compactions.refused_prompts, total.calls.blocked
            )?;
        }
        if total.notes + total.extractions > 0 {
            writeln!(
                out,
                "Notes updated {}, memories extracted {}, consolidated {}.",
                format_count(total.notes, "time"),
                format_count(total.extractions, "time"),
                format_count(total.costs.side_calls[SideCallPurpose::Consolidate as usize], "time")
            )?;
        }
        writeln!(
            out,
            "Cost: {} for the conversation (as recorded, with estimated output: {}), {} for summaries and other side calls, which read {} of their input from the prompt cache.",
            format_dollars(micro_usd(costs.conversation)),
            format_dollars(micro_usd(costs.recorded)),
            format_dollars(micro_usd(costs.side_total())),
            format_percent(costs.side_cached, costs.side_input)
        )?;
        let notes = [
            self.account.explain_conversations(),
            self.account.explain_output_rest(),
            self.account.explain_left_out(),
            self.account.explain_off_chain(),
        ];
        for note in notes.into_iter().flatten() {
            writeln!(out, "{note}")?;
        }
        if costs.progress_calls > 0 {
            writeln!(
                out,
                "Not replayed: {} calls of sub-agents that only progress records show, {} in addition.",
                group_digits(costs.progress_calls),
                format_dollars(micro_usd(costs.progress_cost))
            )?;
        }
        self.write_working_set(out)?;
        writeln!(
            out,
            "Open loop: messages are as recorded, whatever the policy dropped. {} of the calls are in step with the record (both have the same window); {} of the tokens are estimated.",
            format_percent(total.calls.in_step, total.calls.made),
            format_percent(total.window.estimated_tokens, total.window.block_tokens())
        )
    }
}

/// Returns the tokens of a consolidation. Its prompt grows evenly from call to call, and each call reads from the prompt
/// cache what the one before it sent.
fn consolidation_tokens(policy: &Policy) -> Tokens {
    Tokens {
        cache_write: policy.dream_input,
        cache_read: policy.dream_input * policy.dream_calls.saturating_sub(1) / 2,
        output: policy.dream_output,
        ..Tokens::default()
    }
}

fn working_set_json(counts: &UseCounts, calls: u64) -> Json {
    let pair = |range: Option<(f64, f64)>| range.map(|(low, high)| json!({"not_credited": low, "credited": high}));
    let fetches = FetchKind::ALL.map(|kind| {
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

/// Returns the sheet of `sessions.csv`.
pub fn session_sheet(rows: &[Arc<SessionRow>]) -> Sheet<'_, Arc<SessionRow>> {
    SCHEMA.sheet(SESSION_COLUMNS, rows)
}

/// Returns the columns of sessions in the table, with a sparkline of the window instead of its mean.
fn session_table_columns() -> Vec<Column<Arc<SessionRow>>> {
    let columns = SESSION_COLUMNS.iter().filter(|column| column.name != "mean");
    columns.chain(WINDOW_SPARKLINE).copied().collect()
}

/// A part of the window.
struct WindowPartRow {
    name: String,
    mean: u64,
    share: f64,
}

columns! {
    WINDOW_SPARKLINE: Arc<SessionRow>;
    "window" "Window" Drawing Always "Its course." |r| sparkline(&r.window.course, 8);
    PART_TABLE: WindowPartRow;
    "part" "What is in the window" Text Always "Category." |r| &r.name;
    "mean" "Mean" Tokens Always "Tokens, mean over calls." |r| r.mean;
    "share" "Share" Share Always "Share of the window." |r| r.share;
}
