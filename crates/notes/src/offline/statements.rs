//! Which explanations of the model still stand at the end: a later one on the same thing takes the place of an earlier one, and
//! one about code that was changed since describes what was there before.

use crate::offline::digest::{Digest, ModelSentence, SentenceKind};
use crate::offline::lines::MOST_FACTS;
use crate::offline::names;
use crate::offline::prose::whole_sentences;
use language::words::content_words;
use std::collections::{HashMap, HashSet};

/// Newest sentences of a kind that are looked at.
const MOST_CANDIDATES: usize = 60;

/// Returns the newest sentences of a kind that still stand, oldest first, at most `most` characters each.
pub fn standing_sentences(digest: &Digest, kind: SentenceKind, most: usize) -> Vec<String> {
    let changed = ChangedNames::of_digest(digest);
    let last_answer = digest.turns.last().map_or("", |turn| turn.answer.as_str());
    let mut kept = Vec::<Kept>::new();
    let newest = digest
        .sentences
        .iter()
        .rev()
        .filter(|said| said.kind == kind && !said.needs_context);
    for said in newest.take(MOST_CANDIDATES) {
        if kept.len() == MOST_FACTS {
            break;
        }
        // The last answer is quoted in the current state.
        if is_snapshot(&said.text) || last_answer.contains(&said.text) {
            continue;
        }
        let is_vague = match kind {
            SentenceKind::Cause => said.text.chars().count() < 100 && names_in(&said.text).next().is_none(),
            SentenceKind::System => is_symptom(&said.text),
            SentenceKind::Decision => reports_work(&said.text),
        };
        if is_vague {
            continue;
        }
        let later = changed.find_changed(&said.text, said.step);
        if kind == SentenceKind::System && later.is_some() || kind == SentenceKind::Decision && is_decided(digest, said)
        {
            continue;
        }
        let one = Kept::new(said);
        if kept.iter().any(|other| other.replaces(&one, kind)) {
            continue;
        }
        kept.push(Kept {
            text: match later {
                Some(name) => format!("Before `{name}` was changed: {}", whole_sentences(&said.text, most)),
                None => whole_sentences(&said.text, most),
            },
            ..one
        });
    }
    kept.reverse();
    kept.into_iter().map(|one| one.text).collect()
}

/// A sentence that stands, with what it is about.
struct Kept {
    text: String,
    names: HashSet<String>,
    words: HashSet<String>,
}

impl Kept {
    fn new(said: &ModelSentence) -> Kept {
        Kept {
            text: String::new(),
            names: names_in(&said.text).map(str::to_owned).collect(),
            words: content_words(&said.text).into_iter().collect(),
        }
    }

    /// Returns whether this newer sentence takes the place of an older one. Two causes of the same thing exclude each other;
    /// of other sentences only those count that say nearly the same.
    fn replaces(&self, older: &Kept, kind: SentenceKind) -> bool {
        let names = self.names.intersection(&older.names).count();
        let words = self.words.intersection(&older.words).count();
        let is_near = words * 5 >= self.words.len().min(older.words.len()) * 3 && words > 2;
        is_near || kind == SentenceKind::Cause && (names > 1 || names > 0 && words > 2)
    }
}

/// Calls and identifiers between backticks, identifiers elsewhere, and file names in a sentence.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let mut found = text
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|span| span.trim_end_matches("()"))
        .filter(|span| span.len() > 3)
        .collect::<Vec<_>>();
    names::for_each_identifier(text, |name| found.push(name));
    names::for_each_path(text, |path| found.push(names::file_name(path)));
    found.into_iter()
}

/// Names of changed files and of what was changed in them, with the step of the last change and the file.
struct ChangedNames<'d> {
    by_name: HashMap<&'d str, (usize, &'d str)>,
}

