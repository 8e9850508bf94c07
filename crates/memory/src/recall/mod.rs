//! Ranks memories by a query: BM25 over name, description and text, plus the positions of the words. Pure.
//!
//! On top of BM25 a memory scores for the two adjacent lines that hold most of the query, for query words that are adjacent
//! or close together, and for synonyms. Question words weigh less. A request for advice is ranked by the subject of a memory
//! instead. The result is empty if the rarest query word is missing and hardly any other is found, or if a question depends
//! on a combination of words that no memory states. Each of these rules improved the results on public evaluation sets; see
//! docs/memory.md for the figures.
//!
//! `index` holds the words of all memories, `question` parses a query, `scoring` weighs and scores, `focus` finds what
//! a question depends on, `time` finds dates, and `select` cuts the result to what is shown.

mod focus;
mod index;
mod question;
mod scoring;
mod select;
mod time;

pub use index::RecallIndex;

pub use select::{
    NoRecallReason, RecallLimits, RecalledMemory, StoredMemory, excerpt, explain_nothing, is_showable, is_usage_of,
    is_worth_asking, select_hits, select_memories,
};

use focus::QuestionFocus;
use index::{IndexedDocument, LINE_END};
use question::RecallQuestion;
use scoring::{IdfWeights, ScoredDocument, TermPresence, VocabularyRoles};

/// Weights of the parts of a score.
#[derive(Debug, Clone, Copy)]
pub struct RecallWeights {
    /// Saturation of the term frequency (k1 of BM25).
    pub saturation: f64,
    /// Normalization by length, 0 to 1 (b of BM25).
    pub length: f64,
    /// Question words and other filler.
    pub filler: f64,
    /// Synonyms of query words.
    pub related: f64,
    /// Members of a category that the query names.
    pub members: f64,
    /// Words of the wider synonym list, used if there is no closer match.
    pub wider: f64,
    /// Two query words next to each other.
    pub neighbours: f64,
    /// Two query words close together.
    pub near: f64,
    /// The best two adjacent lines.
    pub passage: f64,
    /// Share of the score that depends on how much of the query is covered.
    pub coverage: f64,
    /// How many times a word in the name or the description counts.
    pub heading: u32,
    /// Proper names in the query.
    pub name: f64,
    /// Synonyms of a term in a memory that has the term itself, too.
    pub also: f64,
    /// A date within the period that the query names.
    pub time: f64,
    /// Terms in the first line, for a request for advice.
    pub opening: f64,
    /// Below this share of the query's weight, and without its rarest word, nothing fits.
    pub fit: f64,
}

impl Default for RecallWeights {
    fn default() -> RecallWeights {
        RecallWeights {
            saturation: 2.5,
            length: 1.0,
            filler: 0.5,
            related: 0.6,
            members: 0.7,
            wider: 0.5,
            also: 0.15,
            name: 1.4,
            neighbours: 0.4,
            near: 0.5,
            passage: 0.5,
            coverage: 0.5,
            time: 1.0,
            opening: 0.45,
            heading: 2,
            fit: 0.15,
        }
    }
}

impl RecallWeights {
    /// Returns the weights for a request for advice. Coverage and positions say little there, because the request is worded by
    /// its occasion; what counts is the subject of a memory.
    fn for_advice(&self) -> RecallWeights {
        RecallWeights {
            neighbours: 0.0,
            near: 0.0,
            passage: 0.0,
            coverage: 0.0,
            ..*self
        }
    }
}

/// Smallest number of memories that rarity is computed for: three memories say little about the frequency of words.
const MIN_CORPUS_SIZE: usize = 50;

/// Rate of new words above which a missing word says nothing.
const MAX_NEW_WORD_RATE: f64 = 0.07;

/// Rate of new words above which a missing combination of words says nothing.
const MAX_NEW_PHRASE_RATE: f64 = 0.035;

/// Share of a question's weight that must be missing everywhere for it to have no answer.
const MISSING_SHARE: f64 = 0.33;

/// The best memory stands out if the mean score of the runners-up is below this share of its score.
const OUTSTANDING_SHARE: f64 = 0.45;

/// Number of runners-up.
const RUNNER_UPS: usize = 9;

/// A memory that fits a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecallHit {
    /// Number of the memory, in the order they were added.
    pub document: usize,
    /// Comparable only within one query.
    pub score: f64,
}

impl RecallIndex {
    /// Returns the memories that fit, best first; equal ones in the order they were added. Empty if nothing fits.
    pub fn find_matches(&self, query: &str, weights: &RecallWeights) -> Vec<RecallHit> {
        let question = RecallQuestion::parse(query, weights);
        let advising = weights.for_advice();
        let weights = if question.is_for_advice { &advising } else { weights };
        let roles = self.vocabulary_roles(&question);
        let counts = self.term_presence(&question, &roles);
        let rarity = self.idf_weights(&question, &counts);
        let dated = self.date_boosts(&question);
        let mut scored = Vec::new();
        for (number, count) in counts.iter().enumerate() {
            if !count.is_empty() {
                let mut one = self.score_document(number, count, &question, &roles, &rarity, weights);
                one.score += weights.time * dated.get(number).copied().unwrap_or(0.0);
                scored.push(one);
            }
        }
        scored.sort_by(|one, other| {
            other
                .score
                .total_cmp(&one.score)
                .then(one.document.cmp(&other.document))
        });
        if weights.fit > 0.0 {
            let is_fitting = is_good_fit(&scored, &rarity, weights);
            let is_missing = || self.is_mostly_unknown(&scored, &question, &counts, &rarity);
            let is_unstated = || self.is_unanswered(&scored, &question, &roles, &rarity);
            if !is_fitting || is_missing() || is_unstated() {
                return Vec::new();
            }
        }
        scored
            .iter()
            .map(|scored| RecallHit {
                document: scored.document,
                score: scored.score,
            })
            .collect()
    }

