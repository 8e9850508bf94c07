//! Checks what written notes and summaries say against the logs: commands that ran, what still fails, what is pending, what
//! was decided, corrections, commits, uncommitted files, and what runs in the background.
//!
//! ```text
//! cargo run --release --example notescheck -- NOTES_DIR LOGS [--show]
//! cargo run --release --example notescheck -- --plants LOGS [--show]
//! ```
//!
//! `NOTES_DIR` is what `backcast notes --out NOTES_DIR --summary` wrote. The logs are read from their format alone; nothing
//! is shared with the code that writes notes. Prints the number of statements and of false ones by kind, over all texts and
//! for both halves of the projects; `--show` prints every false statement with the reason.
//!
//! `--plants` tests the checker itself: it makes 50 false statements from the logs and counts those that are found; `--show`
//! prints the others.

mod claims;
mod facts;
mod plants;

use anyhow::{Context, Result, bail};
use claims::{CLAIM_KINDS, ClaimKind, tally_claims};
use facts::SessionFacts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let is_shown = arguments.iter().any(|argument| argument == "--show");
    let paths = arguments.iter().filter(|argument| !argument.starts_with("--"));
    let paths = paths.map(PathBuf::from).collect::<Vec<_>>();
    if arguments.iter().any(|argument| argument == "--plants") {
        let [logs] = paths.as_slice() else {
            bail!("usage: notescheck --plants LOGS [--show]");
        };
        return check_plants(&read_sessions(logs, |_| true)?, is_shown);
    }
    let [notes, logs] = paths.as_slice() else {
        bail!("usage: notescheck NOTES_DIR LOGS [--show]");
    };
    let texts = texts_by_session(notes)?;
    let sessions = read_sessions(logs, |session| texts.contains_key(session))?;
    let mut sums = [Sums::default(), Sums::default()];
    let mut refused_as_run = 0;
    for (session, (half, records)) in &sessions {
        let facts = SessionFacts::read(records.iter());
        let sum = &mut sums[usize::from(*half)];
        for (path, text) in &texts[session] {
            let tally = tally_claims(text, &facts);
            sum.texts += 1;
            sum.false_texts += usize::from(!tally.false_claims.is_empty());
            for (kind, count) in tally.counts {
                sum.by_kind.entry(kind).or_default().0 += count;
            }
            for (claim, why) in tally.false_claims {
                sum.by_kind.entry(claim.kind).or_default().1 += 1;
                refused_as_run += usize::from(why == "the command was refused");
                if is_shown {
                    println!("{}: {:?}: {why}\n    {}", path.display(), claim.kind, claim.line);
                }
            }
        }
    }
    let [first, second] = sums;
    print_sums("all", &first.plus(&second));
    print_sums("half A", &first);
    print_sums("half B", &second);
    println!("refused calls reported as run: {refused_as_run}");
    Ok(())
}

/// Number of false statements that test the checker.
const PLANTS: usize = 50;

/// Makes false statements and prints how many of them the checker finds.
fn check_plants(sessions: &BTreeMap<String, (bool, Vec<Value>)>, is_shown: bool) -> Result<()> {
    let records = sessions.iter().map(|(session, (_, records))| (session, records));
    let plants = plants::make_plants(records, PLANTS);
    let mut by_kind = BTreeMap::<ClaimKind, (usize, usize)>::new();
    for plant in &plants {
        let facts = SessionFacts::read(sessions[&plant.session].1.iter());
        let is_found = !tally_claims(&plant.line, &facts).false_claims.is_empty();
        let counts = by_kind.entry(plant.kind).or_default();
        counts.0 += 1;
        counts.1 += usize::from(is_found);
        if is_shown && !is_found {
            println!("{}: {:?}\n    {}", plant.session, plant.kind, plant.line);
        }
    }
    let found = by_kind.values().map(|(_, found)| found).sum::<usize>();
    println!("{found} of {} planted statements found", plants.len());
    for (kind, (count, found)) in by_kind {
        println!("  {:<12} {found:>3} of {count:>3}", format!("{kind:?}").to_lowercase());
    }
    Ok(())
}

