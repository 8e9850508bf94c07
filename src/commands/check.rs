//! `backcast check`: sessions checked against limits, for CI.

mod limits;

use crate::cli::{CheckFormat, CheckOutputArgs, InputArgs, PolicyArgs};
use crate::commands::RunStatus;
use crate::commands::audit::{ThresholdOverride, split_override};
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::writing::{load_prices, write_output};
use crate::run::{LogNeeds, LogSource, Run, SessionView, UsageConsumer, summarize, with_logs};
use crate::usage::account::UsageAccount;
use crate::usage::budget;
use crate::usage::budget::{BoundaryFacts, BudgetFacts, LIMITS, LimitLocation, LimitRow, RequiredData, SessionFacts};
use crate::usage::period::GroupBy;
use crate::usage::selection::Selection;
use crate::usage::summary::UsageSummary;
use crate::usage::tally;
use crate::usage::tally::group_calls;
use crate::views::check::CheckView;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jiff::tz::TimeZone;
use limits::{LimitArgs, parse_limits};
use replay::audit::boundaries::{AuditInput, BoundaryKind, BoundaryRemark, boundaries};
use replay::audit::thresholds::{SettingEffect, check_setting};
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::{CacheMiss, Event};
use replay::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use replay::tokens::ratios::RatioTable;
use std::path::PathBuf;
use transcript::log::Time;
use transcript::problem::{Problem, sort_problems};

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Ends with status 1 if a limit is exceeded. Limits come from the command line or from a TOML file (--limits) with the same
names: `max-cost = 5.0`. If a cost is limited, a call without a price exceeds `max-unpriced`, because its cost is not known.

Examples:
  backcast check --all                                    everything that can be limited, measured on your sessions
  backcast check logs/ --max-cost 500 --max-recompactions 100
  backcast check logs/ --last 7 --max-day-cost 80 -f github
  backcast check logs/ --limits limits.toml -f junit -o check.xml
  backcast check logs/ --set window.percent=70 --max-without-effect 100")]
pub struct CheckArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// File with limits (TOML, one per line). Limits on the command line override it.
    #[arg(long = "limits", value_name = "FILE", help_heading = "Limits")]
    pub file: Option<PathBuf>,
    /// Show everything that can be limited, with or without a limit. Without limits nothing is judged.
    #[arg(long, help_heading = "Limits")]
    pub all: bool,
    /// Which policy, and the setting whose effect is looked for.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How results are written.
    #[command(flatten)]
    pub out: CheckOutputArgs,
}

/// Runs it.
pub fn run(args: &CheckArgs) -> Result<RunStatus> {
    let limits = merge_limits(args)?;
    let (usual, setting) = split_override(resolve_policy(&args.policy)?)?;
    let wanted = limits_to_show(args, &limits, setting.is_some())?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let collector = FactCollector {
        needs: wanted
            .iter()
            .map(|(limit, _)| limit.needs)
            .max()
            .unwrap_or(RequiredData::Usage),
        default_policies: &usual,
        threshold_override: setting.as_ref(),
        prices: &prices,
        zone: &args.input.selection.timezone,
    };
    let needs = LogNeeds {
        windows: true,
        ..LogNeeds::default()
    };
    let (facts, problems) = with_logs(args.input.shown_as_table(args.out.shows_table()), needs, |source| {
        collector.collect_facts(&source)
    })?;
    let rows = wanted
        .into_iter()
        .map(|(limit, allowed)| LimitRow::new(limit, allowed, &facts))
        .collect::<Vec<_>>();
    let view = CheckView {
        all: args.all,
        rows: &rows,
        selection: &facts.selection,
        problems: &problems,
        account: &facts.account,
    };
    write_output(&args.out, |out, style| match args.out.format.row_format() {
        Some(format) => view.write(format, style, out),
        None if args.out.format == CheckFormat::Github => out.write_all(view.annotations().as_bytes()),
        None => out.write_all(view.junit().as_bytes()),
    })?;
    match report_problems(&args.input, &problems) {
        RunStatus::Done if view.exceeded_count() > 0 => Ok(RunStatus::Found),
        ending => Ok(ending),
    }
}

