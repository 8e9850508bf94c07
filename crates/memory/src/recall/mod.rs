//! Which memories help with a query: BM25 over name, description and text, with what is known of where the words stand.
//!
//! On top of BM25 a memory scores for the two neighbouring lines that hold most of the query, for words of the query that
//! stand next to each other or close together, and for words that stand for those of the query. The words of asking count
//! less. A request for advice goes by what a memory is about instead. The answer is empty when the sharpest word of the query
//! is missing and hardly any of its weight is there, or when a question hangs on something that nobody ever said.
//! Every one of these earned its place on public evaluation sets: docs/memory.md has the figures. Pure.

mod focus;
mod select;
mod time;

pub use select::{
    NoRecallReason, RecallLimits, RecalledMemory, StoredMemory, excerpt, explain_nothing, is_showable, is_usage_of,
    is_worth_asking, select_hits, select_memories,
};

use focus::QuestionFocus;
use language::words::{KINDS, RELATED, WIDER, base_form, for_each_word, is_advice_word, is_filler, stem, stem_prefix};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// How the parts of a score are weighed. One setting for everything.
#[derive(Debug, Clone, Copy)]
pub struct RecallWeights {
    /// How soon more of the same word stops counting.
    pub saturation: f64,
    /// How much the length of a memory is held against it, 0 to 1.
    pub length: f64,
    /// Words of asking.
    pub filler: f64,
    /// Words that stand for those of the query.
    pub related: f64,
    /// Things of a kind that the query names.
    pub members: f64,
    /// Words of the wider list, where there is nothing nearer.
    pub wider: f64,
    /// Two words of the query next to each other.
    pub neighbours: f64,
    /// Two words of the query close together.
    pub near: f64,
    /// The best two lines.
    pub passage: f64,
    /// Share of the score that goes by how much of the query is there.
    pub coverage: f64,
    /// A word in the name or the description counts so often.
    pub heading: u32,
    /// Names in the query.
    pub name: f64,
    /// Other words for a term where the term itself is there, too.
    pub also: f64,
    /// Dated in the time that the query names.
    pub time: f64,
    /// What a memory opens with, in a request for advice.
    pub opening: f64,
    /// Below this share of the query's weight, and without its sharpest word, nothing fits.
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
    /// How a request for advice is answered: by memories that are about it, which open with it and come back to it. How much
    /// of the words is there and what stands together says little, since the request is worded by its occasion.
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

/// Words of a query beyond this many are not looked at: a pasted page asks for nothing in particular.
const MOST_TERMS: usize = 64;

/// In a small directory a word is as rare as it would be among so many: three memories say little about how words go.
const MIN_CORPUS_SIZE: usize = 50;

/// Words this far apart are close together.
const NEAR_DISTANCE: u32 = 6;

/// What a new line counts in words when distances are measured.
const LINE_GAP: u32 = 3;

/// Letters, digits, and whatever else a word may start with.
const BUCKET_SYMBOLS: usize = 37;

/// Marks the end of a line among the words.
const LINE_END: u32 = u32::MAX;

/// Share of new words among all from which a missing word says nothing.
const MAX_NEW_WORD_RATE: f64 = 0.07;

/// Share from which it says nothing that words were never said together.
const MAX_NEW_PHRASE_RATE: f64 = 0.035;

/// Share of a question's weight that must be nowhere for it to have no answer.
const MISSING_SHARE: f64 = 0.33;

/// The best stands out if the next ones come to less than this share of it on average.
const OUTSTANDING_SHARE: f64 = 0.45;

/// How many those are.
const RUNNER_UPS: usize = 9;

/// Shortest word that may be a slip of another.
const MIN_TYPO_LEN: usize = 5;

/// Memories, ready to be asked.
#[derive(Debug, Default)]
pub struct RecallIndex {
    /// Words by their hash.
    numbers: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    /// Base forms by number.
    vocabulary: Vec<Box<str>>,
    /// Numbers of the words by the two signs they start with; see [`bucket`].
    by_start: Vec<Vec<u32>>,
    documents: Vec<IndexedDocument>,
    /// Words in all documents.
    total: u64,
    /// Whether each word was seen only once.
    is_single: Vec<bool>,
    /// How many were.
    singles: u64,
}

#[derive(Debug)]
struct IndexedDocument {
    /// Words by number, lines apart; heading first.
    words: Vec<u32>,
    /// Where the heading ends.
    heading: usize,
    length: u32,
}

/// A memory that fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecallHit {
    /// Which, in the order they were added.
    pub document: usize,
    /// How well; only comparable within one query.
    pub score: f64,
}

