//! Messages that go on speaking of what was laid down a moment before.
//!
//! Who gives a rule or names a preference often works with it at once: "Always show the query plan when I ask about slow
//! pages", and in the next message "I need somebody to show me the query plan of these slow pages". No rule finds anything
//! in the second one, yet it says the same in other words. It becomes a further source of the memory; it never makes one,
//! and it takes no doubt away.

use super::sentences::{Sentence, content_words};
use std::collections::BTreeMap;

/// How many messages later something is still spoken of. Further on, the same words are the same subject, no more.
const SOON: usize = 3;
/// What a message opens with, in bytes: about two lines.
const OPENING: usize = 140;
/// Share of the words that a message must open with.
const OPENS_WITH: f64 = 0.55;
/// Share of the words that one sentence anywhere in the next message must hold.
const HOLDS: f64 = 0.9;
/// Fewer words than this come together by chance.
const FEWEST: usize = 4;

/// What was said a short while ago, by session.
#[derive(Default)]
pub struct Recent<'m> {
    by_session: BTreeMap<&'m str, Vec<Said>>,
}

/// Something that was said, and how many messages ago.
struct Said {
    at: usize,
    words: Vec<String>,
    ago: usize,
}

impl<'m> Recent<'m> {
    /// Takes in the clause of a finding, which is known by a number.
    pub fn add(&mut self, session: &'m str, at: usize, clause: &str) {
        let words = content_words(clause);
        // Words without blanks between them are counted by pairs of signs, of which there are twice as many.
        let fewest = if clause.is_ascii() { FEWEST } else { 2 * FEWEST };
        if words.len() >= fewest {
            let said = self.by_session.entry(session).or_default();
            said.push(Said { at, words, ago: 0 });
        }
    }

    /// The findings that the next message of a session speaks of. Its sentences are asked for only if there are any.
    pub fn spoken_of(&mut self, session: &str, sentences: impl FnOnce() -> Vec<Sentence>) -> Vec<usize> {
        let Some(said) = self.by_session.get_mut(session).filter(|said| !said.is_empty()) else {
            return Vec::new();
        };
        said.iter_mut().for_each(|said| said.ago += 1);
        let sentences = sentences();
        let opening = opening(&sentences);
        let is_meant = |said: &&Said| {
            let holds = |sentence: &Sentence| {
                !sentence.is_question && shared(&said.words, &content_words(&sentence.text)) >= HOLDS
            };
            shared(&said.words, &opening) >= OPENS_WITH || said.ago == 1 && sentences.iter().any(holds)
        };
        let meant = said.iter().filter(is_meant).map(|said| said.at).collect();
        said.retain(|said| said.ago < SOON);
        meant
    }
}

/// The words of the first lines.
fn opening(sentences: &[Sentence]) -> Vec<String> {
    let mut text = String::new();
    for sentence in sentences {
        if text.len() >= OPENING {
            break;
        }
        text.push_str(&sentence.text);
        text.push(' ');
    }
    content_words(&text[..text.floor_char_boundary(OPENING)])
}

/// Which part of the words is among others, both sorted.
fn shared(words: &[String], among: &[String]) -> f64 {
    let count = words.iter().filter(|word| among.binary_search(word).is_ok()).count();
    count as f64 / words.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::rules::Rules;
    use crate::memory::sentences::split;

    const RULE: &str = "Always show the query plan when I ask about slow pages";

    /// Which of the messages after a statement speak of it.
    #[track_caller]
    fn check(clause: &str, later: &[&str], expected: &[usize]) {
        let mut recent = Recent::default();
        recent.add("s", 7, clause);
        let mut speaking = Vec::new();
        for (at, text) in later.iter().enumerate() {
            let meant = recent.spoken_of("s", || split(text, Rules::built_in()));
            assert!(meant.iter().all(|meant| *meant == 7));
            speaking.extend(meant.iter().map(|_| at));
        }
        assert_eq!(speaking, expected, "{later:?}");
    }

    #[test]
    fn who_goes_on_with_it_speaks_of_it() {
        let about = "I need somebody to show me the query plan of the slow pages in the shop, the search takes long";
        check(RULE, &[about], &[0]);
        check(RULE, &["thanks", "and now?", about], &[2]);
        check(
            RULE,
            &[
                "The checkout hangs. It may be the cache or the pool, I have looked at both for an hour now and found \
                 nothing in either. I was told that you always show the query plan when people ask about slow pages.",
            ],
            &[0],
        );
        check(
            "以后遇到慢查询都先给我看执行计划",
            &["现在又遇到慢查询了，先给我看执行计划"],
            &[0],
        );
    }

    #[test]
    fn what_only_shares_the_subject_does_not() {
        check(RULE, &["the pages of the manual are slow to build, any idea why?"], &[]);
        check(
            RULE,
            &[
                "thanks",
                "ok",
                "go on",
                "I need you to show me the query plan of the slow pages",
            ],
            &[],
        );
        let late = "I moved the shop to the new host last night and since then the mails to customers no longer go out, \
                    nor do the bills that we print. Is the query plan shown when I always ask about slow pages?";
        check(RULE, &[late], &[]);
        check("Always use tabs", &["use tabs always"], &[]);
    }
}
