//! Measures masking with the lists of `tests/it/secrets`: how many secrets stay visible, how many ordinary texts are masked.
//!
//! `cargo run --release --example masking -p backcast-language [FOLDER...] [--list]` prints a table for each folder of lists;
//! `--list` also every failure. `masking --spans FILE` lists every masked span of a text file with the words around it,
//! `masking --lines FILE` prints each line masked by itself.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a tool for people"
)]

use language::secrets;
use std::path::{Path, PathBuf};

fn main() {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    if let [flag, file] = args.as_slice()
        && flag == "--spans"
    {
        return list_spans(Path::new(file));
    }
    if let [flag, file] = args.as_slice()
        && flag == "--lines"
    {
        let text = std::fs::read_to_string(file).expect("a text file");
        return text.lines().for_each(|line| println!("{}", secrets::mask(line)));
    }
    let is_listing = args.iter().any(|arg| arg == "--list");
    let named = args.iter().filter(|arg| !arg.starts_with("--")).map(PathBuf::from);
    let mut folders = named.collect::<Vec<_>>();
    if folders.is_empty() {
        let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/it/secrets");
        let entries = std::fs::read_dir(lists).expect("a folder of lists").flatten();
        folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
    }
    println!("{:<12} {:<28} {:>6} {:>8}", "lists", "attack", "tries", "failures");
    for folder in folders {
        measure(&folder, is_listing);
    }
}

/// Prints what masking does for the lists of one folder.
fn measure(folder: &Path, is_listing: bool) {
    let author = folder.file_name().unwrap_or_default().to_string_lossy();
    let read = |name: &str| unescape(&std::fs::read_to_string(folder.join(name)).unwrap_or_default());
    let report = |name: &str, tries: usize, failures: Vec<String>| {
        if tries > 0 {
            println!("{author:<12} {name:<28} {tries:>6} {:>8}", failures.len());
        }
        if is_listing {
            for failure in failures {
                println!("    {}", failure.replace('\n', "⏎"));
            }
        }
    };
    let phrasings = read("phrasings.txt");
    let cases = pairs(&phrasings);
    let shown = cases.iter().filter(|(value, text)| secrets::mask(text).contains(value));
    let shown = shown.map(|(value, text)| format!("{value}: {text}")).collect();
    report("secret said in words", cases.len(), shown);
    let tokens = read("tokens.txt");
    let cases = pairs(&tokens);
    for (attack, frame) in [
        ("token without a word", "use {} for it, thanks"),
        ("token after its name", "the access token: {}"),
        ("token as a name of a file", "/w/notes/{}.md"),
        ("token in a name of a file", "backup-{}.sql"),
    ] {
        let shown = cases
            .iter()
            .filter(|(_, token)| secrets::mask(&frame.replace("{}", token)).contains(token));
        let shown = shown.map(|(name, token)| format!("{name}: {token}")).collect();
        report(attack, cases.len(), shown);
    }
    let ids = read("ordinary-ids.txt");
    let cases = pairs(&ids);
    let hidden = cases.iter().filter(|(id, line)| !secrets::mask(line).contains(id));
    report(
        "ordinary id, hash or link",
        cases.len(),
        hidden.map(|(_, line)| secrets::mask(line)).collect(),
    );
    let sentences = read("ordinary-sentences.txt");
    let lines = sentences
        .split(LINE_END)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>();
    let hidden = lines.iter().filter(|line| !secrets::find(line).is_empty());
    let hidden = hidden
        .map(|line| format!("{} <- {line}", secrets::mask(line)))
        .collect();
    report("ordinary sentence", lines.len(), hidden);
}

/// Divides the lines of a list, once line feeds inside them are unescaped.
const LINE_END: char = '\u{1e}';

fn unescape(list: &str) -> String {
    list.replace('\n', &LINE_END.to_string()).replace("\\n", "\n")
}

/// Returns the pairs of a list.
fn pairs(list: &str) -> Vec<(&str, &str)> {
    list.split(LINE_END).filter_map(|line| line.split_once('\t')).collect()
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
