//! A page of logs: usage as recorded, a replay, an audit, and what else was asked for, of one read of the logs. Only memories
//! are found in a pass of their own, because they need the messages of all sessions of a project together.

use super::found::{ReportInputs, find_inputs};
use super::{ReportArgs, texts};
use crate::commands::audit::{Auditor, audit_document};
use crate::commands::compare::Comparison;
use crate::commands::memory::drawn;
use crate::commands::policy::resolve_policy;
use crate::commands::replay::{ReplayConsumer, ReplayWants, policy_name};
use crate::commands::stats;
use crate::commands::tune::sweep_usual_thresholds;
use crate::commands::writing::load_prices;
use crate::page::{AbsentView, PageContent, PageNotes};
use crate::run::{LogInput, LogNeeds, LogSource, Run, UsageConsumer, client_home, with_logs};
use crate::usage::account::UsageAccount;
use crate::views::audit::SessionAudit;
use crate::views::replay::ReplayOutcome;
use crate::views::stats::StatsResult;
use anyhow::Result;
use memory::memdir::Memdir;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::tokens::ratios::RatioTable;
use serde_json::Value as Json;
use std::path::PathBuf;
use transcript::problem::{Problem, sort_problems};

/// Rows of the lists of a comparison.
const COMPARED_ROWS: usize = 10;

/// Reads logs for a page. Returns the problems with them.
pub(super) fn read_logs(
    args: &ReportArgs,
    paths: &[PathBuf],
    found: &ReportInputs,
    content: &mut PageContent,
) -> Result<Vec<Problem>> {
    let input = LogInput {
        paths: if found.is_mixed() {
            found.logs.clone()
        } else {
            paths.to_vec()
        },
        ..LogInput::from(&args.input)
    };
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let reader = PageReader {
        args,
        auditor: Auditor::new(policies.clone())?,
        compare: Comparison::with_policy(&args.compare, &args.policy, &policies)?,
        policies,
        prices,
    };
    let needs = LogNeeds {
        line_hashes: true,
        windows: true,
        texts: args.wants_notes(),
        ..LogNeeds::default()
    };
    let mut read = with_logs(input.clone(), needs, |source| reader.read(&source))??;
    content.overview = Some(stats::usage_overview(&read.stats, &reader.prices));
    let account = read.replay.account.clone();
    let name = policy_name(&reader.policies, &args.policy.set);
    let comparison = read
        .replay
        .comparison_report(&reader.compare, COMPARED_ROWS)
        .page_document();
    // A row holds a session under three policies.
    read.replay.comparisons = Vec::new();
    content
        .runs
        .push(read.replay.to_page_replay(name, &reader.policies, Some(comparison)));
    content.audits.push(audit_document(
        &reader.auditor,
        read.audits,
        account,
        &read.audit_problems,
    ));
    match read.tune {
        Some(Ok(sweep)) => content.tunes.push(sweep),
        // A page without a sweep is still a page.
        Some(Err(error)) => content.absent.push(AbsentView {
            view: "tune",
            why: format!("No thresholds were compared: {}.", first_line(&error.to_string())),
        }),
        None => {}
    }
    content.notes.append(&mut read.notes);
    add_memory_directories(paths, content)?;
    if args.wants_memories() {
        texts::add_memories(input, &args.input, content)?;
    }
    Ok(read.stats.problems)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end_matches('.')
}

/// Adds the memory directories of the client, if the page is about its own sessions.
fn add_memory_directories(paths: &[PathBuf], content: &mut PageContent) -> Result<()> {
    let home = client_home().map(|home| home.join("projects"));
    let Some(projects) = home.filter(|folder| paths.is_empty() && folder.is_dir()) else {
        return Ok(());
    };
    for memdir in find_inputs(&[projects])?.memdirs {
        if let Some(memdir) = Memdir::open(&memdir)? {
            content.memories.push(drawn::directory_json(&memdir)?);
        }
    }
    Ok(())
}

/// Reads logs once and hands every session to its consumers.
struct PageReader<'a> {
    args: &'a ReportArgs,
    policies: PolicySet,
    prices: PriceTable,
    auditor: Auditor,
    compare: Comparison,
}

/// What the consumers found out.
struct PageData {
    stats: StatsResult,
    replay: ReplayOutcome,
    audits: Vec<SessionAudit>,
    audit_problems: Vec<Problem>,
    notes: Vec<PageNotes>,
    tune: Option<Result<Json>>,
}

impl PageReader<'_> {
    fn read(&self, source: &LogSource<'_>) -> Result<PageData> {
        let run = source.read();
        let mut data = self.read_sessions(&run, source)?;
        data.tune = self.args.wants_tune().then(|| {
            let quiet = self.args.input.quiet;
            let result = sweep_usual_thresholds(&run, source, &self.policies, &self.prices, quiet)?;
            Ok(result.document())
        });
        Ok(data)
    }

    fn read_sessions(&self, run: &Run, source: &LogSource<'_>) -> Result<PageData> {
        let table = RatioTable::built_in();
        let usage = UsageConsumer::new(run, table, false, source.options.cache);
        let replayer = ReplayConsumer {
            policies: &self.policies,
            prices: &self.prices,
            compare: Some(&self.compare),
            summary: run.learn_summary(),
            wants: ReplayWants {
                working_set: true,
                page: true,
                ..ReplayWants::default()
            },
        };
        let mut replay = ReplayOutcome::new(run.log_count(), replayer.summary);
        let (mut reports, mut audits, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        // Each consumer fails on its own, and so has a list of its own.
        let [mut usage_defects, mut replay_defects, mut audit_defects] = [const { Vec::new() }; 3];
        let wants_notes = self.args.wants_notes();
        let bar = source.session_bar(run);
        let defects = run.stream_every_session(
            |view| {
                let report = view.attempt(|view| usage.report(view));
                let others = view.is_selected().then(|| {
                    (
                        view.attempt(|view| replayer.replay(view)),
                        view.attempt(|view| self.auditor.audit(view, &self.prices)),
                        wants_notes.then(|| view.attempt(|view| texts::write_notes(view, &self.policies))),
                    )
                });
                (report, others)
            },
            |(report, others)| {
                bar.inc(1);
                keep(report, &mut reports, &mut usage_defects);
                let Some((replayed, audited, noted)) = others else {
                    return Ok(());
                };
                keep(audited, &mut audits, &mut audit_defects);
                if let Some(Ok(Some(noted))) = noted {
                    notes.push(noted);
                }
                match replayed {
                    Ok(replayed) => replay.add_session(replayed).map(|_| ())?,
                    Err(problem) => replay_defects.push(problem),
                }
                Ok(())
            },
        )?;
        for list in [&mut usage_defects, &mut replay_defects, &mut audit_defects] {
            list.extend(defects.iter().cloned());
        }
        let summary = usage.finish(reports, usage_defects);
        let common = run.problems.iter().cloned().chain(source.problems());
        let mut audit_problems = common.clone().chain(audit_defects).collect::<Vec<_>>();
        sort_problems(&mut audit_problems);
        replay.add_problems(common.chain(replay_defects));
        replay.bill_consolidations(&self.policies);
        replay.account = UsageAccount::new(&summary, &self.prices);
        Ok(PageData {
            stats: StatsResult::new(summary, source),
            replay,
            audits,
            audit_problems,
            notes,
            tune: None,
        })
    }
}

fn keep<T>(result: Result<T, Problem>, results: &mut Vec<T>, defects: &mut Vec<Problem>) {
    match result {
        Ok(result) => results.push(result),
        Err(problem) => defects.push(problem),
    }
}
