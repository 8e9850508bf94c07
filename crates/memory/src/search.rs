//! Full-text search in the messages of past sessions. Only a few numbers are kept of each message, so gigabytes of logs can
//! be searched. After all messages are read, the rarity of every query word is known and matches are ranked: BM25 over stems,
//! adjacent query words, and how much of the query is covered. Pure.

use crate::recall::idf;
use language::words::{base_form, for_each_word, is_filler, stem};
use regex::bytes::{Regex, RegexBuilder};
use transcript::log::Time;

/// Most words of a query; further ones are ignored.
const MAX_TERMS: usize = 16;
/// Saturation of the term frequency (k1 of BM25).
const SATURATION: f64 = 1.2;
/// Normalization by length (b of BM25).
const LENGTH: f64 = 0.5;
/// Assumed mean length in words. The real mean of a corpus would need another pass.
const TYPICAL_LENGTH: f64 = 80.0;
/// Weight of adjacent query words, relative to the rarest word.
const NEIGHBORS: f64 = 0.5;
/// Weight of question words and other filler.
const FILLER: f64 = 0.3;
/// Letters that a word must share with a term before it is stemmed.
const PREFIX_LEN: usize = 3;
/// Bytes of a snippet.
const SNIPPET_BYTES: usize = 240;

/// A query, as stems.
#[derive(Debug)]
pub struct SearchTerms {
    stems: Vec<String>,
    weights: Vec<f64>,
    /// Finds lines that may have a term; `None` if that cannot be decided from the bytes.
    filter: Option<Regex>,
}

/// The terms of a query in one message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageMatch {
    /// Number of the log.
    pub log: u32,
    pub line: u64,
    pub time: Option<Time>,
    /// Hash that copies of the message in other logs share.
    pub identity: u64,
    counts: [u8; MAX_TERMS],
    neighbors: u8,
    words: u32,
}

/// A match and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedMatch {
    pub matched: MessageMatch,
    /// Comparable only within one query.
    pub score: f64,
}

impl MessageMatch {
    /// Returns how many different terms the message has.
    pub fn distinct_terms(&self) -> usize {
        self.counts.iter().filter(|count| **count > 0).count()
    }
}

impl SearchTerms {
    pub fn parse(query: &str) -> SearchTerms {
        let mut terms = SearchTerms {
            stems: Vec::new(),
            weights: Vec::new(),
            filter: None,
        };
        for_each_word(query, |word| {
            let stem = stem(base_form(word)).into_owned();
            if terms.stems.len() < MAX_TERMS && !terms.stems.contains(&stem) {
                terms.stems.push(stem);
                terms.weights.push(if is_filler(word) { FILLER } else { 1.0 });
            }
        });
        terms.filter = build_filter(&terms.stems);
        terms
    }

    pub fn is_empty(&self) -> bool {
        self.stems.is_empty()
    }

