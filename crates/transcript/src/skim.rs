//! Scans JSON strings: finds the closing quote and measures the text, without decoding it.
//!
//! Nine tenths of a session log are the insides of long strings, so most of the run time is spent here. A scan starts
//! after the opening quote and answers two questions: where is the closing quote, and (on request) how long is the text
//! in UTF-16 units and how many of its characters need a JSON escape. [`crate::json`] builds the rest of the grammar on
//! top.
//!
//! There are two implementations of [`StringScanner`]: AVX2 (64 bytes a step, selected at run time) and a portable one
//! based on `memchr`. Both follow the same rules; a property test and a fuzz target compare them:
//!
//! * a byte below 0x20 ends the scan with an error, so a scan never runs past the end of its line;
//! * an escape must be one of the nine that JSON has, and `\u` needs four hexadecimal digits;
//! * text that is not valid UTF-8 is declined when it is to be measured (its length depends on how it is repaired) and
//!   accepted when it is only to be skipped.
//!
//! One of the two modules with `unsafe` in the crate (the other is [`crate::bytes`], which maps files).

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
pub use hex::parse_hex32;
pub use portable::PortableScanner;
pub use prefetch::prefetch_ahead;

use escapes::EscapeCounts;

/// The fast path declines the line; the caller hands it to the slow path, which decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPath;

/// Measurements of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextShape {
    /// Length of the decoded text in UTF-16 code units, as `String.length` in the client.
    pub units: u32,
    /// Characters that a JSON writer has to escape: quotes, backslashes and control characters.
    pub escapes: u32,
    /// The part of `escapes` that is written with six characters (`\u00XX`) instead of two.
    pub long_escapes: u32,
    /// UTF-8 bytes beyond one per UTF-16 unit: 0 for ASCII, 1 for most accented letters, 2 for Chinese characters and
    /// emoji. A measure of how far the text is from the Latin script.
    pub wide: u32,
}

impl TextShape {
    /// Returns the length of the text between the quotes of a compact JSON serialization.
    pub fn serialized_units(&self) -> u32 {
        self.units
            .saturating_add(self.escapes)
            .saturating_add(self.long_escapes.saturating_mul(4))
    }
}

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanResult {
    /// Index of the closing quote.
    pub end: usize,
    /// Whether the string has escapes, that is, whether decoding changes it.
    pub has_escapes: bool,
    /// The measurements; all zero if they were not requested.
    pub shape: TextShape,
}

/// A string scanner. `start` is the index after the opening quote.
pub trait StringScanner {
    /// Finds the closing quote and, with `MEASURE`, measures the text.
    fn scan<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath>;
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

/// Counts the UTF-16 units of valid UTF-8: one per character start, one more per four-byte character.
fn count_utf16_units(bytes: &[u8]) -> u64 {
    (bytes.iter())
        .map(|&byte| u64::from((byte as i8) > -65) + u64::from(byte >= 0xf0))
        .sum()
}

/// Assembles the result for `length` raw bytes that are `units` UTF-16 units before escapes are folded.
#[inline(always)]
fn make_result<const MEASURE: bool>(end: usize, escapes: &EscapeCounts, length: usize, units: u64) -> ScanResult {
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

/// Finds the end of a short, plain string: ASCII without escapes that ends within `STEPS` * 16 bytes (at most 64).
/// `None` only means that the full scan has to look. Keys, ids and timestamps take this path, about fifty of them a
/// line. All steps are computed unconditionally, because a branch on the length would often be mispredicted.
#[inline(always)]
pub fn find_short_end<const STEPS: usize>(bytes: &[u8], start: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        };
        let window = bytes.get(start..start + STEPS * 16)?;
        let mut stops = 0u64;
        for step in 0..STEPS {
            // SAFETY: `window` has 16 bytes per step, so every unaligned 16-byte load stays inside; SSE2 is part of
            // x86-64.
            let found = unsafe {
                let block = _mm_loadu_si128(window.as_ptr().add(step * 16).cast());
                let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
                // Signed comparison: matches control characters and, as negative numbers, bytes outside ASCII.
                let odd = _mm_cmplt_epi8(block, _mm_set1_epi8(0x20));
                _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), odd)) as u32
            };
            stops |= u64::from(found) << (step * 16);
        }
        // Without any stop this is 64, which is outside every window.
        let first = stops.trailing_zeros() as usize;
        if window.get(first) == Some(&b'"') {
            return Some(start + first);
        }
    }
    None
}
