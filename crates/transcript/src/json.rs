//! A pull parser for one JSON line, with two implementations.
//!
//! [`PullParser`] is the interface that [`crate::record`] reads a record through. [`RawParser`] is the fast path: it
//! walks the bytes of the line in place and decodes nothing that is not asked for. [`TapeParser`] is the slow path: it
//! walks a tape that simd-json has built. What a record contains is therefore written once; how JSON is read is
//! written twice, and a fuzz target compares the two.
//!
//! # The acceptance contract
//!
//! A line is accepted if it is one JSON object by the grammar of RFC 8259, nested at most [`MAX_DEPTH`] levels deep,
//! with these allowances and limits:
//!
//! * strings may contain invalid UTF-8 and lone surrogates; both decode to U+FFFD;
//! * if a key occurs several times in one object, the last value wins;
//! * a number is a token count only if it is an integer from 0 to `u64::MAX`; any other number is skipped, and a
//!   number that does not fit `f64` is whatever simd-json makes of it;
//! * spaces, tabs and a carriage return may surround the object.
//!
//! Nothing of a line is used before the whole line is accepted. [`RawParser`] may decline a line that the contract
//! accepts (it declines everything unusual) but never accepts a line that the contract rejects. Declined lines go to
//! [`crate::repair`], whose first rung is simd-json on the unchanged line.

mod raw;
mod tape;
#[cfg(test)]
mod tests;
mod text;

pub use raw::{RawFrame, RawParser};
pub use tape::{TapeFrame, TapeParser};
pub use text::{JsonStr, decoded_shape};

use crate::skim::{SlowPath, TextShape};

/// Maximum nesting depth; deeper lines are rejected.
pub const MAX_DEPTH: usize = 128;

/// What kind of value comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

/// What [`Source::remember_numbers`] keeps of an object.
pub type MemoizedNumbers = [u64; 16];

/// Pulls the values of one line in order. Every method consumes what it names.
pub trait PullParser<'a> {
    /// Where reading stands inside an open object or array.
    type Frame;

    /// The kind of the next value, without consuming it.
    fn peek(&mut self) -> Result<JsonKind, SlowPath>;
    /// Enters an object.
    fn open_object(&mut self) -> Result<Self::Frame, SlowPath>;
    /// The next key of an object, or `None` at its end (which leaves it).
    fn next_key(&mut self, frame: &mut Self::Frame) -> Result<Option<&'a [u8]>, SlowPath>;
    /// Consumes a key (with its comma and colon: `,"key":`) if exactly this follows the last value of an object. Members
    /// that say what they always say may stand before it (`,"type":"user","message":`). `false` says nothing:
    /// [`Source::key`] then tells what follows. Asking for the usual next bytes first is much cheaper than reading any
    /// key and finding out which one it is.
    #[inline]
    fn try_key(&mut self, _token: &'static [u8]) -> bool {
        false
    }
    /// Enters an object that starts with exactly these bytes, `{"key":` or `{"key":value,"key":` and so on, and consumes
    /// them. `None` says nothing: [`Source::open_object`] enters any.
    #[inline]
    fn try_open_object(&mut self, _start: &'static [u8]) -> Option<Self::Frame> {
        None
    }
    /// Where a run of members starts that may repeat on the next lines; for [`Source::remember`].
    #[inline]
    fn position_mark(&self) -> usize {
        0
    }
    /// Keeps what was read since `mark` beside its texts.
    #[inline]
    fn memoize_texts(&mut self, _mark: usize, _texts: [Option<JsonStr<'a>>; 4]) {}
    /// The same for an object of numbers: what was read since `mark` is that object, whole.
    #[inline]
    fn memoize_numbers(&mut self, _mark: usize, _numbers: MemoizedNumbers) {}
    /// If exactly the remembered object follows: consumes it and gives its numbers.
    #[inline]
    fn take_memoized_numbers(&mut self) -> Option<MemoizedNumbers> {
        None
    }
    /// If exactly the remembered bytes follow: consumes them and gives the texts they held.
    #[inline]
    fn take_memoized_texts(&mut self) -> Option<[Option<JsonStr<'a>>; 4]> {
        None
    }
    /// Number of the run that was remembered last; 0 if there is none. No two runs of a log have the same.
    #[inline]
    fn run_number(&self) -> u32 {
        0
    }
    /// Enters an array.
    fn open_array(&mut self) -> Result<Self::Frame, SlowPath>;
    /// Whether the array has another item; `false` leaves it.
    fn next_item(&mut self, frame: &mut Self::Frame) -> Result<bool, SlowPath>;
    /// A string, not measured.
    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath>;
    /// A string with its shape.
    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath>;
    /// A number, if it is an integer from 0 to `u64::MAX`.
    fn count(&mut self) -> Result<Option<u64>, SlowPath>;
    /// A literal: `Some` for a boolean.
    fn literal(&mut self) -> Result<Option<bool>, SlowPath>;
    /// Passes over a value of any kind.
    fn skip(&mut self) -> Result<(), SlowPath>;
    /// Passes over a value and returns its length in UTF-16 units as a compact JSON serialisation.
    fn serialised_units(&mut self) -> Result<u32, SlowPath>;

    /// A string if one is next; any other value is passed over.
    #[inline]
    fn text(&mut self) -> Result<Option<JsonStr<'a>>, SlowPath> {
        match self.peek()? {
            JsonKind::String => self.string().map(Some),
            _ => self.skip().map(|()| None),
        }
    }

    /// A count if a number is next; any other value is passed over.
    #[inline]
    fn number(&mut self) -> Result<Option<u64>, SlowPath> {
        match self.peek()? {
            JsonKind::Number => self.count(),
            _ => self.skip().map(|()| None),
        }
    }

    /// A boolean if one is next (`false` for everything else, which is passed over).
    #[inline]
    fn flag(&mut self) -> Result<bool, SlowPath> {
        match self.peek()? {
            JsonKind::Literal => Ok(self.literal()?.unwrap_or(false)),
            _ => self.skip().map(|()| false),
        }
    }
}

/// Length of a float in its shortest round-trip notation, which is how the client serializes it.
fn float_units(value: f64) -> u32 {
    format!("{value}").len() as u32
}
