//! `backcast replay --explain`: the misses of one session.

use super::ReplayArgs;
use crate::cli::PrintArgs;
use crate::commands::RunStatus;
use crate::commands::reading::report_problems;
use crate::commands::writing::write_output;
use crate::run::{LogInput, LogNeeds, SessionView, with_logs};
use crate::views::replay::explain::SessionExplanation;
use anyhow::{Result, bail};
use replay::audit::misses::MissCollector;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::{Event, EventSink};
use replay::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use replay::tune::score::chain_key;
use transcript::problem::{Problem, sort_problems};

/// Prints the misses of the session that `wanted` names.
pub fn explain_session(
    args: &ReplayArgs,
    wanted: &str,
    policies: &PolicySet,
    prices: &PriceTable,
) -> Result<RunStatus> {
    let needs = LogNeeds {
        line_hashes: true,
        windows: true,
        texts: true,
        ..LogNeeds::default()
    };
    let mut input = LogInput::from(&args.input);
    input.selection.sessions.push(wanted.to_owned());
    let explainer = MissExplainer { args, policies, prices };
    let (sessions, problems) = with_logs(input, needs, |source| {
        let run = source.read();
        let summary = run.learn_summary();
        let (explained, defects) = run.map_sessions(|view| explainer.explain(view, summary));
        let (sessions, found): (Vec<_>, Vec<_>) = explained.into_iter().unzip();
        let mut problems = run.problems;
        problems.extend(found.into_iter().flatten());
        problems.extend(defects);
        problems.extend(source.problems());
        sort_problems(&mut problems);
        (sessions, problems)
    })?;
    match sessions.as_slice() {
        [] => bail!(
            "no session has an id that starts with `{wanted}` or a title that contains it\n  hint: `backcast stats` with the same paths lists sessions"
        ),
        [session] => {
            let text = session.to_text(&super::policy_name(policies, &args.policy.set));
            write_output(&args.print, |out, _| out.write_all(text.as_bytes()))?;
        }
        several => {
            let ids = several
                .iter()
                .map(|session| session.session.as_str())
                .collect::<Vec<_>>();
            bail!("several sessions match `{wanted}`: {}", ids.join(", "))
        }
    }
    Ok(report_problems(&args.input, &problems))
}

/// Refuses formats for programs.
pub fn check_format(print: &PrintArgs) -> Result<()> {
    if !print.shows_table() {
        bail!("--explain prints text only\n  hint: omit --format; --out DIR writes misses.jsonl for programs");
    }
    Ok(())
}

/// Explains one session after another.
struct MissExplainer<'a> {
    args: &'a ReplayArgs,
    policies: &'a PolicySet,
    prices: &'a PriceTable,
}

impl MissExplainer<'_> {
    /// Replays a session and collects its misses. Also returns the logs that could not be read again.
    fn explain(&self, view: &SessionView<'_>, summary: Option<u64>) -> (SessionExplanation, Vec<Problem>) {
        let zone = &self.args.input.selection.timezone;
        let mut explanation = SessionExplanation::new(view.id());
        let mut problems = Vec::new();
        for chain in 0..view.chains().len() {
            let trace = view.trace(chain);
            let (by_version, by_model) = policies_and_prices(self.policies, self.prices, trace);
            let windows = view.infer_windows(trace, &by_version, &by_model);
            let input = ReplayInput {
                policies: &by_version,
                prices: &by_model,
                windows: &windows,
                summary,
                mode: ReplayMode::Free,
                uses: Some(view.uses(chain)),
                texts: None,
                key: chain_key(view.id(), chain),
            };
            let mut found = MissCollector::new(view.session(), trace, view.uses(chain));
            replay(trace, &input, &mut |at: u32, event: &Event<'_>| {
                found.on_event(at, event)
            });
            explanation.add_chain(trace, view.project(), &found, zone, || {
                let (words, unread) = view.read_conversation(chain);
                problems.extend(unread);
                words
            });
        }
        (explanation, problems)
    }
}
