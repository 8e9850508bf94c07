//! Words a memory: a title, a hook that says when it applies, and a body.
//!
//! The words stay the person's. What does not fit is not cut: a shorter whole is taken, down to a title that only names the
//! topic. A condition is never taken off, a question never becomes an order, and a negation stays where it is.

use crate::extract::gather::Statement;
use crate::extract::group::StatementGroup;
use crate::extract::habits::Habit;
use crate::extract::{MAX_HOOK_CHARS, MAX_TITLE_CHARS, round_confidence};
use crate::kinds::{Candidate, CandidateOrigin, MemoryKind, MemorySource};
use crate::rules::{ExtractionRules, LanguagePhrases, LazyPattern};
use crate::topic::to_one_line;
use language::dates;
use language::words::is_stop_word;
use std::collections::{BTreeMap, BTreeSet};
use transcript::messages::WordsChannel;

/// Most sources named in a memory.
const MAX_SOURCES: usize = 20;
/// Most messages quoted in the memory of a habit.
const MAX_QUOTES: usize = 5;
/// Content words that a statement needs to be understood alone.
const MIN_WORDS: usize = 2;
/// After these, "because" cannot be taken off a statement without changing it.
const BOUND_WORDS: [&str; 16] = [
    "and", "are", "but", "is", "just", "mainly", "mostly", "not", "only", "or", "partly", "simply", "so", "that's",
    "was", "were",
];
/// What joins clauses.
const CLAUSE_SEPARATORS: [&str; 13] = [
    ", ",
    "; ",
    ": ",
    " - ",
    " -- ",
    "，",
    "；",
    " because ",
    " since ",
    " so that ",
    " to ensure ",
    " in order to ",
    " which ",
];
/// What joins an order to what was said before it.
const ORDER_SEPARATORS: [&str; 3] = [" but ", " and ", " that "];
/// Words that only go on with what stands before them.
const BOUND_STARTS: [&str; 16] = [
    "can", "could", "should", "would", "will", "may", "must", "is", "are", "was", "were", "be", "been", "not", "to",
    "if",
];

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
    let title = make_title(&dated(&statement), best, rules);
    Some(Candidate {
        kind,
        hook: make_hook(&title, best, kind, rules),
        title,
        body,
        confidence: round_confidence(confidence),
        sources: last_sources(&group.statements),
        project: best.project.clone(),
        origin: match best.is_reported {
            true => CandidateOrigin::Agent,
            false => CandidateOrigin::Person,
        },
    })
}

/// Returns the newest sources of statements, oldest first.
fn last_sources(statements: &[Statement]) -> Vec<MemorySource> {
    let mut sources = statements.iter().map(|said| said.source.clone()).collect::<Vec<_>>();
    sources.sort_by(|one, other| (one.time, &one.session, &one.uuid).cmp(&(other.time, &other.session, &other.uuid)));
    sources.dedup();
    if sources.len() > MAX_SOURCES {
        sources.drain(..sources.len() - MAX_SOURCES);
    }
    sources
}