/// Returns the records of the wanted sessions in the order of time, because a session may go on in another log, and the half
/// of the projects that it belongs to.
fn read_sessions(logs: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, (bool, Vec<Value>)>> {
    let mut sessions = BTreeMap::<String, (bool, Vec<Value>)>::new();
    for log in files_below(logs)? {
        for record in read_records(&log)? {
            let session = record["sessionId"].as_str().unwrap_or_default().to_owned();
            if is_wanted(&session) {
                let entry = sessions
                    .entry(session)
                    .or_insert_with(|| (project_half(&log), Vec::new()));
                entry.1.push(record);
            }
        }
    }
    for (_, records) in sessions.values_mut() {
        records.sort_by(|one, other| one["timestamp"].as_str().cmp(&other["timestamp"].as_str()));
    }
    Ok(sessions)
}

/// Statements and false ones, over some texts.
#[derive(Debug, Default, Clone)]
struct Sums {
    texts: usize,
    false_texts: usize,
    by_kind: BTreeMap<ClaimKind, (usize, usize)>,
}

impl Sums {
    fn plus(&self, other: &Sums) -> Sums {
        let mut sum = self.clone();
        sum.texts += other.texts;
        sum.false_texts += other.false_texts;
        for (kind, (count, wrong)) in &other.by_kind {
            let entry = sum.by_kind.entry(*kind).or_default();
            entry.0 += count;
            entry.1 += wrong;
        }
        sum
    }
}

fn print_sums(name: &str, sums: &Sums) {
    let wrong = sums.by_kind.values().map(|(_, wrong)| wrong).sum::<usize>();
    println!(
        "{name}: {} texts, {} with a false statement, {:.2} false per text",
        sums.texts,
        sums.false_texts,
        wrong as f64 / sums.texts.max(1) as f64
    );
    for kind in CLAIM_KINDS {
        let (count, wrong) = sums.by_kind.get(&kind).copied().unwrap_or_default();
        let share = 100.0 * wrong as f64 / count.max(1) as f64;
        println!(
            "  {:<12} {count:>6} statements {wrong:>5} false {share:>6.1} %",
            format!("{kind:?}").to_lowercase()
        );
    }
}

/// Returns the texts below a folder by the session that their folder is named after.
fn texts_by_session(folder: &Path) -> Result<BTreeMap<String, Vec<(PathBuf, String)>>> {
    let mut texts = BTreeMap::<String, Vec<(PathBuf, String)>>::new();
    for path in files_below(folder)? {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let names = path.components().rev().filter_map(|part| part.as_os_str().to_str());
        let is_id = |name: &&str| !name.ends_with(".md") && *name != "session-memory" && *name != "compact";
        if let Some(session) = names.map(str::to_owned).find(|name| is_id(&name.as_str())) {
            texts.entry(session).or_default().push((path, text));
        }
    }
    Ok(texts)
}

fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        files.extend(files_below(&entry?.path())?);
    }
    files.sort();
    Ok(files)
}

/// Reads the records of a log; lines that are no JSON are left out.
fn read_records(path: &Path) -> Result<Vec<Value>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let reader: Box<dyn Read> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => Box::new(zstd::Decoder::new(file)?),
        Some("gz") => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    };
    let mut records = Vec::new();
    for line in BufReader::new(reader).split(b'\n') {
        if let Ok(record) = serde_json::from_slice(&line?) {
            records.push(record);
        }
    }
    Ok(records)
}

/// Splits projects into two halves by the folder of the log.
fn project_half(log: &Path) -> bool {
    let folder = log
        .parent()
        .map(|folder| folder.display().to_string())
        .unwrap_or_default();
    folder
        .bytes()
        .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)))
        % 2
        == 1
}
