//! Scores a sentence: the cues in it, where it stands, and what the person's acts taught.

use crate::extract::ExtractOptions;
use crate::extract::title::{TitleForm, form_title, has_phrase, strip_filler, to_order};
use crate::extract::wording::without_reason;
use crate::kinds::MemoryKind;
use crate::rules::{CandidatePatterns, ExtractionRules, StandingRole};
use language::words::content_words;
use transcript::messages::WordsChannel;

/// Score at which a statement is as likely kept as not, chosen by cross-validation over authors (`examples/scorefit.rs`).
pub const MIDDLE_SCORE: f64 = 2.3;
/// How fast confidence grows with the score.
const STEEPNESS: f64 = 1.1;

/// Points of a sentence that is a lasting rule by its form.
const STANDING_POINTS: f64 = 0.8;
/// Score from which a sentence that is none gains less and less, and the most that it can gain: alone it stays below the
/// threshold, said again on another day it can pass.
const WEAK_SCORE: f64 = 1.8;
const WEAK_GAIN: f64 = 0.4;

/// Where a sentence stands.
#[derive(Debug, Clone, Copy)]
pub struct Placement {
    /// Sentences of its message.
    pub sentences: usize,
    pub channel: WordsChannel,
    /// The person had just stopped the agent.
    pub follows_stop: bool,
    pub is_question: bool,
    /// It is a question that is a request.
    pub is_request: bool,
    /// The agent reports it.
    pub is_reported: bool,
}

/// What a sentence scores.
#[derive(Debug, Clone)]
pub struct ScoredSentence {
    pub score: f64,
    /// Confidence that a rule of the user gives.
    pub floor: f64,
    pub kind: Option<MemoryKind>,
    pub strongest: Option<String>,
    pub lowered: Option<&'static str>,
    /// Why it must never be kept.
    pub refused: Option<String>,
}

/// Returns the confidence of a score, 0 to 1.
pub fn confidence(score: f64) -> f64 {
    1.0 / (1.0 + (-STEEPNESS * (score - MIDDLE_SCORE)).exp())
}

/// Returns a confidence shifted by points of the score.
pub fn shift_confidence(confidence: f64, points: f64) -> f64 {
    let odds = (confidence / (1.0 - confidence).max(f64::EPSILON)).ln() + STEEPNESS * points;
    1.0 / (1.0 + (-odds).exp())
}

