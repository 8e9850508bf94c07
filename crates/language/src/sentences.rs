//! Text cut into sentences, for every reader of prose.
//!
//! [`split_prose`] cuts Markdown prose, such as an answer of the model. [`split_user_text`] takes a message of the user: it
//! leaves out code, logs, quotations and most of what was pasted. Both end sentences by the same rules ([`split_line`]).

use crate::markdown::CodeFence;
use crate::markup;

/// A sentence that the user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Its words, with plain quotes and single blanks.
    pub text: String,
    /// Whether it ends in a question mark.
    pub is_question: bool,
    /// Whether it is in a message of numbered points.
    pub is_point: bool,
}

/// Words that mark text in a message as not the user's own. Lower case.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextMarkers<'r> {
    /// Starts of lines that mark a message as pasted in part.
    pub pasted: &'r [String],
    /// Words before a colon that attribute the quotation after it to another speaker.
    pub speakers: &'r [String],
}

/// Above this many letters, a message with several paragraphs is mostly pasted.
const LONG_MESSAGE_CHARS: usize = 1_600;
/// Longer runs without an end are not sentences.
const MAX_SENTENCE: usize = 1_200;

/// Splits a message of the user. Of a message that is pasted in part only the first and the last paragraph are read: people
/// write above and below what they paste.
pub fn split_user_text(text: &str, markers: &TextMarkers<'_>) -> Vec<Sentence> {
    let text = text.replace(['’', '‘'], "'").replace(['“', '”'], "\"");
    let text = strip_quotations(&markup::strip_all_elements(&text), markers);
    let (paragraphs, is_marked) = paragraphs(&text, markers);
    let length = paragraphs.iter().flatten().map(String::len).sum::<usize>();
    let is_pasted = is_marked || length > LONG_MESSAGE_CHARS && paragraphs.len() > 4;
    let last = paragraphs.len().saturating_sub(1);
    let is_own = |at: usize| !is_pasted || at == 0 || at == last;
    let lines = paragraphs.iter().enumerate().filter(|(at, _)| is_own(*at));
    let is_point = is_numbered(&text);
    lines
        .flat_map(|(_, lines)| lines)
        .flat_map(|line| split_line(line))
        .filter_map(|sentence| to_sentence(sentence, is_point))
        .collect()
}

/// Splits Markdown prose: no code, no tables; headings and list items are sentences of their own. Sentences of fewer than
/// three letters are left out.
pub fn split_prose(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fence = CodeFence::default();
    for line in text.lines() {
        if fence.is_inside(line) {
            continue;
        }
        let line = line.trim().trim_start_matches(['#', '>', '-', '*', '•', ' ']);
        if line.starts_with('|') {
            continue;
        }
        let has_words = |sentence: &&str| sentence.chars().filter(|sign| sign.is_alphabetic()).count() >= 3;
        found.extend(split_line(strip_bullet(line)).map(str::trim).filter(has_words));
    }
    found
}

/// Cuts a line after the signs that end a sentence. Closing quotes and brackets stay with the sentence that they close.
pub fn split_line(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (sentence, after) = rest.split_at(sentence_end(rest));
        rest = after;
        Some(sentence)
    })
}

/// Returns where the first sentence of a line ends.
fn sentence_end(line: &str) -> usize {
    let mut is_quoted = false;
    for (at, sign) in line.char_indices() {
        is_quoted ^= sign == '"';
        let is_full_width = matches!(sign, '。' | '！' | '？' | '；');
        if !is_full_width && !matches!(sign, '.' | '!' | '?') {
            continue;
        }
        let rest = &line[at + sign.len_utf8()..];
        let after = rest.trim_start_matches(['"', '\'', ')']);
        let closing = &rest[..rest.len() - after.len()];
        // The end of a sentence inside a quotation is not the end of the sentence around it.
        if is_quoted && !closing.contains('"') && after.contains('"') {
            continue;
        }
        if is_full_width {
            return line.len() - if is_quoted { after.len() } else { rest.len() };
        }
        let next = after.trim_start();
        let goes_on =
            !closing.is_empty() && next.starts_with(|sign: char| sign.is_lowercase() || "-–—,;/".contains(sign));
        if next.len() < after.len() && !goes_on && !is_abbreviation(&line[..at], next) {
            return line.len() - after.len();
        }
    }
    line.len()
}

/// Returns whether the sign between two texts belongs to an abbreviation or to the number or letter of an item.
fn is_abbreviation(before: &str, after: &str) -> bool {
    const KNOWN: [&str; 10] = ["e.g", "i.e", "etc", "vs", "approx", "cf", "dr", "mr", "ms", "incl"];
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    let is_item = word.len() == 1 && before.trim_start().len() == 1 && word.as_bytes()[0].is_ascii_alphanumeric();
    // "etc." before a capital mostly ends the sentence.
    let is_end = word.eq_ignore_ascii_case("etc") && after.starts_with(char::is_uppercase);
    KNOWN.iter().any(|known| word.eq_ignore_ascii_case(known)) && !is_end
        || word.eq_ignore_ascii_case("no") && after.starts_with(|sign: char| sign.is_ascii_digit())
        || is_item
}

