//! What a person wrote themself, sentence by sentence: without code, logs, quotes and what programs put in.

use crate::rules::ExtractionRules;
use language::client_text;

/// A sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Its words, with plain quotes and single blanks.
    pub text: String,
    /// Whether it asks.
    pub is_question: bool,
    /// Whether it stands in a message of numbered points.
    pub is_point: bool,
}

/// Beyond this many letters a message with several paragraphs is mostly pasted.
const LONG_MESSAGE_CHARS: usize = 1_600;
/// Sentences longer than this are no sentences.
const MAX_SENTENCE: usize = 1_200;

/// Whether the client or another program wrote the message.
pub fn is_machine_written(text: &str, rules: &ExtractionRules) -> bool {
    let words = client_text::strip_context(text);
    let start = words.trim_start();
    client_text::classify(text).is_some() || rules.machine.iter().any(|prefix| has_prefix(start, prefix))
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// The sentences of a message. Of what is pasted in part only the edges are looked at: people write above and below.
pub fn split_sentences(text: &str, rules: &ExtractionRules) -> Vec<Sentence> {
    let text = strip_elements(&text.replace(['’', '‘'], "'").replace(['“', '”'], "\""));
    let text = strip_quotations(&text, rules);
    let (paragraphs, is_marked) = paragraphs(&text, rules);
    let length = paragraphs.iter().flatten().map(String::len).sum::<usize>();
    let is_pasted = is_marked || length > LONG_MESSAGE_CHARS && paragraphs.len() > 4;
    let last = paragraphs.len().saturating_sub(1);
    let is_own = |at: usize| !is_pasted || at == 0 || at == last;
    let lines = paragraphs.iter().enumerate().filter(|(at, _)| is_own(*at));
    let mut sentences = Vec::new();
    for line in lines.flat_map(|(_, lines)| lines) {
        split_line(line, &mut sentences);
    }
    if is_numbered(&text) {
        sentences.iter_mut().for_each(|sentence| sentence.is_point = true);
    }
    sentences
}

/// Whether a message starts with a numbered point that others follow. People answer like that what they were just asked.
fn is_numbered(text: &str) -> bool {
    let is_point =
        |line: &str| line.starts_with(|sign: char| sign.is_ascii_digit()) && strip_bullet(line).len() < line.len();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().is_some_and(is_point) && lines.any(is_point)
}

/// Lines by paragraph, hard-wrapped ones joined; and whether a line says that it is pasted.
fn paragraphs(text: &str, rules: &ExtractionRules) -> (Vec<Vec<String>>, bool) {
    let mut paragraphs = vec![Vec::<String>::new()];
    let (mut is_marked, mut fence) = (false, None);
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark)) {
            let closes_itself = trimmed.len() > 3 && trimmed[3..].contains(mark);
            fence = match fence {
                Some(open) if open == mark => None,
                None if !closes_itself => Some(mark),
                other => other,
            };
            paragraphs.push(Vec::new());
            continue;
        }
        if fence.is_some() {
            continue;
        }
        is_marked |= rules.pasted.iter().any(|mark| has_prefix(trimmed, mark));
        if trimmed.is_empty() {
            paragraphs.push(Vec::new());
            continue;
        }
        if is_noise(trimmed) {
            continue;
        }
        let Some(paragraph) = paragraphs.last_mut() else {
            continue;
        };
        let item = strip_bullet(trimmed);
        match paragraph.last_mut() {
            // A wrapped line goes on where the last one broke off.
            Some(last)
                if item.len() == trimmed.len() && last.len() > 60 && !last.ends_with(['.', '!', '?', ':', '。']) =>
            {
                last.push(' ');
                last.push_str(trimmed);
            }
            _ => paragraph.push(item.to_owned()),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    (paragraphs, is_marked)
}

