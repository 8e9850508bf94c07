//! Scores of single memories: which terms they have, how rare these are, and where they are in the text.

use super::index::{IndexedDocument, LINE_END, RecallIndex};
use super::question::{RecallQuestion, TermRole, wanted_stems};
use super::{MIN_CORPUS_SIZE, RecallWeights, idf};
use language::words::{stem, stem_prefix};

/// Largest distance of words that are close together.
const NEAR_DISTANCE: u32 = 6;

/// Distance in words that a line break adds.
const LINE_GAP: u32 = 3;

/// How each word of the vocabulary matches the terms of a question; see [`TermRole`].
pub(super) struct VocabularyRoles {
    /// Number of the term, from 1; 0 for none.
    pub own: Vec<u8>,
    /// Terms as bits.
    pub related: Vec<u64>,
    /// Terms as bits.
    pub members: Vec<u64>,
}

/// Terms and pairs of neighbors that a memory has, as bits.
#[derive(Default)]
pub(super) struct TermPresence {
    pub own: u64,
    pub related: u64,
    pub members: u64,
    pub neighbors: u64,
}

impl TermPresence {
    pub fn is_empty(&self) -> bool {
        self.own | self.related | self.members == 0
    }
}

/// Weights of terms and pairs by their rarity.
#[derive(Default)]
pub(super) struct IdfWeights {
    pub own: Vec<f64>,
    pub related: Vec<f64>,
    pub members: Vec<f64>,
    pub neighbors: Vec<f64>,
}

pub(super) struct ScoredDocument {
    pub document: usize,
    pub score: f64,
    /// Weight of each term that the memory has, less if it has only a synonym.
    pub share: Vec<f64>,
}

/// How often a memory has each term and pair, and how good its best passage is.
struct TermMatches {
    own: Vec<u32>,
    related: Vec<u32>,
    members: Vec<u32>,
    neighbors: Vec<u32>,
    passage: f64,
    near: f64,
}

impl TermMatches {
    fn find_in(
        document: &IndexedDocument,
        question: &RecallQuestion,
        roles: &VocabularyRoles,
        idf_weights: &IdfWeights,
        weights: &RecallWeights,
    ) -> TermMatches {
        let terms = question.terms.len();
        let mut found = TermMatches {
            own: vec![0; terms],
            related: vec![0; terms],
            members: vec![0; terms],
            neighbors: vec![0; question.neighbors.len()],
            passage: 0.0,
            near: 0.0,
        };
        let mut positions = vec![Vec::<u32>::new(); terms];
        let (mut own, mut related) = (0_u64, 0_u64);
        let mut line_before = (0_u64, 0_u64);
        let mut before = 0_u8;
        let mut position = 0_u32;
        // A synonym counts half as much in a passage as in the whole memory.
        let worth = |own: u64, related: u64| {
            let of = |at: usize| match (own >> at & 1, related >> at & 1) {
                (1, _) => idf_weights.own[at],
                (_, 1) => idf_weights.related[at] * weights.related / 2.0,
                _ => 0.0,
            };
            (0..terms).map(of).sum::<f64>()
        };
        for (at, &word) in document.words.iter().enumerate() {
            if word == LINE_END {
                if own | related != 0 {
                    let (own_before, related_before) = line_before;
                    let two = worth(own | own_before, related | related_before);
                    found.passage = found.passage.max(two);
                }
                line_before = (own, related);
                (own, related, before) = (0, 0, 0);
                position += LINE_GAP;
                continue;
            }
            let times = if at < document.heading { weights.heading } else { 1 };
            let place = roles.own[word as usize];
            if place > 0 {
                let term = usize::from(place - 1);
                found.own[term] += times;
                own |= 1 << term;
                positions[term].push(position);
                if let Some(pair) = question.neighbor_pair(before, place) {
                    found.neighbors[pair] += times;
                }
            }
            related |= roles.related[word as usize];
            let others = [
                (roles.related[word as usize], &mut found.related),
                (roles.members[word as usize], &mut found.members),
            ];
            for (mut terms, counts) in others {
                while terms != 0 {
                    counts[terms.trailing_zeros() as usize] += times;
                    terms &= terms - 1;
                }
            }
            before = place;
            position += 1;
        }
        for &(one, other) in &question.pairs {
            if let Some(distance) =
                closest_distance(&positions[one], &positions[other]).filter(|&distance| distance <= NEAR_DISTANCE)
            {
                let worth = idf_weights.own[one].min(idf_weights.own[other]);
                found.near += worth / (1.0 + f64::from(distance.saturating_sub(1)) * 0.2);
            }
        }
        found
    }
}

