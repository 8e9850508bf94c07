//! `backcast audit`: the JSON document, and the sentences and tables for people.

mod answer;
mod rows;

use crate::usage::account::UsageAccount;
use crate::views::{problems_json, short_id};
use jiff::tz::TimeZone;
use replay::audit::boundaries::BoundaryKind;
use replay::audit::thresholds::{SettingEffect, ThresholdVerdict};
use replay::audit::totals::AuditTotals;
pub use rows::{
    AuditRow, BOUNDARY_COLUMNS, CheckedSession, MissedTitle, SETTING_COLUMNS, SessionAudit, THRESHOLD_COLUMNS,
    ThresholdRow,
};
use rows::{BOUNDARY_TABLE, REMARKS_IN_TABLE, THRESHOLD_TABLE};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use table::human::{
    format_count, format_count_with_plural, format_duration, format_signed_tokens, format_tokens, group_digits,
};
use table::{Column, OutputFormat, OutputSchema, TableStyle, format_time, write_json};
use transcript::log::Time;
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("audit", 1);

/// Returns the columns of a table without the last few, which would squeeze the others on a narrow terminal.
fn columns_for_width<R>(columns: &[Column<R>], style: TableStyle, last: usize) -> &[Column<R>] {
    const WIDE: usize = 110;
    if style.width >= WIDE {
        columns
    } else {
        &columns[..columns.len() - last]
    }
}

/// What the command line asks of the output.
pub struct AuditOptions {
    /// Boundaries in the table; 0 for all.
    pub top: usize,
    /// Whether the settings of the client were checked.
    pub client_env: bool,
    /// Whether the document lists every problem.
    pub list_problems: bool,
    /// The setting is judged by sessions that started from here on; by all of them if `None`.
    pub setting_since: Option<Time>,
    /// Time of the newest record.
    pub newest: Option<Time>,
}

/// A setting of the user: key, value and origin.
pub type UserSetting = (&'static str, String, String);

/// The audit of all sessions.
pub struct AuditView<'a> {
    options: AuditOptions,
    zone: &'a TimeZone,
    account: UsageAccount,
    /// Sessions with a chain whose window is not known.
    sessions_of_unknown_window: usize,
    rows: Vec<AuditRow>,
    thresholds: Vec<ThresholdRow>,
    totals: AuditTotals,
    settings: Option<Vec<UserSetting>>,
    checked_settings: Vec<CheckedSession>,
    missed_titles: Vec<MissedTitle>,
    problems: &'a [Problem],
}

