//! Fits the weights of the score of likely secrets (`secrets/scored/weights.txt`) to lists of phrasings, and judges it on lists
//! that it was not fitted to.
//!
//! ```text
//! cargo run --release --example maskfit -p backcast-language -- FOLDER... [--ordinary FILE] [--limit N] [--list] [--write FILE]
//! ```
//!
//! A folder (`tests/it/secrets/*`) holds the lists of one author: `phrasings.txt` with secrets, `ordinary-ids.txt` and `ordinary-sentences.txt`
//! without. Each folder is held out once. `--ordinary` adds a text without secrets, in records divided by the character 1E.
//! Everything is deterministic: no clock, no random numbers.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a tool for people"
)]

use language::secrets::{self, Secret, SecretCandidate, sign_name};
use std::collections::BTreeSet;
use std::path::Path;

/// Strength of the penalty on weights, passes over the data, and step.
const PENALTY: f64 = 2.0;
const PASSES: usize = 300;
const STEP: f64 = 0.3;
/// One unit of a weight in the table.
const UNIT: f64 = 100.0;

/// A line of a list.
struct ListCase {
    text: String,
    /// What must be masked; `None` if nothing may be.
    value: Option<String>,
    candidates: Vec<SecretCandidate>,
}

/// The lists of one author.
struct Author {
    name: String,
    cases: Vec<ListCase>,
}

/// One word to learn from.
struct Example<'a> {
    signs: &'a [u16],
    is_secret: bool,
}

fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let value_of = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).map(String::as_str)
    };
    let named = ["--ordinary", "--limit", "--write"].map(|name| value_of(name).unwrap_or_default());
    let folders = args
        .iter()
        .filter(|arg| !arg.starts_with("--") && !named.contains(&arg.as_str()));
    let authors = folders.map(|folder| read_author(Path::new(folder))).collect::<Vec<_>>();
    let ordinary = value_of("--ordinary").map(read_ordinary).unwrap_or_default();
    let limit = value_of("--limit").and_then(|limit| limit.parse().ok()).unwrap_or(0.0);
    let is_listing = args.iter().any(|arg| arg == "--list");
    println!(
        "{:<12} {:>6} {:>6} {:>6} {:>9} {:>6} {:>9}",
        "held out", "values", "rules", "both", "ordinary", "rules", "both"
    );
    for held in 0..authors.len() {
        let others = authors.iter().enumerate().filter(|(at, _)| *at != held);
        let cases = others.flat_map(|(_, author)| &author.cases).chain(&ordinary);
        let weights = fit(&examples(cases));
        judge(&authors[held].name, &authors[held].cases, &weights, limit, is_listing);
    }
    let halves = ordinary
        .iter()
        .enumerate()
        .partition::<Vec<_>, _>(|(at, _)| at % 2 == 0);
    if !ordinary.is_empty() {
        let cases = authors.iter().flat_map(|author| &author.cases);
        let cases = cases.chain(halves.0.iter().map(|(_, case)| *case));
        let weights = fit(&examples(cases));
        let seen = halves.1.iter().map(|(_, case)| *case);
        let masked = seen
            .flat_map(|case| masked_words(case, &weights, limit))
            .collect::<Vec<_>>();
        println!("half of the ordinary text, held out: {} words masked", masked.len());
        for word in &masked {
            println!("    {word}");
        }
    }
    let all = authors.iter().flat_map(|author| &author.cases).chain(&ordinary);
    let weights = fit(&examples(all));
    if let Some(path) = value_of("--write") {
        std::fs::write(path, table(&weights, limit)).expect("a file to write");
    }
}

fn read_author(folder: &Path) -> Author {
    let mut cases = Vec::new();
    let files = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path());
    for file in files.collect::<BTreeSet<_>>() {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let list = std::fs::read_to_string(&file).unwrap_or_default();
        for line in list.lines() {
            let (value, text) = line.split_once('\t').unwrap_or(("", line));
            let is_secret = name == "phrasings.txt";
            if is_secret || name.starts_with("ordinary-") {
                cases.push(new_case(text, is_secret.then(|| value.to_owned())));
            }
        }
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Author { name, cases }
}

fn read_ordinary(file: &str) -> Vec<ListCase> {
    let text = std::fs::read_to_string(file).expect("a text file");
    text.split('\u{1e}').map(|record| new_case(record, None)).collect()
}

fn new_case(text: &str, value: Option<String>) -> ListCase {
    let text = text.replace("\\n", "\n");
    ListCase {
        candidates: secrets::candidates(&text),
        value: value.map(|value| value.replace("\\n", "\n")),
        text,
    }
}

/// Returns the words of cases. Words of a value that has several are left out.
fn examples<'a>(cases: impl Iterator<Item = &'a ListCase>) -> Vec<Example<'a>> {
    let mut all = Vec::new();
    for case in cases {
        let places = case
            .value
            .iter()
            .flat_map(|value| case.text.match_indices(value.as_str()));
        let places = places.map(|(at, value)| at..at + value.len()).collect::<Vec<_>>();
        for candidate in &case.candidates {
            let range = &candidate.range;
            let hit = places
                .iter()
                .find(|place| place.start < range.end && range.start < place.end);
            if hit.is_some_and(|place| place.len() > range.len() + 2) {
                continue;
            }
            all.push(Example {
                signs: &candidate.signs,
                is_secret: hit.is_some(),
            });
        }
    }
    all
}

