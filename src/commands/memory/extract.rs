//! `backcast memory extract`: what past sessions leave for later ones.

mod args;
pub(super) mod printed;
mod store;

pub use args::ExtractArgs;

use crate::cli::MemoryFormat;
use crate::commands::backend::ModelRunner;
use crate::commands::given::GivenOptions;
use crate::commands::memory::MemoryCheckArgs;
use crate::commands::memory::drawn;
use crate::commands::memory::drawn::source_json;
use crate::commands::memory::projects::{
    ProjectArgs, ProjectMessages, read_instructions, split_by_project, target_dirs, usual_dirs,
};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::reading::{ProblemOptions, report_problems};
use crate::commands::terminal::notice;
use crate::commands::writing::{ensure_absent, fold_for_terminal, write_page};
use crate::commands::{RunStatus, backend, print};
use crate::page::PageContent;
use crate::run::{LogInput, with_messages};
use anyhow::{Context, Result};
use args::DEFAULT_CONFIDENCE;
use language::secrets;
use memory::acts::LearnedWeights;
use memory::check;
use memory::check::MemoryFinding;
use memory::extract::{
    ExtractOptions, Extraction, Rejection, accept_candidate, extract, extract_with, find_user_messages, unknown_source,
};
use memory::harvest::{HARVEST_FILTER, harvest};
use memory::kinds::Candidate;
use memory::memdir::Memdir;
use memory::plan::{MemoryPlanOptions, Snapshot, plan_with_retractions};
use memory::projects::ProjectRoots;
use memory::rules::ExtractionRules;
use notes::model::extract as anthropic;
use printed::{
    SCHEMA_VERSION, found_sentence, harvest_table, print_counts, to_json_document, to_json_line, to_json_lines,
    to_table,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use store::store_all;
use table::human::format_count;
use transcript::messages::{Message, PartSelection};

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
