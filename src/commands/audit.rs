//! `backcast audit`: what was recorded at compactions.

use crate::cli::AuditArgs;
use crate::commands::Ending;
use crate::commands::policy::resolve;
use crate::commands::reading::{close, problem_counts, with_logs};
use crate::commands::writing::{check_free, emit, load_prices, write_page};
use crate::page::Content;
use crate::run::Corpus;
pub use crate::views::audit_rows::{CHECKED, COLUMNS, Row, THRESHOLDS, ThresholdRow};
use crate::views::audit_rows::{ON_SCREEN, REMARKS_ON_SCREEN, THRESHOLDS_ON_SCREEN};
use anyhow::Result;
use replay::audit::boundaries::{InForce, Kind, Totals, boundaries};
use replay::audit::thresholds::{Checked, EFFECTS, Effect, Evidence, Group, Verdict, check, evidence};
use replay::policy;
use replay::policy::Policy;
use replay::policy::presets::Policies;
use replay::sim::by_number;
use replay::sim::inference::infer;
use replay::sim::trace::trace;
use replay::tokens::ratios::RatioTable;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use table::words::{count, count_of, grouped};
use table::{Column, Format, Look, Sheet, Unit, Value, for_people};
use transcript::problem::{Problem, ProblemRow};
use transcript::thread::{Session, thread};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Runs it.
pub fn run(args: &AuditArgs) -> Result<Ending> {
    check_free(args.html.as_deref(), args.out.force)?;
    with_view(args, |view, problems| {
        emit(&args.out, |out, look| view.write(out, look))?;
        if let Some(path) = &args.html {
            let content = Content {
                name: "audit".to_owned(),
                audits: vec![view.document()],
                ..Content::default()
            };
            write_page(path, args.out.force, args.input.quiet, content)?;
        }
        Ok(close(&args.input, problems))
    })
}

/// The document of an audit, for a page that shows more than that.
pub(super) fn document(args: &AuditArgs) -> Result<Json> {
    with_view(args, |view, _| Ok(view.document()))
}

