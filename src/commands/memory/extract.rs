//! `backcast memory extract`: what past sessions leave for later ones.

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, MemoryFormat, PageArgs, parse_share};
use crate::commands::backend::ModelRunner;
use crate::commands::given::GivenOptions;
use crate::commands::memory::consolidate::print_undo_hint;
use crate::commands::memory::drawn;
use crate::commands::memory::drawn::{candidate_json, rejection_json, source_json};
use crate::commands::memory::projects::{
    ProjectArgs, ProjectMessages, read_instructions, split_by_project, target_dirs, usual_dirs,
};
use crate::commands::memory::stored::{StoredRun, print_stored};
use crate::commands::memory::{DirArgs, MemoryCheckArgs, folder, now};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::reading::{ProblemOptions, report_problems};
use crate::commands::terminal::notice;
use crate::commands::writing::{ensure_absent, fold_for_terminal, write_page};
use crate::commands::{RunStatus, backend, print};
use crate::page::PageContent;
use crate::run::{LogInput, with_messages};
use anyhow::{Context, Result, bail};
use clap::Args;
use language::secrets;
use memory::acts::LearnedWeights;
use memory::check;
use memory::check::MemoryFinding;
use memory::daily;
use memory::extract::{
    ExtractOptions, Extraction, Rejection, accept_candidate, extract, extract_with, find_user_messages, unknown_source,
};
use memory::harvest::{HARVEST_FILTER, Harvest, harvest};
use memory::kinds::{Candidate, CandidateOrigin};
use memory::lock::WriteLock;
use memory::memdir::Memdir;
use memory::plan::{MemoryPlan, MemoryPlanOptions, Snapshot, plan_with_retractions};
use memory::projects::ProjectRoots;
use memory::rules::ExtractionRules;
use notes::model::extract as anthropic;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use table::human::{format_count, format_count_with_plural, group_digits};
use transcript::log::Time;
use transcript::messages::{Message, PartSelection};

/// Version of the fields below, named in JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// Confidence from which a memory is written, where nothing else is said.
const DEFAULT_CONFIDENCE: f64 = 0.5;

/// Arguments of `memory extract`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Finds standing instructions, preferences, corrections, decisions with their reasons, and where things are: what people said in
prompts, in prompts queued while the agent worked, when they refused a call, and in answers to its questions; in English or
Chinese. Memory files that the agent wrote in the sessions are included and marked as the agent's. Pasted text, tasks, questions
and text that programs wrote do not become memories. Secrets are never kept or printed.

A memory belongs to the project whose sessions said it. Without PATH, sessions of the repository in this folder are read.
With PATH, all sessions are read; --out makes a directory for each project. A directory never holds memories of two projects.

Only what is likely to hold is written. The rest waits in `memory review`. A second run over the same logs changes nothing,
and `memory undo` reverts a run.

Examples:
  backcast memory extract                                       this repository's sessions, into its directory
  backcast memory extract logs/ --out memories/                 a directory for each project
  backcast memory extract logs/ --dir memory/                   one project, into a directory
  backcast memory extract logs/ --dry-run                       what would be kept
  backcast memory extract logs/ --dry-run -f jsonl --rejected   everything, and why the rest was rejected
  backcast memory extract logs/ --dir memory/ --backend anthropic --estimate  what asking a model would cost")]
pub struct ExtractArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Which projects.
    #[command(flatten)]
    pub projects: ProjectArgs,
    /// Only print what would be written.
    #[arg(long)]
    pub dry_run: bool,
    /// Put project facts and pointers into the team's folder.
    #[arg(long)]
    pub team: bool,
    /// Only write daily logs (`logs/YYYY/MM/YYYY-MM-DD.md`), which `memory dream` turns into memories. `memory undo` reverts
    /// this, too.
    #[arg(long, conflicts_with_all = ["team", "dry_run"])]
    pub daily: bool,
    /// Print what was found in this format [default: a table with --dry-run, --rejected or --harvest, else nothing].
    #[arg(long, short, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub format: Option<MemoryFormat>,
    /// Print what was found and what was rejected, and why.
    #[arg(long, help_heading = "Output")]
    pub rejected: bool,
    /// The HTML page.
    #[command(flatten)]
    pub page: PageArgs,
    /// Instead print the memory files that the agent itself wrote, in their last version. Writes nothing.
    #[arg(
        long,
        conflicts_with_all = ["html", "rejected", "team", "daily", "dir", "agent_type", "rules", "min_confidence", "backend", "out", "project", "all_projects"],
        help_heading = "Output"
    )]
    pub harvest: bool,
    /// Your own rules (TOML): patterns whose matches are memories.
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub rules: Option<PathBuf>,
    /// Least confidence for a memory to be written, 0 to 1.
    #[arg(long, value_name = "X", default_value_t = DEFAULT_CONFIDENCE, value_parser = parse_share, help_heading = "Selection")]
    pub min_confidence: f64,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}

