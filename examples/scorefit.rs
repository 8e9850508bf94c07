//! Measures the score of memories by cross-validation over authors, and holds a trained table against the built-in weights.
//!
//! ```text
//! cargo run --release --example scorefit -- FOLDER [--transcripts FOLDER] [--show N]
//! ```
//!
//! The folder holds `real*-dev.jsonl`: one labelled message a line (`file`, `uuid` or `line:N`, `label` keep, maybe or no,
//! `cue`). Authors are home folders in `cwd`, else repositories; a fold holds whole authors. (a) is the built-in score: cues
//! with weights set by hand. (b) is a logistic regression on hashed words and word pairs plus the same cues and signs, trained
//! on the other folds; (c) is the built-in score plus trained words and pairs. The penalty of (b) and (c) is chosen on the
//! training folds alone. Everything is deterministic: no clock, no random numbers.

use anyhow::{Context, Result, bail};
use backcast::run::{ReadOptions, read_messages};
use memory::acts::{ActRecord, LearnedWeights, ReviewAct};
use memory::extract::gather::{Statement, gather_statements};
use memory::extract::score::{Placement, confidence, matching_cues, structure_signs};
use memory::extract::{ExtractOptions, Extraction, MIN_CONFIDENCE};
use memory::harvest::HARVEST_FILTER;
use memory::rules::ExtractionRules;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use transcript::discover::discover;
use transcript::messages::{Message, PartSelection};
use xxhash_rust::xxh3::xxh3_64;

/// Folds of the cross-validation.
const FOLDS: usize = 6;
/// Buckets of hashed word pairs.
const BUCKETS: usize = 4096;
/// Weight of a labelled positive, and of a `maybe`.
const POSITIVE_WEIGHT: f64 = 8.0;
const MAYBE_WEIGHT: f64 = 3.0;
/// Strengths of the penalty on weights that are tried, passes over the data, and step.
const PENALTIES: [f64; 3] = [1e-3, 1e-2, 3e-2];
const PASSES: usize = 15;
const STEP: f64 = 0.05;
/// What a point of the built-in score counts in (c), as in the confidence.
const POINT: f64 = 1.1;

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Variant {
    /// The cues and signs alone: shows what trained weights do for them.
    Cues,
    /// Words, pairs, cues and signs.
    Words,
    /// Words and pairs on top of the built-in score.
    Sum,
}

#[derive(Deserialize)]
struct LabelRow {
    file: String,
    session: String,
    uuid: String,
    label: String,
    #[serde(default)]
    cue: String,
}

/// A labelled message with its statements.
struct LabelledMessage {
    author: String,
    label: u8,
    cue: BTreeSet<String>,
    statements: Vec<Statement>,
    /// Time, for the learning by acts.
    time: i64,
}

const KEEP: u8 = 2;
const MAYBE: u8 = 1;

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let Some(folder) = arguments.first().map(PathBuf::from) else {
        bail!("usage: scorefit FOLDER [--transcripts FOLDER] [--show N]");
    };
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1))
    };
    let transcripts = value("--transcripts").map_or_else(|| folder.join("../transcripts"), PathBuf::from);
    let rows = read_rows(&folder)?;
    let labelled = read_labelled(&rows, &transcripts)?;
    let keeps = labelled.iter().filter(|row| row.label == KEEP).count();
    let maybes = labelled.iter().filter(|row| row.label == MAYBE).count();
    println!("{} messages: {keeps} keep, {maybes} maybe", labelled.len());
    let folds = split_authors(&labelled);
    let by_hand = labelled
        .iter()
        .map(|row| best(row, |said| said.score))
        .collect::<Vec<_>>();
    println!("\n(a) weights set by hand\n{}", curve(&labelled, &by_hand));
    println!("threshold chosen on the other folds, (a):");
    print_folds(&labelled, &folds, &by_hand);
    for (name, variant) in [
        ("(a2) the same cues and signs, trained", Variant::Cues),
        ("(b) words, pairs, cues and signs, trained", Variant::Words),
        ("(c) the built-in score plus trained words and pairs", Variant::Sum),
    ] {
        let trained = cross_validate(&labelled, &folds, variant);
        println!("{name}\n{}", curve(&labelled, &trained));
        println!("threshold chosen on the other folds:");
        print_folds(&labelled, &folds, &trained);
    }
    print_default(&labelled, &by_hand);
    print_learning_curve(&labelled, &folds);
    print_acts(&labelled);
    if let Some(most) = value("--show").and_then(|most| most.parse::<usize>().ok()) {
        show(&labelled, most);
    }
    Ok(())
}

