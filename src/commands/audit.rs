//! `backcast audit`: what was recorded at compactions.

use crate::cli::AuditArgs;
use crate::commands::RunStatus;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::{problem_counts, report_problems};
use crate::commands::writing::{ensure_absent, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{LogNeeds, SessionView, with_logs};
pub use crate::views::audit_rows::{AuditRow, CHECKED_COLUMNS, COLUMNS, THRESHOLD_COLUMNS, ThresholdRow};
use crate::views::audit_rows::{REMARKS_ON_SCREEN, SCREEN_COLUMNS, THRESHOLD_SCREEN_COLUMNS};
use anyhow::Result;
use replay::audit::boundaries::{AuditInput, AuditTotals, BoundaryKind, boundaries};
use replay::audit::thresholds::{
    EFFECTS, SettingCheck, SettingEffect, ThresholdEvidence, ThresholdGroup, ThresholdVerdict, check_setting,
    gather_evidence,
};
use replay::policy;
use replay::policy::Policy;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::inference::infer_windows;
use replay::sim::policies_and_prices;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use table::words::{format_count, format_count_with_plural, group_digits};
use table::{CellValue, Column, ColumnUnit, OutputFormat, Sheet, TableStyle, for_people};
use transcript::problem::{Problem, ProblemRow};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// What is shown of an audit.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditOptions {
    /// Most boundaries of the table; 0 for all.
    top: usize,
    format: OutputFormat,
    /// Whether the client's own switches were asked for.
    client_env: bool,
    /// Whether the document lists every problem.
    lists_problems: bool,
}

/// Runs it.
pub fn run(args: &AuditArgs) -> Result<RunStatus> {
    ensure_absent(args.html.as_deref(), args.out.force)?;
    let auditor = Auditor::new(resolve_policy(&args.policy)?)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let (sessions, problems) = with_logs(&args.input, LogNeeds::default(), |source| {
        let run = source.read();
        let bar = source.session_bar(&run);
        let (sessions, defects) = run.map_sessions(|view| {
            bar.inc(1);
            auditor.audit(view, &prices)
        });
        let mut problems = run.problems;
        problems.extend(defects);
        problems.extend(source.problems());
        problems.sort();
        (sessions, problems)
    })?;
    let options = AuditOptions {
        top: args.top,
        format: args.out.format,
        client_env: args.policy.client_env,
        lists_problems: args.input.problems,
    };
    let view = AuditView::new(options, sessions, auditor.settings(), &problems);
    write_output(&args.out, |out, look| view.write(out, look))?;
    if let Some(path) = &args.html {
        let content = PageContent {
            name: "audit".to_owned(),
            audits: vec![view.document()],
            ..PageContent::default()
        };
        write_page(path, args.out.force, args.input.quiet, content)?;
    }
    Ok(report_problems(&args.input, &problems))
}

/// Returns the document of an audit, for a page that shows more than that.
pub(super) fn audit_document(auditor: &Auditor, sessions: Vec<SessionAudit>, problems: &[Problem]) -> Json {
    let options = AuditOptions {
        top: 0,
        format: OutputFormat::Json,
        client_env: false,
        lists_problems: true,
    };
    AuditView::new(options, sessions, auditor.settings(), problems).document()
}

/// Audits one session after another.
pub(super) struct Auditor {
    /// What the client does by itself.
    usual: PolicySet,
    /// What the user set, if it bears on the threshold.
    threshold_override: Option<ThresholdOverride>,
}

impl Auditor {
    /// For a policy as it was resolved.
    pub fn new(policies: PolicySet) -> Result<Auditor> {
        let (usual, threshold_override) = split_override(policies)?;
        Ok(Auditor {
            usual,
            threshold_override,
        })
    }

    /// Returns the settings that are looked for: key, value and origin.
    fn settings(&self) -> Option<Vec<(&'static str, String, String)>> {
        let chosen = self.threshold_override.as_ref()?;
        Some(chosen.settings.clone())
    }

