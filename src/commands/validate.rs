//! `backcast validate`: predicted against recorded boundaries.

use crate::cli::{CheckFormat, CheckOutputArgs, InputArgs, PolicyArgs};
use crate::commands::RunStatus;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::writing::{load_prices, write_output};
use crate::run::{LogNeeds, SessionView, with_logs};
use crate::views::validate::{CaseRow, SessionValidation, ValidationOptions, ValidationReport};
use anyhow::{Result, bail};
use clap::Args;
use replay::audit::costs::CostComparison;
use replay::audit::explain::explain;
use replay::audit::first_edits::first_edits;
use replay::audit::validate::validate;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::policies_and_prices;
use replay::sim::trace::uuid;
use std::collections::BTreeMap;
use transcript::problem::{Problem, ProblemKind, sort_problems};

/// Arguments of `validate`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every session is replayed with the policy of the client version that made it. Before every call the policy predicts whether a
compaction is due. A recorded automatic compaction is exact if the policy predicts it at the same call and not earlier. Where the
log lacks what is needed (the last message was never written, the window is not known), the case cannot be decided and counts
neither way.

Examples:
  backcast validate logs/                      how well the recorded client is modeled
  backcast validate logs/ --explain 7ff477a9   the boundaries of one session, step by step
  backcast validate logs/ -f json              everything, for other programs
  backcast validate logs/ -f junit -o v.xml    one test per compaction, for CI systems")]
pub struct ValidateArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Also show how well hits and misses predict what agents do: whether a read came before the first edit of a file after a
    /// compaction.
    #[arg(long, help_heading = "Output")]
    pub working_set: bool,
    /// Cases in the list, those that are wrong first; 0 for all. Without it, wrong ones are listed, and those that cannot be judged
    /// are counted by reason.
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub top: Option<usize>,
    /// A prediction this many calls off still counts as `within`.
    #[arg(long, value_name = "CALLS", default_value_t = 3, help_heading = "Output")]
    pub within: u64,
    /// Explain the compactions of one session step by step, so that they can be checked by hand. The beginning of its id is
    /// enough. Prints text only.
    #[arg(long, value_name = "SESSION", help_heading = "Output")]
    pub explain: Option<String>,
    /// How results are written.
    #[command(flatten)]
    pub out: CheckOutputArgs,
}

/// Runs it.
pub fn run(args: &ValidateArgs) -> Result<RunStatus> {
    if args.explain.is_some() && args.out.format != CheckFormat::Table {
        bail!("--explain prints text only and cannot be used with --format\n  hint: omit one of them");
    }
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let needs = LogNeeds {
        line_hashes: args.working_set,
        windows: true,
        ..LogNeeds::default()
    };
    let (sessions, account, problems, selection) =
        with_logs(args.input.shown_as_table(args.out.shows_table()), needs, |source| {
            let run = source.read();
            let bar = source.session_bar(&run);
            let (sessions, defects) = run.map_sessions(|view| {
                bar.inc(1);
                SessionValidation::new(view, &policies, &prices, args.explain.as_deref(), args.working_set)
            });
            let account = run.count_usage(source.options.cache, &prices);
            let mut problems = run.problems;
            problems.extend(defects);
            problems.extend(source.problems());
            (sessions, account, problems, run.selection.label)
        })?;
    let mut problems = problems;
    problems.extend(sessions.iter().flat_map(|session| session.problems.iter().cloned()));
    sort_problems(&mut problems);
    if let Some(wanted) = &args.explain {
        explain_session(args, &sessions, wanted)?;
        return Ok(report_problems(&args.input, &problems));
    }
    let options = ValidationOptions {
        within: args.within,
        top: args.top,
        selection: &selection,
    };
    let report = ValidationReport::new(&sessions, &policies, &problems, options, &account);
    write_output(&args.out, |out, style| match args.out.format.row_format() {
        Some(format) => report.write(format, style, out),
        None if args.out.format == CheckFormat::Github => out.write_all(report.annotations().as_bytes()),
        None => out.write_all(report.junit().as_bytes()),
    })?;
    Ok(report_problems(&args.input, &problems))
}

fn explain_session(args: &ValidateArgs, sessions: &[SessionValidation], wanted: &str) -> Result<()> {
    let found = sessions
        .iter()
        .filter(|session| session.id.starts_with(wanted))
        .collect::<Vec<_>>();
    match found.as_slice() {
        [] => bail!(
            "no session starts with `{wanted}`\n  hint: `backcast stats -f csv` with the same paths lists the ids of all sessions"
        ),
        [session] => write_output(&args.out, |out, _| out.write_all(session.explanation.as_bytes())),
        several => {
            let ids = several.iter().map(|session| session.id.as_str()).collect::<Vec<_>>();
            bail!("several sessions start with `{wanted}`: {}", ids.join(", "))
        }
    }
}

impl SessionValidation {
    fn new(
        view: &SessionView<'_>,
        policies: &PolicySet,
        prices: &PriceTable,
        wanted: Option<&str>,
        with_uses: bool,
    ) -> SessionValidation {
        let (id, session) = (view.id(), view.session());
        let mut validated = SessionValidation {
            id: id.to_owned(),
            client: view.coding_agent(),
            calls: Vec::new(),
            grounds: BTreeMap::new(),
            rows: Vec::new(),
            costs: CostComparison::default(),
            segments: Vec::new(),
            first_edits: None,
            explanation: String::new(),
            problems: view.threaded().problems.clone(),
        };
        for (number, trace) in view.traces().enumerate() {
            let (by_version, by_model) = policies_and_prices(policies, prices, trace);
            let windows = view.infer_windows(trace, &by_version, &by_model);
            let found = validate(trace, &by_version, &by_model, &windows);
            for (call, window) in std::iter::zip(&trace.calls, &windows) {
                if call.usage.is_some() && !call.is_copied {
                    *validated
                        .grounds
                        .entry((window.grounds, window.confidence))
                        .or_insert(0) += 1;
                }
            }
            if with_uses {
                let edits = first_edits(trace, view.uses(number));
                validated.first_edits.get_or_insert_default().merge(&edits);
            }
            if wanted.is_some_and(|wanted| id.starts_with(wanted)) {
                let told = explain(session, trace, &by_version, &found.cases);
                validated.explanation.push_str(&told);
            }
            if found.has_defect {
                let path = &session.part(trace.calls[0].node).path;
                validated.problems.push(Problem::file(
                    path,
                    ProblemKind::Internal,
                    format!("replay of session {id}"),
                ));
            }
            validated.calls.extend(found.calls);
            validated.costs.merge(&found.costs);
            validated.segments.extend(found.segments);
            let rows = found.cases.into_iter().map(|case| CaseRow {
                session: id.to_owned(),
                coding_agent: view.coding_agent(),
                agent: trace.agent.clone(),
                model: trace.models[usize::from(case.model)].clone(),
                uuid: uuid(session, case.node),
                path: session.part(case.node).path.clone(),
                line: session.record(case.node).line,
                case,
            });
            validated.rows.extend(rows);
        }
        validated
    }
}
