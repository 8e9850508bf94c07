//! Measures masking with the lists of `tests/it/secrets`: how many secrets stay visible, how many ordinary texts are masked.
//!
//! `cargo run --release --example masking -p backcast-language [FOLDER] [--list]` prints a table; `--list` also every failure.
//! `masking --spans FILE` lists every masked span of a text file with the words around it.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a tool for people"
)]

use language::secrets;
use std::path::Path;

fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    if let [flag, file] = args.as_slice()
        && flag == "--spans"
    {
        return list_spans(Path::new(file));
    }
    let is_listing = args.iter().any(|arg| arg == "--list");
    let folder = args.iter().find(|arg| !arg.starts_with("--"));
    let folder = folder.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/it/secrets"),
        |folder| folder.into(),
    );
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    println!("{:<40} {:>6} {:>8}", "attack", "tries", "failures");
    let report = |name: &str, tries: usize, failures: Vec<String>| {
        println!("{name:<40} {tries:>6} {:>8}", failures.len());
        if is_listing {
            for failure in failures {
                println!("    {failure}");
            }
        }
    };
    for (name, file) in [
        ("secret said in words", "phrasings.txt"),
        ("phrasings of our own", "more-phrasings.txt"),
        ("phrasings written blind", "blind-phrasings.txt"),
    ] {
        let text = read(file);
        let cases = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .collect::<Vec<_>>();
        let shown = cases
            .iter()
            .filter(|(value, sentence)| secrets::mask(&unescape(sentence)).contains(value));
        report(
            name,
            cases.len(),
            shown.map(|(value, sentence)| format!("{value}: {sentence}")).collect(),
        );
    }
    let text = read("tokens.txt");
    let cases = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect::<Vec<_>>();
    let shown = cases.iter().filter(|(_, token)| {
        secrets::mask(&format!("use {} for it, thanks", unescape(token))).contains(&unescape(token))
    });
    report(
        "token without a word",
        cases.len(),
        shown.map(|(name, token)| format!("{name}: {token}")).collect(),
    );
    let shown = cases
        .iter()
        .filter(|(name, token)| secrets::mask(&format!("{name}: {}", unescape(token))).contains(&unescape(token)));
    report(
        "token after its name",
        cases.len(),
        shown.map(|(name, token)| format!("{name}: {token}")).collect(),
    );
    let text = read("ordinary-ids.txt");
    let cases = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect::<Vec<_>>();
    let hidden = cases.iter().filter(|(id, line)| !secrets::mask(line).contains(id));
    report(
        "ordinary id, hash or link",
        cases.len(),
        hidden.map(|(_, line)| secrets::mask(line)).collect(),
    );
    let text = read("ordinary-sentences.txt");
    let hidden = text.lines().filter(|line| !secrets::find(line).is_empty());
    report(
        "ordinary sentence about secrets",
        text.lines().count(),
        hidden
            .map(|line| format!("{} <- {line}", secrets::mask(line)))
            .collect(),
    );
}

/// Lists hold a line feed as `\n`.
fn unescape(text: &str) -> String {
    text.replace("\\n", "\n")
}

fn list_spans(file: &Path) {
    let text = std::fs::read_to_string(file).expect("a text file");
    for secret in secrets::find(&text) {
        let start = text.floor_char_boundary(secret.range.start.saturating_sub(70));
        let end = text.ceil_char_boundary((secret.range.end + 30).min(text.len()));
        let one_line = |text: &str| text.replace(['\n', '\r'], "⏎");
        println!(
            "{}\t{}⟦{}⟧{}",
            secret.rule,
            one_line(&text[start..secret.range.start]),
            one_line(&text[secret.range.clone()]),
            one_line(&text[secret.range.end..end])
        );
    }
}