    /// Audits a session.
    pub fn audit(&self, view: &SessionView<'_>, prices: &PriceTable) -> SessionAudit {
        let mut audited = SessionAudit::default();
        for trace in view.traces() {
            let (policies, prices_of) = policies_and_prices(&self.usual, prices, trace);
            let windows = infer_windows(trace, &policies, &prices_of);
            let in_force = AuditInput {
                trace,
                policies: &policies,
                prices: &prices_of,
                windows: &windows,
            };
            let found = boundaries(&in_force);
            let contexts = in_force.contexts();
            for (group, seen) in gather_evidence(&in_force, &self.usual, &found, &contexts) {
                audited.add_evidence(group, seen);
            }
            if let Some(chosen) = self.threshold_override.as_ref().filter(|_| !trace.is_sidechain) {
                let (with_setting, _) = policies_and_prices(&chosen.policies, prices, trace);
                let checked = check_setting(&in_force, &with_setting, &found, &contexts);
                audited
                    .checked_settings
                    .extend(checked.map(|checked| (view.id().to_owned(), checked)));
            }
            let rows = found.into_iter();
            audited
                .rows
                .extend(rows.map(|found| AuditRow::new(view.session(), &trace.agent, found)));
        }
        audited
    }
}

/// What a user set that bears on the threshold.
pub(super) struct ThresholdOverride {
    /// Policies with it.
    pub policies: PolicySet,
    /// Key, value, and where it comes from.
    pub settings: Vec<(&'static str, String, String)>,
}

/// Parts what the client would do by itself from what the user set: only held against the former does the record show
/// whether the latter took effect.
pub(super) fn split_override(policies: PolicySet) -> Result<(PolicySet, Option<ThresholdOverride>)> {
    const KEYS: [&str; 4] = ["window.percent", "window.override", "switch.auto", "switch.compaction"];
    let default = Policy::default();
    let mut usual = policies.clone();
    let mut given = Vec::new();
    for name in KEYS {
        let key = policy::find_key(name)?;
        let Some(origin) = policies
            .origins
            .get(key.name)
            .filter(|origin| !origin.starts_with("preset "))
        else {
            continue;
        };
        let (value, unset) = ((key.get)(policies.for_version(None)), (key.get)(&default));
        if value != unset {
            given.push((key.name, value.to_string(), origin.clone()));
            usual.assign(&format!("{name}={unset}"), "default")?;
        }
    }
    let chosen = (!given.is_empty()).then_some(ThresholdOverride {
        policies,
        settings: given,
    });
    Ok((usual, chosen))
}

/// What was found in one session.
#[derive(Default)]
pub(super) struct SessionAudit {
    rows: Vec<AuditRow>,
    groups: BTreeMap<ThresholdGroup, ThresholdEvidence>,
    checked_settings: Vec<(String, SettingCheck)>,
}

impl SessionAudit {
    fn add_evidence(&mut self, group: ThresholdGroup, seen: ThresholdEvidence) {
        match self.groups.get_mut(&group) {
            Some(known) => known.merge(seen),
            None => {
                self.groups.insert(group, seen);
            }
        }
    }
}

fn sheet<'a, R>(columns: &'a [Column<R>], rows: &'a [R]) -> Sheet<'a, R> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns,
        rows,
        total: None,
    }
}

/// Columns for a screen: on a narrow one the last few would only squeeze the others.
fn columns_for_width<R>(columns: &[Column<R>], look: TableStyle, last: usize) -> &[Column<R>] {
    const WIDE: usize = 110;
    if look.width >= WIDE {
        columns
    } else {
        &columns[..columns.len() - last]
    }
}

/// What is shown.
struct AuditView<'a> {
    options: AuditOptions,
    sessions: usize,
    rows: Vec<AuditRow>,
    thresholds: Vec<ThresholdRow>,
    totals: AuditTotals,
    settings: Option<Vec<(&'static str, String, String)>>,
    checked_settings: Vec<(String, SettingCheck)>,
    problems: &'a [Problem],
}

