//! Words a memory: a title, a hook that says when it applies, and a body.
//!
//! The words stay the person's. What does not fit is not cut: a shorter whole is taken, down to a title that only names the
//! topic. A condition is never taken off, a question never becomes an order, and a negation stays where it is.

use crate::extract::gather::Statement;
use crate::extract::group::StatementGroup;
use crate::extract::{MAX_HOOK_CHARS, MAX_TITLE_CHARS, round_confidence};
use crate::kinds::{Candidate, CandidateOrigin, MemoryKind};
use crate::rules::{ExtractionRules, LanguagePhrases, LazyPattern};
use crate::topic::to_one_line;
use language::dates;
use language::words::is_stop_word;
use transcript::messages::WordsChannel;

/// Most sources named in a memory.
const MAX_SOURCES: usize = 20;
/// Content words that a statement needs to be understood alone.
const MIN_WORDS: usize = 2;
/// After these, "because" cannot be taken off a statement without changing it.
const BOUND_WORDS: [&str; 16] = [
    "and", "are", "but", "is", "just", "mainly", "mostly", "not", "only", "or", "partly", "simply", "so", "that's",
    "was", "were",
];
/// What joins clauses.
const CLAUSE_SEPARATORS: [&str; 7] = [", ", "; ", ": ", " - ", " -- ", "，", "；"];

/// Composes the memory of a group; `None` if nothing says what its statement points at.
pub fn compose(group: &StatementGroup, confidence: f64, rules: &ExtractionRules) -> Option<Candidate> {
    let best = group.best();
    let (context, is_resolved) = resolve_referent(best, rules);
    if !is_resolved {
        return None;
    }
    let kind = best.kind.unwrap_or(MemoryKind::Feedback);
    let own = to_order(&best.text, best.is_question && !best.is_request, rules);
    let why = find_clause(&best.text, rules, |phrases| &phrases.why).or_else(|| reason_after(best, rules));
    let how = best
        .after
        .as_deref()
        .filter(|after| has_phrase(after, rules, |phrases| &phrases.how));
    let how = how.map(|how| strip_filler(how, rules));
    let day = best
        .source
        .time
        .and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    let day = day.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date());
    let dated = |text: &str| day.map_or_else(|| text.to_owned(), |day| dates::annotate_relative_dates(text, day));
    // What makes up most of the sentence is the statement itself, no reason for it.
    let why = why.filter(|why| why.len() * 2 < best.text.len() || !best.text.contains(why.as_str()));
    let (statement, why) = split_reason(&own, why.as_deref());
    let mut body = dated(&statement);
    let mut section = |head: &str, text: Option<&str>| {
        if let Some(text) = text {
            body.push_str(&format!("\n\n**{head}:** {}", dated(text)));
        }
    };
    section("Context", context.as_deref());
    section("Why", why.as_deref());
    section("How to apply", how.as_deref());
    let (days, sessions) = (group.days(), group.statements.len());
    if group.is_habit() {
        let note = format!("Asked for in {sessions} messages on {days} days; no single one says that it always holds.");
        section("Seen", Some(&note));
    }
    let mut sources = group
        .statements
        .iter()
        .map(|said| said.source.clone())
        .collect::<Vec<_>>();
    sources.sort_by(|one, other| (one.time, &one.session, &one.uuid).cmp(&(other.time, &other.session, &other.uuid)));
    sources.dedup();
    if sources.len() > MAX_SOURCES {
        sources.drain(..sources.len() - MAX_SOURCES);
    }
    let title = make_title(&dated(&statement), best, rules);
    Some(Candidate {
        kind,
        hook: make_hook(&title, best, kind, rules),
        title,
        body,
        confidence: round_confidence(confidence),
        sources,
        project: best.project.clone(),
        origin: match best.is_reported {
            true => CandidateOrigin::Agent,
            false if group.is_habit() => CandidateOrigin::Habit,
            false => CandidateOrigin::Person,
        },
    })
}

/// Returns what a statement refers to, and whether it can be understood.
fn resolve_referent(statement: &Statement, rules: &ExtractionRules) -> (Option<String>, bool) {
    let is_pointing = has_phrase(&strip_filler(&statement.text, rules), rules, |phrases| {
        &phrases.pointing
    });
    let content = statement.words.iter().filter(|word| !is_stop_word(word)).count();
    if let Some(call) = &statement.call {
        let refused = match statement.channel {
            WordsChannel::Refusal | WordsChannel::Interruption => format!("Said when refusing {call}."),
            _ => format!("Said about {call}."),
        };
        return (Some(refused), content >= MIN_WORDS || is_pointing);
    }
    if let Some(asked) = &statement.asked {
        return (Some(format!("The answer to: {asked}")), true);
    }
    if !is_pointing {
        return (None, content >= MIN_WORDS);
    }
    let before = statement.before.clone().filter(|before| !before.ends_with(['?', '？']));
    let context = before.or_else(|| statement.reply_to.clone());
    let is_resolved = context.is_some();
    (context, is_resolved)
}