    /// Returns whether a line may have one of the terms. This is cheaper than parsing the line.
    pub fn is_possible_match(&self, line: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.is_match(line))
    }

    /// Returns the term of a word; `None` if it is not in the query.
    fn term_index(&self, word: &str) -> Option<usize> {
        let word = base_form(word);
        let is_near = |wanted: &String| {
            // A short stem shares only the first letter with its words: `die`, `dying`.
            let head = if wanted.len() > PREFIX_LEN { PREFIX_LEN } else { 1 };
            wanted.as_bytes()[..head] == word.as_bytes()[..head.min(word.len())]
        };
        if !self.stems.iter().any(is_near) {
            return None;
        }
        let stem = stem(word);
        self.stems.iter().position(|wanted| *wanted == stem)
    }

    /// Counts the terms in the texts of a message; `None` if there are none.
    pub fn match_texts<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Option<MessageMatch> {
        let mut matched = MessageMatch {
            log: 0,
            line: 0,
            time: None,
            identity: 0,
            counts: [0; MAX_TERMS],
            neighbors: 0,
            words: 0,
        };
        let mut is_found = false;
        for line in texts.flat_map(str::lines) {
            let mut before = None;
            for_each_word(line, |word| {
                matched.words = matched.words.saturating_add(1);
                let term = self.term_index(word);
                if let Some(term) = term {
                    is_found = true;
                    matched.counts[term] = matched.counts[term].saturating_add(1);
                    if before.is_some_and(|before: usize| before + 1 == term) {
                        matched.neighbors = matched.neighbors.saturating_add(1);
                    }
                }
                before = term;
            });
        }
        is_found.then_some(matched)
    }

    /// Returns matches with the best first, newer ones first if equal, each message once. `read` is the number of messages that
    /// were searched.
    pub fn rank(&self, matched: Vec<MessageMatch>, read: usize) -> Vec<RankedMatch> {
        let rarity = self.idf_weights(&matched, read);
        let total = rarity.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let rarest = rarity.iter().copied().fold(0.0, f64::max);
        let score = |matched: &MessageMatch| {
            let drag = SATURATION * (1.0 - LENGTH + LENGTH * f64::from(matched.words) / TYPICAL_LENGTH);
            let (mut score, mut covered) = (0.0, 0.0);
            for (count, worth) in matched.counts.iter().zip(&rarity).filter(|(count, _)| **count > 0) {
                let times = f64::from(*count);
                score += worth * times * (SATURATION + 1.0) / (times + drag);
                covered += worth;
            }
            score += NEIGHBORS * rarest * f64::from(matched.neighbors.min(4)) / 2.0;
            score * (0.25 + 0.75 * covered / total)
        };
        let mut ranked = matched
            .into_iter()
            .map(|matched| RankedMatch {
                score: score(&matched),
                matched,
            })
            .collect::<Vec<_>>();
        ranked.sort_by(|one, other| {
            let by_time = other.matched.time.cmp(&one.matched.time);
            let by_place = (one.matched.log, one.matched.line).cmp(&(other.matched.log, other.matched.line));
            other.score.total_cmp(&one.score).then(by_time).then(by_place)
        });
        let mut seen = std::collections::HashSet::new();
        ranked.retain(|ranked| seen.insert(ranked.matched.identity));
        ranked
    }

    /// Returns the weight of each term: the rarer, the higher.
    fn idf_weights(&self, matched: &[MessageMatch], read: usize) -> Vec<f64> {
        let all = read.max(matched.len()) as f64;
        let worth = |at: usize| {
            let found = matched.iter().filter(|matched| matched.counts[at] > 0).count() as f64;
            self.weights[at] * idf(all, found)
        };
        (0..self.stems.len()).map(worth).collect()
    }

    /// Returns the part of a text that has most of the query, on one line, and the query words in it.
    pub fn snippet(&self, text: &str) -> (String, Vec<String>) {
        let mut found = Vec::new();
        for (start, word) in word_positions(text) {
            let mut term = None;
            for_each_word(word, |word| term = term.or(self.term_index(word)));
            if let Some(term) = term {
                found.push((start, start + word.len(), term));
            }
        }
        let worth = |from: usize| {
            let inside = found[from..]
                .iter()
                .take_while(|(_, end, _)| *end <= found[from].0 + SNIPPET_BYTES);
            let terms = inside
                .map(|(_, _, term)| *term)
                .collect::<std::collections::BTreeSet<_>>();
            terms.iter().map(|term| self.weights[*term]).sum::<f64>()
        };
        // The first of equally good parts.
        let best = (0..found.len()).fold(None::<(usize, f64)>, |best, at| {
            let worth = worth(at);
            best.filter(|(_, known)| *known >= worth).or(Some((at, worth)))
        });
        let start = best.map_or(0, |(at, _)| found[at].0.saturating_sub(SNIPPET_BYTES / 6));
        let start = text.floor_char_boundary(start);
        let end = text.floor_char_boundary((start + SNIPPET_BYTES).min(text.len()));
        let whole = |at: usize| text[at..end].find(char::is_whitespace).map_or(at, |space| at + space);
        let start = if start == 0 { 0 } else { whole(start) };
        let end = if end == text.len() {
            end
        } else {
            text[start..end]
                .rfind(char::is_whitespace)
                .map_or(end, |space| start + space)
        };
        let mut line = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
        if start > 0 {
            line.insert(0, '…');
        }
        if end < text.len() {
            line.push('…');
        }
        let mut words = Vec::new();
        for (from, to, _) in &found {
            let word = &text[*from..*to];
            if *from >= start && *to <= end && !words.iter().any(|known: &String| known == word) {
                words.push(word.to_owned());
            }
        }
        (line, words)
    }
}

