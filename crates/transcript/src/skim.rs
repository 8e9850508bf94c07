//! Skimming JSON strings: find where a string ends, and measure what it holds, without decoding it.
//!
//! Nine tenths of a session log are the insides of long strings, so this file is where the time goes.
//! It answers two questions about a string whose opening quote has been passed: where is its closing
//! quote, and (on request) how long is the text in UTF-16 units and how many of its characters JSON has
//! to escape. [`super::json`] builds the rest of the grammar on top.
//!
//! Two implementations of [`Scan`] exist: AVX2 (64 bytes a step, chosen at run time) and a portable one on
//! `memchr`. Both obey the same rules, and a property test and a fuzz target hold them to it:
//!
//! * a byte below 0x20 ends the scan with an error, so a scan never runs past the end of its line;
//! * an escape must be one of the nine JSON knows, and `\u` must have four hexadecimal digits;
//! * text that is not valid UTF-8 is refused when it is to be measured (its length depends on how it is
//!   repaired) and passed over when it is to be skipped.
//!
//! One of the two places with `unsafe` in the crate (the other maps files): see the notes at each block.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod escapes;
mod hex;
mod portable;
mod prefetch;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2Scanner;
pub use hex::hex32;
pub use portable::PortableScanner;
pub use prefetch::prefetch_ahead;

use escapes::EscapeCounts;

/// Why a scan stopped early. The caller gives the line to the slow path, which decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPath;

/// What a measured string holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextShape {
    /// Length of the decoded text in UTF-16 code units (what `String.length` is in the client).
    pub units: u32,
    /// Characters that a JSON writer has to escape: quotes, backslashes and control characters.
    pub escapes: u32,
    /// Of these, control characters that are spelt with six characters (`\u00XX`) instead of two.
    pub long_escapes: u32,
    /// Bytes of the text in UTF-8 beyond one per UTF-16 unit: 0 for ASCII, 1 for most accented letters, 2 for
    /// Chinese characters and emoji. Says how far the text is from the Latin script.
    pub wide: u32,
}

impl TextShape {
    /// Units of the text as it would stand between the quotes of a compact JSON serialisation.
    pub fn serialised_units(&self) -> u32 {
        self.units
            .saturating_add(self.escapes)
            .saturating_add(self.long_escapes.saturating_mul(4))
    }
}

/// What a scan found: the index of the closing quote, and the shape if it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanResult {
    /// Index of the closing quote.
    pub end: usize,
    /// Whether there are any escapes, that is, whether decoding changes the text.
    pub has_escapes: bool,
    /// The shape; all zero when only skipping.
    pub shape: TextShape,
}

/// A way of scanning strings. `start` is the index after the opening quote.
pub trait StringScanner {
    /// Finds the closing quote; with `MEASURE` also fills the shape.
    fn string<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath>;
}

/// A consumer of lines that is generic over the string scanner.
pub trait ScanLines {
    /// Parses whole lines, starting at byte `offset` of the log.
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64);
}

/// Runs `consumer` with the fastest scanner that this processor supports. The choice is made once per block of lines,
/// so everything below is monomorphized for one scanner.
pub fn dispatch_scan(consumer: &mut impl ScanLines, bytes: &[u8], offset: u64) {
    #[cfg(target_arch = "x86_64")]
    if Avx2Scanner::is_available() {
        return consumer.scan_lines::<Avx2Scanner>(bytes, offset);
    }
    consumer.scan_lines::<PortableScanner>(bytes, offset);
}

/// Counts UTF-16 units of raw bytes that are known to be valid UTF-8.
fn count_units(bytes: &[u8]) -> u64 {
    (bytes.iter())
        .map(|&byte| u64::from((byte as i8) > -65) + u64::from(byte >= 0xf0))
        .sum()
}

/// Turns totals into an answer: `length` raw bytes that make `units` before escapes are folded.
#[inline(always)]
fn finish<const MEASURE: bool>(end: usize, escapes: &EscapeCounts, length: usize, units: u64) -> ScanResult {
    let shape = if MEASURE {
        escapes.shape(units, length as u64 - units)
    } else {
        TextShape::default()
    };
    ScanResult {
        end,
        has_escapes: escapes.all > 0,
        shape,
    }
}

/// The end of a string that is short and plain: ASCII without escapes, ending within `STEPS` times 16 bytes (at most
/// 64). `None` means only that the full scan must look. Keys, ids and timestamps take this way, and there are fifty of
/// them on a line; all steps are taken at once because a branch on the length would often be guessed wrong.
#[inline(always)]
pub fn short_end<const STEPS: usize>(bytes: &[u8], start: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        };
        let window = bytes.get(start..start + STEPS * 16)?;
        let mut stops = 0u64;
        for step in 0..STEPS {
            // SAFETY: `window` has 16 bytes per step, so each unaligned load of 16 stays inside; SSE2 is part of every
            // x86-64 processor.
            let found = unsafe {
                let block = _mm_loadu_si128(window.as_ptr().add(step * 16).cast());
                let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
                // Signed: control characters, and as negative numbers the bytes outside ASCII.
                let odd = _mm_cmplt_epi8(block, _mm_set1_epi8(0x20));
                _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), odd)) as u32
            };
            stops |= u64::from(found) << (step * 16);
        }
        // Without any stop this is 64, which no window has.
        let first = stops.trailing_zeros() as usize;
        if window.get(first) == Some(&b'"') {
            return Some(start + first);
        }
    }
    None
}