/// The limits of the command line and of the file.
fn merge_limits(args: &CheckArgs) -> Result<budget::LimitSet> {
    let mut given = args.limits.0.clone();
    if let Some(path) = &args.file {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let of_file = parse_limits(&text).map_err(|why| anyhow!("{}: {why}", path.display()))?;
        for (limit, value) in of_file {
            if given.iter().all(|(known, _)| known.name != limit.name) {
                given.push((limit, value));
            }
        }
    }
    if given.is_empty() && !args.all {
        bail!(
            "no limit is set, so there is nothing to check\n  hint: `backcast check --all` shows what can be limited and what your sessions measure; then, for example, `backcast check --max-cost 50`"
        );
    }
    Ok(budget::complete_limits(&given))
}

/// What is shown: the limits that are set, or all.
type ShownLimits = Vec<(&'static budget::Limit, Option<f64>)>;

fn limits_to_show(args: &CheckArgs, limits: &budget::LimitSet, has_setting: bool) -> Result<ShownLimits> {
    let needs_setting = limits.iter().any(|(limit, _)| limit.needs == RequiredData::Setting);
    if needs_setting && !has_setting {
        bail!(
            "--max-without-effect needs a setting\n  hint: --client-env uses the one of this machine, --set window.percent=70 sets one"
        );
    }
    if !args.all {
        return Ok(limits.iter().map(|&(limit, value)| (limit, Some(value))).collect());
    }
    let value = |name: &str| {
        limits
            .iter()
            .find(|(limit, _)| limit.name == name)
            .map(|(_, value)| *value)
    };
    let shown = LIMITS
        .iter()
        .filter(|limit| has_setting || limit.needs != RequiredData::Setting);
    Ok(shown.map(|limit| (limit, value(limit.name))).collect())
}

/// What is looked for in the logs.
struct FactCollector<'a> {
    needs: RequiredData,
    default_policies: &'a PolicySet,
    threshold_override: Option<&'a ThresholdOverride>,
    prices: &'a PriceTable,
    zone: &'a TimeZone,
}