/// Returns the reason that the next sentence gives, if it starts with it.
fn reason_after(statement: &Statement, rules: &ExtractionRules) -> Option<String> {
    let after = statement.after.as_deref()?;
    let why = find_clause(after, rules, |phrases| &phrases.why)?;
    after.starts_with(why.as_str()).then_some(why)
}

/// Returns a statement without words that say nothing, and a polite request as the order that it is.
fn to_order(text: &str, is_open_question: bool, rules: &ExtractionRules) -> String {
    let mut rest = strip_filler(text, rules);
    if is_open_question {
        return rest;
    }
    for (pattern, to) in rules.phrases.iter().flat_map(|phrases| &phrases.rewrite) {
        if let Some(found) = pattern.find(&rest)
            && found.start == 0
            && rest.len() - found.end > 8
        {
            rest.replace_range(found, to);
            if let Some(asked) = rest.strip_suffix(['?', '？']) {
                rest = format!("{asked}.");
            }
        }
    }
    capitalize(&rest)
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

fn capitalize(text: &str) -> String {
    // A name in lower case, or a command, stays as it is.
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.contains(['`', '/', '_', '.', '-']) && !first.ends_with('.') {
        return text.to_owned();
    }
    let mut signs = text.chars();
    let first = signs.next().into_iter().flat_map(char::to_uppercase);
    first.chain(signs).collect()
}

/// Returns a statement without its reason: the same rule may come with another reason, or with none.
pub fn without_reason(text: &str, rules: &ExtractionRules) -> String {
    match find_clause(text, rules, |phrases| &phrases.why) {
        Some(why) if why.len() * 2 < text.len() => text.replace(&why, ""),
        _ => text.to_owned(),
    }
}

fn has_phrase(text: &str, rules: &ExtractionRules, phrase: fn(&LanguagePhrases) -> &LazyPattern) -> bool {
    rules.phrases.iter().any(|phrases| phrase(phrases).is_match(text))
}

/// Returns the clause that a phrase finds, without the sign that ends the sentence.
fn find_clause(text: &str, rules: &ExtractionRules, phrase: fn(&LanguagePhrases) -> &LazyPattern) -> Option<String> {
    let found = rules.phrases.iter().find_map(|phrases| phrase(phrases).find(text))?;
    let clause = text[found].trim_end_matches(['.', '!', '?', ':', '。', '！', '？', ')', ' ']);
    Some(clause.to_owned())
}

/// Splits a reason off the end of a statement, where it surely is a clause of its own; the head above it says "because".
fn split_reason(statement: &str, why: Option<&str>) -> (String, Option<String>) {
    let Some(why) = why else {
        return (statement.to_owned(), None);
    };
    let bare = match has_prefix_ignoring_case(why, "because ") && !has_prefix_ignoring_case(why, "because of ") {
        true => &why["because ".len()..],
        false => why.strip_prefix("因为").unwrap_or(why),
    };
    let Some((head, end)) = statement.rsplit_once(why) else {
        return (statement.to_owned(), Some(bare.to_owned()));
    };
    let is_apart = head.trim_end().ends_with([',', ';', '–', '—', '，', '；']);
    // "To avoid" may belong to the verb before it, and "not just because" says something else without the rest.
    let last = head.split_whitespace().next_back().unwrap_or_default();
    let is_bound = bare.len() == why.len() || BOUND_WORDS.iter().any(|word| last.eq_ignore_ascii_case(word));
    let is_end = end.chars().all(|sign| matches!(sign, '.' | '!' | '。' | '！'));
    let head = head.trim_end_matches([' ', ',', ';', '–', '—', '，', '；']);
    if is_bound && !is_apart || !is_end || head.chars().count() < 5 {
        // The statement has it: a section would say it twice.
        return (statement.to_owned(), None);
    }
    let end = match end {
        "" if head.is_ascii() => ".",
        "" => "。",
        end => end,
    };
    (format!("{head}{end}"), Some(bare.to_owned()))
}

fn has_prefix_ignoring_case(text: &str, words: &str) -> bool {
    text.get(..words.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(words))
}

/// Returns a title that is never cut: the statement, its main clause, or what it is about.
fn make_title(statement: &str, said: &Statement, rules: &ExtractionRules) -> String {
    let line = to_one_line(statement);
    let line = line.trim_end_matches(['.', '!', ':', '。', '！', '：', ' ']);
    if fits(line, MAX_TITLE_CHARS) {
        return line.to_owned();
    }
    let is_conditional = |text: &str| has_phrase(text, rules, |phrases| &phrases.situation);
    let mut clauses = vec![line];
    for separator in CLAUSE_SEPARATORS {
        clauses = clauses.iter().flat_map(|clause| clause.split(separator)).collect();
    }
    // A clause stands for the whole only if the rest is no condition of it and it says the same thing: yes or no.
    let is_negative = crate::similar::is_negative;
    let whole = clauses.iter().filter(|clause| {
        let words = clause.split_whitespace().count();
        (words >= 4 || !clause.is_ascii() && clause.chars().count() >= 6)
            && fits(clause, MAX_TITLE_CHARS)
            && clause.matches('(').count() == clause.matches(')').count()
            && clause.matches('"').count() % 2 == 0
            && is_negative(clause) == said.is_negative
    });
    let best = whole.max_by_key(|clause| (cue_points(clause, rules), std::cmp::Reverse(clause.len())));
    match best {
        Some(clause) if !is_conditional(line) && cue_points(clause, rules) > 0 => {
            capitalize(&strip_filler(clause, rules))
        }
        _ => topic_title(said, rules),
    }
}

/// Returns the points of the cues in a clause, in tenths.
fn cue_points(clause: &str, rules: &ExtractionRules) -> i64 {
    let due = rules.candidate_patterns(clause);
    let points = due.cues.iter().filter(|at| rules.cues[**at].pattern.is_match(clause));
    points.map(|at| (rules.cues[*at].weight * 10.0) as i64).sum()
}

/// Returns a title that only names what the memory is about.
fn topic_title(said: &Statement, rules: &ExtractionRules) -> String {
    let activity = find_activity(&said.text, rules);
    let mut words: Vec<&str> = Vec::new();
    let text = said.text.as_str();
    for word in text.split(|sign: char| sign.is_whitespace() || ",;:()\"，。；：".contains(sign)) {
        let word = word.trim_matches(['.', '!', '?', '\'', '`']);
        let low = word.to_lowercase();
        let has_topic = word.chars().count() >= 4 && !is_stop_word(&low) && !COMMON.contains(&low.as_str());
        if has_topic && !words.iter().any(|known| known.eq_ignore_ascii_case(word)) && words.len() < 5 {
            words.push(word);
        }
    }
    let mut title = activity.map_or_else(|| "Rule about".to_owned(), |activity| format!("{activity}:"));
    for word in words {
        let longer = match title.ends_with([':', 't']) && !title.contains(',') && title.matches(' ').count() < 8 {
            true if title.ends_with(':') || title == "Rule about" => format!("{title} {word}"),
            _ => format!("{title}, {word}"),
        };
        if fits(&longer, MAX_TITLE_CHARS) {
            title = longer;
        }
    }
    title
}

/// Words of rules that name no topic.
const COMMON: [&str; 24] = [
    "always", "never", "should", "must", "please", "make", "sure", "want", "need", "needs", "like", "have", "just",
    "really", "every", "there", "about", "this", "that", "they", "them", "also", "only", "dont",
];

fn fits(text: &str, most: usize) -> bool {
    let width = text
        .chars()
        .map(|sign| if sign.is_ascii() { 1 } else { 2 })
        .sum::<usize>();
    width <= most
}

/// Returns the activity that a text is about.
fn find_activity<'r>(text: &str, rules: &'r ExtractionRules) -> Option<&'r str> {
    let is_of = |activity: &&crate::rules::NamedPattern| activity.pattern.is_match(text);
    rules
        .activities
        .iter()
        .find(is_of)
        .map(|activity| activity.name.as_str())
}

/// Returns one line that says when the memory applies, and what it is if that fits.
fn make_hook(title: &str, said: &Statement, kind: MemoryKind, rules: &ExtractionRules) -> String {
    let text = to_one_line(title);
    let user = rules
        .rules
        .iter()
        .find(|rule| rule.pattern.is_match(&said.text) && !rule.when.is_empty());
    let general = match kind {
        MemoryKind::User => "About the person who works here",
        MemoryKind::Feedback => "Whenever work is done in this project",
        MemoryKind::Project => "About this project",
        MemoryKind::Reference => "Where to find things outside the repository",
    };
    let when = user
        .map(|rule| rule.when.as_str())
        .or_else(|| find_activity(&said.text, rules))
        .unwrap_or(general);
    if has_prefix_ignoring_case(&text, when) {
        return text;
    }
    let line = format!("{when}: {text}");
    match line.chars().count() <= MAX_HOOK_CHARS {
        true => line,
        false => when.to_owned(),
    }
}