fn read_rows(folder: &Path) -> Result<Vec<LabelRow>> {
    let mut files = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    let mut rows = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("real") && name.ends_with(".jsonl") {
            let text = std::fs::read_to_string(&file).with_context(|| name.clone())?;
            for line in text.lines() {
                rows.push(serde_json::from_str(line)?);
            }
        }
    }
    Ok(rows)
}

/// Reads the logs of the rows, repository by repository, and finds the statements of each row.
fn read_labelled(rows: &[LabelRow], transcripts: &Path) -> Result<Vec<LabelledMessage>> {
    let wanted = PartSelection {
        every_word: true,
        every_call: true,
        longest: Some(2_000),
        ..HARVEST_FILTER
    };
    let mut files = BTreeSet::new();
    let mut found = BTreeMap::new();
    let mut authors = BTreeMap::<String, String>::new();
    for row in rows {
        if !files.insert(&row.file) {
            continue;
        }
        let logs = discover(&[transcripts.join(&row.file)], false)?.logs;
        let (messages, _) = read_messages(&logs, wanted, &ReadOptions::default());
        let home = messages.iter().find_map(author_of);
        let repository = row.file.split('/').next().unwrap_or_default().to_owned();
        authors.insert(row.file.clone(), home.unwrap_or(repository));
        let mut unused = Extraction::default();
        for said in gather_statements(&messages, &ExtractOptions::default(), &mut unused) {
            let name = said.source.uuid.clone();
            found
                .entry((row.file.clone(), name))
                .or_insert_with(Vec::new)
                .push(said);
        }
    }
    let words = |text: &str| {
        language::words::content_words(text)
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    let labelled = rows.iter().map(|row| {
        let line = row.uuid.strip_prefix("line:");
        let name = line.map_or_else(|| row.uuid.clone(), |line| format!("{}:{line}", row.session));
        let repeated = || find_repeated(&found, row, transcripts);
        let statements = found
            .get(&(row.file.clone(), name))
            .cloned()
            .or_else(repeated)
            .unwrap_or_default();
        LabelledMessage {
            author: authors[&row.file].clone(),
            label: match row.label.as_str() {
                "keep" => KEEP,
                "maybe" => MAYBE,
                _ => 0,
            },
            cue: words(&row.cue),
            time: statements.iter().filter_map(|said| said.source.time).min().unwrap_or(0),
            statements,
        }
    });
    Ok(labelled.collect())
}

/// Returns the statements of the record that repeats a queued prompt: the label names the line of the queue.
fn find_repeated(
    found: &BTreeMap<(String, String), Vec<Statement>>,
    row: &LabelRow,
    transcripts: &Path,
) -> Option<Vec<Statement>> {
    let line = row.uuid.strip_prefix("line:")?.parse::<usize>().ok()?;
    let packed = std::fs::read(transcripts.join(&row.file)).ok()?;
    let text = String::from_utf8(zstd::decode_all(packed.as_slice()).ok()?).ok()?;
    let record = serde_json::from_str::<serde_json::Value>(text.lines().nth(line - 1)?).ok()?;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let queued = words(record.get("content")?.as_str()?);
    let of_file = found.iter().filter(|((file, _), _)| *file == row.file);
    let same = of_file.filter(|(_, said)| said.iter().all(|said| queued.contains(&said.text)));
    same.map(|(_, said)| said).max_by_key(|said| said.len()).cloned()
}

/// Returns the home folder in a working folder.
fn author_of(message: &Message) -> Option<String> {
    let mut parts = message
        .cwd
        .split(['/', '\\'])
        .filter(|part| !part.is_empty() && !part.ends_with(':'));
    match (parts.next()?, parts.next()) {
        ("Users" | "home", Some(name)) => Some(name.to_owned()),
        ("root", _) => Some("root".to_owned()),
        _ => None,
    }
}

fn best(row: &LabelledMessage, score: impl Fn(&Statement) -> f64) -> f64 {
    let closed = row.statements.iter().filter(|said| !said.is_open_question());
    closed.map(score).fold(-9.0, f64::max)
}

/// Deals whole authors to folds, those with most keeps first.
fn split_authors(labelled: &[LabelledMessage]) -> BTreeMap<&str, usize> {
    let mut keeps = BTreeMap::<&str, usize>::new();
    for row in labelled {
        *keeps.entry(&row.author).or_insert(0) += usize::from(row.label == KEEP);
    }
    let mut authors = keeps.into_iter().collect::<Vec<_>>();
    authors.sort_by_key(|(author, keeps)| (std::cmp::Reverse(*keeps), *author));
    let mut load = [(0, 0); FOLDS];
    let mut folds = BTreeMap::new();
    for (author, keeps) in authors {
        let at = (0..FOLDS).min_by_key(|at| load[*at]).unwrap_or(0);
        load[at] = (load[at].0 + keeps, load[at].1 + 1);
        folds.insert(author, at);
    }
    folds
}

/// Features of a statement: buckets of words and pairs, then cues, then signs.
fn features(said: &Statement, sentences: usize, variant: Variant, rules: &ExtractionRules) -> Vec<(usize, f64)> {
    let text = said.text.to_lowercase();
    let words = text
        .split(|sign: char| !sign.is_alphanumeric() && sign != '\'')
        .filter(|word| !word.is_empty());
    let words = std::iter::once("^")
        .chain(words.take(40))
        .chain(["$"])
        .collect::<Vec<_>>();
    let bucket = |gram: &str| (xxh3_64(gram.as_bytes()) % BUCKETS as u64) as usize;
    let mut found = BTreeMap::new();
    let pairs = if variant == Variant::Cues { &[][..] } else { &words[..] };
    for pair in pairs.windows(2) {
        found.insert(bucket(pair[0]), 0.3);
        found.insert(bucket(&format!("{} {}", pair[0], pair[1])), 0.3);
    }
    let mut found = found.into_iter().collect::<Vec<_>>();
    if variant == Variant::Sum {
        return found;
    }
    for at in matching_cues(&said.text, &rules.candidate_patterns(&said.text), rules) {
        found.push((BUCKETS + at, 1.0));
    }
    let place = Placement {
        sentences,
        channel: said.channel,
        follows_stop: false,
        is_question: said.is_question,
        is_request: said.is_request,
        is_reported: said.is_reported,
    };
    let base = BUCKETS + rules.cues.len();
    for (at, (_, _, amount)) in structure_signs(&said.text, &place).into_iter().enumerate() {
        if amount > 0.0 {
            found.push((base + at, amount));
        }
    }
    found
}

struct Example {
    features: Vec<(usize, f64)>,
    is_positive: bool,
    weight: f64,
    /// What is known before the training.
    base: f64,
}

fn base_of(said: &Statement, variant: Variant) -> f64 {
    match variant {
        Variant::Sum => POINT * (said.score - memory::extract::score::MIDDLE_SCORE),
        _ => 0.0,
    }
}

/// Trains on the statements of rows: the sentence that the cue names is the positive one.
fn train<'a>(rows: impl Iterator<Item = &'a LabelledMessage>, variant: Variant, penalty: f64) -> Vec<f64> {
    let rules = ExtractionRules::built_in();
    let mut examples = Vec::new();
    for row in rows {
        let likeness = |said: &Statement| said.words.iter().filter(|word| row.cue.contains(*word)).count();
        let named = (0..row.statements.len()).max_by_key(|at| (likeness(&row.statements[*at]), std::cmp::Reverse(*at)));
        for (at, said) in row.statements.iter().enumerate() {
            let is_positive = row.label > 0 && named == Some(at);
            if row.label > 0 && !is_positive {
                continue;
            }
            examples.push(Example {
                features: features(said, row.statements.len(), variant, rules),
                base: base_of(said, variant),
                is_positive,
                weight: match (is_positive, row.label) {
                    (true, KEEP) => POSITIVE_WEIGHT,
                    (true, _) => MAYBE_WEIGHT,
                    _ => 1.0,
                },
            });
        }
    }
    let signs = 32;
    let mut weights = vec![0.0; BUCKETS + rules.cues.len() + signs + 1];
    let bias = weights.len() - 1;
    for _ in 0..PASSES {
        for example in &examples {
            let sum = example
                .features
                .iter()
                .map(|(at, amount)| weights[*at] * amount)
                .sum::<f64>()
                + weights[bias]
                + example.base;
            let error = f64::from(u8::from(example.is_positive)) - 1.0 / (1.0 + (-sum).exp());
            let step = STEP * example.weight * error;
            for (at, amount) in &example.features {
                weights[*at] += step * amount - STEP * penalty * weights[*at];
            }
            weights[bias] += step;
        }
    }
    weights
}

