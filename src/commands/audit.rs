//! `backcast audit`: what was recorded at compactions.

use crate::cli::{InputArgs, OutputArgs, PolicyArgs};
use crate::commands::RunStatus;
use crate::commands::policy::{resolve_policy, settings_file_time};
use crate::commands::reading::report_problems;
use crate::commands::writing::{ensure_absent, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{LogNeeds, SessionView, with_logs};
use crate::usage::account::UsageAccount;
use crate::usage::title::out_of_reach;
use crate::views::audit::{AuditOptions, AuditRow, AuditView, CheckedSession, MissedTitle, SessionAudit, UserSetting};
use anyhow::Result;
use clap::Args;
use jiff::tz::TimeZone;
use replay::audit::boundaries::{AuditInput, boundaries};
use replay::audit::thresholds::{check_setting, gather_evidence};
use replay::policy;
use replay::policy::Policy;
use replay::policy::client_settings::SETTINGS_ORIGIN;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::policies_and_prices;
use serde_json::Value as Json;
use std::path::PathBuf;
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};
use transcript::problem::{Problem, sort_problems};

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Sizes before and after are what was sent, from recorded usage. The log does not record the threshold: it lies above the
largest context that was sent without a compaction, and is at most the smallest that was compacted. It is compared with the one
that the policy has for that client version, model and window.

A setting is judged by the sessions that started since it was set: since the settings file last changed, or from --since on.
Without a path, backcast audit reads the client's settings on this machine; with a path it does so with --client-env. --set of
window.percent, window.override, switch.auto or switch.compaction names a setting. An override can only lower the threshold.

Examples:
  backcast audit                          your own sessions and settings
  backcast audit logs/ --client-env       sessions from elsewhere, the settings of this machine
  backcast audit --set window.percent=70  did this value take effect?
  backcast audit logs/ -f csv -o b.csv    one row per compaction, for other programs")]
pub struct AuditArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Compactions in the table, the most remarkable first; 0 for all. Other formats have all.
    #[arg(long, default_value_t = 6, value_name = "N", help_heading = "Output")]
    pub top: usize,
    /// Also write everything as one HTML page.
    #[arg(long, value_name = "FILE", group = "written", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// How results are written.
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Runs it.
pub fn run(args: &AuditArgs) -> Result<RunStatus> {
    ensure_absent(args.html.as_deref(), args.out.force)?;
    // Without a path the sessions are those of this machine, and so are the settings.
    let is_own = args.input.paths.is_empty() && args.input.parts.is_none();
    let policy = PolicyArgs {
        client_env: args.policy.client_env || is_own,
        ..args.policy.clone()
    };
    let auditor = Auditor::new(resolve_policy(&policy)?)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let needs = LogNeeds {
        windows: true,
        ..LogNeeds::default()
    };
    let (sessions, account, problems, range, newest) = with_logs(
        args.input.shown_as_table(args.out.shows_table() && args.html.is_none()),
        needs,
        |source| {
            let run = source.read();
            let bar = source.session_bar(&run);
            let (sessions, defects) = run.map_sessions(|view| {
                bar.inc(1);
                auditor.audit(view, &prices)
            });
            let (range, newest) = (run.selection.range, run.newest());
            let account = run.count_usage(source.options.cache, &prices);
            let mut problems = run.problems;
            problems.extend(defects);
            problems.extend(source.problems());
            sort_problems(&mut problems);
            (sessions, account, problems, range, newest)
        },
    )?;
    let options = AuditOptions {
        top: args.top,
        client_env: policy.client_env,
        list_problems: args.input.problems,
        setting_since: range.since.or_else(|| auditor.setting_time()),
        newest,
    };
    let zone = &args.input.selection.timezone;
    let view = AuditView::new(options, sessions, account, auditor.settings(), &problems, zone);
    write_output(&args.out, |out, style| view.write(args.out.format, style, out))?;
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
pub(super) fn audit_document(
    auditor: &Auditor,
    sessions: Vec<SessionAudit>,
    account: UsageAccount,
    problems: &[Problem],
) -> Json {
    let options = AuditOptions {
        top: 0,
        client_env: false,
        list_problems: true,
        setting_since: auditor.setting_time(),
        newest: None,
    };
    AuditView::new(options, sessions, account, auditor.settings(), problems, &TimeZone::UTC).document()
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
    fn settings(&self) -> Option<Vec<UserSetting>> {
        let chosen = self.threshold_override.as_ref()?;
        Some(chosen.settings.clone())
    }

    /// Returns when the setting was last changed: the time of the settings file, if that is where it stands.
    fn setting_time(&self) -> Option<Time> {
        let chosen = self.threshold_override.as_ref()?;
        let is_in_file = |(_, _, origin): &UserSetting| origin.starts_with(SETTINGS_ORIGIN);
        chosen.settings.iter().all(is_in_file).then(settings_file_time)?
    }

    /// Audits a session.
    pub fn audit(&self, view: &SessionView<'_>, prices: &PriceTable) -> SessionAudit {
        let missed = match view.session().coding_agent() {
            Agent::Claude => out_of_reach(view.session()),
            _ => Vec::new(),
        };
        let missed = missed.into_iter().map(|source| MissedTitle {
            session: view.id().to_owned(),
            source,
        });
        let mut audited = SessionAudit {
            missed_titles: missed.collect(),
            ..SessionAudit::default()
        };
        for trace in view.traces() {
            let (policies, prices_of) = policies_and_prices(&self.usual, prices, trace);
            let windows = view.infer_windows(trace, &policies, &prices_of);
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
                let own_calls = trace
                    .calls
                    .iter()
                    .filter(|call| !call.is_copied && call.time != NO_TIME);
                let started = own_calls.map(|call| call.time).min();
                audited.checked_settings.extend(checked.map(|check| CheckedSession {
                    session: view.id().to_owned(),
                    started,
                    check,
                }));
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
    pub settings: Vec<UserSetting>,
}

/// Parts what the client would do by itself from what the user set: only held against the former does the record show
/// whether the latter took effect.
pub(super) fn split_override(policies: PolicySet) -> Result<(PolicySet, Option<ThresholdOverride>)> {
    const KEYS: [&str; 6] = [
        "window.percent",
        "window.threshold",
        "window.override",
        "window.override_models",
        "switch.auto",
        "switch.compaction",
    ];
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
