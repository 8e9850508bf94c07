//! `backcast memory review`: a person decides on the candidates that are not sure enough to be written.

use crate::cli::{InputArgs, parse_share};
use crate::commands::memory::consolidate::print_changes;
use crate::commands::memory::extract::printed::{candidate_paragraph, says_title};
use crate::commands::memory::extract::{EXTRACT_FILTER, extract_projects, read_rules};
use crate::commands::memory::projects::{ProjectArgs, split_by_project, target_dirs};
use crate::commands::memory::stored::directory_name;
use crate::commands::memory::{DirArgs, now};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::reading::report_problems;
use crate::commands::terminal::notice;
use crate::commands::writing::ensure_absent;
use crate::commands::{RunStatus, print};
use crate::run::with_messages;
use anyhow::{Context, Result, bail};
use clap::Args;
use language::markdown::escape_markdown;
use language::when;
use memory::acts::{ActRecord, ReviewAct};
use memory::kinds::Candidate;
use memory::memdir::Memdir;
use memory::plan::{MemoryPlanOptions, candidate_mark, plan_memories};
use memory::rules::ExtractionRules;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use table::atomic;

/// Arguments of `memory review`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Shows the candidates that `memory extract` finds but does not write, best first, with where they were said. In a terminal a
key and Enter decide: a accepts, e accepts with your own title and text, d drops this one, n drops it and lowers the score of
everything like it, s skips, q quits. Skipped candidates come up again.

With --review-file the candidates go into a Markdown file with a checkbox each: the body of a pull request, or a file to edit.
Tick a box, or write `drop` or `never` after it, and apply the decisions with --apply.

Decisions are stored in the directory and shift later scores a little. --acts lists them, --forget-acts removes them.

Examples:
  backcast memory review                                         this repository's sessions
  backcast memory review logs/ --dir memory/ --review-file r.md  candidates as Markdown
  backcast memory review logs/ --dir memory/ --apply r.md        what was ticked there
  backcast memory review logs/ --dir memory/ --yes               accept them all")]
pub struct ReviewArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Which projects.
    #[command(flatten)]
    pub projects: ProjectArgs,
    /// Write the candidates to a Markdown file with a checkbox each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "apply"])]
    pub review_file: Option<PathBuf>,
    /// Replace the file.
    #[arg(long, requires = "review_file")]
    pub force: bool,
    /// Apply the decisions in such a file.
    #[arg(long, value_name = "FILE", conflicts_with = "yes")]
    pub apply: Option<PathBuf>,
    /// Accept all candidates.
    #[arg(long)]
    pub yes: bool,
    /// List earlier decisions, and change nothing.
    #[arg(long, conflicts_with_all = ["yes", "apply", "review_file", "forget_acts"])]
    pub acts: bool,
    /// Forget earlier decisions. Memories stay.
    #[arg(long, conflicts_with_all = ["yes", "apply", "review_file"])]
    pub forget_acts: bool,
    /// Rules of your own (TOML).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub rules: Option<PathBuf>,
    /// Candidates with at least this confidence are written by `memory extract` and not reviewed.
    #[arg(long, value_name = "X", default_value_t = 0.5, value_parser = parse_share, help_heading = "Selection")]
    pub min_confidence: f64,
}

/// What a person decided about a candidate.
#[derive(Debug, Clone, PartialEq)]
enum Decision {
    Act(ReviewAct),
    /// Accepted with a title and text of the person.
    Reword(String, String),
    Skip,
    Quit,
}

/// Runs it.
pub fn run(args: &ReviewArgs) -> Result<RunStatus> {
    if args.acts || args.forget_acts {
        return manage_acts(args);
    }
    if let Some(path) = &args.review_file {
        ensure_absent(Some(path), args.force)?;
    }
    let is_asked = args.review_file.is_none() && args.apply.is_none() && !args.yes;
    let own = read_rules(args.rules.as_deref())?;
    let rules = own.as_ref().unwrap_or_else(|| ExtractionRules::built_in());
    let (messages, problems) = with_messages(&args.input, EXTRACT_FILTER, |messages, problems| (messages, problems))?;
    let (projects, roots) = split_by_project(
        messages,
        &args.input.selection.project,
        &args.projects,
        !args.input.paths.is_empty(),
    )?;
    let dirs = target_dirs(&projects, &args.input.selection.project, &args.projects, &args.dir)?
        .into_iter()
        .map(Some)
        .collect::<Vec<_>>();
    let found = extract_projects(projects, &roots, &dirs, args.min_confidence, rules)?;
    let mut waiting = BTreeMap::<PathBuf, Vec<Candidate>>::new();
    for (dir, project) in dirs.iter().flatten().zip(found) {
        let open = leave_out_decided(dir, project.extraction.review)?;
        waiting.entry(dir.clone()).or_default().extend(open);
    }
    if let Some(path) = &args.review_file {
        atomic::write(path, true, to_markdown(&waiting).as_bytes())?;
        notice!(
            "{} to decide on in {}",
            waiting.values().map(Vec::len).sum::<usize>(),
            path.display()
        );
        return Ok(report_problems(&args.input, &problems));
    }
    if is_asked && !std::io::stdin().is_terminal() {
        let shown = waiting.values().flatten().map(candidate_paragraph).collect::<Vec<_>>();
        print(shown.join("\n").as_bytes())?;
        notice!(
            "{} to decide on, but there is no terminal: --review-file FILE writes them, --yes accepts them all",
            shown.len()
        );
        return Ok(report_problems(&args.input, &problems));
    }
    let ticked = args.apply.as_deref().map(read_decisions).transpose()?;
    for (dir, candidates) in &waiting {
        let decide = |number: usize, candidate: &Candidate| match &ticked {
            Some(ticked) => Ok(ticked
                .get(&candidate_mark(candidate))
                .cloned()
                .unwrap_or(Decision::Skip)),
            None if args.yes => Ok(Decision::Act(ReviewAct::Accept)),
            None => ask(number, candidates.len(), candidate),
        };
        if !review_directory(args, dir, candidates, &decide)? {
            break;
        }
    }
    Ok(report_problems(&args.input, &problems))
}

