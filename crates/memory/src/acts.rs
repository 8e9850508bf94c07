//! What a person's acts teach: accepted, edited or written memories against dropped and deleted ones.
//!
//! Only acts count; that nothing was done says nothing. The weights are computed from the acts every time, so the same acts
//! give the same weights whatever their order, and removing an act removes what it taught.

use language::words::content_words;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a person did with a candidate or a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewAct {
    Accept,
    Edit,
    /// Not this one.
    Drop,
    /// Nothing like it.
    Never,
    /// The file of a memory was deleted.
    Delete,
    /// A memory was written by hand.
    Write,
}

impl ReviewAct {
    /// Returns the name in files and outputs.
    pub fn name(self) -> &'static str {
        match self {
            ReviewAct::Accept => "accept",
            ReviewAct::Edit => "edit",
            ReviewAct::Drop => "drop",
            ReviewAct::Never => "never",
            ReviewAct::Delete => "delete",
            ReviewAct::Write => "write",
        }
    }

    fn is_for(self) -> bool {
        matches!(self, ReviewAct::Accept | ReviewAct::Edit | ReviewAct::Write)
    }

    fn weight(self) -> f64 {
        match self {
            ReviewAct::Never => 2.0,
            _ => 1.0,
        }
    }
}

/// An act, as it is kept in the directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActRecord {
    pub act: ReviewAct,
    /// Mark of the candidate; empty for a memory that was written by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mark: String,
    /// What it says, secrets masked.
    pub text: String,
}

/// Doubt about a word that was seen once.
const SMOOTHING: f64 = 1.0;
/// Doubt about the person as a whole, which few acts do not overcome.
const BIAS_SMOOTHING: f64 = 10.0;
/// Largest shift of a score.
const MAX_SHIFT: f64 = 1.5;

/// Weights of words, computed from acts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnedWeights {
    words: BTreeMap<String, f64>,
    bias: f64,
    /// Words of memories that were deleted.
    deleted: Vec<Vec<String>>,
}

/// Share of the words of a deleted memory that make a statement the same.
const SAME_SHARE: f64 = 0.7;

impl LearnedWeights {
    /// Computes the weights: how much more often a word stands in what was kept than in what was not.
    pub fn from_acts(acts: &[ActRecord]) -> LearnedWeights {
        let mut counts = BTreeMap::<String, [f64; 2]>::new();
        let mut all = [0.0; 2];
        let mut ordered = acts.iter().collect::<Vec<_>>();
        ordered.sort();
        for act in ordered {
            let side = usize::from(act.act.is_for());
            all[side] += act.act.weight();
            for word in content_words(&act.text) {
                counts.entry(word).or_default()[side] += act.act.weight();
            }
        }
        if all == [0.0; 2] {
            return LearnedWeights::default();
        }
        let weigh = |[against, in_favor]: [f64; 2], doubt: f64| ((in_favor + doubt) / (against + doubt)).ln();
        LearnedWeights {
            words: counts
                .into_iter()
                .map(|(word, count)| (word, weigh(count, SMOOTHING)))
                .collect(),
            bias: weigh(all, BIAS_SMOOTHING) * 0.5,
            deleted: acts
                .iter()
                .filter(|act| act.act == ReviewAct::Delete)
                .map(|act| content_words(&act.text))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        }
    }

    /// Returns by how much the score of a statement shifts.
    pub fn shift(&self, words: &[String]) -> f64 {
        // A deletion speaks against what is like the memory. The memory itself stays away until it is said again.
        let is_deleted = |gone: &Vec<String>| {
            let shared = gone.iter().filter(|word| words.contains(word)).count();
            shared as f64 >= SAME_SHARE * gone.len().max(1) as f64
        };
        if self.deleted.iter().any(is_deleted) {
            return 0.0;
        }
        let known = words.iter().filter_map(|word| self.words.get(word)).collect::<Vec<_>>();
        let own = known.iter().copied().sum::<f64>() / (words.len().max(1) as f64).sqrt();
        (own + self.bias).clamp(-MAX_SHIFT, MAX_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(act: ReviewAct, text: &str) -> ActRecord {
        ActRecord {
            act,
            mark: String::new(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn nothing_done_teaches_nothing() {
        assert_eq!(LearnedWeights::from_acts(&[]), LearnedWeights::default());
        assert_eq!(LearnedWeights::default().shift(&content_words("run the tests")), 0.0);
    }

    #[test]
    fn what_was_kept_raises_what_is_like_it_whatever_the_order() {
        let acts = [
            act(ReviewAct::Accept, "Sign every commit"),
            act(ReviewAct::Edit, "Commit messages name the ticket"),
            act(ReviewAct::Never, "Make the button blue"),
            act(ReviewAct::Drop, "The button is too wide"),
        ];
        let learned = LearnedWeights::from_acts(&acts);
        let shift = |text: &str| learned.shift(&content_words(text));
        assert!(shift("one commit a change") > 0.0 && shift("move the button") < 0.0);
        let mut turned = acts.to_vec();
        turned.reverse();
        assert_eq!(LearnedWeights::from_acts(&turned), learned);
    }
}
