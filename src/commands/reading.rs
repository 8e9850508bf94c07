//! Commands that read logs: from the options that were typed to what is read, and what is said at the end about problems.

use crate::cli::InputArgs;
use crate::commands::RunStatus;
use crate::run::{LogInput, resolve_cache_folder};
use crate::views::problem_counts;
use table::findings::{CheckFinding, Severity, format_annotations};
use table::sanitize;
use transcript::problem::Problem;

impl From<&InputArgs> for LogInput {
    fn from(args: &InputArgs) -> LogInput {
        let wants_cache = !args.no_cache;
        LogInput {
            paths: args.paths.clone(),
            threads: args.threads.map(usize::from),
            io: args.io.into(),
            max_line: args.max_line,
            follow_links: args.follow_links,
            cache: resolve_cache_folder(args.cache_dir.as_deref()).filter(|_| wants_cache),
            quiet: args.quiet,
            wants_all_problems: args.wants_problem_list(),
        }
    }
}

/// What is said about problems.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProblemOptions {
    /// Every one with file and line.
    pub list: bool,
    /// Every one as an annotation.
    pub annotate: bool,
    /// Lost input changes the exit status.
    pub strict: bool,
    /// Nothing, unless it is asked for.
    pub quiet: bool,
}

impl From<&InputArgs> for ProblemOptions {
    fn from(args: &InputArgs) -> ProblemOptions {
        ProblemOptions {
            list: args.problems,
            annotate: args.annotate,
            strict: args.strict,
            quiet: args.quiet,
        }
    }
}

/// Says on standard error what was wrong. Returns how the run ends.
pub fn report_problems(options: impl Into<ProblemOptions>, problems: &[Problem]) -> RunStatus {
    let options = options.into();
    if options.annotate {
        eprint!(
            "{}",
            format_annotations(&problems.iter().map(finding).collect::<Vec<_>>())
        );
    } else if options.list {
        for problem in problems {
            eprintln!("{}", sanitize(&problem.to_string()));
        }
    } else if !options.quiet && !problems.is_empty() {
        eprintln!("problems (--problems lists them with file and line):");
        for (kind, count) in problem_counts(problems) {
            eprintln!("{count:>8}  {kind}");
        }
    }
    run_status(options, problems)
}

/// Says what was wrong only if that was asked for. Returns how the run ends.
pub fn report_problems_if_asked(options: impl Into<ProblemOptions>, problems: &[Problem]) -> RunStatus {
    let options = options.into();
    if options.list || options.annotate {
        report_problems(options, problems)
    } else {
        run_status(options, problems)
    }
}

fn run_status(options: ProblemOptions, problems: &[Problem]) -> RunStatus {
    let lost = problems.iter().any(|problem| problem.kind.is_loss());
    if options.strict && lost {
        RunStatus::InputLost
    } else {
        RunStatus::Done
    }
}

/// Returns a problem as a finding for CI systems.
fn finding(problem: &Problem) -> CheckFinding {
    let detail = if problem.detail.is_empty() {
        String::new()
    } else {
        format!(" ({})", problem.detail)
    };
    CheckFinding {
        level: if problem.kind.is_loss() {
            Severity::Warning
        } else {
            Severity::Notice
        },
        title: problem.kind.name().to_owned(),
        message: format!("{}{detail}", problem.kind.about()),
        location: Some((problem.path.clone(), problem.line)),
    }
}
