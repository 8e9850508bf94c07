//! Commands that read logs: from the options that were typed to what is read, and what is said at the end about problems.

use crate::cli::{InputArgs, ReadingArgs, SelectionArgs};
use crate::commands::RunStatus;
use crate::commands::given::GivenOptions;
use crate::commands::terminal::notice;
use crate::run::{LogInput, SelectionQuery, resolve_cache_folder};
use crate::views::problem_counts;
use table::findings::{CheckFinding, Severity, format_annotation};
use table::sanitize;
use transcript::problem::Problem;

impl From<&ReadingArgs> for LogInput {
    fn from(args: &ReadingArgs) -> LogInput {
        LogInput {
            paths: args.paths.clone(),
            threads: args.threads.map(usize::from),
            io: args.io.into(),
            max_line: args.max_line,
            follow_links: args.follow_links,
            cache: resolve_cache_folder(args.cache_dir.as_deref()).filter(|_| !args.no_cache),
            shared_cache: args.shared_cache.clone(),
            quiet: args.quiet,
            wants_all_problems: args.wants_problem_list(),
            ..LogInput::default()
        }
    }
}

impl From<&InputArgs> for LogInput {
    fn from(args: &InputArgs) -> LogInput {
        let input = LogInput::from(&args.reading);
        LogInput {
            // Logs in parts are packed already.
            cache: input.cache.filter(|_| args.parts.is_none()),
            parts: args.parts.clone(),
            selection: SelectionQuery::from(&args.selection),
            ..input
        }
    }
}

impl InputArgs {
    /// Returns what is read for a command that prints a table, or something for programs.
    pub fn shown_as_table(&self, shows_table: bool) -> LogInput {
        LogInput::from(self).shown_as_table(shows_table)
    }
}

impl From<&SelectionArgs> for SelectionQuery {
    fn from(args: &SelectionArgs) -> SelectionQuery {
        SelectionQuery {
            since: args.since.clone(),
            until: args.until.clone(),
            last: args.last,
            now: args.now.clone(),
            zone: args.timezone.clone(),
            agents: args.agent.clone(),
            projects: args.project.clone(),
            models: args.model.clone(),
            sessions: args.session.clone(),
            ..SelectionQuery::default()
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
        ProblemOptions::from(&args.reading)
    }
}

impl From<&ReadingArgs> for ProblemOptions {
    fn from(args: &ReadingArgs) -> ProblemOptions {
        ProblemOptions {
            list: args.problems,
            annotate: args.annotate,
            strict: args.strict,
            quiet: args.quiet,
        }
    }
}

impl From<GivenOptions<'_>> for ProblemOptions {
    fn from(given: GivenOptions<'_>) -> ProblemOptions {
        ProblemOptions {
            list: given.has("problems"),
            annotate: given.has("annotate"),
            strict: given.has("strict"),
            quiet: given.has("quiet"),
        }
    }
}

/// Most problems that `--problems` and `--annotate` list.
const MAX_LISTED: usize = 1000;

/// Iterates over the problems that are listed.
fn listed(problems: &[Problem]) -> impl Iterator<Item = &Problem> {
    problems.iter().take(MAX_LISTED)
}

/// Says on standard error what was wrong. Returns how the run ends.
pub fn report_problems(options: impl Into<ProblemOptions>, problems: &[Problem]) -> RunStatus {
    let options = options.into();
    if options.annotate {
        for problem in listed(problems) {
            notice!("{}", format_annotation(&finding(problem)).trim_end());
        }
    } else if options.list {
        for problem in listed(problems) {
            notice!("{}", sanitize(&problem.to_string()));
        }
        let left = problems.iter().skip(MAX_LISTED).map(Problem::count).sum::<u64>();
        if left > 0 {
            notice!("{left} more problems are not listed; pass fewer logs to see them");
        }
    } else if !options.quiet && problems.iter().any(|problem| problem.kind.is_loss()) {
        let lost = problems.iter().filter(|problem| problem.kind.is_loss());
        let lost = lost.cloned().collect::<Vec<_>>();
        notice!("input was lost (--problems lists every problem with file and line):");
        for (kind, count) in problem_counts(&lost) {
            notice!("{count:>8}  {kind}");
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
        message: format!("{}{detail}{}", problem.kind.about(), problem.format_more()),
        location: Some((problem.path.clone(), problem.line)),
    }
}
