//! Words a statement as a title: an order (a verb and what it is done to), or a fact with its subject. A question, a fragment
//! and what only goes on with something else have no title; nothing is cut off in the middle.

use crate::rules::{ExtractionRules, LanguagePhrases, LazyPattern};
use crate::similar::is_negative;
use crate::topic::to_one_line;
use language::words::{is_stop_word, order_verbs};
use std::collections::HashSet;
use std::sync::OnceLock;

/// Longest title, in characters; Chinese characters count double.
pub const MAX_TITLE_CHARS: usize = 100;
/// Rewritings of one statement at most.
const MAX_REWRITES: usize = 4;
/// What stands before the verb of an order.
const ORDER_LEADS: [&str; 9] = [
    "always", "never", "only", "first", "please", "just", "ever", "also", "again",
];
/// What makes the words after it a prohibition.
const PROHIBITIONS: [&str; 9] = [
    "do not ",
    "don't ",
    "dont ",
    "never ",
    "avoid ",
    "stop ",
    "no need to ",
    "no more ",
    "not ",
];
/// What joins a clause to the one before it.
const CLAUSE_ENDS: [&str; 14] = [
    ", ",
    "; ",
    " - ",
    " -- ",
    " – ",
    " — ",
    "，",
    "；",
    " because ",
    " since ",
    " so that ",
    " to ensure ",
    " in order to ",
    " (",
];
/// Starts of a clause that limits what stands before it.
const LIMITS: [&str; 17] = [
    "if", "unless", "when", "whenever", "only", "except", "until", "before", "after", "while", "but", "not", "without",
    "instead", "rather", "除非", "只",
];

/// What kind of sentence a title is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleForm {
    Order,
    Fact,
}

/// Returns the title of a statement and its form; `None` if its words give none.
pub fn form_title(text: &str, rules: &ExtractionRules) -> Option<(String, TitleForm)> {
    let order = to_order(text, rules);
    let line = to_one_line(&order);
    let line = line.trim_end_matches(['.', '!', '。', '！', ' ', ',', '，']);
    if line.ends_with(['?', '？', ':', '：', '…']) || !is_balanced(line) {
        return None;
    }
    let whole = form_of(line, rules)?;
    if fits(line, MAX_TITLE_CHARS) {
        return Some((plain(line), whole));
    }
    let ends = CLAUSE_ENDS
        .iter()
        .flat_map(|end| line.match_indices(end).map(|(at, end)| (at, at + end.len())));
    let heads = ends.filter(|(at, after)| {
        let (head, rest) = (&line[..*at], line[*after..].trim_start());
        let first = rest.split([' ', ',']).next().unwrap_or_default().to_lowercase();
        // "Only when" at the end wants what was cut off.
        let last = head.rsplit(' ').next().unwrap_or_default().to_lowercase();
        let limits = LIMITS
            .iter()
            .any(|limit| first == *limit || !limit.is_ascii() && rest.starts_with(limit));
        // The reason may be negative where the rule is not, but a head must not lose the "not" of the whole.
        let is_same = is_negative(head) == is_negative(line);
        !limits
            && !LIMITS.contains(&last.as_str())
            && is_same
            && fits(head, MAX_TITLE_CHARS)
            && is_balanced(head)
            && form_of(head, rules).is_some()
    });
    let (at, _) = heads.max()?;
    let head = line[..at].trim_end_matches([',', ';', '，', '；', '-', '–', '—', ' ']);
    Some((plain(head), form_of(head, rules)?))
}

/// Returns what kind of sentence a line is; `None` if it is no whole one.
fn form_of(line: &str, rules: &ExtractionRules) -> Option<TitleForm> {
    if content_count(line) < 2 {
        return None;
    }
    if is_order(line) {
        let is_pointing = has_phrase(line, rules, |phrases| &phrases.pointing);
        return (!is_pointing).then_some(TitleForm::Order);
    }
    let conditions = rules.phrases.iter().filter_map(|phrases| phrases.condition.find(line));
    if let Some(found) = conditions
        .filter(|found| found.start == 0)
        .max_by_key(|found| found.end)
    {
        // The fact pattern would take the condition for a subject.
        return form_of(line[found.end..].trim_start(), rules);
    }
    let has_han = line.chars().any(is_han);
    let of_language = |phrases: &&LanguagePhrases| phrases.fact.is_ascii() != has_han;
    let phrases = rules.phrases.iter().find(of_language)?;
    if phrases.fragment.is_match(line) {
        return None;
    }
    if has_han {
        let is_rule = phrases.order.is_match(line) || has_prohibition(line);
        let is_fact = phrases.fact.is_match(line);
        return match (is_rule, is_fact) {
            (true, _) => Some(TitleForm::Order),
            (_, true) => Some(TitleForm::Fact),
            _ => None,
        };
    }
    phrases.fact.is_match(line).then_some(TitleForm::Fact)
}