impl<'d> ChangedNames<'d> {
    fn of_digest(digest: &'d Digest) -> ChangedNames<'d> {
        let mut by_name = HashMap::new();
        for file in digest.files.iter().filter(|file| file.changes > 0) {
            let name = names::file_name(&file.path);
            let all = file
                .symbols
                .iter()
                .map(String::as_str)
                .filter(|symbol| symbol.len() > 3);
            for one in all.chain([name]) {
                let known = by_name.entry(one).or_insert((file.step, name));
                *known = (*known).max((file.step, name));
            }
        }
        ChangedNames { by_name }
    }

    /// Returns the file that a text names, or a part of which it names, if it was changed after `step`.
    fn find_changed(&self, text: &str, step: usize) -> Option<&'d str> {
        if self.by_name.is_empty() {
            return None;
        }
        let changed = |name: &str| self.by_name.get(name).filter(|(at, _)| *at > step);
        names_in(text).find_map(changed).map(|(_, file)| *file)
    }
}

/// Returns whether a sentence says how things stand at that moment, or what is about to be.
fn is_snapshot(text: &str) -> bool {
    const CUES: [&str; 34] = [
        "currently",
        " right now",
        "for now",
        "at the moment",
        " so far",
        "still ",
        "not yet",
        "isn't set",
        "is not set",
        "doesn't cover",
        "does not cover",
        "doesn't exist",
        "does not exist",
        "not implemented",
        "once ",
        "after that",
        "will be",
        "will then",
        "need to",
        "needs to",
        "remains",
        "pending",
        "next step",
        "is running",
        "are running",
        "目前",
        "当前",
        "现在",
        "尚未",
        "还没",
        "仍",
        "接下来",
        "暂时",
        "正在",
    ];
    let low = text.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a sentence says what goes wrong rather than how the system is built.
fn is_symptom(text: &str) -> bool {
    const CUES: [&str; 12] = [
        "fail",
        " error",
        "returns 40",
        "returns 50",
        "broken",
        "missing",
        " bug",
        "missed",
        "失败",
        "报错",
        "错误",
        "缺少",
    ];
    let low = text.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a sentence reports what was done instead of giving a reason.
fn reports_work(text: &str) -> bool {
    const VERBS: [&str; 20] = [
        "added",
        "changed",
        "checked",
        "committed",
        "confirmed",
        "created",
        "fixed",
        "i found",
        "i made",
        "implemented",
        "moved",
        "removed",
        "renamed",
        "replaced",
        "rewrote",
        "simplified",
        "switched",
        "updated",
        "verified",
        "已",
    ];
    let low = text.trim_start_matches(['*', ' ', '-', '✅']).to_lowercase();
    VERBS.iter().any(|verb| low.starts_with(verb))
}

/// Returns whether a sentence and another name the same piece of code or the same file.
pub fn share_name(one: &str, other: &str) -> bool {
    let known = names_in(one).collect::<HashSet<_>>();
    !known.is_empty() && names_in(other).any(|name| known.contains(name))
}

/// Returns whether the user decided about what a sentence weighs up, after it was said.
fn is_decided(digest: &Digest, said: &ModelSentence) -> bool {
    let later = digest.choices.iter().filter(|choice| choice.step > said.step);
    let mut later = later.peekable();
    if later.peek().is_none() {
        return false;
    }
    let weighed = content_words(&said.text).into_iter().collect::<HashSet<_>>();
    later.into_iter().any(|choice| {
        let words = content_words(&format!("{} {}", choice.question, choice.answer));
        let words = words.into_iter().collect::<HashSet<_>>();
        words.intersection(&weighed).count() >= 3
    })
}

/// Returns the points of a section of the latest recorded summary that nothing said or changed since has overtaken.
pub fn earlier_facts(digest: &Digest, section: usize) -> Vec<String> {
    let mut points = digest.earlier_points(section);
    if points.is_empty() {
        return points;
    }
    let since = digest.summary_step;
    let changed = ChangedNames::of_digest(digest);
    let causes = digest
        .sentences
        .iter()
        .filter(|said| said.step > since && said.kind == SentenceKind::Cause);
    let explained = causes.flat_map(|said| names_in(&said.text)).collect::<HashSet<_>>();
    let diagnoses = |point: &str| {
        let low = point.to_lowercase();
        DIAGNOSES.iter().any(|cue| low.contains(cue))
    };
    points.retain(|point| {
        let is_new_cause = names_in(point).any(|name| explained.contains(name));
        let is_overtaken = changed.find_changed(point, since).is_some() || is_new_cause && diagnoses(point);
        let is_refuted = digest.rediagnosed_step > since && diagnoses(point);
        !is_overtaken && !is_snapshot(point) && !is_refuted
    });
    points
}

/// What a diagnosis says of itself.
const DIAGNOSES: [&str; 14] = [
    "root cause",
    "the issue",
    "the problem",
    "the bug",
    "the cause",
    "because",
    "the fix",
    "caused by",
    "could happen",
    "unresolved",
    "根本原因",
    "原因",
    "问题是",
    "因为",
];

/// Returns whether the model says in a sentence that what it found before is not the cause, or that this is the real one.
pub fn replaces_diagnosis(sentence: &str) -> bool {
    const CUES: [&str; 17] = [
        "correct all along",
        "actual root cause",
        "real root cause",
        "the real cause",
        "the actual cause",
        "the real issue",
        "the actual issue",
        "the real problem",
        "the actual problem",
        "the real bug",
        "the actual bug",
        "red herring",
        "found the bug",
        "not the root cause",
        "真正的原因",
        "真正的问题",
        "找到问题了",
    ];
    let low = sentence.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a sentence is a diagnosis.
pub fn is_diagnosis(sentence: &str) -> bool {
    let low = sentence.to_lowercase();
    [
        "root cause",
        "the issue is",
        "the problem is",
        "the bug is",
        "the cause is",
        "the fix",
        "根本原因",
        "问题是",
    ]
    .iter()
    .any(|cue| low.contains(cue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::digest::TouchedFile;

    fn said(text: &str, kind: SentenceKind, step: usize) -> ModelSentence {
        ModelSentence {
            text: text.to_owned(),
            kind,
            step,
            needs_context: false,
        }
    }

    #[test]
    fn a_later_cause_takes_the_place_of_an_earlier_one() {
        let mut digest = Digest::new("/w");
        digest.sentences = vec![
            said(
                "The total is wrong because `parse_rate` drops the cents.",
                SentenceKind::Cause,
                3,
            ),
            said(
                "The list is slow because `load_all` reads every file.",
                SentenceKind::Cause,
                4,
            ),
            said(
                "The total is off because `parse_rate` never saw the tax.",
                SentenceKind::Cause,
                9,
            ),
        ];
        assert_eq!(
            standing_sentences(&digest, SentenceKind::Cause, 200),
            [
                "The list is slow because `load_all` reads every file.",
                "The total is off because `parse_rate` never saw the tax."
            ]
        );
    }

    #[test]
    fn what_was_said_before_a_change_does_not_describe_the_code() {
        let mut digest = Digest::new("/w");
        digest.files.push(TouchedFile {
            path: "/w/rate.rs".to_owned(),
            changes: 1,
            symbols: vec!["parse_rate".to_owned()],
            step: 5,
            ..TouchedFile::default()
        });
        digest.sentences = vec![
            said(
                "The `parse_rate` function returns whole numbers.",
                SentenceKind::System,
                3,
            ),
            said("The `load_all` function reads every file.", SentenceKind::System, 3),
            said(
                "It failed because `parse_rate` dropped the cents.",
                SentenceKind::Cause,
                4,
            ),
        ];
        assert_eq!(
            standing_sentences(&digest, SentenceKind::System, 200),
            ["The `load_all` function reads every file."]
        );
        assert_eq!(
            standing_sentences(&digest, SentenceKind::Cause, 200),
            ["Before `rate.rs` was changed: It failed because `parse_rate` dropped the cents."]
        );
    }
}