/// A sign in the structure of a sentence: its name, its weight, and how much of it there is.
pub type StructureSign = (&'static str, f64, f64);

/// Returns the signs in the structure of a sentence.
pub fn structure_signs(text: &str, place: &Placement) -> Vec<StructureSign> {
    let words = word_count(text);
    let share = |is_so: bool| f64::from(u8::from(is_so));
    let part = |count: usize, most: usize| count.min(most) as f64 / most as f64;
    vec![
        ("a question", -0.8, share(place.is_question && !place.is_request)),
        ("too short", -1.5, share(words < 4)),
        ("short", -0.4, share((4..6).contains(&words))),
        ("too long", -0.8, share(words > 35)),
        ("code", -1.2, part(code_signs(text), 6)),
        ("data or code", -1.0, share(is_dataish(text))),
        ("one of many sentences", -1.2, part(place.sentences, 10)),
        ("queued", 0.5, share(place.channel == WordsChannel::Queued)),
        ("refusal", 0.8, share(place.channel == WordsChannel::Refusal)),
        ("after a stop", 0.4, share(place.follows_stop)),
        ("reported by the agent", 0.4, share(place.is_reported)),
        ("quoted", -1.0, share(starts_quoted(text))),
        ("an everyday request", -1.0, share(is_everyday(text))),
    ]
}

/// Returns the cues that a sentence matches, by number.
pub fn matching_cues(text: &str, due: &CandidatePatterns, rules: &ExtractionRules) -> Vec<usize> {
    let is_match = |at: &&usize| rules.cues[**at].pattern.is_match(text);
    due.cues.iter().filter(is_match).copied().collect()
}

/// Scores a sentence.
pub fn score_sentence(
    text: &str,
    due: &CandidatePatterns,
    place: &Placement,
    options: &ExtractOptions<'_>,
) -> ScoredSentence {
    let rules = options.rules;
    let (mut score, mut strongest, mut lowered) = (0.0, (0.0, None), (-0.5, None));
    let cues = matching_cues(text, due, rules);
    for at in &cues {
        let cue = &rules.cues[*at];
        score += cue.weight;
        if cue.weight > strongest.0 {
            strongest = (cue.weight, Some(cue.name.clone()));
        }
    }
    for (name, weight, amount) in structure_signs(text, place) {
        score += weight * amount;
        if weight * amount < lowered.0 {
            lowered = (weight * amount, Some(name));
        }
    }
    if is_standing(text, &cues, place, rules) {
        score += STANDING_POINTS;
    } else if score > WEAK_SCORE {
        score = WEAK_SCORE + WEAK_GAIN * (1.0 - (WEAK_SCORE - score).exp());
    }
    if let Some(learned) = options.learned {
        score += learned.shift(&content_words(text));
    }
    let mut floor = 0.0;
    let mut kind = find_kind(&strip_filler(text, rules), rules);
    for rule in due.rules.iter().map(|at| &rules.rules[*at]) {
        if rule.weight > floor && rule.pattern.is_match(text) {
            (floor, kind) = (rule.weight, Some(rule.kind));
            strongest.1 = Some(rule.name.clone());
        }
    }
    let is_cut_off = text.ends_with([':', '：']);
    let refused = refusal(text, rules).map(str::to_owned);
    ScoredSentence {
        score,
        floor,
        kind,
        strongest: strongest.1,
        lowered: lowered.1,
        refused: refused.or_else(|| is_cut_off.then(|| "says nothing without what follows".to_owned())),
    }
}

/// Returns whether a sentence is a lasting rule by its form: it has a title, and it names a scope, asks to be remembered,
/// forbids a way of working, says where something is, or refuses a call with a rule. A single case is none.
fn is_standing(text: &str, cues: &[usize], place: &Placement, rules: &ExtractionRules) -> bool {
    if place.is_question && !place.is_request {
        return false;
    }
    let Some((_, form)) = form_title(text, rules) else {
        return false;
    };
    // What stands before an order hides it: "oh, please don't ...".
    let order = to_order(text, rules);
    let mut all = matching_cues(&order, &rules.candidate_patterns(&order), rules);
    all.extend(cues);
    let has = |role: StandingRole| all.iter().any(|at| rules.cues[*at].standing == Some(role));
    // "From now on" is a scope, although "now" is not.
    let bare = without_reason(text, rules).to_lowercase().replace("from now on", "");
    let is_specific = has_phrase(&bare, rules, |phrases| &phrases.specific);
    let is_answer = place.channel == WordsChannel::Answer;
    // A fact about a flag, a file or a name in the code is about the product.
    let is_product = form == TitleForm::Fact && (is_dataish(text) || code_signs(text) > 0 || text.contains("--"));
    let is_scope = has(StandingRole::Scope) && !is_answer && !is_product && names_scope(text, rules);
    let is_work = has(StandingRole::Work) && has(StandingRole::Topic);
    let is_refusal = place.channel == WordsChannel::Refusal
        && has(StandingRole::Topic)
        && (has(StandingRole::Refusal) || has(StandingRole::Work));
    let is_fact = form == TitleForm::Fact && (has(StandingRole::Fact) || has(StandingRole::Person));
    is_scope || !is_specific && (has(StandingRole::Remember) || is_work || is_refusal || is_fact)
}

/// Returns whether the main clause of a sentence names the scope: not a quotation, and not a clause about something else.
fn names_scope(text: &str, rules: &ExtractionRules) -> bool {
    const JOINTS: [&str; 5] = [" that ", " which ", " who ", " whether ", " so "];
    const LEADS: [&str; 5] = ["sure", "ensure", "remember", "mind", "note"];
    let main = text.split('"').step_by(2).collect::<String>().to_ascii_lowercase();
    let ends = JOINTS.iter().filter_map(|joint| main.find(joint));
    let is_led = |end: &usize| LEADS.iter().any(|lead| main[..*end].ends_with(lead));
    let end = ends.filter(|end| !is_led(end)).min();
    // "Any finding that ... should": the clause belongs to the subject.
    let is_every = ["any ", "all ", "every ", "each "]
        .iter()
        .any(|start| main.starts_with(start));
    let end = end.filter(|_| !is_every).unwrap_or(main.len());
    let mut scopes = rules
        .cues
        .iter()
        .filter(|cue| cue.standing == Some(StandingRole::Scope));
    scopes.any(|cue| cue.pattern.is_match(&main[..end]))
}

/// Returns why a sentence must never be kept.
pub fn refusal<'r>(text: &str, rules: &'r ExtractionRules) -> Option<&'r str> {
    let due = rules.candidate_patterns(text);
    let mut refuse = due.refuse.iter().map(|at| &rules.refuse[*at]);
    refuse
        .find(|refuse| refuse.pattern.is_match(text))
        .map(|refuse| refuse.name.as_str())
}

