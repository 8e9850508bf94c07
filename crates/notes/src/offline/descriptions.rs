//! What is in a file, in the words of an answer that names it. Announcements before an edit say nothing about a file.

use crate::offline::digest::Digest;
use crate::offline::model_sentences::is_announcement;
use crate::offline::names;
use crate::offline::prose::whole_sentences;
use language::markdown::CodeFence;
use language::sentences::split_line;

/// Longest description, in characters.
const LONGEST: usize = 160;

/// Returns a description for each of the files, by index in the digest; empty if no answer says anything about it. No sentence
/// describes two files.
pub fn describe_files(digest: &Digest, files: &[usize]) -> Vec<String> {
    let mut found = vec![String::new(); files.len()];
    let mut used = Vec::<&str>::new();
    // By file: the first turn that changed it.
    let first_changes = files
        .iter()
        .map(|file| digest.turns.iter().position(|turn| turn.files.contains(file)))
        .collect::<Vec<_>>();
    let last_changes = files
        .iter()
        .map(|file| digest.turns.iter().rposition(|turn| turn.files.contains(file)))
        .collect::<Vec<_>>();
    let answers = digest.turns.iter().enumerate().rev();
    let answers = answers.filter(|(_, turn)| turn.is_answered && !turn.is_retracted);
    for (number, turn) in answers {
        let mut fence = CodeFence::default();
        let mut lines = turn.answer.lines().filter(|line| !line.trim().is_empty()).peekable();
        while let Some(line) = lines.next() {
            if fence.is_inside(line) || !line.contains('.') {
                continue;
            }
            let next = lines.peek().copied().filter(|next| is_item(next));
            names::for_each_path(line, |path| {
                let is_it = |at: &usize| {
                    let known = digest.files[files[*at]].path.replace('\\', "/");
                    found[*at].is_empty() && known.ends_with(path.trim_start_matches("./"))
                };
                let Some(at) = (0..files.len()).find(is_it).filter(|_| !used.contains(&line)) else {
                    return;
                };
                // What was said before its first change describes what was there before; of a file that was only read, a
                // sentence may mention it for any reason.
                // A mention before the last change may be what that change was about.
                let is_changed = digest.files[files[at]].changes > 0;
                let takes_mention = is_changed && last_changes[at].is_none_or(|last| number >= last);
                let is_later = first_changes[at].is_none_or(|first| number >= first);
                let below = || next.filter(|_| names_only(line, path)).and_then(item_text);
                let text = description_in(line, path, takes_mention).or_else(below);
                if let Some(text) = text.filter(|_| is_later) {
                    found[at] = text;
                    used.push(line);
                }
            });
        }
        if found.iter().all(|text| !text.is_empty()) {
            break;
        }
    }
    found
}

/// Returns whether a line is an item of a list.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    ["- ", "* ", "• "].iter().any(|mark| line.starts_with(mark))
        || digits.len() < line.len() && digits.starts_with(". ")
}

/// Returns whether a line has nothing to say besides the name of a file: it is the heading of what follows.
fn names_only(line: &str, path: &str) -> bool {
    let rest = line.replace(path, "");
    rest.chars().filter(|sign| sign.is_alphabetic()).count() < SHORTEST
}

/// Returns the text of the first item below a line that only names a file.
fn item_text(line: &str) -> Option<String> {
    let text = line.trim_start_matches(|sign: char| sign.is_ascii_digit() || "-*• .)".contains(sign));
    judge(text)
}