/// Selects what extraction reads: words of people, calls that change files, and results as far as they say that a call failed.
pub(in crate::commands) const EXTRACT_FILTER: PartSelection = PartSelection {
    every_word: true,
    calls: &["Write", "Edit", "MultiEdit", "Bash", "ExitPlanMode", "Task", "Agent"],
    ..HARVEST_FILTER
};

/// What was found in the sessions of one project.
pub(in crate::commands) struct ProjectExtraction {
    pub root: String,
    pub name: String,
    pub extraction: Extraction,
}

/// Runs it.
pub fn run(args: &ExtractArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    if args.harvest {
        run_harvest(args)
    } else {
        run_extract(args, given)
    }
}

/// Puts candidates into a directory; the time of the run is only in its journal, so that the same logs leave the same files.
/// Returns what was done; `None` for daily logs.
fn store_candidates(args: &ExtractArgs, path: &Path, extraction: &Extraction) -> Result<Option<StoredRun>> {
    let memdir = Memdir::create(path)?;
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!(
            "another run is writing to {}\n  hint: try again when it is done",
            memdir.root().display()
        );
    };
    if args.daily {
        append_daily_logs(args, &memdir, &lock, now, &extraction.candidates)?;
        return Ok(None);
    }
    let (mut snapshot, passed) = memdir.read()?;
    for passed in &passed {
        notice!("{}: {}", passed.file, passed.reason);
    }
    snapshot.retired.extend(memdir.dropped_marks()?);
    let options = MemoryPlanOptions {
        team: args.team,
        index: index_limits(&memory_policy(&args.dir.set)?),
    };
    let plan = plan_with_retractions(&snapshot, &extraction.candidates, &extraction.retractions, &options);
    for file in &plan.unwritable {
        notice!("{file}: left alone, its frontmatter is not YAML");
    }
    Ok(Some(StoredRun {
        run: memdir.commit(&lock, "extract", now, &plan.changes)?,
        path: path.to_owned(),
        memdir: Some(memdir),
        limits: options.index,
        plan,
    }))
}

/// Puts what was found into the directories and says what that did. Projects with nothing get no directory.
fn store_all(args: &ExtractArgs, dirs: &[Option<PathBuf>], found: &[ProjectExtraction]) -> Result<()> {
    let merged = merge_by_dir(dirs, found);
    let (is_one, mut runs) = (merged.len() == 1, Vec::new());
    for (path, extraction) in merged {
        let has_something = !extraction.candidates.is_empty() || !extraction.retractions.is_empty();
        if is_one || has_something || path.exists() {
            runs.extend(store_candidates(args, &path, &extraction)?);
        } else if !args.daily {
            runs.push(StoredRun {
                path,
                memdir: None,
                limits: index_limits(&memory_policy(&args.dir.set)?),
                run: None,
                plan: MemoryPlan::default(),
            });
        }
    }
    if !args.input.quiet && !runs.is_empty() {
        print_stored(&args.dir, &runs);
    }
    Ok(())
}

/// Finds the memories of each project by the built-in score, with what the person's acts in its directory taught.
pub(super) fn extract_projects(
    projects: Vec<ProjectMessages>,
    roots: &ProjectRoots,
    dirs: &[Option<PathBuf>],
    min_confidence: f64,
    rules: &ExtractionRules,
) -> Result<Vec<ProjectExtraction>> {
    let mut found = Vec::new();
    for (project, dir) in projects.into_iter().zip(dirs) {
        let memdir = dir.as_deref().map(Memdir::open).transpose()?.flatten();
        let acts = memdir.map(|memdir| memdir.all_acts()).transpose()?.unwrap_or_default();
        let options = ExtractOptions {
            rules,
            min_confidence,
            projects: Some(roots),
            learned: Some(&LearnedWeights::from_acts(&acts)),
            instructions: &read_instructions,
        };
        found.push(ProjectExtraction {
            extraction: extract_with(&project.messages, &options),
            root: project.root,
            name: project.name,
        });
    }
    Ok(found)
}

