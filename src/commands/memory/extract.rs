//! `backcast memory extract`: what past sessions leave for later ones.

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, MemoryFormat, PageArgs, parse_share};
use crate::commands::given::GivenOptions;
use crate::commands::memory::consolidate::{print_changes, print_undo_hint};
use crate::commands::memory::drawn;
use crate::commands::memory::drawn::{candidate_json, rejection_json, source_json};
use crate::commands::memory::{DirArgs, MemoryCheckArgs, folder, now};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::reading::{ProblemOptions, report_problems};
use crate::commands::writing::{ensure_absent, fold_for_terminal, write_page};
use crate::commands::{RunStatus, backend, print};
use crate::page::PageContent;
use crate::run::{LogInput, with_messages};
use anyhow::{Context, Result, bail};
use clap::Args;
use language::secrets;
use memory::check;
use memory::check::MemoryFinding;
use memory::daily;
use memory::extract::{
    Extraction, Rejection, accept_candidate, extract, extract_with_threshold, find_user_messages, unknown_source,
};
use memory::harvest;
use memory::harvest::{Harvest, harvest};
use memory::kinds::Candidate;
use memory::lock::WriteLock;
use memory::memdir::Memdir;
use memory::plan::{MemoryPlanOptions, Snapshot, plan_with_retractions};
use memory::rules::ExtractionRules;
use notes::model::extract as anthropic;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use table::human::{format_count, format_count_with_plural};
use transcript::log::Time;
use transcript::messages::{Message, PartSelection};

/// Version of the fields below, named in JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// Arguments of `memory extract`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Lasting instructions, preferences, corrections and confirmations, who somebody is, decisions with their reasons, where
things are: said by a person, in English or Chinese. Pasted text, questions, tasks and what programs write in the user's
name are no memories. Secrets are never kept or printed.

Without --dry-run they are put into the memory directory: new ones as files, known ones get the new sources, a person's
wording stays. A second run over the same logs changes nothing. `memory undo` takes a run back.

Examples:
  backcast memory extract logs/ --dir memory/                   into a directory
  backcast memory extract logs/ --dry-run                       what would be kept
  backcast memory extract logs/ --dry-run -f jsonl --rejected   everything, and why the rest was turned down
  backcast memory extract logs/ --dry-run --harvest             memory files that the agent itself wrote
  backcast memory extract logs/ --backend anthropic --estimate  what asking a model would cost")]
pub struct ExtractArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Only print what would be kept.
    #[arg(long)]
    pub dry_run: bool,
    /// Put project facts and pointers into the team's folder.
    #[arg(long)]
    pub team: bool,
    /// Only note it in the logs of the days it was said on (`logs/YYYY/MM/YYYY-MM-DD.md`), which `memory dream` distils. Taken back
    /// by `memory undo`, too.
    #[arg(long, conflicts_with_all = ["team", "dry_run"])]
    pub daily: bool,
    /// Print what was found, in this form [default: a table with --dry-run, --rejected or --harvest, else nothing].
    #[arg(long, short, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub format: Option<MemoryFormat>,
    /// Print what was found and what was turned down, and why.
    #[arg(long, help_heading = "Output")]
    pub rejected: bool,
    /// The HTML page.
    #[command(flatten)]
    pub page: PageArgs,
    /// Print the memory files that the agent itself wrote, as they last were, instead; no directory is touched.
    #[arg(
        long,
        conflicts_with_all = ["html", "rejected", "team", "daily", "dir", "agent", "rules", "min_confidence", "backend"],
        help_heading = "Output"
    )]
    pub harvest: bool,
    /// More rules (TOML, in the form of the built-in ones).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub rules: Option<PathBuf>,
    /// Confidence from which something counts, 0 to 1.
    #[arg(long, value_name = "X", default_value_t = 0.5, value_parser = parse_share, help_heading = "Selection")]
    pub min_confidence: f64,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}

/// Runs it.
pub fn run(args: &ExtractArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    if args.harvest {
        run_harvest(args)
    } else {
        run_extract(args, given)
    }
}

/// Puts candidates into the directory; the time of the run is only in its journal, so that the same logs leave the same files.
fn store_candidates(args: &ExtractArgs, extraction: &Extraction) -> Result<()> {
    let memdir = Memdir::create(&folder::resolve_dir(&args.dir)?)?;
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!(
            "another run is writing to {}\n  hint: try again when it is done",
            memdir.root().display()
        );
    };
    if args.daily {
        return append_daily_logs(args, &memdir, &lock, now, &extraction.candidates);
    }
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.reason);
    }
    let options = MemoryPlanOptions {
        team: args.team,
        index: index_limits(&memory_policy(&args.dir.set)?),
    };
    let planned = plan_with_retractions(&snapshot, &extraction.candidates, &extraction.retractions, &options);
    for file in &planned.unwritable {
        eprintln!("{file}: left alone, its frontmatter is not YAML");
    }
    let run = memdir.commit(&lock, "extract", now, &planned.changes)?;
    if !args.input.quiet {
        print_changes(&args.dir, &planned.changes, run.as_deref());
        eprintln!(
            "{} there already, {} had been retired, {} had been deleted",
            planned.unchanged, planned.retired, planned.deleted
        );
    }
    Ok(())
}

