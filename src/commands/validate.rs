//! `backcast validate`: predicted against recorded boundaries.

use super::Ending;
use super::policy::{of_trace, resolve};
use super::reading::{close, with_logs};
use super::writing::{emit, load_prices};
use crate::cli::ValidateArgs;
use crate::metrics::cost::micro_usd;
use crate::recorded::validate::{Case, Costs, Mechanism, Validation, Verdict, validate};
use crate::session::thread::{Session, thread};
use crate::sim::inference::infer;
use crate::sim::trace::trace;
use crate::tokens::ratios::RatioTable;
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// What was found in one session.
struct Validated {
    id: String,
    calls: Vec<(crate::policy::presets::Version, u64)>,
    unsure: u64,
    cases: Vec<(Case, Place)>,
    costs: Costs,
    segments: Vec<f64>,
    defects: u64,
}

/// Where a case is.
struct Place {
    agent: String,
    model: String,
    path: String,
    line: u32,
}

/// Runs it.
pub fn run(args: &ValidateArgs) -> Result<Ending> {
    let policies = resolve(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let table = RatioTable::built_in();
    let (sessions, problems) = with_logs(&args.input, false, |reading| {
        let corpus = reading.corpus;
        let (sessions, defects) = corpus.map_sessions(|id, parts| {
            let session = Session::new(id, parts);
            let threaded = thread(&session);
            let mut validated = Validated {
                id: id.to_owned(),
                calls: Vec::new(),
                unsure: 0,
                cases: Vec::new(),
                costs: Costs::default(),
                segments: Vec::new(),
                defects: 0,
            };
            for chain in &threaded.chains {
                let trace = trace(&session, chain, table);
                let (by_version, by_model) = of_trace(&policies, &prices, &trace);
                let windows = infer(&trace, &by_version, &by_model);
                let found: Validation = validate(&trace, &by_version, &by_model, &windows);
                validated.calls.extend(found.calls);
                validated.unsure += found.unsure_calls;
                validated.costs.merge(&found.costs);
                validated.segments.extend(found.segments);
                validated.defects += u64::from(found.has_defect);
                validated.cases.extend(found.cases.into_iter().map(|case| {
                    let place = Place {
                        agent: trace.agent.clone(),
                        model: trace.models[usize::from(case.model)].clone(),
                        path: session.part(case.node).path.clone(),
                        line: session.record(case.node).line,
                    };
                    (case, place)
                }));
            }
            validated
        });
        let mut problems = corpus.problems;
        problems.extend(defects);
        (sessions, problems)
    })?;
    let json = document(&sessions);
    emit(&args.out, |out, _| {
        serde_json::to_writer_pretty(&mut *out, &json)?;
        out.write_all(b"\n")
    })?;
    Ok(close(&args.input, &problems))
}

fn document(sessions: &[Validated]) -> Json {
    let cases = || {
        sessions
            .iter()
            .flat_map(|session| session.cases.iter().map(move |case| (session, case)))
    };
    let count = |mechanism: Mechanism, verdict: Verdict| {
        cases()
            .filter(|(_, (case, _))| case.mechanism == mechanism && case.verdict == verdict)
            .count()
    };
    let mut errors = cases()
        .filter(|(_, (case, _))| case.mechanism == Mechanism::Auto && case.verdict != Verdict::Undecidable)
        .filter_map(|(_, (case, _))| case.error())
        .map(i64::abs)
        .collect::<Vec<_>>();
    errors.sort_unstable();
    let mut segments = sessions
        .iter()
        .flat_map(|session| &session.segments)
        .map(|error| error.abs())
        .collect::<Vec<_>>();
    segments.sort_by(f64::total_cmp);
    let mut costs = Costs::default();
    let mut cost_errors = Vec::new();
    for session in sessions {
        costs.merge(&session.costs);
        if session.costs.recorded > 0 {
            cost_errors.push((session.costs.simulated as f64 / session.costs.recorded as f64 - 1.0).abs());
        }
    }
    cost_errors.sort_by(f64::total_cmp);
    let mut calls = BTreeMap::new();
    for (version, count) in sessions.iter().flat_map(|session| &session.calls) {
        *calls.entry(*version).or_insert(0) += count;
    }
    let quantile = |list: &[f64], share: f64| list.get(((list.len() as f64 - 1.0) * share).round() as usize).copied();
    json!({
        "schema_version": SCHEMA_VERSION,
        "calls": calls.values().sum::<u64>(),
        "unsure_calls": sessions.iter().map(|session| session.unsure).sum::<u64>(),
        "defects": sessions.iter().map(|session| session.defects).sum::<u64>(),
        "auto": {
            "recorded": cases().filter(|(_, (case, _))| case.mechanism == Mechanism::Auto && case.verdict != Verdict::Spurious).count(),
            "exact": count(Mechanism::Auto, Verdict::Exact),
            "early": count(Mechanism::Auto, Verdict::Early),
            "late": count(Mechanism::Auto, Verdict::Late),
            "missed": count(Mechanism::Auto, Verdict::Missed),
            "spurious": count(Mechanism::Auto, Verdict::Spurious),
            "undecidable": count(Mechanism::Auto, Verdict::Undecidable),
        },
        "micro": {
            "recorded": cases().filter(|(_, (case, _))| case.mechanism == Mechanism::Micro && case.verdict != Verdict::Spurious).count(),
            "exact_ids": count(Mechanism::Micro, Verdict::Exact),
            "missed": count(Mechanism::Micro, Verdict::Missed),
            "spurious": count(Mechanism::Micro, Verdict::Spurious),
        },
        "pre_errors": errors,
        "segments": {"count": segments.len(), "p50": quantile(&segments, 0.5), "p90": quantile(&segments, 0.9)},
        "cost": {"recorded": micro_usd(costs.recorded), "simulated": micro_usd(costs.simulated), "unexplained": costs.unexplained,
            "unexplained_cost": micro_usd(costs.unexplained_cost), "p50": quantile(&cost_errors, 0.5), "p90": quantile(&cost_errors, 0.9)},
        "cases": cases().map(|(session, (case, place))| json!({
            "session": session.id, "agent": place.agent, "mechanism": case.mechanism, "verdict": case.verdict, "reason": case.reason,
            "version": case.version.to_string(), "model": place.model, "call": case.call, "distance": case.distance,
            "recorded": case.recorded, "predicted": case.predicted, "error": case.error(), "threshold": case.threshold,
            "window": case.window.tokens, "grounds": case.window.grounds.name(), "cleared": [case.cleared.0.len(), case.cleared.1.len()],
            "path": place.path, "line": place.line,
        })).collect::<Vec<_>>(),
    })
}