/// Finds the memories in messages of any number of projects, each with what the person's acts in its usual directory taught.
/// Nothing is written.
pub(in crate::commands) fn find_memories(messages: Vec<Message>, named: &[String]) -> Result<Vec<ProjectExtraction>> {
    let everything = ProjectArgs {
        out: None,
        all_projects: true,
    };
    let (projects, roots) = split_by_project(messages, named, &everything, true)?;
    let usual = usual_dirs(&projects);
    extract_projects(
        projects,
        &roots,
        &usual,
        DEFAULT_CONFIDENCE,
        ExtractionRules::built_in(),
    )
}

/// Asks a model about the messages of each project; `None` if it was only to be estimated.
fn ask_model(
    args: &ExtractArgs,
    model: &ModelRunner,
    projects: &[ProjectMessages],
    roots: &ProjectRoots,
    dirs: &[Option<PathBuf>],
    rules: &ExtractionRules,
) -> Result<Option<(Vec<ProjectExtraction>, Result<()>)>> {
    let mut questions = Vec::new();
    for (at, (project, dir)) in projects.iter().zip(dirs).enumerate() {
        // What is known helps the model to say less; a directory that is not there yet knows nothing.
        let memdir = dir.as_deref().and_then(|path| Memdir::open(path).ok().flatten());
        let known = memdir.map(|memdir| memdir.read()).transpose()?;
        let known = known.map(|(snapshot, _)| snapshot).unwrap_or_default();
        let said = find_user_messages(&project.messages, rules);
        let by_rules = extract_with(
            &project.messages,
            &ExtractOptions {
                rules,
                projects: Some(roots),
                instructions: &read_instructions,
                ..ExtractOptions::default()
            },
        );
        let groups = anthropic::find_groups(&by_rules);
        let asked = anthropic::build_questions(&model.backend, &said, &groups, &known, rules);
        questions.extend(asked.into_iter().map(|question| (at, question)));
    }
    let asked = model.run_passes(|model, _| {
        model.ask_all(&questions, |backend, (_, question)| {
            backend.ask(&question.request, |text| question.parse_answer(text))
        })
    });
    model.print_spending();
    let Some(asked) = asked? else { return Ok(None) };
    let mut found = projects
        .iter()
        .map(|project| ProjectExtraction {
            root: project.root.clone(),
            name: project.name.clone(),
            extraction: Extraction::default(),
        })
        .collect::<Vec<_>>();
    for ((at, _), answer) in questions.iter().zip(&asked.answers) {
        let project = &mut found[*at];
        for memory in answer.iter().flatten() {
            match memory {
                Ok(candidate) => {
                    let candidate = Candidate {
                        project: project.root.clone(),
                        ..candidate.clone()
                    };
                    accept_candidate(candidate, args.min_confidence, rules, &mut project.extraction);
                }
                Err(unfit) => project.extraction.rejections.push(Rejection {
                    text: secrets::mask(&unfit.text),
                    reason: unfit.reason.to_owned(),
                    rule: None,
                    confidence: None,
                    source: unknown_source(),
                }),
            }
        }
    }
    Ok(Some((found, asked.ensure_complete())))
}

/// Notes candidates in the logs of the days they were said on.
fn append_daily_logs(
    args: &ExtractArgs,
    memdir: &Memdir,
    lock: &WriteLock,
    now: Time,
    candidates: &[Candidate],
) -> Result<()> {
    let mut days = BTreeMap::<String, Vec<String>>::new();
    for (date, line) in candidates.iter().flat_map(daily::candidate_lines) {
        days.entry(date).or_default().push(line);
    }
    let (mut changes, mut added) = (Vec::new(), 0_u64);
    for (date, lines) in &mut days {
        lines.sort();
        if let Some((change, lines)) = memdir.plan_log_append(date, lines)? {
            changes.push(change);
            added += lines as u64;
        }
    }
    let run = memdir.commit(lock, "extract", now, &changes)?;
    if !args.input.quiet {
        notice!(
            "{} written; `backcast memory dream{}` turns them into memories",
            format_count(added, "line"),
            folder::dir_options(&args.dir)
        );
        if let Some(run) = run {
            print_undo_hint(&args.dir, &run);
        }
    }
    Ok(())
}