/// Leaves out what a person decided on before, and what the directory has already.
fn leave_out_decided(dir: &Path, candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
    let Some(memdir) = Memdir::open(dir)? else {
        return Ok(candidates);
    };
    let (snapshot, _) = memdir.read()?;
    let decided = memdir.acts()?.into_iter().map(|act| act.mark);
    let known = snapshot.topics.iter().flat_map(|topic| topic.marks());
    let known = decided
        .chain(known)
        .chain(snapshot.retired.clone())
        .collect::<BTreeSet<_>>();
    let is_new = |candidate: &Candidate| !known.contains(&candidate_mark(candidate));
    Ok(candidates.into_iter().filter(is_new).collect())
}

/// Asks about each candidate, then writes memories and acts. Returns whether to go on with the next directory.
fn review_directory(
    args: &ReviewArgs,
    dir: &Path,
    candidates: &[Candidate],
    decide: &dyn Fn(usize, &Candidate) -> Result<Decision>,
) -> Result<bool> {
    let (mut accepted, mut acts, mut goes_on) = (Vec::new(), Vec::new(), true);
    for (at, candidate) in candidates.iter().enumerate() {
        let mut record = |act: ReviewAct, text: &str| {
            acts.push(ActRecord {
                act,
                mark: candidate_mark(candidate),
                text: text.to_owned(),
            });
        };
        match decide(at + 1, candidate)? {
            Decision::Skip => {}
            Decision::Quit => {
                goes_on = false;
                break;
            }
            Decision::Act(act) => {
                record(act, first_paragraph(&candidate.body));
                if act == ReviewAct::Accept {
                    accepted.push(candidate.clone());
                }
            }
            Decision::Reword(title, body) => {
                record(ReviewAct::Edit, &body);
                accepted.push(Candidate {
                    hook: title.clone(),
                    title,
                    body,
                    ..candidate.clone()
                });
            }
        }
    }
    if !acts.is_empty() {
        store(args, dir, &accepted, acts)?;
    }
    Ok(goes_on)
}

fn first_paragraph(body: &str) -> &str {
    body.split("\n\n").next().unwrap_or(body)
}

fn store(args: &ReviewArgs, dir: &Path, accepted: &[Candidate], more: Vec<ActRecord>) -> Result<()> {
    let memdir = Memdir::create(dir)?;
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!(
            "another run is writing to {}\n  hint: try again when it is done",
            dir.display()
        );
    };
    let (snapshot, _) = memdir.read()?;
    let options = MemoryPlanOptions {
        team: false,
        index: index_limits(&memory_policy(&args.dir.set)?),
    };
    let planned = plan_memories(&snapshot, accepted, &options);
    let run = memdir.commit(&lock, "review", now, &planned.changes)?;
    let mut acts = memdir.acts()?;
    acts.extend(more);
    memdir.write_acts(&lock, &acts)?;
    if !args.input.quiet {
        print_changes(&args.dir, &planned.changes, run.as_deref());
    }
    Ok(())
}

/// Shows a candidate and reads a decision.
fn ask(number: usize, all: usize, candidate: &Candidate) -> Result<Decision> {
    let mut text = format!("\n{number} of {all}\n{}", candidate_paragraph(candidate));
    for source in candidate.sources.iter().rev().take(3) {
        let time = source.time.map(when::format_date).unwrap_or_default();
        let _ = writeln!(text, "      said {time} in session {}", source.session);
    }
    text.push_str("[a]ccept, [e]dit, [d]rop, [n]ever, [s]kip, [q]uit? ");
    print(text.as_bytes())?;
    loop {
        let Some(answer) = read_line()? else {
            return Ok(Decision::Quit);
        };
        return Ok(match answer.trim().to_lowercase().chars().next() {
            Some('a' | 'y') => Decision::Act(ReviewAct::Accept),
            Some('d') => Decision::Act(ReviewAct::Drop),
            Some('n') => Decision::Act(ReviewAct::Never),
            Some('s') => Decision::Skip,
            Some('q') => Decision::Quit,
            Some('e') => {
                print(b"title: ")?;
                let title = read_line()?.unwrap_or_default().trim().to_owned();
                print(b"text:  ")?;
                let body = read_line()?.unwrap_or_default().trim().to_owned();
                if title.is_empty() || body.is_empty() {
                    Decision::Skip
                } else {
                    Decision::Reword(title, body)
                }
            }
            _ => {
                print(b"a, e, d, n, s or q? ")?;
                continue;
            }
        });
    }
}

