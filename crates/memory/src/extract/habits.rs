//! Finds habits: requests that come back in session after session, although each message alone looks like a task.
//!
//! A habit is a pair of words that people use together far more often than by chance, in several sessions on several days,
//! at least one of them a word for how work is done. The pair need not stand in the same sentence structure, so paraphrases
//! meet. Only pairs with a word of work are counted, so the work grows with the length of the logs.

use crate::extract::gather::Statement;
use crate::extract::score::is_dataish;
use crate::rules::ExtractionRules;
use language::words::content_words;
use std::collections::{BTreeMap, BTreeSet};

/// A habit is asked for in this many sessions, on as many days.
const MIN_SESSIONS: usize = 3;
/// How much more often than by chance the words stand together.
const MIN_LIFT: f64 = 8.0;
/// Share of the uses of the more frequent word that are uses of the pair; the other way to be no chance.
const MIN_SHARE: f64 = 0.6;
/// Longest statement that can be part of a habit, in characters, and most words of one.
const MAX_CHARS: usize = 160;
const MAX_WORDS: usize = 16;
/// Most habits of a project.
const MAX_HABITS: usize = 12;

/// Beginnings of words for how work is done.
const WORK: [&str; 46] = [
    "commit",
    "branch",
    "push",
    "pr",
    "prs",
    "pull",
    "merg",
    "test",
    "review",
    "doc",
    "document",
    "comment",
    "readme",
    "changelog",
    "plan",
    "subagent",
    "worktre",
    "docker",
    "stag",
    "ci",
    "releas",
    "deploy",
    "e2e",
    "lint",
    "format",
    "rebas",
    "main",
    "issue",
    "issu",
    "ticket",
    "todo",
    "workflow",
    "summary",
    "migration",
    "template",
    "linear",
    "jira",
    "squash",
    "amend",
    "learn",
    "log",
    "security",
    "tdd",
    "draft",
    "milestone",
    "check",
];
/// The same in Chinese.
const HAN_WORK: [&str; 14] = [
    "提交", "推送", "分支", "合并", "测试", "评审", "审查", "文档", "注释", "日志", "发布", "部署", "模板", "描述",
];
/// Characters that join words: a pair with one of them is no word.
const HAN_PARTICLES: &str = "的了我你他这那在是个一不就都也吧把来给和到上下";
/// Words of everyday requests: two of them together say nothing.
const ROUTINE: [&str; 36] = [
    "commit", "push", "pull", "pr", "prs", "git", "add", "new", "merge", "merg", "request", "open", "continu",
    "proceed", "up", "out", "all", "ok", "yes", "some", "now", "get", "make", "go", "chang", "branch", "test", "run",
    "fix", "check", "review", "this", "提交", "推送", "分支", "这个",
];

/// Requests that belong together, oldest first.
#[derive(Debug, Clone)]
pub struct Habit {
    pub statements: Vec<Statement>,
}

impl Habit {
    pub fn sessions(&self) -> usize {
        distinct(self.statements.iter().map(|said| said.source.session.as_str()))
    }

    /// Returns the confidence: each further session halves part of the doubt.
    pub fn confidence(&self) -> f64 {
        let further = i32::try_from(self.sessions().saturating_sub(2)).unwrap_or(i32::MAX);
        1.0 - 0.5 * 0.8_f64.powi(further)
    }
}

fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> usize {
    items.collect::<BTreeSet<_>>().len()
}