/// Returns a sentence with single blanks and without the quotes around it; `None` if it says nothing or never ends.
fn to_sentence(text: &str, is_point: bool) -> Option<Sentence> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = strip_quotes(text.trim_matches('*')).to_owned();
    let is_one = text.len() <= MAX_SENTENCE && text.chars().any(char::is_alphabetic);
    is_one.then(|| Sentence {
        is_question: text.trim_end_matches([' ', '"', '\'', ')']).ends_with(['?', '？']),
        is_point,
        text,
    })
}

/// Returns a text without quotes around the whole of it, and without one that is never closed. One that closes a quotation
/// inside the text stays.
fn strip_quotes(text: &str) -> &str {
    let is_odd = |text: &str| text.matches('"').count() % 2 == 1;
    let inner = text.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('"') => inner,
        _ if is_odd(text) => text
            .strip_prefix('"')
            .or_else(|| text.strip_suffix('"'))
            .unwrap_or(text),
        _ => text,
    }
}

/// Returns whether a message starts with a numbered point and has more of them: mostly answers to what was just asked.
fn is_numbered(text: &str) -> bool {
    let is_point =
        |line: &str| line.starts_with(|sign: char| sign.is_ascii_digit()) && strip_bullet(line).len() < line.len();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().is_some_and(is_point) && lines.any(is_point)
}

