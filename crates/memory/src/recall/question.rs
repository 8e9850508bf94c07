//! A query, parsed into terms, and the stems that match them.

use super::RecallWeights;
use super::query_words::{is_asking_for_self, parse_words};
use super::time;
use language::words::{KINDS, RELATED, base_form, for_each_word, is_advice_word, is_filler, stem};
use std::collections::{BTreeMap, BTreeSet};

/// Most terms of a query; further words are ignored. Sets of terms are bits of a `u64`.
const MAX_TERMS: usize = 64;

/// A parsed query.
pub(super) struct RecallQuestion {
    pub terms: Vec<QueryTerm>,
    /// Whether it asks for advice.
    pub is_for_advice: bool,
    /// Periods that it names.
    pub spans: Vec<time::DaySpan>,
    /// Pairs of terms that follow each other in the query.
    pub neighbors: Vec<(u8, u8)>,
    /// Pairs of terms that are close together in the query.
    pub pairs: Vec<(usize, usize)>,
}

/// A word of the query. Words with the same stem are one term.
pub(super) struct QueryTerm {
    /// Its base form.
    pub word: String,
    pub stem: String,
    pub weight: f64,
}

impl RecallQuestion {
    pub fn parse(query: &str, weights: &RecallWeights) -> RecallQuestion {
        let mut terms = Vec::<QueryTerm>::new();
        let words = parse_words(query);
        let names = words.iter().filter(|word| word.is_name).map(|word| word.text.as_str());
        let names = names.collect::<BTreeSet<_>>();
        let mut parts = Vec::new();
        let mut order = Vec::new();
        let mut is_for_advice = false;
        for_each_word(query, |word| {
            parts.push(time::parse_date_part(word));
            is_for_advice |= is_advice_word(word);
            let stem = stem(base_form(word)).into_owned();
            let weight = if is_filler(word) {
                weights.filler
            } else if names.contains(word) {
                weights.name
            } else {
                1.0
            };
            let known = terms.iter().position(|term| term.stem == stem);
            if let Some(at) = known {
                terms[at].weight = terms[at].weight.max(weight);
                order.push(at as u8);
            } else if terms.len() < MAX_TERMS {
                order.push(terms.len() as u8);
                terms.push(QueryTerm {
                    word: base_form(word).to_owned(),
                    stem,
                    weight,
                });
            }
        });
        let neighbors = order.windows(2).map(|pair| (pair[0], pair[1])).collect::<BTreeSet<_>>();
        let ends = |from: usize| from + 1..terms.len().min(from + 4);
        let pairs = (0..terms.len())
            .flat_map(|one| ends(one).map(move |other| (one, other)))
            .collect();
        RecallQuestion {
            is_for_advice: is_for_advice && is_asking_for_self(&words),
            pairs,
            spans: time::parse_spans(&parts),
            neighbors: neighbors.into_iter().take(64).collect(),
            terms,
        }
    }

    /// Returns the number of the pair that two adjacent terms form; `None` if they are not adjacent in the query. Terms are
    /// numbered from 1 here; 0 is no term.
    pub fn neighbor_pair(&self, before: u8, place: u8) -> Option<usize> {
        let pair = (before.checked_sub(1)?, place.checked_sub(1)?);
        self.neighbors.iter().position(|&other| other == pair)
    }
}

/// How a word matches a term.
#[derive(Clone, Copy)]
pub(super) enum TermRole {
    /// It has the same stem.
    Own,
    /// It is a synonym.
    Related,
    /// It is a member of the category that the term names.
    Member,
}

/// Returns the stems that match terms of a question, and how they match which terms.
pub(super) fn wanted_stems(question: &RecallQuestion) -> BTreeMap<String, Vec<(u8, TermRole)>> {
    let mut wanted = BTreeMap::<String, Vec<(u8, TermRole)>>::new();
    let mut add = |at: usize, stem: &str, role: TermRole| match wanted.get_mut(stem) {
        Some(roles) => roles.push((at as u8, role)),
        None => {
            wanted.insert(stem.to_owned(), vec![(at as u8, role)]);
        }
    };
    let stems = question.terms.iter().map(|term| term.stem.as_str()).collect::<Vec<_>>();
    for (at, stem) in stems.iter().enumerate() {
        add(at, stem, TermRole::Own);
    }
    let is_content = |at: usize| question.terms[at].weight >= 1.0;
    RELATED.for_each_synonym(&stems, |at, other| {
        if is_content(at) {
            add(at, other, TermRole::Related);
        }
    });
    KINDS.for_each_synonym(&stems, |at, other| add(at, other, TermRole::Member));
    wanted
}