/// What logs say that a directory does not.
pub(super) fn find_out_of_date(args: &MemoryCheckArgs, snapshot: &Snapshot) -> Result<(Vec<MemoryFinding>, RunStatus)> {
    let input = LogInput {
        paths: args.logs.clone(),
        quiet: args.quiet,
        wants_all_problems: args.problems || args.strict,
        ..LogInput::default()
    };
    let (extraction, problems) = with_messages(input, EXTRACT_FILTER, |messages, problems| {
        (extract(&messages, ExtractionRules::built_in()), problems)
    })?;
    let shown = ProblemOptions {
        list: args.problems,
        strict: args.strict,
        quiet: args.quiet,
        ..ProblemOptions::default()
    };
    let ending = report_problems(shown, &problems);
    let options = MemoryPlanOptions {
        team: args.team,
        index: index_limits(&memory_policy(&args.dir.set)?),
    };
    let planned = plan_with_retractions(snapshot, &extraction.candidates, &extraction.retractions, &options);
    Ok((check::check_against_logs(snapshot, &planned.changes), ending))
}

/// Reads the user's own rules, or the built-in ones.
pub(super) fn read_rules(path: Option<&Path>) -> Result<Option<ExtractionRules>> {
    let own = path.map(|path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        ExtractionRules::parse_with_built_in(&text).with_context(|| path.display().to_string())
    });
    own.transpose()
}

fn run_extract(args: &ExtractArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    let own = read_rules(args.rules.as_deref())?;
    let rules = own.as_ref().unwrap_or_else(|| ExtractionRules::built_in());
    let is_table = args.dry_run && args.format.unwrap_or_default() == MemoryFormat::Table;
    let input = args
        .input
        .shown_as_table(is_table && args.page.html.is_none() && args.input.selection.project.is_empty());
    let (messages, problems) = with_messages(input, EXTRACT_FILTER, |messages, problems| (messages, problems))?;
    let (projects, roots) = split_by_project(
        messages,
        &args.input.selection.project,
        &args.projects,
        !args.input.paths.is_empty(),
    )?;
    let dirs = match args.dry_run {
        // What is only shown may be of any number of projects.
        true => {
            let known = target_dirs(&projects, &args.input.selection.project, &args.projects, &args.dir).ok();
            known.map_or_else(
                || vec![None; projects.len()],
                |dirs| dirs.into_iter().map(Some).collect(),
            )
        }
        false => target_dirs(&projects, &args.input.selection.project, &args.projects, &args.dir)?
            .into_iter()
            .map(Some)
            .collect(),
    };
    let (cache, remembers) = (args.input.cache_dir.as_deref(), !args.input.no_cache);
    let found = match backend::open_model(&args.model, given, cache, remembers, args.input.quiet)? {
        Some(model) => ask_model(args, &model, &projects, &roots, &dirs, rules)?,
        None => Some((
            extract_projects(projects, &roots, &dirs, args.min_confidence, rules)?,
            Ok(()),
        )),
    };
    let Some((found, complete)) = found else {
        return Ok(report_problems(&args.input, &problems));
    };
    if let Some(path) = &args.page.html {
        let content = PageContent {
            name: "memories".to_owned(),
            memories: found
                .iter()
                .map(|project| drawn::extraction_json(&project.name, &project.extraction))
                .collect(),
            with_text: true,
            ..PageContent::default()
        };
        write_page(path, args.page.force, args.input.quiet, content)?;
    }
    if !args.dry_run {
        store_all(args, &dirs, &found)?;
    }
    // Who keeps what was found sees it only by asking for it.
    let is_shown = args.dry_run || args.rejected;
    if let Some(format) = args.format.or(is_shown.then_some(MemoryFormat::Table)) {
        let text = match format {
            MemoryFormat::Table => fold_for_terminal(&format!(
                "{}\n{}",
                found_sentence(&found),
                to_table(&found, args.rejected)
            )),
            MemoryFormat::Json => to_json_document(&found, args.rejected),
            MemoryFormat::Jsonl => to_json_lines(&found, args.rejected),
        };
        print(text.as_bytes())?;
    }
    if !args.input.quiet {
        print_counts(args, &found);
    }
    let ending = report_problems(&args.input, &problems);
    complete.map(|()| ending)
}