/// Returns the prose by paragraph and line, with hard-wrapped lines joined, and whether a line marks pasted text.
fn paragraphs(text: &str, markers: &TextMarkers<'_>) -> (Vec<Vec<String>>, bool) {
    let mut paragraphs = vec![Vec::<String>::new()];
    let mut is_marked = false;
    let mut fence = CodeFence::default();
    for line in text.lines() {
        let is_code = fence.is_inside(line);
        let line = line.trim();
        let is_pasted = |mark: &String| has_prefix(line, mark);
        is_marked |= !is_code && markers.pasted.iter().any(is_pasted);
        if is_code || line.is_empty() {
            paragraphs.push(Vec::new());
            continue;
        }
        if is_noise(line) {
            continue;
        }
        let Some(paragraph) = paragraphs.last_mut() else {
            continue;
        };
        let item = strip_bullet(line);
        match paragraph.last_mut() {
            // A wrapped line continues the one before it.
            Some(last)
                if item.len() == line.len() && last.len() > 60 && !last.ends_with(['.', '!', '?', ':', '。']) =>
            {
                last.push(' ');
                last.push_str(line);
            }
            _ => paragraph.push(item.to_owned()),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    (paragraphs, is_marked)
}

/// Returns whether a text starts with an ASCII prefix, ignoring case.
pub fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Returns whether a line is not prose: a quote, a table, a diff, a shell prompt, code, a log.
fn is_noise(line: &str) -> bool {
    const SIGNS: [char; 17] = [
        '>', '|', '❯', '$', '⎿', '✓', '✗', '│', '├', '└', '+', '#', '●', '⏺', '☒', '☐', '✔',
    ];
    const STARTS: [&str; 13] = [
        "--- ",
        "=== ",
        "INFO:",
        "@@",
        "diff ",
        "at ",
        "import ",
        "* @",
        "//",
        "error: ",
        "error[",
        "hint: ",
        "warning: ",
    ];
    const CODE: [&str; 11] = [
        "const ", "let ", "var ", "func ", "fn ", "def ", "class ", "return ", "public ", "private ", "SELECT ",
    ];
    const LOGS: [&str; 9] = [
        "ERROR:",
        "ERROR ",
        "WARN ",
        "FAIL:",
        "FAIL ",
        "panic:",
        "Traceback",
        "Exception:",
        "fatal:",
    ];
    let item = strip_bullet(line);
    let is_checkbox = ["[ ] ", "[x] ", "[X] "].iter().any(|mark| item.starts_with(mark));
    let is_code = CODE.iter().any(|start| line.starts_with(start)) && line.contains(['=', '{', ';']);
    let letters = line.chars().filter(|sign| sign.is_alphabetic() || *sign == ' ').count();
    is_checkbox
        || line.starts_with(SIGNS)
        || STARTS.iter().any(|start| line.starts_with(start))
        || line.ends_with([';', '{', '}'])
        || is_code
        || LOGS.iter().any(|mark| line.contains(mark))
        || letters * 100 < line.chars().count() * 72 && !is_plain_but_one(line)
}

/// Returns whether a line is plain words except for one, such as an address.
fn is_plain_but_one(line: &str) -> bool {
    let is_plain = |word: &&str| {
        word.trim_matches([',', '.', '?', '!', '-'])
            .chars()
            .all(char::is_alphabetic)
    };
    let words = line.split_whitespace().collect::<Vec<_>>();
    let plain = words.iter().filter(|word| is_plain(word)).count();
    plain >= 4 && plain + 1 >= words.len() && words.first().is_some_and(is_plain)
}

/// Removes the sign or number of a list item.
fn strip_bullet(line: &str) -> &str {
    let digits = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let numbered = digits
        .strip_prefix(['.', ')', '、'])
        .filter(|_| digits.len() < line.len());
    let marked = line.strip_prefix(['-', '*', '•']);
    match numbered.or(marked) {
        Some(rest) if rest.starts_with([' ', '\t']) || line.contains('、') => rest.trim_start(),
        _ => line,
    }
}

/// Drops quotations of others, which the words before them announce: `the bot says: "Never do that."`.
fn strip_quotations(text: &str, markers: &TextMarkers<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon + 1);
        let line = before.rsplit('\n').next().unwrap_or_default().to_lowercase();
        let mut words = line.split(|sign: char| !sign.is_alphanumeric());
        let is_others = words.any(|word| markers.speakers.iter().any(|known| known == word));
        let quoted = after.trim_start().strip_prefix('"').filter(|_| is_others);
        out.push_str(before);
        rest = match quoted.and_then(|quoted| quoted.split_once('"')) {
            Some((_, rest)) => {
                out.push('\n');
                rest
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<Sentence> {
        let markers = TextMarkers {
            pasted: &["low severity".to_owned(), "review comment".to_owned()],
            speakers: &["bot".to_owned(), "error".to_owned()],
        };
        split_user_text(text, &markers)
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let sentences = split(text);
        let found = sentences
            .iter()
            .map(|sentence| sentence.text.as_str())
            .collect::<Vec<_>>();
        assert_eq!(found, expected);
    }

    #[test]
    fn prose_is_cut_into_sentences() {
        check(
            "Use tabs, e.g. in Go. Really? “Yes” -- always",
            &["Use tabs, e.g. in Go.", "Really?", "\"Yes\" -- always"],
        );
        check("先写测试。再提交！", &["先写测试。", "再提交！"]);
        check(
            "1. one thing\n- another\n\nversion 2.1 is out",
            &["one thing", "another", "version 2.1 is out"],
        );
        check("(It works.) Now go on.", &["(It works.)", "Now go on."]);
        check("See no. 5 of it. no. Do it", &["See no. 5 of it.", "no.", "Do it"]);
        check(
            "Logs, traces etc. We keep them.",
            &["Logs, traces etc.", "We keep them."],
        );
        check(
            "the cache is on host 10.20.130.140",
            &["the cache is on host 10.20.130.140"],
        );
        check(
            "It says \"really?\" twice in step 3. Why is \"done.\" Wrong",
            &["It says \"really?\" twice in step 3.", "Why is \"done.\"", "Wrong"],
        );
        check(
            "He wrote “Use tabs. Always.” to me. I said \"no. Never mind.",
            &["He wrote \"Use tabs. Always.\" to me.", "I said \"no.", "Never mind."],
        );
        check(
            "昨天他对我说：“先写测试。然后再提交。”我觉得这样很好。",
            &["昨天他对我说：\"先写测试。然后再提交。\"", "我觉得这样很好。"],
        );
    }

    #[test]
    fn markdown_prose_has_no_code_and_no_tables() {
        let text = "## Done\nI changed `a.rs` e.g. the parser. It works!\n```\ncode. more\n```\n- item one\n| a | b |\n\
                    1. first\n好的。再见";
        assert_eq!(
            split_prose(text),
            [
                "Done",
                "I changed `a.rs` e.g. the parser.",
                "It works!",
                "item one",
                "first"
            ]
        );
    }

    #[test]
    fn what_is_pasted_is_no_prose() {
        check(
            "look:\n```\nalways fails\n```\n> always quoted\nok then",
            &["look:", "ok then"],
        );
        check(
            "<ide_selection>never do this</ide_selection>\nfix it please",
            &["fix it please"],
        );
        check("const always = never;\n--- FAIL: TestAlways (0.05s)\nreturn x;", &[]);
        check(
            "thoughts on this?\n\nLow Severity\n\nThe loop should always stop.\n\nI agree with it",
            &["thoughts on this?", "I agree with it"],
        );
        check(
            "review comment by the bot:\n\"Always close it. Never leak.\" is that right?",
            &["review comment by the bot:", "is that right?"],
        );
        check(
            "note for later: \"always rebase\"\nhint: always pull\nand the error: \"never",
            &["note for later: \"always rebase\"", "and the error: \"never"],
        );
    }

    #[test]
    fn numbered_points_are_known() {
        let points = |text: &str| split(text).iter().all(|sentence| sentence.is_point);
        assert!(points("1. yes, the second\n2) no\n3、later"));
        assert!(!points("1. is enough"));
        assert!(!points("Two things:\n1. this\n2. that"));
        assert!(!points("2026 was good.\n3 of 4 pass"));
    }
}
