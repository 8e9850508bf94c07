//! Groups statements of one project that say the same, with an index of their words.
//!
//! Only statements that share a rare word are compared. A group that returns on another day in another session is
//! confirmed; the same words on one day mostly mean the same task.

use crate::extract::gather::Statement;
use crate::extract::score;
use crate::extract::{Extraction, is_retracted, reject_statement};
use crate::neighbors::GistIndex;
use crate::similar::{Gist, MemoryRelation};
use language::words::content_words;
use std::collections::{BTreeMap, BTreeSet};

/// Share of weighted words that two statements must have in common.
const SAME_SHARE: f64 = 0.5;
/// Words in more statements than this bring no two together.
const MAX_POSTINGS: usize = 200;
/// Points for each further day on which something is said, and for how many days at most.
const DAY_POINTS: f64 = 0.7;
const MAX_DAYS: usize = 4;
/// Statements that say the same, oldest first.
#[derive(Debug, Clone)]
pub struct StatementGroup {
    pub statements: Vec<Statement>,
}

impl StatementGroup {
    /// Returns the statement that speaks for the group: the one with the best score; of equal ones, the newest.
    pub fn best(&self) -> &Statement {
        let mut best = &self.statements[0];
        for statement in &self.statements[1..] {
            if statement.confidence() >= best.confidence() {
                best = statement;
            }
        }
        best
    }

    /// Returns on how many days it was said, each in a session of its own.
    pub fn days(&self) -> usize {
        let days = self
            .statements
            .iter()
            .filter_map(Statement::day)
            .collect::<BTreeSet<_>>();
        let sessions = self
            .statements
            .iter()
            .map(|statement| statement.source.session.as_str());
        days.len().min(sessions.collect::<BTreeSet<_>>().len()).max(1)
    }

    /// Returns the confidence: of the best statement, raised by every day on which it came back.
    pub fn confidence(&self) -> f64 {
        let best = self.best();
        // What every session asks for is no rule, however often it comes.
        let again = match score::is_everyday(&best.text) {
            true => 0,
            false => self.days().min(MAX_DAYS) - 1,
        };
        score::confidence(best.score + DAY_POINTS * again as f64).max(best.floor)
    }

    fn last_said(&self) -> Option<i64> {
        self.statements
            .iter()
            .filter_map(|statement| statement.source.time)
            .max()
    }
}

/// Groups the statements of a project.
pub fn group_statements(statements: Vec<Statement>) -> Vec<StatementGroup> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for word in statements.iter().flat_map(|statement| &statement.words) {
        *counts.entry(word).or_insert(0) += 1;
    }
    let all = statements.len() as f64;
    let rarity = counts
        .iter()
        .map(|(word, count)| ((*word).to_owned(), (1.0 + all / *count as f64).ln()))
        .collect::<BTreeMap<String, f64>>();
    let mut groups: Vec<StatementGroup> = Vec::new();
    let mut by_word = BTreeMap::<String, Vec<usize>>::new();
    for statement in statements {
        let at = find_group(&statement, &groups, &by_word, &rarity);
        match at {
            Some(at) => groups[at].statements.push(statement),
            None => {
                for word in &statement.words {
                    by_word.entry(word.clone()).or_default().push(groups.len());
                }
                groups.push(StatementGroup {
                    statements: vec![statement],
                });
            }
        }
    }
    groups
}

/// Returns the group that says the same.
fn find_group(
    statement: &Statement,
    groups: &[StatementGroup],
    by_word: &BTreeMap<String, Vec<usize>>,
    rarity: &BTreeMap<String, f64>,
) -> Option<usize> {
    let weight = |word: &String| rarity.get(word).copied().unwrap_or(1.0);
    let mut shared = BTreeMap::<usize, (usize, f64)>::new();
    for word in &statement.words {
        let postings = by_word.get(word).map_or(&[][..], Vec::as_slice);
        if postings.len() > MAX_POSTINGS {
            continue;
        }
        for at in postings {
            let entry = shared.entry(*at).or_insert((0, 0.0));
            *entry = (entry.0 + 1, entry.1 + weight(word));
        }
    }
    let own = statement.words.iter().map(weight).sum::<f64>();
    let mut best: Option<(f64, usize)> = None;
    for (at, (count, common)) in shared {
        let first = &groups[at].statements[0];
        let is_alike =
            first.is_negative == statement.is_negative && first.is_open_question() == statement.is_open_question();
        let fewest = first.words.len().min(statement.words.len());
        if !is_alike || has_other_numbers(first, statement) || count < fewest.clamp(1, 3) {
            continue;
        }
        let other = first.words.iter().map(weight).sum::<f64>();
        let likeness = common / (own + other - common).max(f64::MIN_POSITIVE);
        if likeness >= SAME_SHARE && best.is_none_or(|(known, _)| likeness > known) {
            best = Some((likeness, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Returns whether statements name different numbers: the same request for another issue or version is another statement.
fn has_other_numbers(one: &Statement, other: &Statement) -> bool {
    let numbers = |said: &Statement| {
        let words = said
            .words
            .iter()
            .filter(|word| word.bytes().any(|byte| byte.is_ascii_digit()));
        words.cloned().collect::<Vec<_>>()
    };
    let (one, other) = (numbers(one), numbers(other));
    !one.is_empty() && !other.is_empty() && one != other
}

/// Removes what was taken back later.
pub fn retract(groups: &mut Vec<StatementGroup>, extraction: &mut Extraction, project: &str) {
    for retraction in extraction.retractions.iter().filter(|taken| taken.project == project) {
        let words = content_words(&retraction.text);
        let rejections = &mut extraction.rejections;
        groups.retain(|group| {
            let is_later = group.last_said() <= retraction.source.time;
            let is_gone = is_later && is_retracted(&group.best().words, &words);
            if is_gone {
                rejections.push(reject_statement(group.best(), "taken back later"));
            }
            !is_gone
        });
    }
}

/// Removes what a later statement contradicts. Only what is likely kept is compared, with what may be related to it.
pub fn supersede(groups: &mut Vec<StatementGroup>, min_confidence: f64, extraction: &mut Extraction) {
    let gists = groups
        .iter()
        .map(|group| (group.confidence() >= min_confidence).then(|| Gist::from_text(&group.best().text, "", "")))
        .collect::<Vec<_>>();
    let mut index = GistIndex::new(gists.iter().flatten());
    let mut is_gone = vec![false; groups.len()];
    for (at, group) in groups.iter().enumerate() {
        let Some(gist) = &gists[at] else { continue };
        for other in index.find_related(gist) {
            let Some(known) = &gists[other] else { continue };
            let is_contrary = matches!(
                gist.relation(known),
                MemoryRelation::Opposite | MemoryRelation::ValueConflict
            );
            if is_contrary && group.best().kind == groups[other].best().kind {
                let is_newer = group.last_said() >= groups[other].last_said();
                is_gone[if is_newer { other } else { at }] = true;
            }
        }
        index.insert(at, gist);
    }
    let mut gone = is_gone.into_iter();
    groups.retain(|group| {
        let is_gone = gone.next().unwrap_or(false);
        if is_gone {
            let turned = reject_statement(group.best(), "a later statement says otherwise");
            extraction.rejections.push(turned);
        }
        !is_gone
    });
}