/// Joins what goes into one directory: sessions that name no folder go with the one project there is.
fn merge_by_dir(dirs: &[Option<PathBuf>], found: &[ProjectExtraction]) -> BTreeMap<PathBuf, Extraction> {
    let mut merged = BTreeMap::<PathBuf, Extraction>::new();
    for (dir, project) in dirs.iter().zip(found) {
        let Some(dir) = dir else { continue };
        let all = merged.entry(dir.clone()).or_default();
        all.candidates.extend(project.extraction.candidates.iter().cloned());
        all.retractions.extend(project.extraction.retractions.iter().cloned());
    }
    merged
}

/// Returns what was found, in one or two sentences.
fn found_sentence(found: &[ProjectExtraction]) -> String {
    let count = |of: fn(&Extraction) -> usize| found.iter().map(|project| of(&project.extraction) as u64).sum::<u64>();
    let memories = count(|found| found.candidates.len());
    let waiting = count(|found| found.review.len());
    let projects = found.iter().filter(|project| !project.extraction.candidates.is_empty());
    let place = match (projects.count() as u64, found.len() as u64) {
        (0, 0) => String::new(),
        (0, all) => format!(" in {}", format_count(all, "project")),
        (some, _) => format!(" in {}", format_count(some, "project")),
    };
    let mut text = match memories {
        0 => format!("Nothing found that later sessions should know{place}.\n"),
        memories => format!(
            "{} found that later sessions should know{place}.\n",
            format_count(memories, "thing")
        ),
    };
    if waiting > 0 {
        let _ = writeln!(
            text,
            "{} less certain: `backcast memory review` with the same arguments shows them.",
            format_count_with_plural(waiting, "more is", "more are")
        );
    }
    if memories > 0 {
        text.push_str("In parentheses: type, and confidence from 0 to 1.\n");
    }
    text
}

/// Says what was not kept.
fn print_counts(args: &ExtractArgs, found: &[ProjectExtraction]) {
    let count = |of: fn(&Extraction) -> usize| found.iter().map(|project| of(&project.extraction) as u64).sum::<u64>();
    let waiting = count(|found| found.review.len());
    let is_table = args.format.unwrap_or_default() == MemoryFormat::Table;
    if args.dry_run && !is_table {
        notice!(
            "{}, {} less certain",
            format_count_with_plural(count(|found| found.candidates.len()), "memory", "memories"),
            group_digits(waiting)
        );
    }
    if args.dry_run {
        let secrets = found
            .iter()
            .map(|project| project.extraction.secrets_dropped)
            .sum::<u64>();
        if secrets > 0 {
            notice!("{} dropped because of a secret", format_count(secrets, "statement"));
        }
    } else if waiting > 0 {
        let waiting = format_count_with_plural(waiting, "candidate is", "candidates are");
        let text = format!("{waiting} less certain: `backcast memory review` with the same arguments shows them");
        notice!("{}", fold_for_terminal(&text));
    }
}

fn run_harvest(args: &ExtractArgs) -> Result<RunStatus> {
    let (found, problems) = with_messages(&args.input, HARVEST_FILTER, |messages, problems| {
        (harvest(&messages), problems)
    })?;
    let files = found.files.iter().map(|file| {
        json!({
            "file": file.path,
            "text": file.text,
            "missed_edits": file.missed_edits,
            "sources": file.sources.iter().map(source_json).collect::<Vec<_>>(),
        })
    });
    let text = match args.format.unwrap_or_default() {
        MemoryFormat::Table => fold_for_terminal(&harvest_table(&found)),
        MemoryFormat::Json => {
            let files = files.collect::<Vec<_>>();
            format!(
                "{:#}\n",
                json!({"schema_version": SCHEMA_VERSION, "kind": "memory-files", "files": files, "unknown": found.unknown, "secrets_dropped": found.secrets_dropped})
            )
        }
        MemoryFormat::Jsonl => files.map(to_json_line).collect(),
    };
    print(text.as_bytes())?;
    if !args.input.quiet {
        notice!(
            "{}, {} edited but never written in these logs, {} dropped because of a secret",
            format_count(found.files.len() as u64, "memory file"),
            found.unknown.len(),
            found.secrets_dropped
        );
    }
    Ok(report_problems(&args.input, &problems))
}