impl<'a> AuditView<'a> {
    pub fn new(
        options: AuditOptions,
        sessions: Vec<SessionAudit>,
        account: UsageAccount,
        settings: Option<Vec<UserSetting>>,
        problems: &'a [Problem],
        zone: &'a TimeZone,
    ) -> AuditView<'a> {
        let totals = AuditTotals::from_sessions(
            sessions
                .iter()
                .map(|session| session.rows.iter().map(|row| &row.boundary).collect()),
        );
        let mut all = SessionAudit::default();
        let is_unknown = |session: &&SessionAudit| session.groups.keys().any(|group| group.window.is_none());
        let sessions_of_unknown_window = sessions.iter().filter(is_unknown).count();
        for session in sessions {
            for (group, evidence) in session.groups {
                all.add_evidence(group, evidence);
            }
            all.rows.extend(session.rows);
            all.checked_settings.extend(session.checked_settings);
            all.missed_titles.extend(session.missed_titles);
        }
        let thresholds = all.groups.into_iter();
        AuditView {
            options,
            zone,
            account,
            sessions_of_unknown_window,
            rows: all.rows.into_iter().map(|row| row.with_day(zone)).collect(),
            thresholds: thresholds
                .map(|(group, evidence)| ThresholdRow { group, evidence })
                .collect(),
            totals,
            settings,
            checked_settings: all.checked_settings,
            missed_titles: all.missed_titles,
            problems,
        }
    }

    pub fn write(&self, format: OutputFormat, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(out, style),
            OutputFormat::Json => write_json(&self.document(), out),
            format => SCHEMA.sheet(BOUNDARY_COLUMNS, &self.rows).write(format, style, out),
        }
    }

    fn write_text(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        self.write_answer(out)?;
        self.write_headline(out)?;
        self.write_thresholds(out, style)?;
        self.write_setting(out)?;
        if !self.rows.is_empty() {
            writeln!(out)?;
            self.write_boundaries(out, style)?;
            writeln!(out)?;
            self.write_totals(out)?;
        }
        match self.missed_titles_sentence() {
            Some(sentence) => writeln!(out, "{sentence}"),
            None => Ok(()),
        }
    }

    /// Returns the sessions that the setting is judged by.
    fn judged_sessions(&self) -> impl Iterator<Item = &CheckedSession> + Clone {
        let since = self.options.setting_since;
        let is_judged = move |session: &&CheckedSession| since.is_none_or(|since| session.started >= Some(since));
        self.checked_settings.iter().filter(is_judged)
    }

    /// Writes whether the setting is in effect, and where automatic compaction came.
    fn write_answer(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(answer) = self.setting_answer() {
            writeln!(out, "{answer}")?;
            if let Some(basis) = self.setting_basis() {
                writeln!(out, "{basis}")?;
            }
        }
        if self.rows.is_empty() {
            writeln!(
                out,
                "No compaction is recorded in {}.",
                format_count(self.account.sessions, "session")
            )?;
        }
        let sum = |of: fn(&ThresholdRow) -> u64| self.thresholds.iter().map(of).sum::<u64>();
        let judged = sum(|row| row.evidence.fired_tokens.len() as u64);
        match (judged, sum(|row| row.evidence.count_lower())) {
            (0, _) => {}
            (1, 0) => writeln!(out, "Automatic compaction came once, at its usual threshold.")?,
            (judged, 0) => writeln!(
                out,
                "Automatic compaction came at its usual threshold all {} times.",
                group_digits(judged)
            )?,
            (judged, lower) => writeln!(
                out,
                "Automatic compaction came below its usual threshold {} of {}.",
                group_digits(lower),
                format_count(judged, "time")
            )?,
        }
        if self.settings.is_none() && self.options.client_env {
            writeln!(out, "Your settings leave the threshold as it is.")?;
        }
        match self.unknown_windows() {
            Some(unknown) => writeln!(out, "{unknown}"),
            None => Ok(()),
        }
    }

    /// Writes how many boundaries there are, by kind.
    fn write_headline(&self, out: &mut dyn Write) -> io::Result<()> {
        let totals = &self.totals;
        if self.rows.is_empty() {
            return Ok(());
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
            format_count(self.account.sessions, "session"),
            kinds.join(", ")
        )?;
        let notes = [
            self.account.explain_off_chain(),
            self.account.explain_unselected_boundaries(),
        ];
        let notes = notes.into_iter().flatten().collect::<Vec<_>>();
        match notes.is_empty() {
            true => Ok(()),
            false => writeln!(out, "{}", notes.join(" ")),
        }
    }

    fn write_thresholds(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let (shown, silent) = self
            .thresholds
            .iter()
            .partition::<Vec<_>, _>(|row| row.evidence.verdict() != ThresholdVerdict::NoEvidence);
        let rows = shown.into_iter().cloned().collect::<Vec<_>>();
        if !rows.is_empty() {
            writeln!(out)?;
            let columns = columns_for_width(THRESHOLD_TABLE, style, 2);
            SCHEMA.sheet(columns, &rows).write(OutputFormat::Table, style, out)?;
            writeln!(
                out,
                "Expected: where the client compacts by itself. Auto: automatic compactions. Lowest: the smallest context that was \
                 compacted. Not at: the largest that was not, so the threshold lies between the two."
            )?;
        }
        for row in &rows {
            if let (Some(about), Some(share)) = (row.evidence.estimated_threshold(), row.evidence.estimated_share()) {
                writeln!(
                    out,
                    "{} {}: lower {} of {} times; an override or a smaller window was in force: about {}, {:.0} % of the effective window.",
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
            return Ok(());
        };
        writeln!(out)?;
        for (key, value, origin) in given {
            writeln!(out, "Setting: {key}={value} ({origin})")?;
        }
        for effect in SettingEffect::ALL {
            let sessions = self.judged_sessions().filter(|session| session.check.effect == effect);
            let number = sessions.clone().count() as u64;
            if number == 0 {
                continue;
            }
            let examples = match effect {
                SettingEffect::Took | SettingEffect::DidNot | SettingEffect::InPart | SettingEffect::LowerStill => {
                    let ids = sessions.take(3).map(|session| short_id(&session.session));
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

    /// Writes the most remarkable boundaries: by their gravest remark, then by the tokens that they freed.
    fn write_boundaries(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let mut order = (0..self.rows.len()).collect::<Vec<_>>();
        let rank = |at: usize| {
            let found = &self.rows[at].boundary;
            let gravest = found.remarks().first().copied();
            (
                found.kind == BoundaryKind::Micro,
                gravest.is_none(),
                gravest,
                found.freed().unwrap_or(i64::MAX),
                at,
            )
        };
        order.sort_by_key(|&at| rank(at));
        if self.options.top > 0 {
            order.truncate(self.options.top);
        }
        let shown = order.iter().map(|&at| self.rows[at].clone()).collect::<Vec<_>>();
        let columns = columns_for_width(BOUNDARY_TABLE, style, 1);
        SCHEMA.sheet(columns, &shown).write(OutputFormat::Table, style, out)?;
        writeln!(
            out,
            "Before: the client's count when it compacted. After: what the next call sent. Took: how long the session waited."
        )?;
        let remarks = shown
            .iter()
            .flat_map(|row| row.boundary.remarks().into_iter().take(REMARKS_IN_TABLE))
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
            freed.push(format!(
                "{} tokens by compactions",
                format_signed_tokens(totals.freed.0)
            ));
        }
        if totals.micro > 0 {
            freed.push(format!("{} by clearing", format_signed_tokens(totals.freed.1)));
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
                format!(", {} without system prompt and tools", format_tokens(rebuilt))
            });
            writeln!(
                out,
                "Window after a compaction, median: {}{rebuilt}.",
                format_tokens(after)
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

    pub fn document(&self) -> Json {
        SCHEMA.document(json!({
            "recorded": self.account.to_json(),
            "totals": self.totals_json(),
            "thresholds": SCHEMA.sheet(THRESHOLD_COLUMNS, &self.thresholds).to_json(),
            "setting": self.setting_json(),
            "boundaries": SCHEMA.sheet(BOUNDARY_COLUMNS, &self.rows).to_json(),
            "missed_titles": self.missed_titles.iter().map(|missed| json!({"session": missed.session, "what": missed.what()})).collect::<Vec<_>>(),
            "problems": problems_json(self.problems, self.options.list_problems),
        }))
    }

    fn totals_json(&self) -> Json {
        let totals = &self.totals;
        let compactions = totals.compactions();
        let timed = totals.timed_recorded + totals.timed_clock;
        json!({
            "sessions": self.account.sessions,
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
            let found = self.judged_sessions().filter(|session| session.check.effect == effect);
            found.count()
        };
        let effects = SettingEffect::ALL.map(|effect| (effect.name().replace(' ', "_"), json!(number(effect))));
        json!({
            "answer": self.setting_answer(),
            "since": self.options.setting_since.and_then(format_time),
            "judged_sessions": self.judged_sessions().count(),
            "values": values.collect::<Vec<_>>(),
            "effects": effects.into_iter().collect::<serde_json::Map<_, _>>(),
            "sessions": SCHEMA.sheet(SETTING_COLUMNS, &self.checked_settings).to_json(),
        })
    }
}
