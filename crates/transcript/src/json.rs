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

/// Kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

/// The numbers of a memoized object; see [`PullParser::memoize_numbers`].
pub type MemoizedNumbers = [u64; 16];

/// Pulls the values of one line in order. Every method consumes the value it returns unless its name says otherwise.
///
/// Besides the basic grammar there are two optimizations, both optional for an implementation: `try_*` methods that
/// compare the next bytes with what the client usually writes, and memoization of byte runs that repeat from line to
/// line.
pub trait PullParser<'a> {
    /// Position inside an open object or array.
    type Frame;

    /// Returns the kind of the next value without consuming it.
    fn peek(&mut self) -> Result<JsonKind, SlowPath>;
    /// Enters an object.
    fn open_object(&mut self) -> Result<Self::Frame, SlowPath>;
    /// Returns the next key of an object, or `None` at the end of the object, which is then left.
    fn next_key(&mut self, frame: &mut Self::Frame) -> Result<Option<&'a [u8]>, SlowPath>;
    /// Consumes `token` if exactly these bytes follow the last value of an object: a key with its comma and colon
    /// (`,"key":`), possibly preceded by members with constant values (`,"type":"user","message":`). `false` is no
    /// statement about the key: use [`PullParser::next_key`] then. Comparing with the expected bytes first is much
    /// cheaper than scanning any key and then matching it.
    #[inline]
    fn try_key(&mut self, _token: &'static [u8]) -> bool {
        false
    }
    /// Enters an object that starts with exactly these bytes, `{"key":` or `{"key":value,"key":`, and consumes them.
    /// Returns `None` if it does not; [`PullParser::open_object`] enters any object.
    #[inline]
    fn try_open_object(&mut self, _start: &'static [u8]) -> Option<Self::Frame> {
        None
    }
    /// Returns the current position, to mark the start of a run of members for [`PullParser::memoize_texts`].
    #[inline]
    fn position_mark(&self) -> usize {
        0
    }
    /// Memoizes the bytes since `mark` together with the texts read from them.
    #[inline]
    fn memoize_texts(&mut self, _mark: usize, _texts: [Option<JsonStr<'a>>; 4]) {}
    /// Memoizes the bytes since `mark`, which are one whole object, together with its numbers.
    #[inline]
    fn memoize_numbers(&mut self, _mark: usize, _numbers: MemoizedNumbers) {}
    /// Consumes the memoized object and returns its numbers if exactly its bytes follow.
    #[inline]
    fn take_memoized_numbers(&mut self) -> Option<MemoizedNumbers> {
        None
    }
    /// Consumes the memoized run and returns its texts if exactly its bytes follow.
    #[inline]
    fn take_memoized_texts(&mut self) -> Option<[Option<JsonStr<'a>>; 4]> {
        None
    }
    /// Returns the id of the run memoized last, or 0 if there is none. Ids are unique within a log.
    #[inline]
    fn run_number(&self) -> u32 {
        0
    }
    /// Enters an array.
    fn open_array(&mut self) -> Result<Self::Frame, SlowPath>;
    /// Returns whether the array has another item; if not, the array is left.
    fn next_item(&mut self, frame: &mut Self::Frame) -> Result<bool, SlowPath>;
    /// Reads a string without measuring it.
    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath>;
    /// Reads a string and measures it.
    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath>;
    /// Reads a number. Returns `None` if it is not an integer from 0 to `u64::MAX`.
    fn count(&mut self) -> Result<Option<u64>, SlowPath>;
    /// Reads a literal. Returns `None` for `null`.
    fn literal(&mut self) -> Result<Option<bool>, SlowPath>;
    /// Skips a value of any kind.
    fn skip(&mut self) -> Result<(), SlowPath>;
    /// Skips a value and returns its length in UTF-16 units when serialized as compact JSON.
    fn serialized_units(&mut self) -> Result<u32, SlowPath>;

    /// Reads a string, or skips any other value and returns `None`.
    #[inline]
    fn text(&mut self) -> Result<Option<JsonStr<'a>>, SlowPath> {
        match self.peek()? {
            JsonKind::String => self.string().map(Some),
            _ => self.skip().map(|()| None),
        }
    }

    /// Reads a number as [`PullParser::count`] does, or skips any other value and returns `None`.
    #[inline]
    fn number(&mut self) -> Result<Option<u64>, SlowPath> {
        match self.peek()? {
            JsonKind::Number => self.count(),
            _ => self.skip().map(|()| None),
        }
    }

    /// Reads a boolean, or skips any other value and returns `false`.
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