/// Scores every row by a table trained on the other folds, with the penalty that does best within them.
fn cross_validate(labelled: &[LabelledMessage], folds: &BTreeMap<&str, usize>, variant: Variant) -> Vec<f64> {
    let fold_of = |row: &LabelledMessage| folds[row.author.as_str()];
    let tables = (0..FOLDS).map(|fold| {
        let others = labelled.iter().filter(|row| fold_of(row) != fold).collect::<Vec<_>>();
        let quality = |penalty: f64| {
            let mut scores = vec![0.0; others.len()];
            for inner in (0..FOLDS).filter(|inner| *inner != fold) {
                let table = train(
                    others.iter().copied().filter(|row| fold_of(row) != inner),
                    variant,
                    penalty,
                );
                for (row, score) in others.iter().zip(&mut scores).filter(|(row, _)| fold_of(row) == inner) {
                    *score = score_with(row, &table, variant);
                }
            }
            average_precision(&others, &scores)
        };
        let penalty = PENALTIES
            .into_iter()
            .max_by(|one, other| quality(*one).total_cmp(&quality(*other)));
        train(others.iter().copied(), variant, penalty.unwrap_or(PENALTIES[0]))
    });
    let tables = tables.collect::<Vec<_>>();
    labelled
        .iter()
        .map(|row| score_with(row, &tables[fold_of(row)], variant))
        .collect()
}