impl<'a> AuditView<'a> {
    fn new(
        options: AuditOptions,
        sessions: Vec<SessionAudit>,
        given: Option<Vec<(&'static str, String, String)>>,
        problems: &'a [Problem],
    ) -> AuditView<'a> {
        let totals = AuditTotals::from_sessions(
            sessions
                .iter()
                .map(|session| session.rows.iter().map(|row| &row.boundary).collect()),
        );
        let mut all = SessionAudit::default();
        let count = sessions.len();
        for session in sessions {
            for (group, seen) in session.groups {
                all.add_evidence(group, seen);
            }
            all.rows.extend(session.rows);
            all.checked_settings.extend(session.checked_settings);
        }
        let thresholds = all.groups.into_iter();
        AuditView {
            options,
            sessions: count,
            rows: all.rows,
            thresholds: thresholds
                .map(|(group, seen)| ThresholdRow { group, evidence: seen })
                .collect(),
            totals,
            settings: given,
            checked_settings: all.checked_settings,
            problems,
        }
    }

    fn write(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        match self.options.format {
            OutputFormat::Table => self.write_text(out, look),
            OutputFormat::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document())?;
                writeln!(out)
            }
            format => sheet(COLUMNS, &self.rows).write(format, look, out),
        }
    }

    fn write_text(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        self.write_headline(out)?;
        self.write_thresholds(out, look)?;
        self.write_setting(out)?;
        if !self.rows.is_empty() {
            writeln!(out)?;
            self.write_boundaries(out, look)?;
            writeln!(out)?;
            self.write_totals(out)?;
        }
        Ok(())
    }

    fn write_headline(&self, out: &mut dyn Write) -> io::Result<()> {
        let totals = &self.totals;
        if self.rows.is_empty() {
            return writeln!(
                out,
                "No compaction is recorded in {}.",
                format_count(self.sessions as u64, "session")
            );
        }
        let mut kinds = vec![
            format!("{} automatic", totals.automatic),
            format!("{} manual", totals.manual),
            format!("{} micro", totals.micro),
        ];
        if totals.without_boundary > 0 {
            kinds.push(format!("{} of old clients", totals.without_boundary));
        }
        writeln!(
            out,
            "{} in {} of {}: {}.",
            format_count_with_plural(totals.count(), "boundary", "boundaries"),
            totals.sessions,
            format_count(self.sessions as u64, "session"),
            kinds.join(", ")
        )?;
        let judged = self
            .thresholds
            .iter()
            .map(|row| row.evidence.fired_tokens.len() as u64)
            .sum::<u64>();
        let lower = self
            .thresholds
            .iter()
            .map(|row| row.evidence.count_lower())
            .sum::<u64>();
        match (judged, lower) {
            (0, _) => Ok(()),
            (judged, 0) => writeln!(
                out,
                "Automatic compaction came at its usual threshold or above it{}.",
                if judged == 1 {
                    String::new()
                } else {
                    format!(", all {judged} times")
                }
            ),
            (judged, lower) => writeln!(
                out,
                "Automatic compaction came below its usual threshold {lower} of {judged} times."
            ),
        }
    }

    fn write_thresholds(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let (shown, silent) = self
            .thresholds
            .iter()
            .partition::<Vec<_>, _>(|row| row.evidence.verdict() != ThresholdVerdict::NoEvidence);
        let rows = shown
            .iter()
            .map(|row| ThresholdRow {
                group: row.group.clone(),
                evidence: row.evidence.clone(),
            })
            .collect::<Vec<_>>();
        if !rows.is_empty() {
            writeln!(out)?;
            sheet(columns_for_width(THRESHOLD_SCREEN_COLUMNS, look, 2), &rows).write(OutputFormat::Table, look, out)?;
            writeln!(
                out,
                "Lowest: the fewest tokens that compacted. Not at: the most that did not."
            )?;
        }
        for row in &rows {
            if let (Some(about), Some(share)) = (row.evidence.estimated_threshold(), row.evidence.estimated_share()) {
                writeln!(
                    out,
                    "{} {}: lower {} of {} times; an override or a smaller window was\n  in force: about {}, {:.0} % of the effective window.",
                    row.versions(),
                    row.group.family,
                    row.evidence.count_lower(),
                    row.evidence.fired_tokens.len(),
                    group_digits(about),
                    share * 100.0
                )?;
            }
        }
        if rows
            .iter()
            .any(|row| row.evidence.verdict() == ThresholdVerdict::Higher)
        {
            writeln!(out, "Higher: the window was larger, or automatic compaction was off.")?;
        }
        if !silent.is_empty() {
            let highest = silent.iter().filter_map(|row| row.evidence.highest_unfired).max();
            let highest = highest.map_or_else(String::new, |highest| {
                format!(" (highest context {})", group_digits(highest))
            });
            writeln!(
                out,
                "The threshold was not reached in {}{highest}.",
                format_count_with_plural(silent.len() as u64, "more group", "more groups")
            )?;
        }
        Ok(())
    }

    fn write_setting(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(given) = &self.settings else {
            if self.options.client_env {
                writeln!(out, "\nThe client's environment and settings change no threshold.")?;
            }
            return Ok(());
        };
        writeln!(out)?;
        for (key, value, origin) in given {
            writeln!(out, "Setting: {key}={value} ({origin})")?;
        }
        for effect in EFFECTS {
            let sessions = self
                .checked_settings
                .iter()
                .filter(|(_, checked)| checked.effect == effect);
            let number = sessions.clone().count() as u64;
            if number == 0 {
                continue;
            }
            let examples = match effect {
                SettingEffect::Took | SettingEffect::DidNot | SettingEffect::InPart | SettingEffect::LowerStill => {
                    let ids = sessions.take(3).map(|(id, _)| id.chars().take(8).collect::<String>());
                    let rest = if number > 3 { ", ..." } else { "" };
                    format!(" ({}{rest})", ids.collect::<Vec<_>>().join(", "))
                }
                _ => String::new(),
            };
            writeln!(
                out,
                "{number:>8}  {}: {}{examples}",
                if number == 1 { "session" } else { "sessions" },
                effect.name()
            )?;
        }
        Ok(())
    }

    /// The boundaries that deserve a look most: by their gravest remark, then by what came free.
    fn write_boundaries(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let mut order = (0..self.rows.len()).collect::<Vec<_>>();
        let rank = |at: usize| {
            let found = &self.rows[at].boundary;
            let gravest = found.remarks().first().copied();
            (
                gravest.is_none(),
                gravest,
                found.kind == BoundaryKind::Micro,
                found.freed().unwrap_or(i64::MAX),
                at,
            )
        };
        order.sort_by_key(|&at| rank(at));
        if self.options.top > 0 {
            order.truncate(self.options.top);
        }
        let shown = order.iter().map(|&at| self.rows[at].clone()).collect::<Vec<_>>();
        sheet(columns_for_width(SCREEN_COLUMNS, look, 1), &shown).write(OutputFormat::Table, look, out)?;
        let remarks = shown
            .iter()
            .flat_map(|row| row.boundary.remarks().into_iter().take(REMARKS_ON_SCREEN))
            .collect::<BTreeSet<_>>();
        for remark in remarks {
            writeln!(out, "{}: {}.", remark.name(), remark.about())?;
        }
        if shown.len() < self.rows.len() {
            writeln!(
                out,
                "The {} most remarkable of {} boundaries; --top 0 shows all.",
                shown.len(),
                group_digits(self.rows.len() as u64)
            )?;
        }
        Ok(())
    }

    fn write_totals(&self, out: &mut dyn Write) -> io::Result<()> {
        let totals = &self.totals;
        let timed = totals.timed_recorded + totals.timed_clock;
        if timed > 0 {
            writeln!(
                out,
                "Time spent compacting: {} in {} ({} recorded, {} by the clock).",
                format_duration(totals.total_duration_ms),
                format_count(timed, "compaction"),
                totals.timed_recorded,
                totals.timed_clock
            )?;
        }
        let mut freed = Vec::new();
        if totals.compactions() > 0 {
            freed.push(format!("{} tokens by compactions", format_thousands(totals.freed.0)));
        }
        if totals.micro > 0 {
            freed.push(format!("{} by clearing", format_thousands(totals.freed.1)));
        }
        writeln!(
            out,
            "Freed: {}; {}.",
            freed.join(", "),
            match totals.grown_windows {
                0 => "the window never grew".to_owned(),
                1 => "the window grew once".to_owned(),
                grown => format!("the window grew {}", format_count(grown, "time")),
            }
        )?;
        if let Some(after) = totals.median_after {
            let rebuilt = totals.median_rebuilt.map_or_else(String::new, |rebuilt| {
                format!(", {} without system prompt and tools", format_thousands(rebuilt))
            });
            writeln!(
                out,
                "Window after a compaction, median: {}{rebuilt}.",
                format_thousands(after)
            )?;
        }
        let distances = [
            totals.median_first.map(|calls| format!("{calls} to the first")),
            totals.median_calls.map(|calls| format!("{calls} to the next")),
        ];
        let distances = distances.into_iter().flatten().collect::<Vec<_>>();
        if !distances.is_empty() {
            writeln!(
                out,
                "Calls, median: {}; {} compacted again.",
                distances.join(", "),
                match totals.sessions_again {
                    0 => "no session".to_owned(),
                    again => format_count(again, "session"),
                }
            )?;
        }
        Ok(())
    }

    fn document(&self) -> Json {
        let mut problems = json!({
            "total": self.problems.len(),
            "by_kind": problem_counts(self.problems),
        });
        if self.options.lists_problems {
            problems["list"] = json!(self.problems.iter().map(ProblemRow::from).collect::<Vec<_>>());
        }
        json!({
            "schema_version": SCHEMA_VERSION,
            "totals": self.totals_json(),
            "thresholds": sheet(THRESHOLD_COLUMNS, &self.thresholds).to_json(),
            "setting": self.setting_json(),
            "boundaries": sheet(COLUMNS, &self.rows).to_json(),
            "problems": problems,
        })
    }

    fn totals_json(&self) -> Json {
        let totals = &self.totals;
        let compactions = totals.compactions();
        let timed = totals.timed_recorded + totals.timed_clock;
        json!({
            "sessions": self.sessions,
            "sessions_with_boundaries": totals.sessions,
            "sessions_compacted_again": totals.sessions_again,
            "boundaries": totals.count(),
            "automatic": totals.automatic,
            "manual": totals.manual,
            "unknown_trigger": totals.without_boundary,
            "micro": totals.micro,
            "took_ms": (timed > 0).then_some(totals.total_duration_ms),
            "timed_by_record": totals.timed_recorded,
            "timed_by_clock": totals.timed_clock,
            "untimed": totals.untimed,
            "freed_tokens": (compactions > 0).then_some(totals.freed.0),
            "micro_freed_tokens": (totals.micro > 0).then_some(totals.freed.1),
            "size_unknown": totals.unsized_boundaries,
            "net_negative": totals.grown_windows,
            "median_window_after": totals.median_after,
            "median_rebuilt_tokens": totals.median_rebuilt,
            "median_calls_to_first": totals.median_first,
            "median_calls_between": totals.median_calls,
        })
    }

    fn setting_json(&self) -> Json {
        let Some(given) = &self.settings else { return Json::Null };
        let values = given
            .iter()
            .map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}));
        let number = |effect: SettingEffect| {
            self.checked_settings
                .iter()
                .filter(|(_, checked)| checked.effect == effect)
                .count()
        };
        let effects = EFFECTS.map(|effect| (effect.name().replace(' ', "_"), json!(number(effect))));
        json!({
            "values": values.collect::<Vec<_>>(),
            "effects": effects.into_iter().collect::<serde_json::Map<_, _>>(),
            "sessions": sheet(CHECKED_COLUMNS, &self.checked_settings).to_json(),
        })
    }
}

fn format_thousands(tokens: impl Into<CellValue>) -> String {
    for_people(ColumnUnit::Tokens, &tokens.into())
}

fn format_duration(millis: u64) -> String {
    for_people(ColumnUnit::Millis, &millis.into())
}