/// Returns the smallest distance between two sorted lists of positions; `None` if one is empty.
pub(super) fn closest_distance(one: &[u32], other: &[u32]) -> Option<u32> {
    let (mut left, mut right) = (0, 0);
    let mut best = None::<u32>;
    while let (Some(&from), Some(&to)) = (one.get(left), other.get(right)) {
        let distance = from.abs_diff(to);
        best = Some(best.map_or(distance, |best| best.min(distance)));
        if from < to {
            left += 1;
        } else {
            right += 1;
        }
    }
    best
}

impl RecallIndex {
    /// Returns how each word of the vocabulary matches the question. A term that no memory has matches words that it may be a
    /// typo of.
    pub(super) fn vocabulary_roles(&self, question: &RecallQuestion) -> VocabularyRoles {
        let mut roles = VocabularyRoles {
            own: vec![0; self.vocabulary.len()],
            related: vec![0; self.vocabulary.len()],
            members: vec![0; self.vocabulary.len()],
        };
        let mut is_found = vec![false; question.terms.len()];
        for (wanted, matches) in wanted_stems(question) {
            let alike = self.starting_with(stem_prefix(&wanted));
            for number in alike.filter(|&number| stem(&self.vocabulary[number]) == wanted) {
                for &(term, role) in &matches {
                    let bit = 1 << term;
                    match role {
                        TermRole::Own => {
                            roles.own[number] = term + 1;
                            is_found[usize::from(term)] = true;
                        }
                        TermRole::Related => roles.related[number] |= bit,
                        TermRole::Member => roles.members[number] |= bit,
                    }
                }
            }
        }
        for at in (0..is_found.len()).filter(|&at| !is_found[at]) {
            for number in self.spelling_candidates(&question.terms[at].word) {
                if roles.own[number] == 0 {
                    roles.own[number] = at as u8 + 1;
                }
            }
        }
        roles
    }

    /// Returns which terms each memory has.
    pub(super) fn term_presence(&self, question: &RecallQuestion, roles: &VocabularyRoles) -> Vec<TermPresence> {
        let mut counts = Vec::with_capacity(self.documents.len());
        for document in &self.documents {
            let mut count = TermPresence::default();
            let mut before = 0_u8;
            for &word in &document.words {
                if word == LINE_END {
                    before = 0;
                    continue;
                }
                let own = roles.own[word as usize];
                count.own |= if own > 0 { 1 << (own - 1) } else { 0 };
                count.related |= roles.related[word as usize];
                count.members |= roles.members[word as usize];
                if let Some(pair) = question.neighbor_pair(before, own) {
                    count.neighbors |= 1 << pair;
                }
                before = own;
            }
            counts.push(count);
        }
        counts
    }