    /// Returns whether much of the question is in no memory and no memory stands out. In a small vocabulary a missing word says
    /// nothing, so this is only decided if a new word is unlikely.
    fn is_mostly_unknown(
        &self,
        scored: &[ScoredDocument],
        question: &RecallQuestion,
        counts: &[TermPresence],
        rarity: &IdfWeights,
    ) -> bool {
        if self.new_word_rate() > MAX_NEW_WORD_RATE {
            return false;
        }
        let is_nowhere = |at: usize| {
            let bit = 1_u64 << at;
            let is_own = question.terms[at].weight >= 1.0;
            is_own
                && counts
                    .iter()
                    .all(|count| (count.own | count.related | count.members) & bit == 0)
        };
        let missing = (0..question.terms.len()).filter(|&at| is_nowhere(at));
        let missing = missing.map(|at| rarity.own[at]).sum::<f64>();
        let best = scored.first().map_or(0.0, |scored| scored.score);
        let next = scored
            .iter()
            .skip(1)
            .take(RUNNER_UPS)
            .map(|scored| scored.score)
            .sum::<f64>();
        let next = next / scored.len().saturating_sub(1).clamp(1, RUNNER_UPS) as f64;
        missing > MISSING_SHARE * rarity.own.iter().sum::<f64>() && next > OUTSTANDING_SHARE * best
    }

    /// Returns whether none of the best memories states the combination of words that the question depends on. Only decided if
    /// the memories are so many that one should.
    fn is_unanswered(
        &self,
        scored: &[ScoredDocument],
        question: &RecallQuestion,
        roles: &VocabularyRoles,
        rarity: &IdfWeights,
    ) -> bool {
        if question.focus == QuestionFocus::default() || self.new_word_rate() > MAX_NEW_PHRASE_RATE {
            return false;
        }
        let best = scored.iter().take(focus::MAX_STATEMENT_MEMORIES);
        let best = best.map(|scored| self.documents[scored.document].words.as_slice());
        let has = |word: u32, term: usize| {
            let word = word as usize;
            usize::from(roles.own[word]) == term + 1 || (roles.related[word] | roles.members[word]) >> term & 1 == 1
        };
        let spelled = |word: u32| &*self.vocabulary[word as usize];
        !question
            .focus
            .is_stated(&best.collect::<Vec<_>>(), &rarity.own, has, spelled)
    }

    /// Returns the gain of each memory from dates within the periods that the question names; empty if it names none.
    fn date_boosts(&self, question: &RecallQuestion) -> Vec<f64> {
        if question.spans.is_empty() {
            return Vec::new();
        }
        let parts = self
            .vocabulary
            .iter()
            .map(|word| time::parse_date_part(word))
            .collect::<Vec<_>>();
        let closeness = |document: &IndexedDocument| {
            let words = document
                .words
                .iter()
                .map(|&word| if word == LINE_END { None } else { parts[word as usize] });
            let dates = time::parse_spans(&words.collect::<Vec<_>>());
            let all = question
                .spans
                .iter()
                .flat_map(|span| dates.iter().map(|date| span.closeness(*date)));
            all.fold(0.0, f64::max)
        };
        let close = self.documents.iter().map(closeness).collect::<Vec<_>>();
        let found = close.iter().filter(|close| **close > 0.0).count() as f64;
        let all = self.documents.len().max(MIN_CORPUS_SIZE) as f64;
        let worth = idf(all, found);
        close.into_iter().map(|close| close * worth).collect()
    }
}

/// Returns the inverse document frequency (BM25) of a word that `found` of `all` documents have.
pub(super) fn idf(all: f64, found: f64) -> f64 {
    (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
}

/// Returns whether the best three memories together cover enough of the query.
fn is_good_fit(scored: &[ScoredDocument], rarity: &IdfWeights, weights: &RecallWeights) -> bool {
    let best = &scored[..scored.len().min(3)];
    let share_of = |at: usize| best.iter().map(|scored| scored.share[at]).fold(0.0, f64::max);
    let total = rarity.own.iter().sum::<f64>();
    let covered = (0..rarity.own.len()).map(share_of).sum::<f64>();
    let rarest = rarity.own.iter().copied().fold(0.0, f64::max);
    let has_rarest = (0..rarity.own.len()).any(|at| rarity.own[at] >= rarest && share_of(at) > 0.0);
    !best.is_empty() && (has_rarest || covered > weights.fit * total)
}

#[cfg(test)]
mod tests;