/// Returns what a line of an answer says about a file: the rest of a list item or of a table row, or the sentence with its name.
fn description_in(line: &str, path: &str, takes_mention: bool) -> Option<String> {
    let line = line.trim();
    let text = if line.starts_with('|') {
        let cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
        let cells = cells.collect::<Vec<_>>();
        // The row is about the file if its name comes first, perhaps after a number.
        let at = cells.iter().position(|cell| cell.contains(path))?;
        let is_number = |cell: &&str| !cell.contains(char::is_alphabetic);
        if !names_only(cells[at], path) || !cells[..at].iter().all(is_number) {
            return None;
        }
        cells[at + 1..].join(", ")
    } else {
        let sentence = split_line(line).find(|sentence| sentence.contains(path))?;
        let at = sentence.find(path)?;
        let before = &sentence[..at];
        let is_head = !before.contains(char::is_alphabetic);
        match is_head {
            // `path:12` (new) — what it is.
            true => {
                let mut rest = &line[line.find(path)? + path.len()..];
                if let Some((_, after)) = rest.strip_prefix("](").and_then(|link| link.split_once(')')) {
                    rest = after;
                }
                // A place in the file, and what joins it to the text.
                let is_joint = |sign: char| sign.is_ascii_digit() || " :：`*-—–,".contains(sign);
                rest = rest.trim_start_matches(is_joint);
                if let Some((place, after)) = rest.strip_prefix('(').and_then(|place| place.split_once(')'))
                    && place.len() < 30
                {
                    rest = after.trim_start_matches(is_joint);
                }
                rest = rest.trim();
                // The name in backticks is cut off; a backtick too many opened what follows.
                let is_open = rest.matches('`').count() % 2 == 1;
                match rest.split_whitespace().next() {
                    Some("is" | "was" | "has" | "now") => return None,
                    _ if is_open => format!("`{rest}"),
                    _ => rest.to_owned(),
                }
            }
            false if takes_mention && !line.starts_with('#') => {
                let is_mark = |sign: char| sign.is_ascii_digit() || "-*•>. )".contains(sign);
                let start = match is_item(sentence) {
                    true => sentence.trim_start_matches(is_mark),
                    false => sentence.trim_start_matches(['-', '*', '•', '>', ' ']),
                };
                // A heading in bold.
                start.trim_end_matches(['*', ' ']).to_owned()
            }
            false => return None,
        }
    };
    // The name alone says nothing.
    let bare = text.replace(path, "");
    judge(&text).filter(|_| bare.chars().filter(|sign| sign.is_alphabetic()).count() >= SHORTEST)
}

/// Fewest letters of a description, without the path.
const SHORTEST: usize = 16;

/// Returns a text as a description; `None` if it announces, asks or is too short.
fn judge(text: &str) -> Option<String> {
    let letters = text.chars().filter(|sign| sign.is_alphabetic()).count();
    // A name alone says nothing, however long it is.
    let is_name = text.is_ascii() && text.split_whitespace().count() < 3;
    let is_good = letters >= SHORTEST && !is_name && !text.ends_with([':', '：', '?', '？']) && !is_announcement(text);
    is_good.then(|| whole_sentences(text.trim_end_matches('.'), LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_in_a_file() {
        assert_eq!(
            description_in("- **`src/rate.rs`** — parses the rate of a coupon", "src/rate.rs", true).as_deref(),
            Some("parses the rate of a coupon")
        );
        assert_eq!(
            description_in(
                "- [rate.rs](src/rate.rs) (line 95): Reads the rate as a number",
                "rate.rs",
                true
            )
            .as_deref(),
            Some("Reads the rate as a number")
        );
        assert_eq!(
            description_in("| `a.rs` | the parser of all forms |", "a.rs", true).as_deref(),
            Some("the parser of all forms")
        );
        assert_eq!(
            description_in(
                "It works. The total in `cart.rs` is rounded once. Done.",
                "cart.rs",
                true
            )
            .as_deref(),
            Some("The total in `cart.rs` is rounded once")
        );
        assert_eq!(
            description_in("Let me look at `cart.rs` for the total again.", "cart.rs", true),
            None
        );
        assert_eq!(
            description_in(
                "- **`cart.rs`** — `total_of()` adds the lines of a cart",
                "cart.rs",
                true
            )
            .as_deref(),
            Some("`total_of()` adds the lines of a cart")
        );
        assert_eq!(
            description_in("6. **Moved `cart.rs`**: it stands next to the receipt", "cart.rs", true).as_deref(),
            Some("Moved `cart.rs`: it stands next to the receipt")
        );
        assert_eq!(
            description_in(
                "| Recent carts | the last ten of a person | `cart.rs` |",
                "cart.rs",
                true
            ),
            None
        );
        assert_eq!(
            description_in("| 2 | `cart.rs` | adds the lines of a cart |", "cart.rs", true).as_deref(),
            Some("adds the lines of a cart")
        );
        assert_eq!(
            description_in(
                "`cart.rs` is updated. Here is what changed in it and why.",
                "cart.rs",
                true
            ),
            None
        );
        assert_eq!(description_in("- `cart.rs`", "cart.rs", true), None);
        assert_eq!(
            description_in("- `cart.rs`: `total_of_all_lines()`", "cart.rs", true),
            None
        );
    }
}
