//! `backcast memory extract`: what past sessions leave for later ones.

use crate::cli::InputArgs;
use crate::cli::memory::{CheckArgs, ExtractArgs, MemoryFormat};
use crate::commands::memory::consolidate::{tell, tell_run};
use crate::commands::memory::drawn;
use crate::commands::memory::drawn::{candidate, rejected, source};
use crate::commands::memory::{folder, now};
use crate::commands::policy::{index_limits, of_memories};
use crate::commands::reading::{close, with_messages};
use crate::commands::writing::{check_free, for_people, write_page};
use crate::commands::{Ending, backend, print};
use crate::page::Content;
use anyhow::{Context, Result, bail};
use language::secrets;
use memory::check;
use memory::check::Finding;
use memory::daily;
use memory::extract::{Extraction, Rejected, accept, extract, extract_above, nowhere, said};
use memory::harvest;
use memory::harvest::{Harvest, harvest};
use memory::kinds::Candidate;
use memory::lock::Lock;
use memory::memdir::Memdir;
use memory::plan::{Options, Snapshot, plan_with};
use memory::rules::Rules;
use notes::model::extract as anthropic;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use table::words::{count, count_of};
use transcript::log::Time;
use transcript::messages::{Message, Wanted};

/// Version of the fields below, named in JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// Runs it.
pub fn run(args: &ExtractArgs) -> Result<Ending> {
    if args.harvest {
        run_harvest(args)
    } else {
        run_extract(args)
    }
}

/// Puts candidates into the directory; the time of the run is only in its journal, so that the same logs leave the same files.
fn keep(args: &ExtractArgs, extraction: &Extraction) -> Result<()> {
    let memdir = Memdir::create(&folder::path(&args.dir)?)?;
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!(
            "another run is writing to {}\n  hint: try again when it is done",
            memdir.root().display()
        );
    };
    if args.daily {
        return note(args, &memdir, &lock, now, &extraction.candidates);
    }
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.why);
    }
    let options = Options {
        team: args.team,
        index: index_limits(&of_memories(&args.dir.set)?),
    };
    let planned = plan_with(&snapshot, &extraction.candidates, &extraction.forgotten, &options);
    for file in &planned.untouchable {
        eprintln!("{file}: left alone, its frontmatter is not YAML");
    }
    let run = memdir.commit(&lock, "extract", now, &planned.changes)?;
    if !args.input.quiet {
        tell(&args.dir, &planned.changes, run.as_deref());
        eprintln!(
            "{} there already, {} had been retired, {} had been deleted",
            planned.unchanged, planned.retired, planned.deleted
        );
    }
    Ok(())
}

/// Finds memories by rules, or asks a model; `None` if it was only to be estimated.
fn find(args: &ExtractArgs, messages: &[Message], rules: &Rules) -> Result<Option<(Extraction, Result<()>)>> {
    let (cache, remembers) = (args.input.cache_dir.as_deref(), !args.input.no_cache);
    let Some(model) = backend::open(&args.model, cache, remembers, args.input.quiet)? else {
        let extraction = extract_above(args.min_confidence, messages, rules);
        return Ok(Some((extraction, Ok(()))));
    };
    // What is known helps the model to say less; a directory that is not there yet knows nothing.
    let memdir = folder::path(&args.dir)
        .ok()
        .and_then(|path| Memdir::open(&path).ok().flatten());
    let known = memdir.map(|memdir| memdir.read()).transpose()?;
    let known = known.map(|(snapshot, _)| snapshot).unwrap_or_default();
    let questions = anthropic::questions(&model.backend, &said(messages, rules), &known, rules);
    let asked = model.passes(|model, _| {
        model.ask(&questions, |backend, question| {
            backend.ask(&question.request, |text| question.read(text))
        })
    });
    model.close();
    let Some(asked) = asked? else { return Ok(None) };
    let mut extraction = Extraction::default();
    for found in asked.answers.iter().flatten().flatten() {
        match found {
            Ok(candidate) => accept(candidate.clone(), args.min_confidence, rules, &mut extraction),
            Err(unfit) => extraction.rejected.push(Rejected {
                text: secrets::mask(&unfit.text),
                reason: unfit.reason.to_owned(),
                rule: None,
                confidence: None,
                source: nowhere(),
            }),
        }
    }
    Ok(Some((extraction, asked.complete())))
}

/// Notes candidates in the logs of the days they were said on.
fn note(args: &ExtractArgs, memdir: &Memdir, lock: &Lock, now: Time, candidates: &[Candidate]) -> Result<()> {
    let mut days = BTreeMap::<String, Vec<String>>::new();
    for (date, line) in candidates.iter().flat_map(daily::lines) {
        days.entry(date).or_default().push(line);
    }
    let (mut changes, mut added) = (Vec::new(), 0_u64);
    for (date, lines) in &mut days {
        lines.sort();
        if let Some((change, lines)) = memdir.log_change(date, lines)? {
            changes.push(change);
            added += lines as u64;
        }
    }
    let run = memdir.commit(lock, "extract", now, &changes)?;
    if !args.input.quiet {
        eprintln!(
            "{} noted; `backcast memory dream{}` distils them",
            count(added, "line"),
            folder::options(&args.dir)
        );
        if let Some(run) = run {
            tell_run(&args.dir, &run);
        }
    }
    Ok(())
}