/// Composes the memory of a habit, and returns the statement that speaks for it; `None` if no statement is a title.
///
/// The words are quoted: none of them says that it always holds, so the memory does not say so either.
pub fn compose_habit<'h>(habit: &'h Habit, rules: &ExtractionRules) -> Option<(&'h Statement, Candidate)> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for word in habit.statements.iter().flat_map(|said| &said.words) {
        *counts.entry(word).or_insert(0) += 1;
    }
    // The statement with most of what the others say, and least besides.
    let share = |said: &Statement| {
        let shared = said
            .words
            .iter()
            .map(|word| counts[word.as_str()])
            .filter(|count| *count > 1);
        let own = said.words.iter().filter(|word| counts[word.as_str()] == 1).count();
        let is_order = rules.phrases.iter().any(|phrases| phrases.order.is_match(&said.text));
        let points = shared.sum::<usize>() as f64 - own as f64;
        points + if is_order { habit.statements.len() as f64 } else { 0.0 }
    };
    let titles = habit.statements.iter().filter(|said| {
        let (_, is_resolved) = resolve_referent(said, rules);
        is_resolved && fits(&to_order(&said.text, false, rules), MAX_TITLE_CHARS)
    });
    let best = titles.max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let title = to_order(&best.text, false, rules);
    let title = title
        .trim_end_matches(['.', '!', ':', ',', '。', '！', '：', '，', ' '])
        .to_owned();
    let mut seen = BTreeSet::new();
    let quotes = habit.statements.iter().rev().filter(|said| seen.insert(&said.words));
    let mut quotes = quotes.take(MAX_QUOTES).collect::<Vec<_>>();
    quotes.reverse();
    let day = |said: &Statement| said.source.time.map(language::when::format_date).unwrap_or_default();
    let (first, last) = (habit.statements.first().map(day)?, habit.statements.last().map(day)?);
    let mut body = format!("Asked for in {} sessions, {first} to {last}:\n", habit.sessions());
    for said in quotes {
        body.push_str(&format!("\n- \"{}\" ({})", to_one_line(&said.text), day(said)));
    }
    body.push_str("\n\n**How to apply:** Expect this request in such work. No message says that it always holds.");
    let kinds = habit
        .statements
        .iter()
        .filter(|said| said.kind == Some(MemoryKind::Reference))
        .count();
    let kind = match kinds * 2 > habit.statements.len() {
        true => MemoryKind::Reference,
        false => MemoryKind::Feedback,
    };
    let candidate = Candidate {
        kind,
        hook: make_hook(&title, best, kind, rules),
        title,
        body,
        confidence: round_confidence(habit.confidence()),
        sources: last_sources(&habit.statements),
        project: best.project.clone(),
        origin: CandidateOrigin::Habit,
    };
    Some((best, candidate))
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
    let orders = clauses.clone().into_iter().flat_map(|clause| {
        let ends = ORDER_SEPARATORS
            .iter()
            .flat_map(|end| clause.match_indices(end).map(|(at, end)| at + end.len()));
        ends.map(|at| &clause[at..]).collect::<Vec<_>>()
    });
    clauses.extend(orders.filter(|clause| rules.phrases.iter().any(|phrases| phrases.order.is_match(clause))));
    // A clause stands for the whole only if the rest is no condition of it and it says the same thing: yes or no.
    let is_negative = crate::similar::is_negative;
    let whole = clauses.iter().filter(|clause| {
        let words = clause.split_whitespace().count();
        (words >= 4 || !clause.is_ascii() && clause.chars().count() >= 6)
            && fits(clause, MAX_TITLE_CHARS)
            && clause.matches('(').count() == clause.matches(')').count()
            && clause.matches('"').count() % 2 == 0
            && is_negative(clause) == said.is_negative
            && !has_phrase(clause, rules, |phrases| &phrases.pointing)
            && stands_alone(clause, line, rules)
    });
    let best = whole.max_by_key(|clause| (cue_points(clause, rules), std::cmp::Reverse(clause.len())));
    match best {
        Some(clause) if !is_conditional(line) && cue_points(clause, rules) > 0 => {
            capitalize(&strip_filler(clause, rules))
        }
        _ => topic_title(said, rules),
    }
}

/// Returns whether a clause of a statement can be understood without the rest: it opens it, asks for something, or has a
/// subject of its own.
fn stands_alone(clause: &str, line: &str, rules: &ExtractionRules) -> bool {
    let first = clause.split_whitespace().next().unwrap_or_default().to_lowercase();
    let is_order = rules.phrases.iter().any(|phrases| phrases.order.is_match(clause));
    let has_subject = [" should ", " must ", " need to "]
        .iter()
        .any(|verb| clause.contains(verb));
    let is_whole = line.starts_with(clause) || is_order || has_subject;
    !clause.is_ascii() || is_whole && !BOUND_STARTS.contains(&first.as_str())
}

/// Returns the points of the cues in a clause, in tenths.
fn cue_points(clause: &str, rules: &ExtractionRules) -> i64 {
    let due = rules.candidate_patterns(clause);
    let points = due.cues.iter().filter(|at| rules.cues[**at].pattern.is_match(clause));
    points.map(|at| (rules.cues[*at].weight * 10.0) as i64).sum()
}

/// Returns a title that only names what the memory is about.
fn topic_title(said: &Statement, rules: &ExtractionRules) -> String {
    if !said.text.is_ascii() && said.text.chars().any(is_han) {
        let activity = find_activity(&said.text, rules).filter(|activity| activity.ends_with('时'));
        return match activity {
            Some(activity) => format!("关于{}的规则", activity.trim_end_matches('时')),
            None => "关于这个项目的规则".to_owned(),
        };
    }
    let mut words: Vec<&str> = Vec::new();
    for word in said
        .text
        .split(|sign: char| sign.is_whitespace() || ",;:()\"，。；：".contains(sign))
    {
        let word = word.trim_matches(['.', '!', '?', '\'', '`', '@']);
        let low = word.to_lowercase();
        let has_topic = word.chars().count() >= 4 && !is_stop_word(&low) && !COMMON.contains(&low.as_str());
        let is_known = words.iter().any(|known| known.eq_ignore_ascii_case(word));
        let width = words.iter().map(|word| word.len() + 5).sum::<usize>();
        if has_topic && !is_known && words.len() < 4 && width + word.len() < MAX_TITLE_CHARS - 10 {
            words.push(word);
        }
    }
    match words.split_last() {
        None => "About this project".to_owned(),
        Some((last, [])) => format!("About {last}"),
        Some((last, rest)) => format!("About {} and {last}", rest.join(", ")),
    }
}

/// Words of rules that name no topic.
const COMMON: [&str; 24] = [
    "always", "never", "should", "must", "please", "make", "sure", "want", "need", "needs", "like", "have", "just",
    "really", "every", "there", "about", "this", "that", "they", "them", "also", "only", "dont",
];

fn is_han(sign: char) -> bool {
    matches!(sign, '\u{4e00}'..='\u{9fff}')
}

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