/// Finds memories by rules, or asks a model; `None` if it was only to be estimated.
fn find_memories(
    args: &ExtractArgs,
    given: GivenOptions<'_>,
    messages: &[Message],
    rules: &ExtractionRules,
) -> Result<Option<(Extraction, Result<()>)>> {
    let (cache, remembers) = (args.input.cache_dir.as_deref(), !args.input.no_cache);
    let Some(model) = backend::open_model(&args.model, given, cache, remembers, args.input.quiet)? else {
        let extraction = extract_with_threshold(args.min_confidence, messages, rules);
        return Ok(Some((extraction, Ok(()))));
    };
    // What is known helps the model to say less; a directory that is not there yet knows nothing.
    let memdir = folder::resolve_dir(&args.dir)
        .ok()
        .and_then(|path| Memdir::open(&path).ok().flatten());
    let known = memdir.map(|memdir| memdir.read()).transpose()?;
    let known = known.map(|(snapshot, _)| snapshot).unwrap_or_default();
    let questions = anthropic::build_questions(&model.backend, &find_user_messages(messages, rules), &known, rules);
    let asked = model.run_passes(|model, _| {
        model.ask_all(&questions, |backend, question| {
            backend.ask(&question.request, |text| question.parse_answer(text))
        })
    });
    model.print_spending();
    let Some(asked) = asked? else { return Ok(None) };
    let mut extraction = Extraction::default();
    for found in asked.answers.iter().flatten().flatten() {
        match found {
            Ok(candidate) => accept_candidate(candidate.clone(), args.min_confidence, rules, &mut extraction),
            Err(unfit) => extraction.rejections.push(Rejection {
                text: secrets::mask(&unfit.text),
                reason: unfit.reason.to_owned(),
                rule: None,
                confidence: None,
                source: unknown_source(),
            }),
        }
    }
    Ok(Some((extraction, asked.ensure_complete())))
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
        eprintln!(
            "{} noted; `backcast memory dream{}` distils them",
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
    let (extraction, problems) = with_messages(input, PartSelection::default(), |messages, problems| {
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

fn run_extract(args: &ExtractArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    let own = args.rules.as_deref().map(|path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        ExtractionRules::parse_with_built_in(&text).with_context(|| path.display().to_string())
    });
    let own = own.transpose()?;
    let rules = own.as_ref().unwrap_or_else(|| ExtractionRules::built_in());
    let (found, problems) = with_messages(&args.input, PartSelection::default(), |messages, problems| {
        (find_memories(args, given, &messages, rules), problems)
    })?;
    let Some((extraction, complete)) = found? else {
        return Ok(report_problems(&args.input, &problems));
    };
    if let Some(path) = &args.page.html {
        let content = PageContent {
            name: "memories".to_owned(),
            memories: vec![drawn::extraction_json(&extraction)],
            ..PageContent::default()
        };
        write_page(path, args.page.force, args.input.quiet, content)?;
    }
    if !args.dry_run {
        store_candidates(args, &extraction)?;
    }
    // Who keeps what was found sees it only by asking for it.
    let is_shown = args.dry_run || args.rejected;
    if let Some(format) = args.format.or(is_shown.then_some(MemoryFormat::Table)) {
        let text = match format {
            MemoryFormat::Table => fold_for_terminal(&to_table(&extraction, args.rejected)),
            MemoryFormat::Json => to_json_document(&extraction, args.rejected),
            MemoryFormat::Jsonl => to_json_lines(&extraction, args.rejected),
        };
        print(text.as_bytes())?;
    }
    if args.dry_run && !args.input.quiet {
        eprintln!(
            "{}, {} turned down, {} dropped for a secret",
            format_count_with_plural(extraction.candidates.len() as u64, "memory", "memories"),
            extraction.rejections.len(),
            extraction.secrets_dropped
        );
    }
    let ending = report_problems(&args.input, &problems);
    complete.map(|()| ending)
}

fn run_harvest(args: &ExtractArgs) -> Result<RunStatus> {
    let (found, problems) = with_messages(&args.input, harvest::HARVEST_FILTER, |messages, problems| {
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
        eprintln!(
            "{}, {} edited but never written in these logs, {} dropped for a secret",
            format_count(found.files.len() as u64, "memory file"),
            found.unknown.len(),
            found.secrets_dropped
        );
    }
    Ok(report_problems(&args.input, &problems))
}

fn to_json_lines(extraction: &Extraction, with_rejected: bool) -> String {
    let turned = extraction
        .rejections
        .iter()
        .filter(|_| with_rejected)
        .map(rejection_json);
    let all = extraction.candidates.iter().map(candidate_json).chain(turned);
    all.map(to_json_line).collect()
}

/// An object on a line of its own, with the version of its fields.
fn to_json_line(mut object: Value) -> String {
    object["schema_version"] = SCHEMA_VERSION.into();
    format!("{object}\n")
}

fn to_json_document(extraction: &Extraction, with_rejected: bool) -> String {
    let mut document = json!({
        "schema_version": SCHEMA_VERSION,
        "kind": "memories",
        "memories": extraction.candidates.iter().map(candidate_json).collect::<Vec<_>>(),
        "secrets_dropped": extraction.secrets_dropped,
    });
    if with_rejected {
        document["rejected"] = extraction.rejections.iter().map(rejection_json).collect();
    }
    format!("{document:#}\n")
}

/// For people: a paragraph a memory.
fn to_table(extraction: &Extraction, with_rejected: bool) -> String {
    let mut text = String::new();
    for candidate in &extraction.candidates {
        let times = candidate.sources.len();
        let said = if times > 1 {
            format!(", said {times} times")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{} ({}, {:.2}{said})",
            candidate.title,
            candidate.kind.name(),
            candidate.confidence
        );
        let _ = writeln!(text, "  {}", candidate.hook);
        for line in candidate.body.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(text, "    {line}");
        }
    }
    if with_rejected && !extraction.rejections.is_empty() {
        let _ = writeln!(text, "\nTurned down:");
        for rejected in &extraction.rejections {
            let one_line = rejected.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "  {}: {one_line}", rejected.reason);
        }
    }
    text
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