    /// Returns the weight of every term and every pair of neighbors: the rarer, the higher.
    pub(super) fn idf_weights(&self, question: &RecallQuestion, counts: &[TermPresence]) -> IdfWeights {
        let all = counts.len().max(MIN_CORPUS_SIZE) as f64;
        let inverse = |found: usize| {
            let rarity = idf(all, found as f64);
            // A request for advice often comes with a story. Its subject is in the rarest words.
            let more = if question.is_for_advice { rarity.sqrt() } else { 1.0 };
            rarity * more
        };
        let having = |which: &dyn Fn(&TermPresence) -> bool| counts.iter().filter(|count| which(count)).count();
        let mut idf_weights = IdfWeights::default();
        for (at, term) in question.terms.iter().enumerate() {
            let bit = 1_u64 << at;
            let found = having(&|count| count.own & bit != 0);
            // Chinese has no spaces: a pair of characters that no memory has is most likely the end of one word and the start
            // of the next. It says nothing.
            let is_seam = found == 0 && !term.stem.is_ascii();
            let own = if is_seam { 0.0 } else { inverse(found) * term.weight };
            let either = inverse(having(&|count| (count.own | count.related) & bit != 0));
            idf_weights.own.push(own);
            let any = inverse(having(&|count| (count.own | count.related | count.members) & bit != 0));
            idf_weights.related.push(own.min(either));
            idf_weights.members.push(own.min(any));
        }
        for (at, &(one, other)) in question.neighbors.iter().enumerate() {
            let weight = question.terms[usize::from(one)]
                .weight
                .min(question.terms[usize::from(other)].weight);
            idf_weights
                .neighbors
                .push(inverse(having(&|count| count.neighbors & (1 << at) != 0)) * weight);
        }
        idf_weights
    }

    /// Scores one memory.
    pub(super) fn score_document(
        &self,
        number: usize,
        count: &TermPresence,
        question: &RecallQuestion,
        roles: &VocabularyRoles,
        idf_weights: &IdfWeights,
        weights: &RecallWeights,
    ) -> ScoredDocument {
        let document = &self.documents[number];
        let mean = self.total as f64 / self.documents.len() as f64;
        let saturation = weights.saturation;
        let drag = saturation * (1.0 - weights.length + weights.length * f64::from(document.length) / mean.max(1.0));
        let gain = |times: f64, drag: f64| times * (saturation + 1.0) / (times + drag);
        let found = TermMatches::find_in(document, question, roles, idf_weights, weights);
        let mut score = 0.0;
        let mut share = vec![0.0; question.terms.len()];
        for (at, share) in share.iter_mut().enumerate() {
            let worth = idf_weights.own[at];
            if count.own & (1 << at) != 0 {
                let others =
                    f64::from(found.related[at]) * weights.related + f64::from(found.members[at]) * weights.members;
                score += worth * gain(f64::from(found.own[at]) + weights.also * others, drag);
                *share = worth;
            } else if count.related & (1 << at) != 0 {
                let worth = idf_weights.related[at] * weights.related;
                score += worth * gain(f64::from(found.related[at]), drag);
                *share = worth;
            } else if count.members & (1 << at) != 0 {
                let worth = idf_weights.members[at] * weights.members;
                score += worth * gain(f64::from(found.members[at]), drag);
                *share = worth;
            }
        }
        for (at, &times) in found.neighbors.iter().enumerate() {
            if times > 0 {
                score += weights.neighbors * idf_weights.neighbors[at] * gain(f64::from(times), saturation);
            }
        }
        score += weights.passage * found.passage + weights.near * found.near;
        let covered = share.iter().sum::<f64>() / idf_weights.own.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        score *= 1.0 - weights.coverage + weights.coverage * covered;
        if question.is_for_advice {
            score += weights.opening * opening_weight(document, roles, idf_weights);
        }
        ScoredDocument {
            document: number,
            score,
            share,
        }
    }
}

/// Returns the weight of the terms in the first line of a memory.
fn opening_weight(document: &IndexedDocument, roles: &VocabularyRoles, idf_weights: &IdfWeights) -> f64 {
    let line = document.words.iter().take_while(|&&word| word != LINE_END);
    let terms = line.fold(0_u64, |terms, &word| {
        let own = roles.own[word as usize];
        terms | roles.members[word as usize] | if own > 0 { 1 << (own - 1) } else { 0 }
    });
    let worths = idf_weights.own.iter().enumerate();
    worths
        .filter(|(at, _)| terms >> at & 1 == 1)
        .map(|(_, worth)| worth)
        .sum()
}