impl RecallIndex {
    /// Adds a memory. Its number is how many were added before it.
    pub fn add(&mut self, heading: &str, text: &str) {
        let mut words = Vec::with_capacity(text.len() / 8);
        self.add_lines(heading, &mut words);
        let heading = words.len();
        self.add_lines(text, &mut words);
        let length = words.iter().filter(|&&word| word != LINE_END).count() as u32;
        self.total += u64::from(length);
        self.documents.push(IndexedDocument { words, heading, length });
    }

    fn add_lines(&mut self, text: &str, words: &mut Vec<u32>) {
        for line in text.lines() {
            let start = words.len();
            for_each_word(line, |word| words.push(self.intern_word(word)));
            if words.len() > start {
                words.push(LINE_END);
            }
        }
    }

    fn intern_word(&mut self, word: &str) -> u32 {
        let hash = xxhash_rust::xxh3::xxh3_64(word.as_bytes());
        if let Some(&number) = self.numbers.get(&hash) {
            if std::mem::take(&mut self.is_single[number as usize]) {
                self.singles -= 1;
            }
            return number;
        }
        let number = self.vocabulary.len() as u32;
        self.numbers.insert(hash, number);
        let form = base_form(word);
        self.by_start.resize_with(BUCKET_SYMBOLS * BUCKET_SYMBOLS, Vec::new);
        self.by_start[prefix_bucket(form.as_bytes())].push(number);
        self.vocabulary.push(form.into());
        self.is_single.push(true);
        self.singles += 1;
        number
    }

