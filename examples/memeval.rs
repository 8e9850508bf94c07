//! Holds extraction and dates against labelled data and prints every figure.
//!
//! ```text
//! cargo run --release --example memeval -- FOLDER [--transcripts FOLDER] [--show]
//! ```
//!
//! The folder holds any of `extraction*.jsonl[.zst]`, `real*.jsonl` and `dates*.json`; the logs that the real messages
//! stand in lie in `transcripts` beside it unless another folder is named. `--show` lists what went wrong. Data is read,
//! never copied into the project.

use anyhow::{Context, Result, bail};
use backcast::run::{ReadOptions, read_messages};
use language::dates;
use memory::extract::extract;
use memory::rules::ExtractionRules;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use transcript::discover::discover;
use transcript::messages::{Message, MessagePart, MessageRole, PartSelection};

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let is_shown = arguments.iter().any(|argument| argument == "--show");
    let Some(folder) = arguments.first().map(PathBuf::from) else {
        bail!("usage: memeval FOLDER [--transcripts FOLDER] [--show]");
    };
    let named = arguments.iter().position(|argument| argument == "--transcripts");
    let named = named.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let transcripts = named.unwrap_or_else(|| folder.join("../transcripts"));
    let mut files = std::fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.split('-').next() {
            Some("extraction") => extraction(&file, is_shown)?,
            Some("real") => real(&file, &transcripts, is_shown)?,
            Some("dates") => dated(&file, is_shown)?,
            // Recall is measured by what ranks memories.
            _ => println!("{name}: not measured here"),
        }
    }
    Ok(())
}

fn text_of(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    if path.extension().is_some_and(|extension| extension == "zst") {
        let mut text = String::new();
        zstd::Decoder::new(bytes.as_slice())?.read_to_string(&mut text)?;
        return Ok(text);
    }
    Ok(String::from_utf8(bytes)?)
}

/// Hits and misses.
#[derive(Default, Clone, Copy)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
}

impl Score {
    fn add(&mut self, is_found: bool, is_kept: bool) {
        match (is_found, is_kept) {
            (true, true) => self.right += 1,
            (true, false) => self.wrong += 1,
            (false, true) => self.missed += 1,
            (false, false) => {}
        }
    }

    fn line(&self) -> String {
        let share = |part: u32, of: u32| if of == 0 { 0.0 } else { f64::from(part) / f64::from(of) };
        let precision = share(self.right, self.right + self.wrong);
        let recall = share(self.right, self.right + self.missed);
        let both = share(2 * self.right, 2 * self.right + self.wrong + self.missed);
        format!(
            "F1 {both:.3}  precision {precision:.3}  recall {recall:.3}  ({} right, {} wrong, {} missed)",
            self.right, self.wrong, self.missed
        )
    }
}

#[derive(Deserialize)]
struct Labelled {
    chat: String,
    domain: String,
    id: u64,
    text: String,
    keep: bool,
}

fn message(session: &str, uuid: String, line: u64, text: String) -> Message {
    Message {
        session: session.to_owned(),
        uuid,
        line,
        ..Message::with_parts(MessageRole::User, vec![MessagePart::Text(text)])
    }
}