pub(crate) fn find_kind(text: &str, rules: &ExtractionRules) -> Option<MemoryKind> {
    let has_han = has_han(text);
    let mut kinds = rules.kinds.iter();
    let found = kinds.find(|typed| {
        let is_of_language = has_han || typed.pattern.is_ascii();
        is_of_language && typed.pattern.is_match(text)
    });
    found.map(|typed| typed.kind)
}

fn has_han(text: &str) -> bool {
    text.chars().any(|sign| matches!(sign, '\u{4e00}'..='\u{9fff}'))
}

/// Returns the number of words; two characters of Chinese count as one.
fn word_count(text: &str) -> usize {
    let han = text
        .chars()
        .filter(|sign| matches!(sign, '\u{4e00}'..='\u{9fff}'))
        .count();
    text.split_whitespace().count() + han / 2
}

/// Counts signs of code: paths, calls, braces, backticks.
fn code_signs(text: &str) -> usize {
    text.chars()
        .filter(|sign| matches!(sign, '`' | '/' | '_' | '{' | '}' | '(' | ')' | '='))
        .count()
}

/// Returns whether a sentence has pieces of JSON, of calls or of names in camel case.
pub(crate) fn is_dataish(text: &str) -> bool {
    let is_camel = |word: &str| {
        let letters = word.as_bytes().windows(2);
        let humps = letters.filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        // `userName` and `UserNameField` are code, `GitHub` is a name.
        let allowed = usize::from(word.starts_with(|sign: char| sign.is_ascii_uppercase()));
        humps.count() > allowed
    };
    text.contains("\\n")
        || text.contains("\":")
        || text
            .split_whitespace()
            .any(|word| is_camel(word) || word.contains("(") && !word.starts_with('('))
}

/// Words of requests that every session has.
const EVERYDAY: [&str; 34] = [
    "commit", "push", "pull", "pr", "prs", "git", "add", "new", "merge", "merg", "request", "open", "branch", "create",
    "creat", "make", "need", "get", "up", "all", "now", "go", "ok", "yes", "done", "continu", "proceed", "well",
    "chang", "don", "t", "lets", "提交", "推送",
];

/// Returns whether a sentence only asks to commit, to push and the like.
pub(crate) fn is_everyday(text: &str) -> bool {
    let words = content_words(strip_filler(text, ExtractionRules::built_in()).as_str());
    words.len() < 6 && words.iter().all(|word| EVERYDAY.contains(&word.as_str()))
}

fn starts_quoted(text: &str) -> bool {
    text.starts_with('"') || text.starts_with('\'')
}