    /// How many memories there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The memories that fit, best first; equal ones in the order they were added. Empty if nothing fits.
    pub fn find_matches(&self, query: &str, weights: &RecallWeights) -> Vec<RecallHit> {
        let question = RecallQuestion::parse(query, weights);
        let advising = weights.for_advice();
        let weights = if question.is_for_advice { &advising } else { weights };
        let places = self.vocabulary_roles(&question);
        let counts = self.term_presence(&question, &places);
        let sharpness = self.idf_weights(&question, &counts);
        let dated = self.date_boosts(&question);
        let mut scored = Vec::new();
        for (number, count) in counts.iter().enumerate() {
            if count.own | count.related | count.members | count.wider != 0 {
                let mut one = self.score_document(number, count, &question, &places, &sharpness, weights);
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
            let is_there = is_good_fit(&scored, &sharpness, weights);
            let is_missing = || self.is_mostly_unknown(&scored, &question, &counts, &sharpness);
            let is_unsaid = || self.is_unanswered(&scored, &question, &places, &sharpness);
            if !is_there || is_missing() || is_unsaid() {
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

    /// What every word of the vocabulary is to the question.
    fn vocabulary_roles(&self, question: &RecallQuestion) -> VocabularyRoles {
        let mut places = VocabularyRoles {
            own: vec![0; self.vocabulary.len()],
            related: vec![0; self.vocabulary.len()],
            members: vec![0; self.vocabulary.len()],
            wider: vec![0; self.vocabulary.len()],
        };
        let mut is_there = vec![false; question.terms.len()];
        for (wanted, roles) in wanted_stems(question) {
            let alike = self.starting_with(stem_prefix(&wanted));
            for number in alike.filter(|&number| stem(&self.vocabulary[number]) == wanted) {
                for &(term, role) in &roles {
                    let bit = 1 << term;
                    match role {
                        TermRole::Own => {
                            places.own[number] = term + 1;
                            is_there[usize::from(term)] = true;
                        }
                        TermRole::Related => places.related[number] |= bit,
                        TermRole::Member => places.members[number] |= bit,
                        TermRole::Wider => places.wider[number] |= bit,
                    }
                }
            }
        }
        for at in (0..is_there.len()).filter(|&at| !is_there[at]) {
            for number in self.spelling_candidates(&question.terms[at].word) {
                if places.own[number] == 0 {
                    places.own[number] = at as u8 + 1;
                }
            }
        }
        places
    }

    /// Numbers of the words that start with some bytes.
    fn starting_with<'i>(&'i self, start: &'i [u8]) -> impl Iterator<Item = usize> + 'i {
        let first = prefix_bucket(start);
        let buckets = match start.len() {
            0 | 1 => first / BUCKET_SYMBOLS * BUCKET_SYMBOLS..first / BUCKET_SYMBOLS * BUCKET_SYMBOLS + BUCKET_SYMBOLS,
            _ => first..first + 1,
        };
        let numbers = self.by_start.get(buckets).unwrap_or_default().iter().flatten();
        numbers
            .map(|&number| number as usize)
            .filter(move |&number| self.vocabulary[number].as_bytes().starts_with(start))
    }

    /// Words that a word which is nowhere was most likely meant to be.
    fn spelling_candidates(&self, word: &str) -> Vec<usize> {
        let is_plain = word.len() >= MIN_TYPO_LEN && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let start = word.as_bytes().get(..1).filter(|_| is_plain);
        let alike = start.into_iter().flat_map(|start| self.starting_with(start));
        alike
            .filter(|&number| is_typo(word, &self.vocabulary[number]))
            .collect()
    }

    /// Whether much of the question is nowhere, and nothing stands out without it. Where few words were ever seen a missing one
    /// says nothing; where hardly any word would be a new one, it does. How likely a new one is goes by how many of all words
    /// were seen once.
    fn is_mostly_unknown(
        &self,
        scored: &[ScoredDocument],
        question: &RecallQuestion,
        counts: &[TermPresence],
        sharpness: &IdfWeights,
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
        let missing = missing.map(|at| sharpness.own[at]).sum::<f64>();
        let best = scored.first().map_or(0.0, |scored| scored.score);
        let next = scored
            .iter()
            .skip(1)
            .take(RUNNER_UPS)
            .map(|scored| scored.score)
            .sum::<f64>();
        let next = next / scored.len().saturating_sub(1).clamp(1, RUNNER_UPS) as f64;
        missing > MISSING_SHARE * sharpness.own.iter().sum::<f64>() && next > OUTSTANDING_SHARE * best
    }

    /// Share of words that were seen once: how likely one more word is a new one.
    fn new_word_rate(&self) -> f64 {
        self.singles as f64 / (self.total as f64).max(1.0)
    }

    /// Whether none of the best memories says together what the question puts together, where so much was said that one would
    /// have to.
    fn is_unanswered(
        &self,
        scored: &[ScoredDocument],
        question: &RecallQuestion,
        places: &VocabularyRoles,
        sharpness: &IdfWeights,
    ) -> bool {
        if question.focus == QuestionFocus::default() || self.new_word_rate() > MAX_NEW_PHRASE_RATE {
            return false;
        }
        let best = scored.iter().take(focus::MAX_STATEMENT_MEMORIES);
        let best = best.map(|scored| self.documents[scored.document].words.as_slice());
        let has = |word: u32, term: usize| {
            let word = word as usize;
            usize::from(places.own[word]) == term + 1 || (places.related[word] | places.members[word]) >> term & 1 == 1
        };
        let spelled = |word: u32| &*self.vocabulary[word as usize];
        !question
            .focus
            .is_stated(&best.collect::<Vec<_>>(), &sharpness.own, has, spelled)
    }

    /// What each memory gains by being dated in a time that the question names; empty if it names none.
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

    /// How often each term is in each memory.
    fn term_presence(&self, question: &RecallQuestion, places: &VocabularyRoles) -> Vec<TermPresence> {
        let mut counts = Vec::with_capacity(self.documents.len());
        for document in &self.documents {
            let mut count = TermPresence::default();
            let mut before = 0_u8;
            for &word in &document.words {
                if word == LINE_END {
                    before = 0;
                    continue;
                }
                let own = places.own[word as usize];
                count.own |= if own > 0 { 1 << (own - 1) } else { 0 };
                count.related |= places.related[word as usize];
                count.members |= places.members[word as usize];
                count.wider |= places.wider[word as usize];
                if let Some(pair) = question.neighbour_pair(before, own) {
                    count.neighbours |= 1 << pair;
                }
                before = own;
            }
            counts.push(count);
        }
        counts
    }

    /// What every term and pair of neighbours is worth: the rarer, the more.
    fn idf_weights(&self, question: &RecallQuestion, counts: &[TermPresence]) -> IdfWeights {
        let all = counts.len().max(MIN_CORPUS_SIZE) as f64;
        let inverse = |found: usize| {
            let rarity = idf(all, found as f64);
            // Who asks for advice tells a story around it: what it is about are the rarest words.
            let more = if question.is_for_advice { rarity.sqrt() } else { 1.0 };
            rarity * more
        };
        let having = |which: &dyn Fn(&TermPresence) -> bool| counts.iter().filter(|count| which(count)).count();
        let mut sharpness = IdfWeights::default();
        for (at, term) in question.terms.iter().enumerate() {
            let bit = 1_u64 << at;
            let found = having(&|count| count.own & bit != 0);
            // Chinese has no spaces: a pair of characters that is nowhere is most likely the end of one word and the start
            // of the next, and says nothing.
            let is_seam = found == 0 && !term.stem.is_ascii();
            let own = if is_seam { 0.0 } else { inverse(found) * term.weight };
            let either = inverse(having(&|count| (count.own | count.related) & bit != 0));
            sharpness.own.push(own);
            let any = inverse(having(&|count| (count.own | count.related | count.members) & bit != 0));
            sharpness.related.push(own.min(either));
            sharpness.members.push(own.min(any));
            let any = inverse(having(&|count| {
                (count.own | count.related | count.members | count.wider) & bit != 0
            }));
            sharpness.wider.push(own.min(any));
        }
        for (at, &(one, other)) in question.neighbours.iter().enumerate() {
            let weight = question.terms[usize::from(one)]
                .weight
                .min(question.terms[usize::from(other)].weight);
            sharpness
                .neighbours
                .push(inverse(having(&|count| count.neighbours & (1 << at) != 0)) * weight);
        }
        sharpness
    }

    fn score_document(
        &self,
        number: usize,
        count: &TermPresence,
        question: &RecallQuestion,
        places: &VocabularyRoles,
        sharpness: &IdfWeights,
        weights: &RecallWeights,
    ) -> ScoredDocument {
        let document = &self.documents[number];
        let mean = self.total as f64 / self.documents.len() as f64;
        let saturation = weights.saturation;
        let drag = saturation * (1.0 - weights.length + weights.length * f64::from(document.length) / mean.max(1.0));
        let gain = |times: f64, drag: f64| times * (saturation + 1.0) / (times + drag);
        let found = TermMatches::find_in(document, question, places, sharpness, weights);
        let mut score = 0.0;
        let mut share = vec![0.0; question.terms.len()];
        for (at, share) in share.iter_mut().enumerate() {
            let worth = sharpness.own[at];
            if count.own & (1 << at) != 0 {
                let others =
                    f64::from(found.related[at]) * weights.related + f64::from(found.members[at]) * weights.members;
                score += worth * gain(f64::from(found.own[at]) + weights.also * others, drag);
                *share = worth;
            } else if count.related & (1 << at) != 0 {
                let worth = sharpness.related[at] * weights.related;
                score += worth * gain(f64::from(found.related[at]), drag);
                *share = worth;
            } else if count.members & (1 << at) != 0 {
                let worth = sharpness.members[at] * weights.members;
                score += worth * gain(f64::from(found.members[at]), drag);
                *share = worth;
            } else if count.wider & (1 << at) != 0 {
                let worth = sharpness.wider[at] * weights.wider;
                score += worth * gain(f64::from(found.wider[at]), drag);
                *share = worth;
            }
        }
        for (at, &times) in found.neighbours.iter().enumerate() {
            if times > 0 {
                score += weights.neighbours * sharpness.neighbours[at] * gain(f64::from(times), saturation);
            }
        }
        score += weights.passage * found.passage + weights.near * found.near;
        let covered = share.iter().sum::<f64>() / sharpness.own.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        score *= 1.0 - weights.coverage + weights.coverage * covered;
        if question.is_for_advice {
            score += weights.opening * opening_weight(document, places, sharpness);
        }
        ScoredDocument {
            document: number,
            score,
            share,
        }
    }
}

/// What a word is worth that `found` of `all` hold: the inverse document frequency of BM25.
pub(super) fn idf(all: f64, found: f64) -> f64 {
    (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
}

/// Whether the best three hold enough of the query together.
fn is_good_fit(scored: &[ScoredDocument], sharpness: &IdfWeights, weights: &RecallWeights) -> bool {
    let best = &scored[..scored.len().min(3)];
    let share_of = |at: usize| best.iter().map(|scored| scored.share[at]).fold(0.0, f64::max);
    let total = sharpness.own.iter().sum::<f64>();
    let there = (0..sharpness.own.len()).map(share_of).sum::<f64>();
    let sharpest = sharpness.own.iter().copied().fold(0.0, f64::max);
    let has_sharpest = (0..sharpness.own.len()).any(|at| sharpness.own[at] >= sharpest && share_of(at) > 0.0);
    !best.is_empty() && (has_sharpest || there > weights.fit * total)
}

/// What the terms are worth that a memory opens with.
fn opening_weight(document: &IndexedDocument, places: &VocabularyRoles, sharpness: &IdfWeights) -> f64 {
    let line = document.words.iter().take_while(|&&word| word != LINE_END);
    let terms = line.fold(0_u64, |terms, &word| {
        let own = places.own[word as usize];
        terms | places.members[word as usize] | if own > 0 { 1 << (own - 1) } else { 0 }
    });
    let worths = sharpness.own.iter().enumerate();
    worths
        .filter(|(at, _)| terms >> at & 1 == 1)
        .map(|(_, worth)| worth)
        .sum()
}

/// Whether two words differ by one slip of the fingers: a letter more, less, other, or two swapped.
fn is_typo(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().abs_diff(other.len()) > 1 || one == other {
        return false;
    }
    let head = one.iter().zip(other).take_while(|(left, right)| left == right).count();
    let tail = |one: &[u8], other: &[u8]| {
        one.iter()
            .rev()
            .zip(other.iter().rev())
            .take_while(|(left, right)| left == right)
            .count()
    };
    let (left, right) = (&one[head..], &other[head..]);
    let same = tail(left, right);
    let (left, right) = (&left[..left.len() - same], &right[..right.len() - same]);
    match (left, right) {
        ([], [_]) | ([_], []) | ([_], [_]) => true,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    }
}

/// A query as terms.
struct RecallQuestion {
    terms: Vec<QueryTerm>,
    /// Whether it asks for advice.
    is_for_advice: bool,
    /// What must have been said for it to have an answer.
    focus: QuestionFocus,
    /// Times that it names.
    spans: Vec<time::DaySpan>,
    /// Terms that follow each other in the query.
    neighbours: Vec<(u8, u8)>,
    /// Terms that stand close together in the query.
    pairs: Vec<(usize, usize)>,
}

struct QueryTerm {
    /// Whether it is a name.
    is_name: bool,
    /// As it was asked, in its base form.
    word: String,
    stem: String,
    weight: f64,
}

impl RecallQuestion {
    fn parse(query: &str, weights: &RecallWeights) -> RecallQuestion {
        let mut terms = Vec::<QueryTerm>::new();
        let words = focus::parse_words(query);
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
            } else if terms.len() < MOST_TERMS {
                order.push(terms.len() as u8);
                terms.push(QueryTerm {
                    is_name: names.contains(word),
                    word: base_form(word).to_owned(),
                    stem,
                    weight,
                });
            }
        });
        let neighbours = order.windows(2).map(|pair| (pair[0], pair[1])).collect::<BTreeSet<_>>();
        let ends = |from: usize| from + 1..terms.len().min(from + 4);
        let pairs = (0..terms.len())
            .flat_map(|one| ends(one).map(move |other| (one, other)))
            .collect();
        let company = terms.iter().enumerate().filter(|(_, term)| term.weight >= 1.0);
        let company = company.fold(0_u64, |company, (at, _)| company | 1 << at);
        let term = |word: &str| {
            let stem = stem(base_form(word));
            terms.iter().position(|term| term.stem == stem)
        };
        RecallQuestion {
            is_for_advice: is_for_advice && focus::is_asking_for_self(&words),
            focus: QuestionFocus::parse(&words, company, term),
            pairs,
            spans: time::parse_spans(&parts),
            neighbours: neighbours.into_iter().take(64).collect(),
            terms,
        }
    }

    /// Which pair of neighbours two places are, if they are one. Places count from 1; 0 is none.
    fn neighbour_pair(&self, before: u8, place: u8) -> Option<usize> {
        let pair = (before.checked_sub(1)?, place.checked_sub(1)?);
        self.neighbours.iter().position(|&other| other == pair)
    }
}

/// What a word is to a term of the question.
#[derive(Clone, Copy)]
enum TermRole {
    Own,
    Related,
    Member,
    Wider,
}

/// The stems that a question looks for, and what they are to which terms.
fn wanted_stems(question: &RecallQuestion) -> BTreeMap<String, Vec<(u8, TermRole)>> {
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
    // A name is no word of the language.
    WIDER.for_each_synonym(&stems, |at, other| {
        if is_content(at) && !question.terms[at].is_name {
            add(at, other, TermRole::Wider);
        }
    });
    wanted
}

/// Where words are found that start with these bytes.
fn prefix_bucket(start: &[u8]) -> usize {
    let sign = |at: usize| match start.get(at) {
        Some(letter @ b'a'..=b'z') => usize::from(letter - b'a'),
        Some(digit @ b'0'..=b'9') => usize::from(digit - b'0') + 26,
        _ => BUCKET_SYMBOLS - 1,
    };
    sign(0) * BUCKET_SYMBOLS + sign(1)
}

/// What the words of the vocabulary are to a question.
struct VocabularyRoles {
    /// Number of the term, from 1; 0 for none.
    own: Vec<u8>,
    /// Terms that the word stands for, as bits.
    related: Vec<u64>,
    /// Terms that the word is a member of, as bits.
    members: Vec<u64>,
    /// Terms that it stands for by the wider list, as bits.
    wider: Vec<u64>,
}

/// Which terms are in a memory, as bits.
#[derive(Default)]
struct TermPresence {
    own: u64,
    related: u64,
    members: u64,
    wider: u64,
    neighbours: u64,
}

/// What terms and pairs are worth.
#[derive(Default)]
struct IdfWeights {
    own: Vec<f64>,
    related: Vec<f64>,
    members: Vec<f64>,
    wider: Vec<f64>,
    neighbours: Vec<f64>,
}

struct ScoredDocument {
    document: usize,
    score: f64,
    /// What each term brought, at most its worth.
    share: Vec<f64>,
}

/// What a memory that has any of the terms holds of them.
struct TermMatches {
    own: Vec<u32>,
    related: Vec<u32>,
    members: Vec<u32>,
    wider: Vec<u32>,
    neighbours: Vec<u32>,
    passage: f64,
    near: f64,
}

impl TermMatches {
    fn find_in(
        document: &IndexedDocument,
        question: &RecallQuestion,
        places: &VocabularyRoles,
        sharpness: &IdfWeights,
        weights: &RecallWeights,
    ) -> TermMatches {
        let terms = question.terms.len();
        let mut found = TermMatches {
            own: vec![0; terms],
            related: vec![0; terms],
            members: vec![0; terms],
            wider: vec![0; terms],
            neighbours: vec![0; question.neighbours.len()],
            passage: 0.0,
            near: 0.0,
        };
        let mut positions = vec![Vec::<u32>::new(); terms];
        let (mut own, mut related, mut wider) = (0_u64, 0_u64, 0_u64);
        let mut line_before = (0_u64, 0_u64, 0_u64);
        let mut before = 0_u8;
        let mut position = 0_u32;
        // What a related word brings to a passage is half of what it brings to the whole.
        let worth = |own: u64, related: u64, wider: u64| {
            let of = |at: usize| match (own >> at & 1, related >> at & 1, wider >> at & 1) {
                (1, ..) => sharpness.own[at],
                (_, 1, _) => sharpness.related[at] * weights.related / 2.0,
                (_, _, 1) => sharpness.wider[at] * weights.wider,
                _ => 0.0,
            };
            (0..terms).map(of).sum::<f64>()
        };
        for (at, &word) in document.words.iter().enumerate() {
            if word == LINE_END {
                if own | related | wider != 0 {
                    let (own_before, related_before, wider_before) = line_before;
                    let two = worth(own | own_before, related | related_before, wider | wider_before);
                    found.passage = found.passage.max(two);
                }
                line_before = (own, related, wider);
                (own, related, wider, before) = (0, 0, 0, 0);
                position += LINE_GAP;
                continue;
            }
            let times = if at < document.heading { weights.heading } else { 1 };
            let place = places.own[word as usize];
            if place > 0 {
                let term = usize::from(place - 1);
                found.own[term] += times;
                own |= 1 << term;
                positions[term].push(position);
                if let Some(pair) = question.neighbour_pair(before, place) {
                    found.neighbours[pair] += times;
                }
            }
            related |= places.related[word as usize];
            wider |= places.wider[word as usize];
            let others = [
                (places.related[word as usize], &mut found.related),
                (places.members[word as usize], &mut found.members),
                (places.wider[word as usize], &mut found.wider),
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
                let worth = sharpness.own[one].min(sharpness.own[other]);
                found.near += worth / (1.0 + f64::from(distance.saturating_sub(1)) * 0.2);
            }
        }
        found
    }
}

/// The smallest distance between two sorted lists of positions.
fn closest_distance(one: &[u32], other: &[u32]) -> Option<u32> {
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

/// The keys are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> RecallIndex {
        let mut index = RecallIndex::default();
        index.add(
            "Deploys go out on Tuesdays\nWhen planning a release",
            "The release train leaves on Tuesday morning.",
        );
        index.add(
            "Database in tests\nWhen writing tests",
            "Integration tests use the real Postgres, never mocks.",
        );
        index.add(
            "Terse answers\nWhen answering",
            "No summary at the end of a response; the diff is enough.",
        );
        index.add("缩进风格\n写代码时", "缩进用四个空格，不用制表符。");
        index
    }

    fn best(query: &str) -> Option<usize> {
        index()
            .find_matches(query, &RecallWeights::default())
            .first()
            .map(|hit| hit.document)
    }

    #[test]
    fn the_memory_that_fits_comes_first() {
        assert_eq!(best("which day do we release?"), Some(0));
        assert_eq!(best("should the test mock the database"), Some(1));
        assert_eq!(best("end your responses without a summary"), Some(2));
        assert_eq!(best("代码缩进用什么"), Some(3));
    }

    #[test]
    fn nothing_fits_is_an_answer() {
        for query in [
            "holiday photos from Lisbon",
            "kubernetes ingress certificates for the staging cluster",
            "",
            "的",
        ] {
            assert_eq!(best(query), None, "{query}");
        }
        assert!(
            RecallIndex::default()
                .find_matches("anything at all", &RecallWeights::default())
                .is_empty()
        );
    }

    #[test]
    fn other_words_for_the_same_are_found() {
        let mut index = index();
        index.add(
            "Where the repository lives",
            "The repository is on the team's own forge.",
        );
        let hits = index.find_matches(
            "which repo host",
            &RecallWeights {
                fit: 0.0,
                ..RecallWeights::default()
            },
        );
        assert_eq!(hits.first().map(|hit| hit.document), Some(4));
    }

    #[test]
    fn things_are_found_by_their_kind_and_words_by_a_slip() {
        let mut index = index();
        index.add("Music at lunch", "Kim plays the guitar on Fridays.");
        let first = |query: &str| {
            index
                .find_matches(query, &RecallWeights::default())
                .first()
                .map(|hit| hit.document)
        };
        assert_eq!(first("which instrument does somebody play"), Some(4));
        assert_eq!(first("should tests mock the databse"), Some(1));
    }

    #[test]
    fn the_wider_list_counts_only_where_nothing_is_nearer() {
        let mut index = index();
        index.add("", "The parcel came on Friday.");
        let found = |index: &RecallIndex, query: &str| {
            let hits = index.find_matches(query, &RecallWeights::default());
            hits.iter().map(|hit| hit.document).collect::<Vec<_>>()
        };
        assert_eq!(found(&index, "when did the package come"), [4]);
        index.add("", "The package came on Friday.");
        assert_eq!(found(&index, "when did the package come"), [5, 4]);
        // A name is no word of the language.
        index.add("", "The plumbing is old.");
        assert_eq!(found(&index, "how old is the plumber"), [6]);
        assert!(found(&index, "what does Ms Plumber want").is_empty());
    }

    #[test]
    fn words_are_found_by_how_they_start() {
        let mut index = RecallIndex::default();
        index.add("", "q dying dine 5g 偏好 über");
        for (start, expected) in [
            ("d", &["dying", "dine"][..]),
            ("di", &["dine"]),
            ("q", &["q"]),
            ("5g", &["5g"]),
            ("偏", &["偏好"]),
            ("ü", &["über"]),
            ("x", &[]),
            ("dines", &[]),
        ] {
            let found = index
                .starting_with(start.as_bytes())
                .map(|number| &*index.vocabulary[number]);
            let mut found = found.collect::<Vec<_>>();
            found.sort_unstable_by_key(|word| expected.iter().position(|known| known == word));
            assert_eq!(found, expected, "{start}");
        }
    }

    #[test]
    fn advice_is_about_the_rarest_word() {
        let mut index = RecallIndex::default();
        for at in 0..9 {
            index.add(
                "",
                &format!("Guests of day {at}: coffee first, then a recipe for bread"),
            );
        }
        for at in 9..40 {
            index.add(
                "",
                &format!("Work of day {at}: paint the fence, mow the lawn, mend a tap"),
            );
        }
        index.add("", "Weekly shopping: oats, berries, and creamer made of almond milk");
        let best = |query: &str| {
            let hits = index.find_matches(query, &RecallWeights::default());
            hits.first().map(|hit| hit.document)
        };
        assert_eq!(best("Where is the coffee creamer of that recipe?"), Some(0));
        assert_eq!(best("A new coffee creamer recipe, any recommendations?"), Some(40));
    }

    #[test]
    fn a_time_in_the_query_finds_what_is_dated_in_it() {
        let mut index = RecallIndex::default();
        index.add("", "The review went well.\n12 April, 2023");
        index.add("", "The review went well.\n8 May, 2023");
        index.add("", "The review went well.\n2023-06-02");
        let first = |query: &str| {
            index
                .find_matches(query, &RecallWeights::default())
                .first()
                .map(|hit| hit.document)
        };
        assert_eq!(first("how did the review go on May 3, 2023?"), Some(1));
        assert_eq!(first("how did the review go in June 2023?"), Some(2));
        assert_eq!(first("how did the review go?"), Some(0));
    }

    #[test]
    fn what_is_nowhere_in_a_big_directory_has_no_answer() {
        let mut index = RecallIndex::default();
        for number in 0..100 {
            index.add(
                "",
                &format!("The build server runs all tests at night, in room {}.", number % 10),
            );
        }
        let query = "which build server feeds the hamster";
        assert_eq!(index.find_matches(query, &RecallWeights::default()), []);
        let always = RecallWeights {
            fit: 0.0,
            ..RecallWeights::default()
        };
        assert!(!index.find_matches(query, &always).is_empty());
        assert!(
            !index
                .find_matches("which build server runs tests", &RecallWeights::default())
                .is_empty()
        );
    }

    #[test]
    fn what_nobody_said_together_has_no_answer() {
        let mut index = RecallIndex::default();
        for number in 0..200 {
            let line = [
                "I polished the copper kettle on the shelf.",
                "The silver spoon lay on the shelf.",
                "I rented a cottage in Dover for the summer.",
                "My cousin wrote a letter from Bergen.",
                "I water the fern every second Sunday.",
                "I water the cactus and the palm.",
                "I read The Lanterns of Old Harbour in the garden.",
                "My nephew Ole turned nine in the garden.",
            ][number % 8];
            index.add("", line);
        }
        let is_answered = |query: &str| !index.find_matches(query, &RecallWeights::default()).is_empty();
        for query in [
            "How many copper kettles did I polish?",
            "When did I rent the cottage in Dover?",
            "How often do I water the fern?",
            "Did I read 'The Lanterns of Old Harbour'?",
            "How old is my nephew?",
            // Requests are not questions for a fact: what is close helps.
            "Polish the copper spoon on my shelf",
            "Can you tell how I polish a copper spoon?",
        ] {
            assert!(is_answered(query), "{query}");
        }
        for query in [
            "How many copper spoons did I polish?",
            "When did I rent the cottage in Bergen?",
            "How often do I water the cactus?",
            "Did I read 'The Letter of Old Harbour'?",
            "How old is my cousin?",
        ] {
            assert!(!is_answered(query), "{query}");
            let always = RecallWeights {
                fit: 0.0,
                ..RecallWeights::default()
            };
            assert!(!index.find_matches(query, &always).is_empty(), "{query}");
        }
        // In a small directory hardly any phrase was ever said.
        let mut index = RecallIndex::default();
        index.add(
            "Copper kettle",
            "I polished the copper kettle.\nThe silver spoon is on the shelf.",
        );
        assert!(
            !index
                .find_matches("How many copper spoons did I polish?", &RecallWeights::default())
                .is_empty()
        );
    }

    #[test]
    fn advice_comes_from_what_a_memory_is_about() {
        let mut index = RecallIndex::default();
        index.add(
            "",
            "My sister called at noon, and the roof leaks again.\nIt was after the evening walk.",
        );
        index.add(
            "",
            "A walk is what I like best of a long and quiet evening.\nNo music, no phone.",
        );
        let best = |query: &str| {
            let hits = index.find_matches(query, &RecallWeights::default());
            hits.first().map(|hit| hit.document)
        };
        assert_eq!(best("Where did the evening walk go?"), Some(0));
        assert_eq!(best("Any ideas for an evening walk?"), Some(1));
    }

    #[test]
    fn a_slip_is_one_letter() {
        for (one, other) in [
            ("festival", "fesetival"),
            ("form", "from"),
            ("color", "colour"),
            ("cat", "cut"),
        ] {
            assert!(is_typo(one, other) && is_typo(other, one), "{one} {other}");
        }
        for (one, other) in [("same", "same"), ("house", "mouth"), ("abcd", "badc"), ("a", "abc")] {
            assert!(!is_typo(one, other), "{one} {other}");
        }
    }

    #[test]
    fn distances_are_the_smallest() {
        assert_eq!(closest_distance(&[1, 10, 30], &[14, 28]), Some(2));
        assert_eq!(closest_distance(&[], &[1]), None);
    }
}