fn score_with(row: &LabelledMessage, weights: &[f64], variant: Variant) -> f64 {
    let rules = ExtractionRules::built_in();
    best(row, |said| {
        let found = features(said, row.statements.len(), variant, rules);
        let sum = found.iter().map(|(at, amount)| weights[*at] * amount).sum::<f64>();
        sum + weights[weights.len() - 1] + base_of(said, variant)
    })
}

fn average_precision(rows: &[&LabelledMessage], scores: &[f64]) -> f64 {
    let (mut keeps, mut sum) = (0, 0.0);
    for (count, at) in order(scores).into_iter().enumerate() {
        if rows[at].label == KEEP {
            keeps += 1;
            sum += share(keeps, count + 1);
        }
    }
    sum / keeps.max(1) as f64
}

/// What a threshold yields.
#[derive(Default, Clone, Copy)]
struct Yield {
    keep: usize,
    maybe: usize,
    no: usize,
}

impl Yield {
    fn add(&mut self, label: u8) {
        match label {
            KEEP => self.keep += 1,
            MAYBE => self.maybe += 1,
            _ => self.no += 1,
        }
    }

    fn all(self) -> usize {
        self.keep + self.maybe + self.no
    }

    fn text(self, keeps: usize) -> String {
        let (low, high) = interval(self.keep + self.maybe, self.all());
        format!(
            "{:>3} found: {} keep, {} maybe, {} no; precision {:.2} [{low:.2}, {high:.2}] with maybes, {:.2} without; {} of {keeps} keeps",
            self.all(),
            self.keep,
            self.maybe,
            self.no,
            share(self.keep + self.maybe, self.all()),
            share(self.keep, self.keep + self.no),
            self.keep
        )
    }
}

fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Wilson interval of a share, 95 %.
fn interval(part: usize, all: usize) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (n, p, z) = (all as f64, share(part, all), 1.96_f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    (middle - half, middle + half)
}

fn order(scores: &[f64]) -> Vec<usize> {
    let mut order = (0..scores.len()).collect::<Vec<_>>();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
    order
}

fn curve(labelled: &[LabelledMessage], scores: &[f64]) -> String {
    let keeps = labelled.iter().filter(|row| row.label == KEEP).count();
    let (mut found, mut text, mut precision) = (Yield::default(), String::new(), 0.0);
    for (count, at) in order(scores).into_iter().enumerate() {
        found.add(labelled[at].label);
        if labelled[at].label == KEEP {
            precision += share(found.keep, count + 1);
        }
        if [10, 20, 30, 40, 60, 100, 150, 200].contains(&(count + 1)) {
            text.push_str(&format!("  from {:5.2}  {}\n", scores[at], found.text(keeps)));
        }
    }
    format!(
        "{text}  average precision (keeps only) {:.3}\n",
        precision / keeps.max(1) as f64
    )
}

/// Chooses on the other folds the lowest threshold with a precision (maybes count) of at least 0.75, and applies it.
fn print_folds(labelled: &[LabelledMessage], folds: &BTreeMap<&str, usize>, scores: &[f64]) {
    let (mut all, mut keeps_in_all) = (Yield::default(), 0);
    for fold in 0..FOLDS {
        let is_here = |at: &usize| folds[labelled[*at].author.as_str()] == fold;
        let mut seen = Yield::default();
        let mut threshold = f64::INFINITY;
        for at in order(scores).into_iter().filter(|at| !is_here(at)) {
            seen.add(labelled[at].label);
            if seen.all() >= 10 && share(seen.keep + seen.maybe, seen.all()) >= 0.75 {
                threshold = scores[at];
            }
        }
        let mut found = Yield::default();
        let here = (0..labelled.len()).filter(is_here).collect::<Vec<_>>();
        for at in here.iter().filter(|at| scores[**at] >= threshold) {
            found.add(labelled[*at].label);
        }
        let keeps = here.iter().filter(|at| labelled[**at].label == KEEP).count();
        let authors = folds.values().filter(|at| **at == fold).count();
        println!(
            "  fold {fold} ({authors} authors) from {threshold:5.2}: {}",
            found.text(keeps)
        );
        all = Yield {
            keep: all.keep + found.keep,
            maybe: all.maybe + found.maybe,
            no: all.no + found.no,
        };
        keeps_in_all += keeps;
    }
    println!("  all folds: {}\n", all.text(keeps_in_all));
}

fn print_default(labelled: &[LabelledMessage], scores: &[f64]) {
    let keeps = labelled.iter().filter(|row| row.label == KEEP).count();
    for threshold in [MIN_CONFIDENCE, 0.35, memory::extract::REVIEW_CONFIDENCE] {
        let mut found = Yield::default();
        for (row, score) in labelled.iter().zip(scores) {
            if confidence(*score) >= threshold {
                found.add(row.label);
            }
        }
        println!("confidence {threshold:.2}, (a): {}", found.text(keeps));
    }
    println!();
}