fn to_json_lines(found: &[ProjectExtraction], with_rejected: bool) -> String {
    let mut lines = String::new();
    for project in found {
        let extraction = &project.extraction;
        let turned = extraction.rejections.iter().filter(|_| with_rejected);
        let kept = extraction.candidates.iter().map(candidate_json);
        for mut object in kept.chain(turned.map(rejection_json)) {
            object["project"] = project.root.as_str().into();
            lines.push_str(&to_json_line(object));
        }
    }
    lines
}

/// An object on a line of its own, with the version of its fields.
fn to_json_line(mut object: Value) -> String {
    object["schema_version"] = SCHEMA_VERSION.into();
    to_shown(|out| table::write_json_line(&object, out))
}

fn to_json_document(found: &[ProjectExtraction], with_rejected: bool) -> String {
    let all = |list: &dyn Fn(&Extraction) -> Vec<Value>| {
        let of = |project: &ProjectExtraction| {
            let mut objects = list(&project.extraction);
            for object in &mut objects {
                object["project"] = project.root.as_str().into();
            }
            objects
        };
        Value::from(found.iter().flat_map(of).collect::<Vec<_>>())
    };
    let mut document = json!({
        "schema_version": SCHEMA_VERSION,
        "kind": "memories",
        "memories": all(&|found| found.candidates.iter().map(candidate_json).collect()),
        "review": all(&|found| found.review.iter().map(candidate_json).collect()),
        "secrets_dropped": found.iter().map(|project| project.extraction.secrets_dropped).sum::<u64>(),
    });
    if with_rejected {
        document["rejected"] = all(&|found| found.rejections.iter().map(rejection_json).collect());
    }
    to_shown(|out| table::write_json(&document, out))
}

/// Returns what is written, without secrets and control characters. Writing to memory never fails.
fn to_shown(write: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    let _ = write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// For people: by project, a paragraph a memory.
fn to_table(found: &[ProjectExtraction], with_rejected: bool) -> String {
    let mut text = String::new();
    for project in found {
        let extraction = &project.extraction;
        let has_rejected = with_rejected && !extraction.rejections.is_empty();
        if extraction.candidates.is_empty() && !has_rejected {
            continue;
        }
        let root = if project.root.is_empty() {
            "no folder in the logs"
        } else {
            &project.root
        };
        let _ = writeln!(text, "{} ({root})\n", project.name);
        for candidate in &extraction.candidates {
            let _ = writeln!(text, "{}", candidate_paragraph(candidate));
        }
        if has_rejected {
            let _ = writeln!(text, "Turned down:");
            for rejected in &extraction.rejections {
                let one_line = rejected.text.split_whitespace().collect::<Vec<_>>().join(" ");
                let _ = writeln!(text, "  {}: {one_line}", rejected.reason);
            }
            text.push('\n');
        }
    }
    text
}

/// Returns a candidate as a person reads it.
pub(super) fn candidate_paragraph(candidate: &Candidate) -> String {
    let times = candidate.sources.len();
    let said = if times > 1 {
        format!(", said {times} times")
    } else {
        String::new()
    };
    let origin = match candidate.origin {
        CandidateOrigin::Person => "",
        CandidateOrigin::Habit => ", a habit",
        CandidateOrigin::Agent => ", written by the agent",
    };
    let mut text = format!(
        "  {} ({}, {:.2}{said}{origin})\n",
        candidate.title,
        candidate.kind.name(),
        candidate.confidence
    );
    // A hook that only says the title again is one line too many; so is a body.
    let when = candidate.hook.strip_suffix(&candidate.title).unwrap_or(&candidate.hook);
    let when = when.trim_end_matches([':', ' ']);
    if !when.is_empty() {
        let _ = writeln!(text, "    {when}");
    }
    let lines = candidate.body.lines().filter(|line| !line.is_empty());
    for line in lines.filter(|line| !says_title(line, candidate)) {
        let _ = writeln!(text, "      {line}");
    }
    text
}

/// Returns whether a line of a memory is its title once more.
pub(super) fn says_title(line: &str, candidate: &Candidate) -> bool {
    line.trim_end_matches(['.', '!', '。', '！']) == candidate.title
}

fn harvest_table(found: &Harvest) -> String {
    let mut text = String::new();
    for file in &found.files {
        let _ = writeln!(
            text,
            "{} ({}, {})",
            file.path,
            format_count(file.text.len() as u64, "byte"),
            format_count(file.sources.len() as u64, "call")
        );
    }
    for path in &found.unknown {
        let _ = writeln!(text, "{path} (edited, but never written in these logs)");
    }
    text
}
