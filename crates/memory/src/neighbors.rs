//! Finds the memories that one memory may be related to, without comparing it with all others.
//!
//! Memories are related if they share most of their words, or give one thing two values ([`Gist::relation`]). Two sets of
//! words that share at least the fraction [`MIN_OVERLAP`] share a word among the rarest few of each (prefix filtering), so
//! only these are indexed. Pure.

use crate::similar::{Gist, MIN_OVERLAP};
use std::collections::{HashMap, HashSet};

/// Most memories that one memory is compared with because of its words, and as many because of the things it names. Where
/// hundreds of memories are alike, every one is compared with the first of them, and the work stays linear.
const MAX_COMPARED: usize = 64;

/// An index of memories by their rarest words and by the things they give a value.
#[derive(Debug, Default)]
pub struct GistIndex {
    /// Place of each word when words are sorted from the rarest to the most frequent.
    rarity: HashMap<String, u32>,
    by_word: HashMap<u32, Vec<usize>>,
    by_thing: HashMap<String, Vec<usize>>,
}

impl GistIndex {
    /// Creates an empty index for memories that use the words of these.
    pub fn new<'g>(gists: impl IntoIterator<Item = &'g Gist>) -> GistIndex {
        let mut counts = HashMap::<&str, u32>::new();
        for word in gists.into_iter().flat_map(Gist::stems) {
            *counts.entry(word).or_default() += 1;
        }
        let mut words = counts
            .into_iter()
            .map(|(word, count)| (count, word))
            .collect::<Vec<_>>();
        words.sort_unstable();
        let words = words.into_iter().map(|(_, word)| word.to_owned());
        GistIndex {
            rarity: words.zip(0..).collect(),
            ..GistIndex::default()
        }
    }

    /// Adds a memory under a number.
    pub fn insert(&mut self, number: usize, gist: &Gist) {
        for word in self.rarest_words(gist) {
            self.by_word.entry(word).or_default().push(number);
        }
        for thing in gist.things() {
            self.by_thing.entry(thing).or_default().push(number);
        }
    }

    /// Returns the numbers of the memories that may be related to one, ascending.
    pub fn find_related(&self, gist: &Gist) -> Vec<usize> {
        let words = self.rarest_words(gist).into_iter();
        let by_words = words.filter_map(|word| self.by_word.get(&word)).flatten();
        let things = gist.things().filter_map(|thing| self.by_thing.get(&thing)).flatten();
        let mut found = HashSet::with_capacity(MAX_COMPARED);
        add_new(&mut found, by_words.copied());
        add_new(&mut found, things.copied());
        let mut found = found.into_iter().collect::<Vec<_>>();
        found.sort_unstable();
        found
    }

    /// Returns the words of a memory of which a related one must share at least one, the rarest first.
    fn rarest_words(&self, gist: &Gist) -> Vec<u32> {
        let mut words = gist
            .stems()
            .filter_map(|word| self.rarity.get(word).copied())
            .collect::<Vec<_>>();
        words.sort_unstable();
        let shared = (words.len() as f64 * MIN_OVERLAP).ceil() as usize;
        words.truncate(words.len() - shared + usize::from(shared > 0));
        words
    }
}

/// Adds numbers until [`MAX_COMPARED`] are new. What is known already costs a look, so the number of looks is bounded, too.
fn add_new(found: &mut HashSet<usize>, numbers: impl Iterator<Item = usize>) {
    let limit = found.len() + MAX_COMPARED;
    for number in numbers.take(8 * MAX_COMPARED) {
        if found.len() == limit {
            break;
        }
        found.insert(number);
    }
}

/// Returns the pairs of memories that may be related: the smaller number first, in order.
pub fn related_pairs(gists: &[Gist]) -> Vec<(usize, usize)> {
    let mut index = GistIndex::new(gists);
    let mut pairs = Vec::new();
    for (number, gist) in gists.iter().enumerate() {
        pairs.extend(index.find_related(gist).into_iter().map(|earlier| (earlier, number)));
        index.insert(number, gist);
    }
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similar::MemoryRelation;
    use proptest::prelude::*;

    const WORDS: [&str; 14] = [
        "tests", "database", "never", "mock", "use", "yarn", "pnpm", "for", "packages", "the", "port", "is", "8080",
        "linter",
    ];

    fn gist() -> impl Strategy<Value = Gist> {
        prop::collection::vec(prop::sample::select(&WORDS[..]), 0..7)
            .prop_map(|words| Gist::from_text(&words.join(" "), "", ""))
    }

    proptest! {
        #[test]
        fn no_related_pair_is_missed(gists in prop::collection::vec(gist(), 0..40)) {
            let found = related_pairs(&gists);
            for one in 0..gists.len() {
                for other in one + 1..gists.len() {
                    let relation = gists[one].relation(&gists[other]);
                    let is_found = found.binary_search(&(one, other)).is_ok();
                    prop_assert!(is_found || relation == MemoryRelation::Unrelated, "{one} {other} {relation:?}");
                }
            }
        }
    }

    #[test]
    fn many_alike_are_compared_with_the_first() {
        let gists = (0..1000).map(|at| Gist::from_text(&format!("Keep the list of item {at} sorted"), "", ""));
        let mut gists = gists.collect::<Vec<_>>();
        gists.push(gists[500].clone());
        let pairs = related_pairs(&gists);
        assert!(pairs.len() <= 1001 * MAX_COMPARED, "{}", pairs.len());
        assert!(
            pairs.contains(&(500, 1000)),
            "the same words are found among many that are alike"
        );
        let same = vec![gists[0].clone(); 500];
        let pairs = related_pairs(&same);
        assert!((1..500).all(|at| pairs.contains(&(0, at))));
    }
}