/// Whether a line is no prose: a quote, a table, a diff, a prompt, code, a log.
fn is_noise(line: &str) -> bool {
    const SIGNS: [char; 17] = [
        '>', '|', '❯', '$', '⎿', '✓', '✗', '│', '├', '└', '+', '#', '●', '⏺', '☒', '☐', '✔',
    ];
    const STARTS: [&str; 11] = [
        "--- ",
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
    let is_code = CODE.iter().any(|start| line.starts_with(start)) && line.contains(['=', '{', ';']);
    let letters = line.chars().filter(|sign| sign.is_alphabetic() || *sign == ' ').count();
    line.starts_with(SIGNS)
        || STARTS.iter().any(|start| line.starts_with(start))
        || line.ends_with([';', '{', '}'])
        || is_code
        || LOGS.iter().any(|mark| line.contains(mark))
        || letters * 100 < line.chars().count() * 72
}

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

/// Drops elements with their content: what the client shows the model beside the person's words.
fn strip_elements(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let after = &rest[at + 1..];
        let name = after.len()
            - after
                .trim_start_matches(|sign: char| sign.is_ascii_lowercase() || "-_".contains(sign))
                .len();
        let closing = format!("</{}>", &after[..name]);
        let end = (name > 2).then(|| after.find(&closing)).flatten();
        match end {
            Some(end) => {
                out.push_str(&rest[..at]);
                out.push('\n');
                rest = &after[end + closing.len()..];
            }
            None => {
                out.push_str(&rest[..=at]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Drops what somebody else said, where the words before it say so: `the bot says: "Never do that."`.
fn strip_quotations(text: &str, rules: &ExtractionRules) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon + 1);
        let line = before.rsplit('\n').next().unwrap_or_default().to_lowercase();
        let mut words = line.split(|sign: char| !sign.is_alphanumeric());
        let is_others = words.any(|word| rules.others.iter().any(|known| known == word));
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

/// Cuts a line into sentences.
fn split_line(line: &str, sentences: &mut Vec<Sentence>) {
    let mut start = 0;
    let signs = line.char_indices().collect::<Vec<_>>();
    for (at, (index, sign)) in signs.iter().enumerate() {
        let end = index + sign.len_utf8();
        let is_end = match sign {
            '。' | '！' | '？' | '；' => true,
            '.' | '!' | '?' => {
                let mut next = signs[at + 1..].iter().map(|(_, sign)| *sign);
                let follows = next.find(|sign| !matches!(sign, '"' | '\'' | ')'));
                follows.is_some_and(char::is_whitespace) && !is_abbreviation(&line[start..*index])
            }
            _ => false,
        };
        if is_end {
            push_sentence(&line[start..end], sentences);
            start = end;
        }
    }
    push_sentence(&line[start..], sentences);
}

fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    ["e.g", "i.e", "etc", "vs", "approx", "dr", "mr", "ms", "no", "incl"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
        || word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn push_sentence(text: &str, sentences: &mut Vec<Sentence>) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.trim_matches(|sign: char| sign == '"' || sign == '*').to_owned();
    if text.len() > MAX_SENTENCE || !text.chars().any(char::is_alphabetic) {
        return;
    }
    let is_question = text.trim_end_matches([' ', '"', '\'', ')']).ends_with(['?', '？']);
    sentences.push(Sentence {
        text,
        is_question,
        is_point: false,
    });
}

/// Words that carry meaning, shortened so that forms of one word are alike; runs without blanks give pairs of signs.
pub fn content_words(text: &str) -> Vec<String> {
    const STOP: &[&str] = &[
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "could", "do", "for", "from", "i", "if", "in",
        "is", "it", "its", "let", "me", "my", "not", "of", "on", "or", "our", "please", "should", "so", "that", "the",
        "then", "there", "this", "to", "us", "was", "we", "will", "with", "would", "you", "your", "also", "just",
        "when", "what",
    ];
    let mut words = Vec::new();
    for word in text
        .split(|sign: char| !sign.is_alphanumeric() && sign != '_')
        .filter(|word| !word.is_empty())
    {
        let low = word.to_lowercase();
        if low.is_ascii() {
            if !STOP.contains(&low.as_str()) {
                words.push(stem(&low).to_owned());
            }
            continue;
        }
        let signs = low.chars().collect::<Vec<_>>();
        words.extend(signs.windows(2).map(|pair| pair.iter().collect::<String>()));
        if signs.len() == 1 {
            words.push(low);
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

/// Cuts the usual endings. Rough, but the same for the same word, which is all that is needed.
fn stem(word: &str) -> &str {
    for ending in ["ing", "ies", "ed", "es", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() >= 3
        {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let sentences = split_sentences(text, ExtractionRules::built_in());
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
            &["Use tabs, e.g. in Go.", "Really?", "Yes\" -- always"],
        );
        check("先写测试。再提交！", &["先写测试。", "再提交！"]);
        check(
            "1. one thing\n- another\n\nversion 2.1 is out",
            &["one thing", "another", "version 2.1 is out"],
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
            &["note for later: \"always rebase", "and the error: \"never"],
        );
    }

    #[test]
    fn numbered_points_are_known() {
        let points = |text: &str| {
            split_sentences(text, ExtractionRules::built_in())
                .iter()
                .all(|sentence| sentence.is_point)
        };
        assert!(points("1. yes, the second\n2) no\n3、later"));
        assert!(!points("1. is enough"));
        assert!(!points("Two things:\n1. this\n2. that"));
        assert!(!points("2026 was good.\n3 of 4 pass"));
    }

    #[test]
    fn words_of_one_root_are_alike() {
        assert_eq!(content_words("testing the tests"), content_words("Tested a test"));
        assert_eq!(content_words("写测试"), ["写测", "测试"]);
    }
}