/// Reads the logs, and hands on what is shown of them.
fn with_view<R>(args: &AuditArgs, work: impl FnOnce(&View<'_>, &[Problem]) -> Result<R>) -> Result<R> {
    let (usual, setting) = part(resolve(&args.policy)?)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let table = RatioTable::built_in();
    let (sessions, problems) = with_logs(&args.input, false, |reading| {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let bar = reading.work_bar(&corpus);
        let (sessions, defects) = corpus.map_sessions(|id, parts| {
            bar.inc(1);
            let session = Session::new(id, parts);
            let mut audited = Audited::default();
            for chain in &thread(&session).chains {
                let trace = trace(&session, chain, table);
                let (policies, prices_of) = by_number(&usual, &prices, &trace);
                let windows = infer(&trace, &policies, &prices_of);
                let in_force = InForce {
                    trace: &trace,
                    policies: &policies,
                    prices: &prices_of,
                    windows: &windows,
                };
                let found = boundaries(&in_force);
                let contexts = in_force.contexts();
                for (group, seen) in evidence(&in_force, &usual, &found, &contexts) {
                    audited.add_evidence(group, seen);
                }
                if let Some(setting) = setting.as_ref().filter(|_| !trace.is_sidechain) {
                    let (with_setting, _) = by_number(&setting.policies, &prices, &trace);
                    let checked = check(&in_force, &with_setting, &found, &contexts);
                    audited.checked.extend(checked.map(|checked| (id.to_owned(), checked)));
                }
                audited
                    .rows
                    .extend(found.into_iter().map(|found| Row::new(&session, &trace.agent, found)));
            }
            audited
        });
        let mut problems = corpus.problems;
        problems.extend(defects);
        problems.extend(reading.problems());
        problems.sort();
        (sessions, problems)
    })?;
    let view = View::new(args, sessions, setting.map(|setting| setting.given), &problems);
    work(&view, &problems)
}

/// What a user set that bears on the threshold.
pub(super) struct Chosen {
    /// Policies with it.
    pub policies: Policies,
    /// Key, value, and where it comes from.
    pub given: Vec<(&'static str, String, String)>,
}

/// Parts what the client would do by itself from what the user set: only held against the former does the record show
/// whether the latter took effect.
pub(super) fn part(policies: Policies) -> Result<(Policies, Option<Chosen>)> {
    const KEYS: [&str; 4] = ["window.percent", "window.override", "switch.auto", "switch.compaction"];
    let default = Policy::default();
    let mut usual = policies.clone();
    let mut given = Vec::new();
    for name in KEYS {
        let key = policy::key(name)?;
        let Some(origin) = policies
            .origins
            .get(key.name)
            .filter(|origin| !origin.starts_with("preset "))
        else {
            continue;
        };
        let (value, unset) = ((key.get)(policies.of(None)), (key.get)(&default));
        if value != unset {
            given.push((key.name, value.to_string(), origin.clone()));
            usual.assign(&format!("{name}={unset}"), "default")?;
        }
    }
    let chosen = (!given.is_empty()).then_some(Chosen { policies, given });
    Ok((usual, chosen))
}

/// What was found in one session.
#[derive(Default)]
struct Audited {
    rows: Vec<Row>,
    groups: BTreeMap<Group, Evidence>,
    checked: Vec<(String, Checked)>,
}

impl Audited {
    fn add_evidence(&mut self, group: Group, seen: Evidence) {
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
fn fitting<R>(columns: &[Column<R>], look: Look, last: usize) -> &[Column<R>] {
    const WIDE: usize = 110;
    if look.width >= WIDE {
        columns
    } else {
        &columns[..columns.len() - last]
    }
}

/// What is shown.
struct View<'a> {
    args: &'a AuditArgs,
    sessions: usize,
    rows: Vec<Row>,
    thresholds: Vec<ThresholdRow>,
    totals: Totals,
    given: Option<Vec<(&'static str, String, String)>>,
    checked: Vec<(String, Checked)>,
    problems: &'a [Problem],
}

impl<'a> View<'a> {
    fn new(
        args: &'a AuditArgs,
        sessions: Vec<Audited>,
        given: Option<Vec<(&'static str, String, String)>>,
        problems: &'a [Problem],
    ) -> View<'a> {
        let totals = Totals::of(
            sessions
                .iter()
                .map(|session| session.rows.iter().map(|row| &row.found).collect()),
        );
        let mut all = Audited::default();
        let count = sessions.len();
        for session in sessions {
            for (group, seen) in session.groups {
                all.add_evidence(group, seen);
            }
            all.rows.extend(session.rows);
            all.checked.extend(session.checked);
        }
        let thresholds = all.groups.into_iter();
        View {
            args,
            sessions: count,
            rows: all.rows,
            thresholds: thresholds.map(|(group, seen)| ThresholdRow { group, seen }).collect(),
            totals,
            given,
            checked: all.checked,
            problems,
        }
    }

    fn write(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        match self.args.out.format {
            Format::Table => self.write_text(out, look),
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document())?;
                writeln!(out)
            }
            format => sheet(COLUMNS, &self.rows).write(format, look, out),
        }
    }

    fn write_text(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
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
                count(self.sessions as u64, "session")
            );
        }
        let mut kinds = vec![
            format!("{} automatic", totals.automatic),
            format!("{} manual", totals.manual),
            format!("{} micro", totals.micro),
        ];
        if totals.untold > 0 {
            kinds.push(format!("{} of old clients", totals.untold));
        }
        writeln!(
            out,
            "{} in {} of {}: {}.",
            count_of(totals.count(), "boundary", "boundaries"),
            totals.sessions,
            count(self.sessions as u64, "session"),
            kinds.join(", ")
        )?;
        let judged = self
            .thresholds
            .iter()
            .map(|row| row.seen.fired.len() as u64)
            .sum::<u64>();
        let lower = self.thresholds.iter().map(|row| row.seen.lower()).sum::<u64>();
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

    fn write_thresholds(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let (shown, silent) = self
            .thresholds
            .iter()
            .partition::<Vec<_>, _>(|row| row.seen.verdict() != Verdict::NoEvidence);
        let rows = shown
            .iter()
            .map(|row| ThresholdRow {
                group: row.group.clone(),
                seen: row.seen.clone(),
            })
            .collect::<Vec<_>>();
        if !rows.is_empty() {
            writeln!(out)?;
            sheet(fitting(THRESHOLDS_ON_SCREEN, look, 2), &rows).write(Format::Table, look, out)?;
            writeln!(
                out,
                "Lowest: the fewest tokens that compacted. Not at: the most that did not."
            )?;
        }
        for row in &rows {
            if let (Some(about), Some(share)) = (row.seen.about(), row.seen.about_share()) {
                writeln!(
                    out,
                    "{} {}: lower {} of {} times; an override or a smaller window was\n  in force: about {}, {:.0} % of the effective window.",
                    row.versions(),
                    row.group.family,
                    row.seen.lower(),
                    row.seen.fired.len(),
                    grouped(about),
                    share * 100.0
                )?;
            }
        }
        if rows.iter().any(|row| row.seen.verdict() == Verdict::Higher) {
            writeln!(out, "Higher: the window was larger, or automatic compaction was off.")?;
        }
        if !silent.is_empty() {
            let highest = silent.iter().filter_map(|row| row.seen.unfired).max();
            let highest = highest.map_or_else(String::new, |highest| {
                format!(" (highest context {})", grouped(highest))
            });
            writeln!(
                out,
                "The threshold was not reached in {}{highest}.",
                count_of(silent.len() as u64, "more group", "more groups")
            )?;
        }
        Ok(())
    }

    fn write_setting(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(given) = &self.given else {
            if self.args.policy.client_env {
                writeln!(out, "\nThe client's environment and settings change no threshold.")?;
            }
            return Ok(());
        };
        writeln!(out)?;
        for (key, value, origin) in given {
            writeln!(out, "Setting: {key}={value} ({origin})")?;
        }
        for effect in EFFECTS {
            let sessions = self.checked.iter().filter(|(_, checked)| checked.effect == effect);
            let number = sessions.clone().count() as u64;
            if number == 0 {
                continue;
            }
            let examples = match effect {
                Effect::Took | Effect::DidNot | Effect::InPart | Effect::LowerStill => {
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
    fn write_boundaries(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let mut order = (0..self.rows.len()).collect::<Vec<_>>();
        let rank = |at: usize| {
            let found = &self.rows[at].found;
            let gravest = found.remarks().first().copied();
            (
                gravest.is_none(),
                gravest,
                found.kind == Kind::Micro,
                found.freed().unwrap_or(i64::MAX),
                at,
            )
        };
        order.sort_by_key(|&at| rank(at));
        if self.args.top > 0 {
            order.truncate(self.args.top);
        }
        let shown = order.iter().map(|&at| self.rows[at].clone()).collect::<Vec<_>>();
        sheet(fitting(ON_SCREEN, look, 1), &shown).write(Format::Table, look, out)?;
        let remarks = shown
            .iter()
            .flat_map(|row| row.found.remarks().into_iter().take(REMARKS_ON_SCREEN))
            .collect::<BTreeSet<_>>();
        for remark in remarks {
            writeln!(out, "{}: {}.", remark.name(), remark.about())?;
        }
        if shown.len() < self.rows.len() {
            writeln!(
                out,
                "The {} most remarkable of {} boundaries; --top 0 shows all.",
                shown.len(),
                grouped(self.rows.len() as u64)
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
                duration(totals.took_ms),
                count(timed, "compaction"),
                totals.timed_recorded,
                totals.timed_clock
            )?;
        }
        let mut freed = Vec::new();
        if totals.compactions() > 0 {
            freed.push(format!("{} tokens by compactions", thousands(totals.freed.0)));
        }
        if totals.micro > 0 {
            freed.push(format!("{} by clearing", thousands(totals.freed.1)));
        }
        writeln!(
            out,
            "Freed: {}; {}.",
            freed.join(", "),
            match totals.grown {
                0 => "the window never grew".to_owned(),
                1 => "the window grew once".to_owned(),
                grown => format!("the window grew {}", count(grown, "time")),
            }
        )?;
        if let Some(after) = totals.median_after {
            let rebuilt = totals.median_rebuilt.map_or_else(String::new, |rebuilt| {
                format!(", {} without system prompt and tools", thousands(rebuilt))
            });
            writeln!(out, "Window after a compaction, median: {}{rebuilt}.", thousands(after))?;
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
                    again => count(again, "session"),
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
        if self.args.input.problems {
            problems["list"] = json!(self.problems.iter().map(ProblemRow::from).collect::<Vec<_>>());
        }
        json!({
            "schema_version": SCHEMA_VERSION,
            "totals": self.totals_json(),
            "thresholds": sheet(THRESHOLDS, &self.thresholds).to_json(),
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
            "unknown_trigger": totals.untold,
            "micro": totals.micro,
            "took_ms": (timed > 0).then_some(totals.took_ms),
            "timed_by_record": totals.timed_recorded,
            "timed_by_clock": totals.timed_clock,
            "untimed": totals.untimed,
            "freed_tokens": (compactions > 0).then_some(totals.freed.0),
            "micro_freed_tokens": (totals.micro > 0).then_some(totals.freed.1),
            "size_unknown": totals.unsized_boundaries,
            "net_negative": totals.grown,
            "median_window_after": totals.median_after,
            "median_rebuilt_tokens": totals.median_rebuilt,
            "median_calls_to_first": totals.median_first,
            "median_calls_between": totals.median_calls,
        })
    }

    fn setting_json(&self) -> Json {
        let Some(given) = &self.given else { return Json::Null };
        let values = given
            .iter()
            .map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}));
        let number = |effect: Effect| {
            self.checked
                .iter()
                .filter(|(_, checked)| checked.effect == effect)
                .count()
        };
        let effects = EFFECTS.map(|effect| (effect.name().replace(' ', "_"), json!(number(effect))));
        json!({
            "values": values.collect::<Vec<_>>(),
            "effects": effects.into_iter().collect::<serde_json::Map<_, _>>(),
            "sessions": sheet(CHECKED, &self.checked).to_json(),
        })
    }
}

fn thousands(tokens: impl Into<Value>) -> String {
    for_people(Unit::Tokens, &tokens.into())
}

fn duration(millis: u64) -> String {
    for_people(Unit::Millis, &millis.into())
}
