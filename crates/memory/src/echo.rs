//! Messages that go on speaking of what was laid down a moment before.
//!
//! Who gives a rule or names a preference often works with it at once: "Always show the query plan when I ask about slow
//! pages", and in the next message "I need somebody to show me the query plan of these slow pages". No rule finds anything
//! in the second one, yet it says the same in other words. It becomes a further source of the memory; it never makes one,
//! and it takes no doubt away.
//!
//! Fewer of the words are enough where the message shows by itself that it takes something up: the very next one after an
//! order, and one that calls a preference or a choice its writer's own. Unless it brings news: who has never shown a query
//! plan, or has shown six since, tells that.

use crate::kinds::MemoryKind;
use crate::rules::{ExtractionRules, LanguagePhrases, LazyPattern};
use language::sentences::Sentence;
use language::words::content_words;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// How many messages later something is still spoken of. Further on, the same words are the same subject, no more.
const MAX_MESSAGES_AGO: usize = 3;
/// What a message opens with, in bytes: about two lines.
const OPENING_BYTES: usize = 140;
/// Share of the words that a message must open with.
const OPENING_OVERLAP: f64 = 0.55;
/// Share of the words that one sentence anywhere in the next message must hold.
const RESTATEMENT_OVERLAP: f64 = 0.9;
/// Share of the words that are enough in the whole of a message that takes something up.
const FOLLOW_UP_OVERLAP: f64 = 0.5;
/// Fewer words than this come together by chance.
const MIN_WORDS: usize = 4;

/// What was said a short while ago, by session.
#[derive(Default)]
pub struct EchoTracker<'m> {
    by_session: BTreeMap<&'m str, Vec<RecentStatement>>,
}

/// Something that was said, and how many messages ago.
struct RecentStatement {
    finding: usize,
    kind: MemoryKind,
    words: Vec<String>,
    messages_ago: usize,
}

impl<'m> EchoTracker<'m> {
    /// Takes in the clause of a finding, which is known by a number.
    pub fn add(&mut self, session: &'m str, at: usize, kind: MemoryKind, clause: &str) {
        let words = content_words(clause);
        // Words without blanks between them are counted by pairs of signs, of which there are twice as many.
        let fewest = if clause.is_ascii() { MIN_WORDS } else { 2 * MIN_WORDS };
        if words.len() >= fewest {
            let said = self.by_session.entry(session).or_default();
            said.push(RecentStatement {
                finding: at,
                kind,
                words,
                messages_ago: 0,
            });
        }
    }

    /// The findings that the next message of a session speaks of. Its sentences are asked for only if there are any.
    pub fn find_echoes(
        &mut self,
        session: &str,
        rules: &ExtractionRules,
        sentences: impl FnOnce() -> Vec<Sentence>,
    ) -> Vec<usize> {
        let Some(said) = self.by_session.get_mut(session).filter(|said| !said.is_empty()) else {
            return Vec::new();
        };
        said.iter_mut().for_each(|said| said.messages_ago += 1);
        let message = FollowUpMessage::new(sentences(), rules);
        let is_meant = |said: &&RecentStatement| message.is_restatement_of(said) || message.is_about(said);
        let meant = said.iter().filter(is_meant).map(|said| said.finding).collect();
        said.retain(|said| said.messages_ago < MAX_MESSAGES_AGO);
        meant
    }
}

/// A message that may go on with something.
struct FollowUpMessage<'r> {
    sentences: Vec<Sentence>,
    opening: Vec<String>,
    /// All its words, which few messages are asked for.
    words: OnceCell<Vec<String>>,
    rules: &'r ExtractionRules,
}