/// Fits a logistic regression with a penalty on the squares of weights, by gradient steps over all examples at once.
fn fit(examples: &[Example]) -> Vec<f64> {
    let count = examples
        .iter()
        .flat_map(|example| example.signs)
        .max()
        .map_or(0, |most| usize::from(*most) + 1);
    let mut weights = vec![0.0; count];
    let mut squares = vec![1e-6; count];
    for _ in 0..PASSES {
        let mut gradient = weights.iter().map(|weight| weight * PENALTY).collect::<Vec<_>>();
        for example in examples {
            let sum: f64 = example.signs.iter().map(|sign| weights[usize::from(*sign)]).sum();
            let error = 1.0 / (1.0 + (-sum).exp()) - f64::from(u8::from(example.is_secret));
            for sign in example.signs {
                gradient[usize::from(*sign)] += error;
            }
        }
        for ((weight, square), slope) in weights.iter_mut().zip(&mut squares).zip(&gradient) {
            *square += slope * slope;
            *weight -= STEP * slope / square.sqrt();
        }
    }
    weights
}

fn score(candidate: &SecretCandidate, weights: &[f64]) -> f64 {
    let known = candidate
        .signs
        .iter()
        .filter_map(|sign| weights.get(usize::from(*sign)));
    known.sum()
}

/// Returns the words of a case that the score masks and the rules do not, with the words around them.
fn masked_words(case: &ListCase, weights: &[f64], limit: f64) -> Vec<String> {
    let by_rules = secrets::find_by_rules(&case.text);
    let taken = case.candidates.iter().filter(|candidate| {
        let is_known = by_rules
            .iter()
            .any(|secret| secret.range.start < candidate.range.end && candidate.range.start < secret.range.end);
        score(candidate, weights) > limit && !is_known
    });
    let shown = taken.map(|candidate| {
        let start = case.text.floor_char_boundary(candidate.range.start.saturating_sub(80));
        let end = case
            .text
            .ceil_char_boundary((candidate.range.end + 30).min(case.text.len()));
        let around = format!(
            "{:.1} {}⟦{}⟧{}",
            score(candidate, weights),
            &case.text[start..candidate.range.start],
            &case.text[candidate.range.clone()],
            &case.text[candidate.range.end..end]
        );
        around.replace('\n', "⏎")
    });
    shown.collect()
}

/// Returns whether a value can be read in a text without the secrets that were found.
fn is_shown(text: &str, value: &str, found: &[Secret]) -> bool {
    text.match_indices(value).any(|(at, _)| {
        let is_hit = |secret: &Secret| secret.range.start < at + value.len() && at < secret.range.end;
        !found.iter().any(is_hit)
    })
}

/// Prints how many values stay visible and how many ordinary lines are masked, by rules alone and with the score.
fn judge(name: &str, cases: &[ListCase], weights: &[f64], limit: f64, is_listing: bool) {
    let (mut values, mut leaks, mut left) = (0, 0, Vec::new());
    let (mut lines, mut masked, mut more) = (0, 0, Vec::new());
    for case in cases {
        let words = masked_words(case, weights, limit);
        let by_rules = secrets::find_by_rules(&case.text);
        match &case.value {
            Some(value) => {
                values += 1;
                let is_shown = is_shown(&case.text, value, &by_rules);
                leaks += usize::from(is_shown);
                let is_hidden = words.iter().any(|word| {
                    let inner = word.split(['⟦', '⟧']).nth(1).unwrap_or_default();
                    value.contains(inner) || inner.contains(value.as_str())
                });
                if is_shown && !is_hidden {
                    left.push(format!("{value}: {}", case.text.replace('\n', "⏎")));
                }
            }
            None => {
                lines += 1;
                masked += usize::from(!by_rules.is_empty());
                if !words.is_empty() {
                    more.push(words.join(" | "));
                }
            }
        }
    }
    println!(
        "{name:<12} {values:>6} {leaks:>6} {:>6} {lines:>9} {masked:>6} {:>9}",
        left.len(),
        masked + more.len()
    );
    if is_listing {
        for line in left {
            println!("    shown  {line}");
        }
        for line in more {
            println!("    masked {line}");
        }
    }
}

/// Returns the weights as lines of a sign and a whole number. The limit is taken off the sign that every word has.
fn table(weights: &[f64], limit: f64) -> String {
    let lines = weights.iter().enumerate().filter_map(|(index, weight)| {
        let name = sign_name(index as u16);
        let weight = if index == 0 { weight - limit } else { *weight };
        let units = (weight * UNIT).round();
        (units != 0.0).then(|| format!("{name} {units}\n"))
    });
    let head = "# Weights of signs in hundredths, fitted by the example `maskfit`. A word is masked if their sum is above 0.\n";
    std::iter::once(head.to_owned()).chain(lines).collect()
}