/// Finds the habits in the statements of a project.
pub fn find_habits(statements: &[Statement], rules: &ExtractionRules) -> Vec<Habit> {
    let parts = statements.iter().filter(|said| may_be_part(said)).collect::<Vec<_>>();
    let words = parts.iter().map(|said| topic_words(&said.text)).collect::<Vec<_>>();
    let mut uses = BTreeMap::<&str, Vec<usize>>::new();
    for (at, own) in words.iter().enumerate() {
        for word in own {
            uses.entry(word).or_default().push(at);
        }
    }
    let is_frequent = |word: &str| spread(uses.get(word).map_or(&[], Vec::as_slice), &parts) >= MIN_SESSIONS;
    let frequent = uses
        .keys()
        .copied()
        .filter(|word| is_frequent(word))
        .collect::<BTreeSet<_>>();
    let mut pairs = BTreeMap::<(&str, &str), Vec<usize>>::new();
    for (at, own) in words.iter().enumerate() {
        let own = own
            .iter()
            .map(String::as_str)
            .filter(|word| frequent.contains(word))
            .collect::<Vec<_>>();
        for (place, one) in own.iter().enumerate() {
            for other in &own[place + 1..] {
                if is_topic(one, other) {
                    pairs.entry((one, other)).or_default().push(at);
                }
            }
        }
    }
    let orders = parts.iter().map(|said| is_order(said, rules)).collect::<Vec<_>>();
    let mut found = pairs
        .into_iter()
        .filter(|(_, members)| spread(members, &parts) >= MIN_SESSIONS)
        .filter(|((one, other), members)| {
            let (of_one, of_other) = (uses[one].len(), uses[other].len());
            let lift = members.len() as f64 * parts.len() as f64 / (of_one * of_other) as f64;
            let share = members.len() as f64 / of_one.max(of_other) as f64;
            let asked = members.iter().filter(|at| orders[**at]).count();
            (lift >= MIN_LIFT || share >= MIN_SHARE) && asked * 2 >= members.len()
        })
        .collect::<Vec<_>>();
    found.sort_by_key(|(words, members)| (std::cmp::Reverse(spread(members, &parts)), *words));
    let (mut taken, mut habits) = (BTreeSet::new(), Vec::new());
    for (_, members) in found {
        let known = members.iter().filter(|at| taken.contains(*at)).count();
        if known * 2 >= members.len() || habits.len() == MAX_HABITS {
            continue;
        }
        taken.extend(members.iter().copied());
        habits.push(Habit {
            statements: members.iter().map(|at| parts[*at].clone()).collect(),
        });
    }
    habits
}

/// Returns in how many sessions on different days statements were made: the smaller of the two numbers.
fn spread(members: &[usize], parts: &[&Statement]) -> usize {
    let sessions = distinct(members.iter().map(|at| parts[*at].source.session.as_str()));
    let days = distinct(members.iter().filter_map(|at| parts[*at].day()));
    sessions.min(days)
}

/// Returns whether a statement can be part of a habit: short words of a person that are no question and no data.
fn may_be_part(said: &Statement) -> bool {
    !said.is_reported && !said.is_open_question() && said.text.chars().count() <= MAX_CHARS && !is_dataish(&said.text)
}

/// Returns the content words of a text, without addresses and paths; none if there are too many to be one request.
fn topic_words(text: &str) -> Vec<String> {
    let plain = text.split_whitespace().filter(|word| !word.contains("://"));
    let mut words = content_words(&plain.collect::<Vec<_>>().join(" "));
    words
        .retain(|word| word.is_ascii() || !word.contains(|sign: char| sign.is_ascii() || HAN_PARTICLES.contains(sign)));
    // A run of characters beyond ASCII gives a pair for every character.
    let most = if text.is_ascii() { MAX_WORDS } else { 2 * MAX_WORDS };
    if words.len() > most { Vec::new() } else { words }
}

/// Returns whether two words name a way of working.
fn is_topic(one: &str, other: &str) -> bool {
    let is_routine = |word: &str| ROUTINE.contains(&word);
    let is_work = |word: &str| {
        WORK.iter()
            .any(|known| *known == word || known.len() > 4 && word.starts_with(known))
            || HAN_WORK.contains(&word)
    };
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    (is_work(one) || is_work(other)) && !(is_routine(one) && is_routine(other)) && !is_number(one) && !is_number(other)
}

/// Returns whether a statement asks for something to be done.
fn is_order(said: &Statement, rules: &ExtractionRules) -> bool {
    said.is_request || rules.phrases.iter().any(|phrases| phrases.order.is_match(&said.text))
}