/// Trains (b) on the first 1, 2, ... of the other folds.
fn print_learning_curve(labelled: &[LabelledMessage], folds: &BTreeMap<&str, usize>) {
    println!("learning curve of (b): average precision of keeps, by number of folds trained on");
    let rows = labelled.iter().collect::<Vec<_>>();
    for count in 1..FOLDS {
        let tables = (0..FOLDS).map(|fold| {
            let used = (1..=count).map(|step| (fold + step) % FOLDS).collect::<Vec<_>>();
            let rows = labelled.iter().filter(|row| used.contains(&folds[row.author.as_str()]));
            train(rows, Variant::Words, PENALTIES[1])
        });
        let tables = tables.collect::<Vec<_>>();
        let score = |row: &LabelledMessage| score_with(row, &tables[folds[row.author.as_str()]], Variant::Words);
        let scores = labelled.iter().map(score).collect::<Vec<_>>();
        println!("  {count}: {:.3}", average_precision(&rows, &scores));
    }
    println!();
}

/// Takes the candidates of the first half of each author's messages as accepted or dropped, and measures on the second.
fn print_acts(labelled: &[LabelledMessage]) {
    let mut by_author = BTreeMap::<&str, Vec<&LabelledMessage>>::new();
    for row in labelled {
        by_author.entry(&row.author).or_default().push(row);
    }
    let (mut later, mut plain, mut taught, mut acted) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for rows in by_author.values_mut() {
        rows.sort_by_key(|row| row.time);
        let (first, second) = rows.split_at(rows.len() / 2);
        let shown = first.iter().filter_map(|row| {
            let closed = row.statements.iter().filter(|said| !said.is_open_question());
            let said = closed.max_by(|one, other| one.score.total_cmp(&other.score))?;
            let act = if row.label > 0 {
                ReviewAct::Accept
            } else {
                ReviewAct::Drop
            };
            (confidence(said.score) >= memory::extract::REVIEW_CONFIDENCE).then(|| ActRecord {
                act,
                mark: String::new(),
                text: said.text.clone(),
            })
        });
        let acts = shown.collect::<Vec<_>>();
        acted += acts.len();
        let learned = LearnedWeights::from_acts(&acts);
        for row in second {
            later.push(*row);
            plain.push(best(row, |said| said.score));
            taught.push(best(row, |said| said.score + learned.shift(&said.words)));
        }
    }
    println!("acts on the first half of each author's messages ({acted}), measured on the second half:");
    for (name, scores) in [("without", &plain), ("with", &taught)] {
        let mut found = Yield::default();
        let mut line = String::new();
        for (count, at) in order(scores).into_iter().enumerate() {
            found.add(later[at].label);
            if [10, 20, 30, 50].contains(&(count + 1)) {
                line.push_str(&format!(
                    "  first {}: {:.2}",
                    count + 1,
                    share(found.keep + found.maybe, found.all())
                ));
            }
        }
        println!("  {name:<8} precision (maybes count){line}");
    }
}

fn show(labelled: &[LabelledMessage], most: usize) {
    let scores = labelled
        .iter()
        .map(|row| best(row, |said| said.score))
        .collect::<Vec<_>>();
    let text = |row: &LabelledMessage| {
        let closed = row.statements.iter().filter(|said| !said.is_open_question());
        let said = closed.max_by(|one, other| one.score.total_cmp(&other.score));
        said.map(|said| said.text.chars().take(150).collect::<String>())
            .unwrap_or_default()
    };
    for at in order(&scores).into_iter().take(most) {
        println!("{:5.2} {} {}", scores[at], labelled[at].label, text(&labelled[at]));
    }
    println!("missed:");
    for at in order(&scores)
        .into_iter()
        .skip(most)
        .filter(|at| labelled[*at].label == KEEP)
    {
        println!("{:5.2} {}", scores[at], text(&labelled[at]));
    }
}