fn has_prohibition(line: &str) -> bool {
    ["不要", "别", "禁止", "不能", "不得"]
        .iter()
        .any(|word| line.contains(word))
}

/// Returns whether an English line is an order: a verb, or a prohibition, and what it is about.
fn is_order(line: &str) -> bool {
    static VERBS: OnceLock<HashSet<&str>> = OnceLock::new();
    let low = line.to_lowercase();
    if PROHIBITIONS.iter().any(|start| low.starts_with(start)) {
        return !low.starts_with("not ") || low.contains(" but ");
    }
    let mut words = low
        .split([' ', ',', '/', '、'])
        .map(|word| word.trim_end_matches([':', '.']))
        .peekable();
    let mut is_always = false;
    while let Some(lead) = words.next_if(|word| ORDER_LEADS.contains(word)) {
        is_always |= lead == "always";
    }
    let verb = words.next().unwrap_or_default();
    let is_verb = VERBS.get_or_init(|| order_verbs().collect()).contains(verb)
        // After "always" at the start any word but a function word is a verb.
        || is_always && verb.bytes().all(|byte| byte.is_ascii_lowercase()) && !is_stop_word(verb);
    is_verb && words.next().is_some()
}

/// Returns a statement without words that say nothing, and a request as the order that it is.
pub fn to_order(text: &str, rules: &ExtractionRules) -> String {
    let mut rest = strip_filler(text, rules);
    for _ in 0..MAX_REWRITES {
        let Some(rewritten) = rewrite_once(&rest, rules) else {
            break;
        };
        rest = strip_filler(&rewritten, rules);
    }
    capitalize(&rest)
}

fn rewrite_once(text: &str, rules: &ExtractionRules) -> Option<String> {
    rules
        .phrases
        .iter()
        .flat_map(|phrases| &phrases.rewrite)
        .find_map(|(pattern, to)| {
            let found = pattern.find(text)?;
            let rest = &text[found.end..];
            if rest.len() <= 8 {
                return None;
            }
            let mut rewritten = match to.split_once('…') {
                Some((before, after)) if found.start == 0 && is_order(rest) => {
                    let end = rest.trim_end_matches(['.', '!', '?']);
                    let is_said_already = after.is_empty() || end.contains(" unless ");
                    let after = if is_said_already { "" } else { after };
                    match is_said_already {
                        true => format!("{before}{rest}"),
                        false => format!("{before}{end}{after}"),
                    }
                }
                Some(_) => return None,
                None => format!("{}{to}{rest}", &text[..found.start]),
            };
            if let Some(asked) = rewritten.strip_suffix(['?', '？']) {
                rewritten = format!("{asked}.");
            }
            Some(rewritten)
        })
}

/// Returns a sentence without words at its start that say nothing.
pub fn strip_filler(text: &str, rules: &ExtractionRules) -> String {
    let mut rest = text.trim();
    for phrases in &rules.phrases {
        if let Some(found) = phrases.filler.find(rest)
            && found.start == 0
            && rest.len() - found.end > 8
        {
            rest = &rest[found.end..];
        }
    }
    capitalize(rest)
}

/// Returns a text that starts with a capital letter.
pub fn capitalize(text: &str) -> String {
    // A name in lower case, or a command, stays as it is.
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.contains(['`', '/', '_', '.', '-']) && !first.ends_with('.') {
        return text.to_owned();
    }
    let mut signs = text.chars();
    let first = signs.next().into_iter().flat_map(char::to_uppercase);
    first.chain(signs).collect()
}