impl FollowUpMessage<'_> {
    fn new(sentences: Vec<Sentence>, rules: &ExtractionRules) -> FollowUpMessage<'_> {
        FollowUpMessage {
            opening: opening_words(&sentences),
            words: OnceCell::new(),
            sentences,
            rules,
        }
    }

    fn words(&self) -> &[String] {
        self.words.get_or_init(|| {
            let sentences = self.sentences.iter();
            let mut words = sentences
                .flat_map(|sentence| content_words(&sentence.text))
                .collect::<Vec<_>>();
            words.sort_unstable();
            words
        })
    }

    /// Whether most of what was said stands close together.
    fn is_restatement_of(&self, said: &RecentStatement) -> bool {
        let holds = |sentence: &Sentence| {
            !sentence.is_question && shared_fraction(&said.words, &content_words(&sentence.text)) >= RESTATEMENT_OVERLAP
        };
        let opens = || shared_fraction(&said.words, &self.opening) >= OPENING_OVERLAP && !self.has_news_opening();
        opens() || said.messages_ago == 1 && self.sentences.iter().any(holds)
    }

    /// Whether it is about what was said, and its words are there in any order.
    fn is_about(&self, said: &RecentStatement) -> bool {
        let is_about_it = match said.kind {
            MemoryKind::Feedback => said.messages_ago == 1,
            MemoryKind::User => self.has_phrase(|phrases| phrases.own.as_ref()),
            MemoryKind::Project | MemoryKind::Reference => false,
        };
        is_about_it
            && shared_fraction(&said.words, self.words()) >= FOLLOW_UP_OVERLAP
            && !self.has_phrase(|phrases| phrases.news.as_ref())
    }

    /// Whether a phrase of any language is in it.
    fn has_phrase(&self, phrase: fn(&LanguagePhrases) -> Option<&LazyPattern>) -> bool {
        let mut patterns = self.rules.phrases.iter().filter_map(phrase);
        patterns.any(|pattern| self.sentences.iter().any(|sentence| pattern.is_match(&sentence.text)))
    }

    fn has_news_opening(&self) -> bool {
        let news = self.rules.phrases.iter().filter_map(|phrases| phrases.news.as_ref());
        let first = self.sentences.first().map_or("", |sentence| &sentence.text);
        news.filter_map(|pattern| pattern.find(first))
            .any(|found| found.start == 0)
    }
}

/// The words of the first lines.
fn opening_words(sentences: &[Sentence]) -> Vec<String> {
    let mut text = String::new();
    for sentence in sentences {
        if text.len() >= OPENING_BYTES {
            break;
        }
        text.push_str(&sentence.text);
        text.push(' ');
    }
    content_words(&text[..text.floor_char_boundary(OPENING_BYTES)])
}

/// Which part of the words is among others, both sorted.
fn shared_fraction(words: &[String], among: &[String]) -> f64 {
    let count = words.iter().filter(|word| among.binary_search(word).is_ok()).count();
    count as f64 / words.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ExtractionRules;

    const RULE: &str = "Always show the query plan when I ask about slow pages";

    /// Which of the messages after a statement speak of it.
    #[track_caller]
    fn check(clause: &str, later: &[&str], expected: &[usize]) {
        check_kind(MemoryKind::Feedback, clause, later, expected);
    }

    #[track_caller]
    fn check_kind(kind: MemoryKind, clause: &str, later: &[&str], expected: &[usize]) {
        let mut recent = EchoTracker::default();
        recent.add("s", 7, kind, clause);
        let rules = ExtractionRules::built_in();
        let mut speaking = Vec::new();
        for (at, text) in later.iter().enumerate() {
            let meant = recent.find_echoes("s", rules, || rules.split_sentences(text));
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
        check(RULE, &["thanks", late], &[]);
        check("Always use tabs", &["use tabs always"], &[]);
    }

    #[test]
    fn the_next_message_may_take_an_order_up_anywhere() {
        let asks = "The shop takes long since this morning, mostly when people search. I have looked at the cache and at \
                    the pool and there is nothing wrong with either of them. Can you show me which query makes these \
                    pages slow, and its plan?";
        check(RULE, &[asks], &[0]);
        check(RULE, &["thanks", asks], &[]);
        check_kind(MemoryKind::Project, RULE, &[asks], &[]);
        check(RULE, &[&format!("{asks} I've never had to read one.")], &[]);
        check(RULE, &[&format!("The launch was postponed. {asks}")], &[]);
    }

    #[test]
    fn who_calls_it_their_own_takes_a_preference_up() {
        let preference = "I prefer small commits over long branches";
        let asks = |what: &str| {
            format!(
                "The next change concerns every file of the project, and the one after it, too. Nobody here has done \
                 such a thing before, and the review will take days. How do I get there with {what}?"
            )
        };
        let own = asks("my preference for small commits and without long branches");
        check_kind(MemoryKind::User, preference, &["thanks", "ok", &own], &[2]);
        let plain = asks("small commits and without long branches");
        check_kind(MemoryKind::User, preference, &[&plain], &[]);
        let news = format!("We switched to another forge. {own}");
        check_kind(MemoryKind::User, preference, &["thanks", &news], &[]);
        check_kind(
            MemoryKind::User,
            "我更喜欢小的提交而不是很长的分支",
            &[
                "下一个改动会涉及项目里的每一个文件，再下一个也是这样，这里没有人做过这种事情，评审大概需要好几天的时间，大家都很担心。\
                 按我的偏好是小的提交而不是很长的分支，怎么做？",
            ],
            &[0],
        );
    }

    #[test]
    fn news_that_opens_a_message_is_what_it_is_about() {
        check(RULE, &["I asked about slow pages, show me a query plan"], &[0]);
        check(
            RULE,
            &["I have never asked about slow pages, show me a query plan"],
            &[],
        );
    }
}