impl FactCollector<'_> {
    fn collect_facts(&self, source: &LogSource<'_>) -> (BudgetFacts, Vec<Problem>) {
        let needs_traces = self.needs != RequiredData::Usage;
        let (mut summary, deep) = if needs_traces {
            self.read_sessions(&source.read(), source)
        } else {
            let (summary, _) = summarize(source.logs, &source.options, RatioTable::built_in(), false);
            (summary, Vec::new())
        };
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(source.problems());
        sort_problems(&mut problems);
        let mut facts = self.usage_facts(&summary);
        for found in deep {
            facts.boundaries.extend(found.boundaries);
            facts
                .without_effect
                .extend(found.is_without_effect.then(|| found.id.clone()));
            if found.cache_misses > 0 {
                facts.cache_misses.push((found.id, found.cache_misses));
            }
        }
        facts.problems = problems
            .iter()
            .filter(|problem| problem.kind.is_of_input())
            .map(|problem| (problem.kind.is_loss(), problem.count(), problem_place(problem)))
            .collect();
        (facts, problems)
    }

    /// Works on every session once: its usage, and if it is selected what only its traces show.
    fn read_sessions(&self, run: &Run, source: &LogSource<'_>) -> (UsageSummary, Vec<TraceFacts>) {
        let usage = UsageConsumer::new(run, RatioTable::built_in(), false, source.options.cache);
        let bar = source.session_bar(run);
        let (sessions, mut defects) = run.map_every_session(|view| {
            bar.inc(1);
            let report = view.attempt(|view| usage.report(view));
            let is_selected = view.is_selected();
            let traced = is_selected.then(|| view.attempt(|view| self.trace_session(view, &run.selection)));
            (report, traced.transpose())
        });
        let (mut reports, mut deep) = (Vec::new(), Vec::new());
        for (report, traced) in sessions {
            // A session on which both panic is named once.
            match (report, traced) {
                (Ok(report), Ok(traced)) => {
                    reports.push(report);
                    deep.extend(traced);
                }
                (Ok(report), Err(problem)) => {
                    reports.push(report);
                    defects.push(problem);
                }
                (Err(problem), _) => defects.push(problem),
            }
        }
        (usage.finish(reports, defects), deep)
    }

    /// What all calls add up to.
    fn usage_facts(&self, summary: &UsageSummary) -> BudgetFacts {
        let rows = |by| group_calls(summary, by, false, self.zone, self.prices).rows;
        let sessions = rows(GroupBy::Session);
        let total = tally::UsageRow::total(&sessions).sums;
        let days = rows(GroupBy::Day).into_iter().map(|row| (row.key, row.sums.cost));
        BudgetFacts {
            selection: summary.selection.clone(),
            account: UsageAccount::new(summary, self.prices),
            total,
            days: days.collect(),
            sessions: sessions
                .into_iter()
                .map(|row| SessionFacts {
                    id: row.key,
                    cost: row.sums.cost,
                    peak: row.window.map_or(0, |window| window.peak),
                })
                .collect(),
            reads: summary.reads,
            ..BudgetFacts::default()
        }
    }

    /// Boundaries, cache misses, and whether the setting shows.
    fn trace_session(&self, view: &SessionView<'_>, selection: &Selection) -> TraceFacts {
        let (id, session) = (view.id(), view.session());
        let mut deep = TraceFacts {
            id: id.to_owned(),
            ..TraceFacts::default()
        };
        for trace in view.traces() {
            let (policies, prices) = policies_and_prices(self.default_policies, self.prices, trace);
            let windows = view.infer_windows(trace, &policies, &prices);
            let in_force = AuditInput {
                trace,
                policies: &policies,
                prices: &prices,
                windows: &windows,
            };
            let found = boundaries(&in_force);
            let takes = |time: Time, model: &str| selection.takes_call(time, model);
            for boundary in found.iter().filter(|boundary| takes(boundary.time, &boundary.model)) {
                deep.boundaries.push(BoundaryFacts {
                    session: id.to_owned(),
                    line: (
                        session.part(boundary.node).path.clone(),
                        u64::from(session.record(boundary.node).line),
                    ),
                    is_compaction: boundary.kind != BoundaryKind::Micro,
                    is_recompaction: boundary.is_recompaction,
                    is_soon: boundary.remarks().contains(&BoundaryRemark::Again),
                    has_grown: boundary.has_grown() == Some(true),
                });
            }
            let setting = ReplayInput {
                policies: &policies,
                prices: &prices,
                windows: &windows,
                summary: None,
                mode: ReplayMode::Follow,
                uses: None,
                texts: None,
                key: 0,
            };
            replay(trace, &setting, &mut |call: u32, event: &Event<'_>| {
                if let Event::Called(called) = event {
                    let call = &trace.calls[call as usize];
                    let is_missed = called.miss == Some(CacheMiss::Unexplained) && !call.is_copied;
                    deep.cache_misses +=
                        u64::from(is_missed && takes(call.time, &trace.models[usize::from(call.model)]));
                }
            });
            let has_calls = trace
                .calls
                .iter()
                .any(|call| !call.is_copied && takes(call.time, &trace.models[usize::from(call.model)]));
            if let Some(chosen) = self.threshold_override.filter(|_| !trace.is_sidechain && has_calls) {
                let (with_setting, _) = policies_and_prices(&chosen.policies, self.prices, trace);
                let checked = check_setting(&in_force, &with_setting, &found, &in_force.contexts());
                let shows_not =
                    checked.is_some_and(|it| matches!(it.effect, SettingEffect::DidNot | SettingEffect::InPart));
                deep.is_without_effect |= shows_not;
            }
        }
        deep
    }
}

/// What only the trace of a session tells.
#[derive(Default)]
struct TraceFacts {
    id: String,
    boundaries: Vec<BoundaryFacts>,
    cache_misses: u64,
    is_without_effect: bool,
}

fn problem_place(problem: &Problem) -> LimitLocation {
    LimitLocation {
        name: problem.path.clone(),
        line: problem.line.map(|line| (problem.path.clone(), line)),
    }
}