/// Returns a title without marks for the client and for Markdown: `@` before a file, signs of emphasis.
fn plain(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.strip_prefix('@') {
        Some(path) if path.contains(['/', '.']) => path,
        _ => {
            let strip = |sign: &'static str| {
                word.strip_prefix(sign)?
                    .strip_suffix(sign)
                    .filter(|word| !word.contains(sign))
            };
            strip("_")
                .or_else(|| strip("**"))
                .or_else(|| strip("*"))
                .unwrap_or(word)
        }
    });
    let line = words.collect::<Vec<_>>().join(" ");
    // A sign for a smile ends no title.
    let is_smile = |sign: char| matches!(sign as u32, 0x1f300..=0x1faff | 0x2600..=0x27bf);
    line.trim_end_matches(|sign: char| is_smile(sign) || sign == ' ')
        .trim_end_matches(":)")
        .trim_end()
        .to_owned()
}

/// Returns whether quotes and brackets are closed.
fn is_balanced(text: &str) -> bool {
    text.matches('(').count() == text.matches(')').count() && text.matches('"').count().is_multiple_of(2)
}

/// Counts words with a topic; two Chinese characters are one.
fn content_count(line: &str) -> usize {
    let han = line.chars().filter(|sign| is_han(*sign)).count();
    let words = line
        .split(|sign: char| !sign.is_alphanumeric())
        .filter(|word| word.is_ascii() && !word.is_empty());
    let words = words.filter(|word| !is_stop_word(&word.to_lowercase()));
    words.count() + han / 2
}

/// Returns whether a text has at most this many columns.
pub fn fits(text: &str, most: usize) -> bool {
    let width = text
        .chars()
        .map(|sign| if sign.is_ascii() { 1 } else { 2 })
        .sum::<usize>();
    width <= most
}

/// Returns whether a phrase of any language matches.
pub fn has_phrase(text: &str, rules: &ExtractionRules, phrase: fn(&LanguagePhrases) -> &LazyPattern) -> bool {
    rules.phrases.iter().any(|phrases| phrase(phrases).is_match(text))
}

pub fn is_han(sign: char) -> bool {
    matches!(sign, '\u{4e00}'..='\u{9fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(text: &str) -> Option<String> {
        form_title(text, ExtractionRules::built_in()).map(|(title, _)| title)
    }

    #[test]
    fn orders_and_facts_have_titles() {
        let cases = [
            ("ok, please never squash migrations.", "Never squash migrations"),
            ("lets rebase onto the release branch", "Rebase onto the release branch"),
            ("I didn't say push the tags", "Do not push the tags unless told to"),
            ("we should always sign the tags", "Always sign the tags"),
            ("don't forget to bump the version", "Bump the version"),
            (
                "Before a release, dont forget to bump the version",
                "Before a release, bump the version",
            ),
            (
                "the registry runs on our own server",
                "The registry runs on our own server",
            ),
            ("I would prefer short answers", "Prefer short answers"),
            ("can we not squash migrations?", "Do not squash migrations."),
            (
                "update @docs/index.md with every feature",
                "Update docs/index.md with every feature",
            ),
            ("每次提交之前都必须先跑测试", "每次提交之前都必须先跑测试"),
        ];
        for (text, wanted) in cases {
            assert_eq!(title(text).as_deref(), Some(wanted.trim_end_matches('.')), "{text}");
        }
    }

    #[test]
    fn questions_and_fragments_have_none() {
        for text in [
            "did we not talk about the database before?",
            "why is the parser not used",
            "doing that in general is not helpful",
            "as the one before, only in green",
            "it is always the same with the parser",
            "and the parser as well",
            "this should be tested",
            "do not do it again",
            "i have reverted the commit",
            "the \"parser is not tested",
            "为什么不跑测试",
        ] {
            assert_eq!(title(text), None, "{text}");
        }
    }

    #[test]
    fn a_long_statement_keeps_its_condition_and_its_not() {
        let long = "so that the people of the other team who look at it in the evening know what was changed by whom";
        assert_eq!(
            title(&format!("Never push to main, {long}")).as_deref(),
            Some("Never push to main")
        );
        let limited = format!("Push to main, only when {long}");
        assert_eq!(title(&limited), None);
        let late = format!("Push to main {} and never to a tag", &long[8..]);
        assert_eq!(title(&late), None);
    }
}