/// Returns the words of a text and where they start: runs of letters, digits and apostrophes. Chinese is split into pairs of
/// characters, as it is searched.
fn word_positions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |sign: char| sign.is_alphanumeric() || matches!(sign, '\'' | '\u{2019}');
    let runs = text
        .split(move |sign: char| !is_part(sign))
        .filter(|run| !run.is_empty());
    runs.flat_map(move |run| {
        let start = run.as_ptr() as usize - text.as_ptr() as usize;
        let is_spaced = run.is_ascii() || !run.chars().any(|sign| sign >= '\u{2e80}');
        let pairs = run.char_indices().filter(move |_| !is_spaced).map(move |(at, _)| {
            let end = run[at..].char_indices().nth(2).map_or(run.len(), |(next, _)| at + next);
            (start + at, &run[at..end])
        });
        std::iter::once((start, run)).filter(move |_| is_spaced).chain(pairs)
    })
}

/// Builds a pattern that matches all words with one of the stems. `None` if a stem has letters beyond ASCII, which a log may
/// escape, or irregular forms: then every line is parsed.
fn build_filter(stems: &[String]) -> Option<Regex> {
    let mut heads = Vec::new();
    for wanted in stems {
        let is_plain = wanted.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_plain || language::words::has_irregular_forms(wanted) {
            return None;
        }
        // The last letter of a stem may be another one in the word: `carri` and `carry`, `use` and `using`.
        let is_sure = wanted.len() <= PREFIX_LEN && !wanted.ends_with(['i', 'e']);
        let length = if is_sure { wanted.len() } else { wanted.len() - 1 };
        heads.push(&wanted[..length]);
    }
    if heads.is_empty() {
        return None;
    }
    RegexBuilder::new(&heads.join("|"))
        .case_insensitive(true)
        .unicode(false)
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weigh(terms: &SearchTerms, texts: &[&str]) -> Vec<MessageMatch> {
        let matched = texts.iter().enumerate().filter_map(|(at, text)| {
            let matched = terms.match_texts(std::iter::once(*text))?;
            Some(MessageMatch {
                line: at as u64,
                identity: at as u64,
                ..matched
            })
        });
        matched.collect()
    }

    fn order(query: &str, texts: &[&str]) -> Vec<u64> {
        let terms = SearchTerms::parse(query);
        let ranked = terms.rank(weigh(&terms, texts), texts.len());
        ranked.iter().map(|ranked| ranked.matched.line).collect()
    }

    #[test]
    fn what_holds_more_of_the_query_comes_first() {
        let texts = [
            "the build is green",
            "connections to the database are pooled",
            "we set the size of the connection pool of the database to ten",
            "nothing of the kind",
        ];
        assert_eq!(order("database connection pool size", &texts), [2, 1]);
        assert_eq!(order("xyzzy", &texts), Vec::<u64>::new());
    }

    #[test]
    fn endings_and_irregular_forms_are_found() {
        assert_eq!(
            order("deploying went wrong", &["we deploy on Friday", "it goes on"]),
            [0, 1]
        );
        assert_eq!(order("数据库连接", &["数据库的连接池", "nothing"]), [0]);
    }

    #[test]
    fn the_filter_lets_through_all_that_is_found() {
        for (query, text) in [
            ("carry", "it carries on"),
            ("relational", "a RELATION"),
            ("generously", "generous"),
            ("skies", "the sky"),
            ("buy", "we bought it"),
            ("Zürich", "in Zu\\u0308rich"),
        ] {
            let terms = SearchTerms::parse(query);
            assert!(terms.is_possible_match(text.as_bytes()), "{query}: {text}");
        }
        assert!(!SearchTerms::parse("database").is_possible_match(b"nothing of the kind"));
    }

    #[test]
    fn a_snippet_shows_the_match() {
        let text = format!(
            "{} the nightly import of invoices fails {}",
            "x ".repeat(400),
            "y ".repeat(400)
        );
        let (line, words) = SearchTerms::parse("why does the invoice import fail").snippet(&text);
        assert!(line.contains("import of invoices fails"), "{line}");
        assert!(
            line.starts_with('…') && line.ends_with('…') && line.len() < 260,
            "{line}"
        );
        assert_eq!(words, ["import", "invoices", "fails"]);
        assert_eq!(SearchTerms::parse("绿色").snippet("按钮是绿色的").1, ["绿色"]);
    }
}