fn extraction(path: &Path, is_shown: bool) -> Result<()> {
    let rows = text_of(path)?
        .lines()
        .map(serde_json::from_str::<Labelled>)
        .collect::<Result<Vec<_>, _>>()?;
    // A chat at a time: what different people say is no repetition.
    let mut chats = BTreeMap::<&str, Vec<&Labelled>>::new();
    for row in &rows {
        chats.entry(&row.chat).or_default().push(row);
    }
    let (mut all, mut coding, mut halves) = (Score::default(), Score::default(), [Score::default(); 2]);
    let mut spent = std::time::Duration::ZERO;
    for (number, (chat, rows)) in chats.into_iter().enumerate() {
        let messages = rows
            .iter()
            .map(|row| message(chat, row.id.to_string(), row.id, row.text.clone()))
            .collect::<Vec<_>>();
        let start = std::time::Instant::now();
        let extraction = extract(&messages, ExtractionRules::built_in());
        spent += start.elapsed();
        let sources = extraction.candidates.iter().flat_map(|candidate| &candidate.sources);
        let found = sources.map(|source| source.uuid.as_str()).collect::<BTreeSet<_>>();
        for row in rows {
            let is_found = found.contains(row.id.to_string().as_str());
            all.add(is_found, row.keep);
            halves[number % 2].add(is_found, row.keep);
            if row.domain == "Coding" {
                coding.add(is_found, row.keep);
            }
            if is_shown && is_found != row.keep {
                let head = row.text.chars().take(160).collect::<String>();
                println!("  {} {head}", if is_found { "wrong" } else { "missed" });
            }
        }
    }
    println!("{}: {} messages in {spent:.0?}", path.display(), rows.len());
    println!("  all      {}", all.line());
    println!("  coding   {}", coding.line());
    println!("  chats A  {}", halves[0].line());
    println!("  chats B  {}", halves[1].line());
    Ok(())
}

#[derive(Deserialize)]
struct Real {
    file: String,
    uuid: String,
    label: String,
}

fn real(path: &Path, transcripts: &Path, is_shown: bool) -> Result<()> {
    let rows = text_of(path)?
        .lines()
        .map(serde_json::from_str::<Real>)
        .collect::<Result<Vec<_>, _>>()?;
    let roots = rows
        .iter()
        .map(|row| transcripts.join(&row.file))
        .collect::<BTreeSet<_>>();
    let logs = discover(&roots.into_iter().collect::<Vec<_>>(), false)?.logs;
    let (messages, _) = read_messages(&logs, PartSelection::default(), &ReadOptions::default());
    let extraction = extract(&messages, ExtractionRules::built_in());
    let labels = rows
        .iter()
        .map(|row| (row.uuid.as_str(), row.label.as_str()))
        .collect::<BTreeMap<_, _>>();
    let mut yielding = BTreeMap::<&str, &str>::new();
    for candidate in &extraction.candidates {
        for source in &candidate.sources {
            if let Some(label) = labels.get(source.uuid.as_str()) {
                yielding.insert(&source.uuid, label);
                if is_shown && *label == "no" {
                    println!("  no: {}", candidate.body);
                }
            }
        }
    }
    let count = |wanted: &str| yielding.values().filter(|label| **label == wanted).count();
    let (keep, maybe, no) = (count("keep"), count("maybe"), count("no"));
    let keeps = rows.iter().filter(|row| row.label == "keep").count();
    println!("{}: {} messages", path.display(), rows.len());
    println!(
        "  {} yield a memory: {keep} keep, {maybe} maybe, {no} no: {:.1} % good; {keep} of {keeps} keeps found: {:.1} %",
        keep + maybe + no,
        100.0 * (keep + maybe) as f64 / (keep + maybe + no).max(1) as f64,
        100.0 * keep as f64 / keeps.max(1) as f64
    );
    Ok(())
}

#[derive(Deserialize)]
struct Dated {
    span: String,
    sentence: String,
    reference: String,
    accept: Vec<String>,
}

fn dated(path: &Path, is_shown: bool) -> Result<()> {
    let rows = serde_json::from_str::<Vec<Dated>>(&text_of(path)?)?;
    let (mut alone, mut inside) = (0, 0);
    for row in &rows {
        let day = row.reference.parse::<jiff::civil::DateTime>()?.date();
        let accepted = |text: &str| {
            let found = dates::find_dates(text, day);
            found.iter().any(|found| row.accept.contains(&found.date.to_string()))
        };
        inside += u32::from(accepted(&row.sentence));
        if accepted(&row.span) {
            alone += 1;
        } else if is_shown {
            let found = dates::find_dates(&row.span, day);
            println!("  {} @ {day}: {found:?}, accepted {:?}", row.span, row.accept);
        }
    }
    let share = |count: u32| 100.0 * f64::from(count) / rows.len().max(1) as f64;
    println!("{}: {} expressions", path.display(), rows.len());
    println!(
        "  {:.1} % alone, {:.1} % in their sentence",
        share(alone),
        share(inside)
    );
    Ok(())
}