/// What logs say that a directory does not.
pub(super) fn out_of_date(args: &CheckArgs, snapshot: &Snapshot) -> Result<(Vec<Finding>, Ending)> {
    let input = InputArgs {
        problems: args.problems,
        strict: args.strict,
        quiet: args.quiet,
        ..InputArgs::of(&args.logs)
    };
    let (extraction, problems) = with_messages(&input, Wanted::default(), |messages, problems| {
        (extract(&messages, Rules::built_in()), problems)
    })?;
    let ending = close(&input, &problems);
    let options = Options {
        team: args.team,
        index: index_limits(&of_memories(&args.dir.set)?),
    };
    let planned = plan_with(snapshot, &extraction.candidates, &extraction.forgotten, &options);
    Ok((check::against_logs(snapshot, &planned.changes), ending))
}

fn run_extract(args: &ExtractArgs) -> Result<Ending> {
    check_free(args.html.as_deref(), args.force)?;
    let own = args.rules.as_deref().map(|path| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Rules::read(&text).with_context(|| path.display().to_string())
    });
    let own = own.transpose()?;
    let rules = own.as_ref().unwrap_or_else(|| Rules::built_in());
    let (found, problems) = with_messages(&args.input, Wanted::default(), |messages, problems| {
        (find(args, &messages, rules), problems)
    })?;
    let Some((extraction, complete)) = found? else {
        return Ok(close(&args.input, &problems));
    };
    if let Some(path) = &args.html {
        let content = Content {
            name: "memories".to_owned(),
            memories: vec![drawn::extraction(&extraction)],
            ..Content::default()
        };
        write_page(path, args.force, args.input.quiet, content)?;
    }
    if !args.dry_run {
        keep(args, &extraction)?;
    }
    // Who keeps what was found sees it only by asking for it.
    let is_shown = args.dry_run || args.rejected;
    if let Some(format) = args.format.or(is_shown.then_some(MemoryFormat::Table)) {
        let text = match format {
            MemoryFormat::Table => for_people(&table(&extraction, args.rejected)),
            MemoryFormat::Json => document(&extraction, args.rejected),
            MemoryFormat::Jsonl => lines(&extraction, args.rejected),
        };
        print(text.as_bytes())?;
    }
    if args.dry_run && !args.input.quiet {
        eprintln!(
            "{}, {} turned down, {} dropped for a secret",
            count_of(extraction.candidates.len() as u64, "memory", "memories"),
            extraction.rejected.len(),
            extraction.secrets_dropped
        );
    }
    let ending = close(&args.input, &problems);
    complete.map(|()| ending)
}

fn run_harvest(args: &ExtractArgs) -> Result<Ending> {
    let (found, problems) = with_messages(&args.input, harvest::WANTED, |messages, problems| {
        (harvest(&messages), problems)
    })?;
    let files = found.files.iter().map(|file| {
        json!({
            "file": file.path,
            "text": file.text,
            "missed_edits": file.missed,
            "sources": file.sources.iter().map(source).collect::<Vec<_>>(),
        })
    });
    let text = match args.format.unwrap_or_default() {
        MemoryFormat::Table => for_people(&harvest_table(&found)),
        MemoryFormat::Json => {
            let files = files.collect::<Vec<_>>();
            format!(
                "{:#}\n",
                json!({"schema_version": SCHEMA_VERSION, "files": files, "unknown": found.unknown, "secrets_dropped": found.secrets_dropped})
            )
        }
        MemoryFormat::Jsonl => files.map(line).collect(),
    };
    print(text.as_bytes())?;
    if !args.input.quiet {
        eprintln!(
            "{}, {} edited but never written in these logs, {} dropped for a secret",
            count(found.files.len() as u64, "memory file"),
            found.unknown.len(),
            found.secrets_dropped
        );
    }
    Ok(close(&args.input, &problems))
}

fn lines(extraction: &Extraction, with_rejected: bool) -> String {
    let turned = extraction.rejected.iter().filter(|_| with_rejected).map(rejected);
    let all = extraction.candidates.iter().map(candidate).chain(turned);
    all.map(line).collect()
}

/// An object on a line of its own, with the version of its fields.
fn line(mut object: Value) -> String {
    object["schema_version"] = SCHEMA_VERSION.into();
    format!("{object}\n")
}

fn document(extraction: &Extraction, with_rejected: bool) -> String {
    let mut document = json!({
        "schema_version": SCHEMA_VERSION,
        "memories": extraction.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "secrets_dropped": extraction.secrets_dropped,
    });
    if with_rejected {
        document["rejected"] = extraction.rejected.iter().map(rejected).collect();
    }
    format!("{document:#}\n")
}

/// For people: a paragraph a memory.
fn table(extraction: &Extraction, with_rejected: bool) -> String {
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
    if with_rejected && !extraction.rejected.is_empty() {
        let _ = writeln!(text, "\nTurned down:");
        for rejected in &extraction.rejected {
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
            count(file.text.len() as u64, "byte"),
            count(file.sources.len() as u64, "call")
        );
    }
    for path in &found.unknown {
        let _ = writeln!(text, "{path} (edited, but never written in these logs)");
    }
    text
}