/// Reads a line from the terminal; `None` at its end.
fn read_line() -> Result<Option<String>> {
    let mut line = String::new();
    let read = std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("reading the answer")?;
    Ok((read > 0).then_some(line))
}

/// Formats the candidates as a list of boxes.
fn to_markdown(waiting: &BTreeMap<PathBuf, Vec<Candidate>>) -> String {
    let mut text = String::from(
        "# Memories to decide on\n\nTick what should be kept. Write `drop` or `never` before the mark at the end of a line to drop it.\n",
    );
    for (dir, candidates) in waiting {
        let mut project = None;
        for candidate in candidates {
            if project != Some(&candidate.project) {
                project = Some(&candidate.project);
                let _ = writeln!(text, "\n## {}\n", project_heading(dir, &candidate.project));
            }
            let _ = writeln!(
                text,
                "- [ ] **{}** ({}, {:.2}) `{}`",
                escape_markdown(&candidate.title),
                candidate.kind.name(),
                candidate.confidence,
                candidate_mark(candidate)
            );
            let lines = candidate.body.lines().filter(|line| !line.is_empty());
            for line in lines.filter(|line| !says_title(line, candidate)) {
                let _ = writeln!(text, "  > {line}");
            }
            let said = candidate.sources.iter().rev().take(3);
            let said = said.map(|source| {
                let time = source.time.map(when::format_date).unwrap_or_default();
                format!("{time} {}", source.session)
            });
            let _ = writeln!(text, "  > said: {}", said.collect::<Vec<_>>().join(", "));
        }
    }
    text
}

/// Returns the heading of a project: its name, as that of its directory where several have the same.
fn project_heading(dir: &Path, root: &str) -> String {
    let own = memory::names::shown_name(root.rsplit(['/', '\\']).next().unwrap_or_default());
    let name = directory_name(dir);
    if name.ends_with(&own) && !own.is_empty() {
        name
    } else if own.is_empty() {
        "Unknown project".to_owned()
    } else {
        own
    }
}

/// Reads the decisions in such a file, by mark.
fn read_decisions(path: &Path) -> Result<BTreeMap<String, Decision>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.lines().filter_map(parse_decision).collect())
}

fn parse_decision(line: &str) -> Option<(String, Decision)> {
    let rest = line.trim_start().strip_prefix("- [")?;
    let (tick, rest) = rest.split_once(']')?;
    let (rest, mark) = rest.trim_end().strip_suffix('`')?.rsplit_once('`')?;
    let decision = match (tick.trim(), rest.trim_end()) {
        ("x" | "X", _) => Decision::Act(ReviewAct::Accept),
        (_, rest) if rest.ends_with("never") => Decision::Act(ReviewAct::Never),
        (_, rest) if rest.ends_with("drop") => Decision::Act(ReviewAct::Drop),
        _ => return None,
    };
    Some((mark.to_owned(), decision))
}

/// Lists the acts, or forgets them.
fn manage_acts(args: &ReviewArgs) -> Result<RunStatus> {
    let memdir = crate::commands::memory::folder::open_existing(&args.dir)?;
    if args.forget_acts {
        let Some(lock) = memdir.lock(now())? else {
            bail!(
                "another run is writing to {}\n  hint: try again when it is done",
                memdir.root().display()
            );
        };
        let count = memdir.acts()?.len();
        memdir.write_acts(&lock, &[])?;
        notice!("{count} forgotten; memories that were deleted or written by hand still count");
        return Ok(RunStatus::Done);
    }
    let lines = memdir.all_acts()?.into_iter();
    let lines = lines.map(|act| format!("{:<7} {:<12} {}\n", act.act.name(), act.mark, act.text));
    print(lines.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_read_as_it_was_written() {
        let line =
            |tick: &str, word: &str| format!("- [{tick}] **Sign every commit** (feedback, 0.40) {word}`0123456789ab`");
        let read =
            |tick: &str, word: &str| parse_decision(&line(tick, word)).map(|(mark, decision)| (mark.len(), decision));
        assert_eq!(read("x", ""), Some((12, Decision::Act(ReviewAct::Accept))));
        assert_eq!(read(" ", "never "), Some((12, Decision::Act(ReviewAct::Never))));
        assert_eq!(read(" ", "drop "), Some((12, Decision::Act(ReviewAct::Drop))));
        assert_eq!(read(" ", ""), None);
        assert_eq!(parse_decision("  > - [x] quoted"), None);
    }
}
