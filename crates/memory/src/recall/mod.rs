//! Ranks memories by a query: BM25 over name, description and text, plus the positions of the words. Pure.
//!
//! On top of BM25 a memory scores for the two adjacent lines that hold most of the query, for query words that are adjacent
//! or close together, and for synonyms. Question words weigh less. A request for advice is ranked by the subject of a memory
//! instead. The list ends at the first score below 0.4 of the best one; it is empty only if no memory has a word of the query
//! that is about something. docs/memory.md has the figures.
//!
//! `index` holds the words of all memories, `question` parses a query, `query_words` finds its
//! proper names, `scoring` weighs and scores, `time` finds dates, and `select` cuts the result to what is shown.

mod index;
mod query_words;
mod question;
mod scoring;
mod select;
mod time;

pub use index::RecallIndex;

pub use select::{
    NoRecallReason, RecallLimits, RecalledMemory, StoredMemory, excerpt, explain_nothing, is_showable, is_usage_of,
    is_worth_asking, select_hits, select_memories,
};

use index::{IndexedDocument, LINE_END};
use question::RecallQuestion;
use scoring::ScoredDocument;

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
    /// Two query words next to each other.
    pub neighbors: f64,
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
    /// Share of the best score below which a memory is left out; 0 keeps all.
    pub least: f64,
}

impl Default for RecallWeights {
    fn default() -> RecallWeights {
        RecallWeights {
            saturation: 2.5,
            length: 1.0,
            filler: 0.5,
            related: 0.6,
            members: 0.7,
            also: 0.15,
            name: 1.4,
            neighbors: 0.4,
            near: 0.5,
            passage: 0.5,
            coverage: 0.5,
            time: 1.0,
            opening: 0.45,
            heading: 2,
            least: 0.4,
        }
    }
}

impl RecallWeights {
    /// Returns the weights for a request for advice. Coverage and positions say little there, because the request is worded by
    /// its occasion; what counts is the subject of a memory.
    fn for_advice(&self) -> RecallWeights {
        RecallWeights {
            neighbors: 0.0,
            near: 0.0,
            passage: 0.0,
            coverage: 0.0,
            ..*self
        }
    }
}

/// Smallest number of memories that rarity is computed for: three memories say little about the frequency of words.
const MIN_CORPUS_SIZE: usize = 50;

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
        // The best memory must have a word of the query that is about something; what is far weaker helps nobody.
        let best = scored.first().map_or(0.0, |scored| scored.score);
        let is_content = |at: usize| question.terms[at].weight >= 1.0;
        let shares_word =
            |scored: &ScoredDocument| (0..question.terms.len()).any(|at| is_content(at) && scored.share[at] > 0.0);
        scored.retain(|scored| scored.score > 0.0 && scored.score >= weights.least * best);
        if weights.least > 0.0 && !scored.iter().any(shares_word) {
            return Vec::new();
        }
        scored
            .iter()
            .map(|scored| RecallHit {
                document: scored.document,
                score: scored.score,
            })
            .collect()
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

#[cfg(test)]
mod tests;
