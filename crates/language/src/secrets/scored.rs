//! Values that no rule of `window` takes, found by a trained score.
//!
//! People hand over secrets in more ways than rules can list. Every word near a cue (the name of a secret, or a hint such as
//! "unlock") is described by signs: its shape, how far the cues are, what stands right before and after it (`signs`). Each
//! sign has a weight (`weights.txt`), and a word whose weights sum to more than a limit is masked. The example `maskfit` fits
//! the weights to lists of phrasings; whole numbers keep the sum exact.

mod around;
mod signs;

use super::names::{NameKind, SecretName, is_whole_word};
use super::pieces::{Piece, PieceReader, is_unspaced};
use super::shape::{Shape, shape};
use super::{MASK, Secret, forms, push};
use around::Around;
pub use signs::sign_name;
use signs::{SIGN_COUNT, sign_index};
use std::ops::Range;
use std::sync::LazyLock;

/// How far a cue reaches ahead and back, in bytes.
const REACH_AHEAD: usize = 320;
const REACH_BACK: usize = 160;

/// A word is masked if its score is above this.
const LIMIT: i32 = 0;

/// The name of a secret, or a hint at one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cue {
    start: usize,
    end: usize,
    /// `None` for a hint.
    kind: Option<NameKind>,
}

impl Cue {
    /// Returns the cue that a name is; `None` for names of a program, keys of maps, folders, tests that pass and versions that
    /// are pinned: no secrets stand near them.
    pub fn of_name(name: &SecretName) -> Option<Cue> {
        let is_pin = name.kind == NameKind::Pin && name.end - name.start == "pin".len() && !name.is_unspaced;
        let is_other =
            name.is_identifier || name.is_folder || name.is_bare_pass || is_pin || name.kind == NameKind::AnyKey;
        (!is_other).then_some(Cue {
            start: name.start,
            end: name.end,
            kind: Some(name.kind),
        })
    }

    /// Returns the cue that a hint is; `None` if it is only a part of a word.
    pub fn of_hint(text: &str, start: usize, end: usize) -> Option<Cue> {
        is_whole_word(text, start, end).then_some(Cue { start, end, kind: None })
    }
}

/// A word near a cue, with what is known about it.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub range: Range<usize>,
    /// Indexes of its signs.
    pub signs: Vec<u16>,
}

/// The weight of each sign.
static WEIGHTS: LazyLock<Vec<i32>> = LazyLock::new(|| {
    let mut weights = vec![0; SIGN_COUNT];
    for line in include_str!("scored/weights.txt").lines() {
        let mut fields = line.split(' ');
        let index = fields.next().and_then(sign_index);
        let weight = fields.next().and_then(|weight| weight.parse().ok());
        if let (Some(index), Some(weight)) = (index, weight) {
            weights[usize::from(index)] = weight;
        }
    }
    weights
});

/// Adds the words whose score is above the limit. `cues` are in order.
pub(super) fn find(text: &str, cues: &[Cue], found: &mut Vec<Secret>) {
    for candidate in candidates(text, cues) {
        if score(&candidate) > LIMIT {
            push(found, candidate.range, "likely-secret");
        }
    }
}

/// Returns the score of a word: the sum of the weights of its signs.
pub fn score(candidate: &Candidate) -> i32 {
    candidate.signs.iter().map(|sign| WEIGHTS[usize::from(*sign)]).sum()
}

/// Returns the words near cues that may be values. `cues` are in order.
pub(super) fn candidates(text: &str, cues: &[Cue]) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = cues.get(at) {
        // Cues whose reach overlaps share a region.
        let mut end = first.end + REACH_AHEAD;
        let mut next = at + 1;
        while let Some(cue) = cues.get(next).filter(|cue| cue.start < end + REACH_BACK) {
            end = end.max(cue.end + REACH_AHEAD);
            next += 1;
        }
        let start = word_start(text, first.start.saturating_sub(REACH_BACK));
        let end = word_end(text, end.min(text.len()));
        read_region(text, start..end, &cues[at..next], &mut all);
        at = next;
    }
    all
}

/// How far the edge of a region is moved to the edge of a word.
const LONGEST_WORD: usize = 200;

fn word_start(text: &str, at: usize) -> usize {
    let start = text.ceil_char_boundary(at);
    let before = &text[text.ceil_char_boundary(start.saturating_sub(LONGEST_WORD))..start];
    start
        - before
            .bytes()
            .rev()
            .take_while(|byte| !byte.is_ascii_whitespace())
            .count()
}

fn word_end(text: &str, at: usize) -> usize {
    let end = text.floor_char_boundary(at);
    let after = &text[end..text.floor_char_boundary((end + LONGEST_WORD).min(text.len()))];
    end + after.bytes().take_while(|byte| !byte.is_ascii_whitespace()).count()
}

/// A piece that may be a value, by its place among all pieces.
struct Shaped {
    at: usize,
    shape: Shape,
}

/// Adds the candidates of one region.
fn read_region(text: &str, region: Range<usize>, cues: &[Cue], all: &mut Vec<Candidate>) {
    let pieces = read_pieces(text, region);
    let shaped = pieces.iter().enumerate().filter_map(|(at, piece)| {
        let shape = candidate_shape(piece)?;
        let next = cues.partition_point(|cue| cue.end <= piece.start);
        let is_cue = cues.get(next).is_some_and(|cue| cue.start < piece.end);
        (!is_cue).then_some(Shaped { at, shape })
    });
    let shaped = shaped.collect::<Vec<_>>();
    if shaped.is_empty() {
        return;
    }
    let around = Around::new(text, &pieces, cues);
    for (rank, one) in shaped.iter().enumerate() {
        let near = shaped[rank.saturating_sub(12)..].iter().take(25);
        let rivals = near.filter(|other| other.shape >= one.shape).count() - 1;
        if let Some(signs) = around.signs(one.at, one.shape, rivals) {
            let piece = &pieces[one.at];
            all.push(Candidate {
                range: piece.start..piece.end,
                signs,
            });
        }
    }
}

/// Reads the pieces of a region. Quoted texts of several words are read word by word.
fn read_pieces(text: &str, region: Range<usize>) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for piece in PieceReader::new(text, region.start, region.end) {
        if piece.is_quoted && piece.text.contains(char::is_whitespace) {
            let inner = PieceReader::new(text, piece.start, piece.end);
            pieces.extend(inner.enumerate().map(|(at, mut word)| {
                if at == 0 {
                    word.gap = piece.gap;
                }
                word
            }));
        } else if !piece.text.is_empty() {
            pieces.push(piece);
        }
    }
    pieces
}

/// Returns the shape of a piece that may be a value; `None` for the others.
fn candidate_shape(piece: &Piece) -> Option<Shape> {
    let value = piece.text;
    if !(3..=200).contains(&value.len())
        || value == MASK
        || value.contains(char::is_whitespace)
        || value.starts_with(is_unspaced)
    {
        return None;
    }
    let looks = shape(value);
    (looks > Shape::Prose && !forms::is_ordinary_id(value)).then_some(looks)
}
