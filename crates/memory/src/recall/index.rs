//! The words of all memories, interned, in the order in which they occur.

use language::words::{base_form, for_each_word};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Classes of a byte at the start of a word: letters, digits, and all others.
const BUCKET_SYMBOLS: usize = 37;

/// Marks the end of a line among the words.
pub(super) const LINE_END: u32 = u32::MAX;

/// Shortest word that may be a typo.
const MIN_TYPO_LEN: usize = 5;

/// Memories, ready to be queried.
#[derive(Debug, Default)]
pub struct RecallIndex {
    /// Numbers of the words by their hash.
    numbers: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    /// Base forms of the words by number.
    pub(super) vocabulary: Vec<Box<str>>,
    /// Numbers of the words by their first two bytes; see [`prefix_bucket`].
    by_start: Vec<Vec<u32>>,
    pub(super) documents: Vec<IndexedDocument>,
    /// Number of words in all documents.
    pub(super) total: u64,
    /// Whether each word of the vocabulary occurred only once.
    is_single: Vec<bool>,
    /// Number of words that occurred only once.
    singles: u64,
}

#[derive(Debug)]
pub(super) struct IndexedDocument {
    /// Numbers of the words, heading first, with [`LINE_END`] after each line.
    pub words: Vec<u32>,
    /// Where the heading ends in `words`.
    pub heading: usize,
    /// Number of words.
    pub length: u32,
}

impl RecallIndex {
    /// Adds a memory. Memories are numbered from 0.
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

    /// Returns the number of memories.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Returns the numbers of all words that start with some bytes.
    pub(super) fn starting_with<'i>(&'i self, start: &'i [u8]) -> impl Iterator<Item = usize> + 'i {
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

    /// Returns the words that a word which no memory has may be a typo of.
    pub(super) fn spelling_candidates(&self, word: &str) -> Vec<usize> {
        let is_plain = word.len() >= MIN_TYPO_LEN && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let start = word.as_bytes().get(..1).filter(|_| is_plain);
        let alike = start.into_iter().flat_map(|start| self.starting_with(start));
        alike
            .filter(|&number| is_typo(word, &self.vocabulary[number]))
            .collect()
    }
}

/// Returns whether two words differ by one typo: a letter inserted, deleted or replaced, or two swapped.
pub(super) fn is_typo(one: &str, other: &str) -> bool {
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

/// Returns the bucket of the words that start with these bytes.
fn prefix_bucket(start: &[u8]) -> usize {
    let class = |at: usize| match start.get(at) {
        Some(letter @ b'a'..=b'z') => usize::from(letter - b'a'),
        Some(digit @ b'0'..=b'9') => usize::from(digit - b'0') + 26,
        _ => BUCKET_SYMBOLS - 1,
    };
    class(0) * BUCKET_SYMBOLS + class(1)
}

/// Passes keys through, because they are hashes already.
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
