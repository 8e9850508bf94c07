//! Words a memory: a title, a hook that says when it applies, and a body.
//!
//! The words stay the person's. What does not fit is not cut: a shorter whole is taken. What gives no title is named by its
//! activity and waits for a person. A condition is never taken off, a question never becomes an order, and a negation stays
//! where it is.

use crate::extract::gather::Statement;
use crate::extract::group::StatementGroup;
use crate::extract::habits::Habit;
use crate::extract::title::{MAX_TITLE_CHARS, TitleForm, fits, form_title, has_phrase, is_han, strip_filler, to_order};
use crate::extract::{MAX_HOOK_CHARS, round_confidence};
use crate::kinds::{Candidate, CandidateOrigin, MemoryKind, MemorySource};
use crate::rules::{ExtractionRules, LanguagePhrases, LazyPattern};
use crate::topic::to_one_line;
use language::dates;
use language::words::{content_words, is_stop_word};
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
/// Composes the memory of a group, and says whether its words gave it a title; `None` if nothing says what its statement
/// points at.
pub fn compose(group: &StatementGroup, confidence: f64, rules: &ExtractionRules) -> Option<(Candidate, bool)> {
    let best = group.best();
    let (context, is_resolved) = resolve_referent(best, rules);
    if !is_resolved {
        return None;
    }
    let kind = best.kind.unwrap_or(MemoryKind::Feedback);
    let is_asked = best.is_open_question();
    let own = match is_asked {
        true => strip_filler(&best.text, rules),
        false => to_order(&best.text, rules),
    };
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
    let formed = (!is_asked).then(|| form_title(&dated(&best.text), rules)).flatten();
    let formed = formed.map(|(title, _)| title);
    // A rule of the person's own says that the sentence is a memory, whatever its form.
    let line = to_one_line(statement.trim_end_matches(['.', '!', '。', '！', ' ']));
    let formed = formed.or_else(|| (best.floor > 0.0 && fits(&line, MAX_TITLE_CHARS)).then_some(line));
    let has_title = formed.is_some();
    let title = formed.unwrap_or_else(|| name_activity(best, rules));
    let candidate = Candidate {
        kind,
        hook: make_hook(has_title.then_some(&title), best, kind, rules),
        title,
        body,
        confidence: round_confidence(confidence),
        sources: last_sources(&group.statements),
        project: best.project.clone(),
        origin: match best.is_reported {
            true => CandidateOrigin::Agent,
            false => CandidateOrigin::Person,
        },
    };
    Some((candidate, has_title))
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
    // The title with most of what the others say, and least besides: the words that all say, and no version or date.
    let points = |title: &str| {
        let words = content_words(title);
        let count = |word: &String| counts.get(word.as_str()).copied().unwrap_or(1);
        let shared = words.iter().map(count).filter(|count| *count > 1).sum::<usize>() as f64;
        let own = words.iter().filter(|word| count(word) == 1).count() as f64;
        let of_all = words
            .iter()
            .filter(|word| count(word) == habit.statements.len())
            .count() as f64;
        let has_number = words.iter().any(|word| word.bytes().any(|byte| byte.is_ascii_digit()));
        let number = if has_number { habit.statements.len() as f64 } else { 0.0 };
        shared - 1.5 * own + of_all * habit.statements.len() as f64 - number
    };
    let titles = habit.statements.iter().filter_map(|said| {
        let (_, is_resolved) = resolve_referent(said, rules);
        let (title, form) = form_title(&said.text, rules).filter(|_| is_resolved)?;
        (form == TitleForm::Order).then_some((said, title))
    });
    let (best, title) = titles.max_by(|(_, one), (_, other)| points(one).total_cmp(&points(other)))?;
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
    body.push_str(
        "\n\n**How to apply:** Offer it in such work before it is asked for. No message says that it always holds.",
    );
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
        hook: make_hook(Some(&title), best, kind, rules),
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

/// Returns a statement without its reason: the same rule may come with another reason, or with none.
pub fn without_reason(text: &str, rules: &ExtractionRules) -> String {
    match find_clause(text, rules, |phrases| &phrases.why) {
        Some(why) if why.len() * 2 < text.len() => text.replace(&why, ""),
        _ => text.to_owned(),
    }
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

/// Returns the title of a memory whose words give none: what it is about.
fn name_activity(said: &Statement, rules: &ExtractionRules) -> String {
    let activity = find_activity(said, rules);
    if said.text.chars().any(is_han) {
        return match activity.and_then(|activity| activity.strip_suffix('时')) {
            Some(activity) => format!("关于{activity}的说明"),
            None => "关于这个项目的说明".to_owned(),
        };
    }
    match activity.and_then(|activity| activity.strip_prefix("When ")) {
        Some(activity) => format!("Note on {activity}"),
        None => "Note on this project".to_owned(),
    }
}

/// Returns the activity that a statement is about, by its words or else by the call that was refused with it.
fn find_activity<'r>(said: &Statement, rules: &'r ExtractionRules) -> Option<&'r str> {
    activity_of(&said.text, rules).or_else(|| activity_of(said.call.as_deref()?, rules))
}

/// Returns the activity that a text is about.
pub(crate) fn activity_of<'r>(text: &str, rules: &'r ExtractionRules) -> Option<&'r str> {
    let is_of = |activity: &&crate::rules::NamedPattern| activity.pattern.is_match(text);
    rules
        .activities
        .iter()
        .find(is_of)
        .map(|activity| activity.name.as_str())
}

/// Returns one line that says when the memory applies, and what it is if that fits.
fn make_hook(title: Option<&String>, said: &Statement, kind: MemoryKind, rules: &ExtractionRules) -> String {
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
        .or_else(|| find_activity(said, rules))
        .unwrap_or(general);
    let line = title.map(|title| format!("{when}: {title}"));
    line.filter(|line| line.chars().count() <= MAX_HOOK_CHARS)
        .unwrap_or_else(|| when.to_owned())
}
