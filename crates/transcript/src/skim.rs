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

/// Four hexadecimal digits at `at`, as a number.
fn hex4(bytes: &[u8], at: usize) -> Result<u32, SlowPath> {
    let digits: &[u8; 4] = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(SlowPath)?;
    // What is no digit is more than all four together can be.
    let value = digits.iter().fold(0, |value, digit| value << 4 | HEX[*digit as usize]);
    if value > 0xffff { Err(SlowPath) } else { Ok(value) }
}

/// Values of hexadecimal digits; a bit far above them for every other byte, which no shift of the digits behind it reaches.
const HEX: [u32; 256] = {
    let mut values = [1 << 16; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        values[digit as usize] = value;
        values[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    values
};

/// Running totals of escapes; shared by both implementations so that they cannot disagree.
#[derive(Default)]
struct EscapeCounts {
    /// All escapes seen: each is written as at least two bytes for one unit.
    all: u32,
    /// `\u` escapes: four more bytes each.
    unicode: u32,
    /// Escapes that a canonical writer would not have used (`\/`, `\u0041`).
    needless: u32,
    /// Escapes that a canonical writer spells with six characters.
    long: u32,
    /// What `\u` escapes of characters outside ASCII add to [`Shape::wide`].
    wide: u32,
}

impl EscapeCounts {
    /// Looks at the rare escapes, the ones whose letter does not tell the whole story.
    fn check_rare_escape(&mut self, bytes: &[u8], letter_at: usize) -> Result<(), SlowPath> {
        if bytes[letter_at] == b'/' {
            self.needless += 1;
            return Ok(());
        }
        let value = hex4(bytes, letter_at + 1)?;
        self.unicode += 1;
        match value {
            0x08 | 0x09 | 0x0a | 0x0c | 0x0d | 0x22 | 0x5c => {}
            0x00..=0x1f => self.long += 1,
            0x20..=0x7f => self.needless += 1,
            0xd800..=0xdfff if !self.is_paired(bytes, letter_at, value) => return Err(SlowPath),
            _ => {
                self.needless += 1;
                self.wide += if matches!(value, 0x80..0x800 | 0xd800..0xe000) {
                    1
                } else {
                    2
                };
            }
        }
        Ok(())
    }

    /// Whether the surrogate escape at `letter_at` has its other half beside it.
    fn is_paired(&self, bytes: &[u8], letter_at: usize, value: u32) -> bool {
        let half = |at: usize| -> Option<u32> { (bytes.get(at..at + 2)? == b"\\u").then(|| hex4(bytes, at + 2).ok())? };
        if value < 0xdc00 {
            half(letter_at + 5).is_some_and(|low| (0xdc00..0xe000).contains(&low))
        } else {
            // What looks like the other half is plain text if its own backslash is escaped.
            let backslashes = |at: usize| bytes[..=at].iter().rev().take_while(|byte| **byte == b'\\').count();
            letter_at >= 7
                && half(letter_at - 7).is_some_and(|high| (0xd800..0xdc00).contains(&high))
                && backslashes(letter_at - 7) % 2 == 1
        }
    }

    /// The shape of a string of `units` raw units (escapes not yet folded) with `wide` raw wide units.
    fn shape(&self, units: u64, wide: u64) -> TextShape {
        let folded = units - u64::from(self.all) - 4 * u64::from(self.unicode);
        TextShape {
            units: u32::try_from(folded).unwrap_or(u32::MAX),
            escapes: self.all - self.needless,
            long_escapes: self.long,
            wide: u32::try_from(wide + u64::from(self.wide)).unwrap_or(u32::MAX),
        }
    }
}

/// The letters that may follow a backslash.
const fn is_escape_letter(letter: u8) -> bool {
    matches!(letter, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u')
}

/// Counts UTF-16 units of raw bytes that are known to be valid UTF-8.
fn count_units(bytes: &[u8]) -> u64 {
    (bytes.iter())
        .map(|&byte| u64::from((byte as i8) > -65) + u64::from(byte >= 0xf0))
        .sum()
}

/// The portable implementation.
pub struct PortableScanner;

impl StringScanner for PortableScanner {
    fn string<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath> {
        let mut escapes = EscapeCounts::default();
        let mut at = start;
        let end = loop {
            let found = memchr::memchr2(b'"', b'\\', bytes.get(at..).ok_or(SlowPath)?).ok_or(SlowPath)?;
            let special = at + found;
            if bytes[at..special].iter().any(|&byte| byte < 0x20) {
                return Err(SlowPath);
            }
            if bytes[special] == b'"' {
                break special;
            }
            let letter = *bytes.get(special + 1).ok_or(SlowPath)?;
            if !is_escape_letter(letter) {
                return Err(SlowPath);
            }
            escapes.all += 1;
            if matches!(letter, b'/' | b'u') {
                escapes.check_rare_escape(bytes, special + 1)?;
            }
            at = special + 2;
        };
        let mut units = 0;
        if MEASURE {
            let inside = &bytes[start..end];
            if simdutf8::basic::from_utf8(inside).is_err() {
                return Err(SlowPath);
            }
            units = count_units(inside);
        }
        Ok(finish::<MEASURE>(end, &escapes, end - start, units))
    }
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

/// How far ahead bytes are asked for: a page. The processor itself looks ahead only as far as the page goes, and would wait for
/// the start of each one of a mapped file.
const PREFETCH_DISTANCE: usize = 4 << 10;

/// How far from its start the parts of a line are that no string scan asks for.
const PREFETCH_LENGTH: usize = 1 << 10;

/// The bytes that one fault maps of a file that is in memory.
const FAULT_AROUND: usize = 64 << 10;

/// Asks for bytes ahead of the line at `at`. [`Scan::string`] does the same as it goes. `faulted` is the caller's to keep: bytes
/// can only be asked for where the file is mapped already, so the next stretch of it is looked at well before it is read.
#[inline(always)]
pub fn prefetch_ahead(bytes: &[u8], at: usize, faulted: &mut usize) {
    let start = bytes.as_ptr().addr();
    let stretch = (start + at + 4 * PREFETCH_DISTANCE) / FAULT_AROUND;
    if *faulted != stretch {
        *faulted = stretch;
        std::hint::black_box(bytes.get((stretch * FAULT_AROUND).wrapping_sub(start)).copied());
    }
    for line in (at + PREFETCH_DISTANCE..at + PREFETCH_DISTANCE + PREFETCH_LENGTH).step_by(64) {
        prefetch(bytes, line);
    }
}

/// Asks the processor for the cache line with the byte at `at`, which need not be there.
#[inline(always)]
fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint: no address makes it fail, and it changes nothing that a program can see. SSE is part of every x86-64
        // processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}

/// The number that 32 lower-case hexadecimal digits spell, the first ones first; `None` if one is something else. Every record
/// has an id of so many, so all of them are looked at together.
#[cfg(target_arch = "x86_64")]
pub fn hex32(digits: [u64; 4]) -> Option<u128> {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_packus_epi16, _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi16, _mm_slli_epi16, _mm_srli_epi16,
        _mm_storeu_si128, _mm_sub_epi8,
    };
    // SAFETY: pure register arithmetic with SSE2, which every x86-64 processor has; the store writes the 16 bytes of `bytes`
    // and has no alignment demand.
    unsafe {
        // The values of sixteen digits, and which of them are digits.
        let values = |low: u64, high: u64| -> (__m128i, __m128i) {
            let signs = _mm_set_epi64x(high as i64, low as i64);
            let up_to = |value, most| _mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(most)), value);
            let numeral = _mm_sub_epi8(signs, _mm_set1_epi8(b'0' as i8));
            let letter = _mm_sub_epi8(signs, _mm_set1_epi8(b'a' as i8));
            let (is_numeral, is_letter) = (up_to(numeral, 9), up_to(letter, 5));
            let letter = _mm_add_epi8(letter, _mm_set1_epi8(10));
            let value = _mm_or_si128(_mm_and_si128(is_numeral, numeral), _mm_and_si128(is_letter, letter));
            (value, _mm_or_si128(is_numeral, is_letter))
        };
        // Two digits make a byte, the first one its upper half.
        let joined = |value| {
            let both = _mm_or_si128(_mm_slli_epi16(value, 4), _mm_srli_epi16(value, 8));
            _mm_and_si128(both, _mm_set1_epi16(0xff))
        };
        let (first, are_first) = values(digits[0], digits[1]);
        let (second, are_second) = values(digits[2], digits[3]);
        if _mm_movemask_epi8(_mm_and_si128(are_first, are_second)) != 0xffff {
            return None;
        }
        let mut bytes = [0u8; 16];
        _mm_storeu_si128(
            bytes.as_mut_ptr().cast(),
            _mm_packus_epi16(joined(first), joined(second)),
        );
        Some(u128::from_be_bytes(bytes))
    }
}

/// The same, digit by digit.
#[cfg(not(target_arch = "x86_64"))]
pub fn hex32(digits: [u64; 4]) -> Option<u128> {
    plain_hex32(digits)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_hex32(digits: [u64; 4]) -> Option<u128> {
    let signs = digits.into_iter().flat_map(u64::to_le_bytes);
    signs
        .map(|sign| match sign {
            b'0'..=b'9' => Some(u128::from(sign - b'0')),
            b'a'..=b'f' => Some(u128::from(sign - b'a' + 10)),
            _ => None,
        })
        .try_fold(0, |number, value| Some(number << 4 | value?))
}

/// The AVX2 implementation. Whoever uses it has asked [`Avx2::is_available`] first.
#[cfg(target_arch = "x86_64")]
pub struct Avx2Scanner;

#[cfg(target_arch = "x86_64")]
impl Avx2Scanner {
    /// Whether this processor has what the scan is compiled for.
    pub fn is_available() -> bool {
        use std::arch::is_x86_feature_detected;
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt")
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Avx2Scanner, EscapeCounts, PREFETCH_DISTANCE, ScanResult, SlowPath, StringScanner, finish, prefetch};
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
        _mm256_loadu_si256, _mm256_max_epu8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
        _mm256_shuffle_epi8,
    };

    const STEP: usize = 64;
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

    /// Sixty-four bytes as two registers.
    #[derive(Clone, Copy)]
    struct SimdBlock(__m256i, __m256i);

    /// What matters in a block.
    struct BlockMasks {
        /// Bytes after the backslash of an escape.
        escaped: u64,
        /// Quotes and control characters that are not escaped.
        stops: u64,
        /// Escaped bytes that are none of the usual letters.
        unusual: u64,
        /// 1 if the first byte of the next block is escaped.
        carry: u64,
    }

    impl SimdBlock {
        #[inline(always)]
        fn load_whole(bytes: &[u8; STEP]) -> SimdBlock {
            // SAFETY: both halves are inside the 64 bytes; the rest as in `mask`. The loads have no alignment demand.
            unsafe {
                SimdBlock(
                    _mm256_loadu_si256(bytes.as_ptr().cast()),
                    _mm256_loadu_si256(bytes.as_ptr().add(32).cast()),
                )
            }
        }

        /// The 64 bytes from `at` on; zeroes, which read as control characters, stand for what is beyond the slice.
        #[inline(always)]
        fn load(bytes: &[u8], at: usize) -> SimdBlock {
            match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                Some(block) => Self::load_whole(block),
                None => Self::load_end(bytes, at),
            }
        }

        #[cold]
        #[inline(never)]
        fn load_end(bytes: &[u8], at: usize) -> SimdBlock {
            let mut padded = [0u8; STEP];
            let rest = bytes.get(at..).unwrap_or_default();
            padded[..rest.len()].copy_from_slice(rest);
            Self::load_whole(&padded)
        }

        #[inline(always)]
        fn mask(low: __m256i, high: __m256i) -> u64 {
            // SAFETY: pure register arithmetic; AVX2 is present because every caller is reached through
            // a function compiled for AVX2 after a run-time check.
            unsafe {
                let low = _mm256_movemask_epi8(low) as u32;
                let high = _mm256_movemask_epi8(high) as u32;
                u64::from(low) | u64::from(high) << 32
            }
        }

        #[inline(always)]
        fn equals(self, byte: u8) -> u64 {
            // SAFETY: as in `mask`.
            unsafe {
                let wanted = _mm256_set1_epi8(byte as i8);
                Self::mask(_mm256_cmpeq_epi8(self.0, wanted), _mm256_cmpeq_epi8(self.1, wanted))
            }
        }

        /// Bytes after the backslash of an escape, in a block whose first byte is one if `carry` is 1; and the carry of the
        /// next block.
        #[inline(always)]
        fn escaped(self, carry: u64) -> (u64, u64) {
            let backslashes = self.equals(b'\\');
            // A run of backslashes alternates; the subtraction lets the carry run through each one (the method of
            // simdjson).
            let potential = backslashes & !carry;
            let codes = (potential << 1 | ODD).wrapping_sub(potential) ^ ODD;
            (codes ^ (backslashes | carry), (codes & backslashes) >> 63)
        }

        /// What matters in a block whose first byte is escaped if `carry` is 1.
        #[inline(always)]
        fn marks(self, carry: u64) -> BlockMasks {
            let (escaped, carry) = self.escaped(carry);
            BlockMasks {
                escaped,
                // An escaped control character is no stop, but no letter either.
                stops: self.stops() & !escaped,
                unusual: escaped & !self.usual_letters(),
                carry,
            }
        }

        /// Quotes and control characters: where a string ends, or must not go on.
        #[inline(always)]
        fn stops(self) -> u64 {
            self.equals(b'"') | self.controls()
        }

        /// Control characters.
        #[inline(always)]
        fn controls(self) -> u64 {
            // SAFETY: as in `mask`.
            unsafe {
                let limit = _mm256_set1_epi8(0x1f);
                let controls = |bytes| _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, limit), bytes);
                Self::mask(controls(self.0), controls(self.1))
            }
        }

        /// Bytes that start a character, and those that start one of two UTF-16 units.
        #[inline(always)]
        fn starts(self) -> (u64, u64) {
            // SAFETY: as in `mask`.
            unsafe {
                let continuation = _mm256_set1_epi8(-65);
                let four = _mm256_set1_epi8(0xf0u8 as i8);
                (
                    Self::mask(
                        _mm256_cmpgt_epi8(self.0, continuation),
                        _mm256_cmpgt_epi8(self.1, continuation),
                    ),
                    Self::mask(
                        _mm256_cmpeq_epi8(_mm256_max_epu8(self.0, four), self.0),
                        _mm256_cmpeq_epi8(_mm256_max_epu8(self.1, four), self.1),
                    ),
                )
            }
        }

        /// The letters of the usual escapes: each is looked up by its low four bits and compared with itself. Of
        /// `"`, `b` and `r`, which share theirs, only the quote is usual.
        #[inline(always)]
        fn usual_letters(self) -> u64 {
            const BY_LOW_BITS: [u8; 16] = {
                // No byte finds 0xff: those above ASCII look up zero.
                let mut table = [0xff; 16];
                let letters = *b"\"\\fnt";
                let mut at = 0;
                while at < letters.len() {
                    table[letters[at] as usize & 15] = letters[at];
                    at += 1;
                }
                table
            };
            // SAFETY: the table has the 16 bytes that are loaded; the rest as in `mask`.
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(BY_LOW_BITS.as_ptr().cast()));
                Self::mask(
                    _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, self.0), self.0),
                    _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, self.1), self.1),
                )
            }
        }

        /// Bytes outside ASCII.
        #[inline(always)]
        fn wide(self) -> u64 {
            Self::mask(self.0, self.1)
        }
    }

    /// Whether blocks had bytes outside ASCII, gathered without a branch.
    struct NonAsciiMask(__m256i);

    impl NonAsciiMask {
        #[inline(always)]
        fn new() -> NonAsciiMask {
            // SAFETY: as in `Block::mask`.
            NonAsciiMask(unsafe { _mm256_set1_epi8(0) })
        }

        #[inline(always)]
        fn add(&mut self, block: SimdBlock) {
            // SAFETY: as in `Block::mask`.
            self.0 = unsafe { _mm256_or_si256(self.0, _mm256_or_si256(block.0, block.1)) };
        }

        #[inline(always)]
        fn has_any(&self) -> bool {
            // SAFETY: as in `Block::mask`.
            unsafe { _mm256_movemask_epi8(self.0) != 0 }
        }
    }

    /// The lowest bytes of blocks, by their place, gathered without a branch.
    struct ByteMinimum(__m256i);

    impl ByteMinimum {
        #[inline(always)]
        fn new() -> ByteMinimum {
            // SAFETY: as in `Block::mask`.
            ByteMinimum(unsafe { _mm256_set1_epi8(-1) })
        }

        #[inline(always)]
        fn add(&mut self, block: SimdBlock) {
            // SAFETY: as in `Block::mask`.
            self.0 = unsafe { _mm256_min_epu8(self.0, _mm256_min_epu8(block.0, block.1)) };
        }

        #[inline(always)]
        fn has_control(&self) -> bool {
            // SAFETY: as in `Block::mask`.
            unsafe {
                let limit = _mm256_set1_epi8(0x1f);
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(self.0, limit), self.0)) != 0
            }
        }
    }

    impl StringScanner for Avx2Scanner {
        #[inline]
        fn string<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath> {
            // SAFETY: nobody names `Avx2` without having called `is_available` (see `super::Avx2`).
            unsafe { string::<MEASURE>(bytes, start) }
        }
    }

    /// The scan itself. A function of its own because only a function can be compiled for AVX2; inlining it into
    /// its callers would multiply the code of the whole walker.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    fn string<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath> {
        let mut escapes = EscapeCounts::default();
        let mut at = start;
        let mut wide = NonAsciiMask::new();
        let mut lowest = ByteMinimum::new();
        let mut carry = 0u64;
        loop {
            // Blocks that hold nothing unusual. All take the same steps, whether they have escapes or not: half of the
            // blocks of a text have some, and which half nobody can guess. No call is made in this loop, so that
            // everything it needs stays in registers.
            let mut all = 0u32;
            for block in bytes.get(at..).unwrap_or_default().as_chunks::<STEP>().0 {
                prefetch(bytes, at + PREFETCH_DISTANCE);
                let block = SimdBlock::load_whole(block);
                let (escaped, next_carry) = block.escaped(carry);
                let ends = block.equals(b'"') & !escaped;
                let odd = escaped & !block.usual_letters();
                if ends | odd != 0 {
                    // Bits before the first end belong to the string.
                    let inside = ends.wrapping_sub(1) & !ends;
                    if ends == 0 || odd & inside != 0 {
                        break;
                    }
                    if lowest.has_control() || block.controls() & inside != 0 {
                        return Err(SlowPath);
                    }
                    escapes.all += all + (escaped & inside).count_ones();
                    let end = at + ends.trailing_zeros() as usize;
                    let is_wide = MEASURE && (wide.has_any() || block.wide() & inside != 0);
                    return finish_measured::<MEASURE>(&bytes[start..end], end, &escapes, is_wide);
                }
                all += escaped.count_ones();
                carry = next_carry;
                lowest.add(block);
                if MEASURE {
                    wide.add(block);
                }
                at += STEP;
            }
            let block = SimdBlock::load(bytes, at);
            let BlockMasks {
                escaped,
                stops,
                unusual,
                carry: next_carry,
            } = block.marks(carry);
            carry = next_carry;
            // Bits before the first stop belong to the string.
            let inside = stops.wrapping_sub(1) & !stops;
            escapes.all += all + (escaped & inside).count_ones();
            let mut letters = unusual & inside;
            while letters != 0 {
                let letter_at = at + letters.trailing_zeros() as usize;
                match bytes.get(letter_at) {
                    Some(b'b' | b'r') => {}
                    Some(b'/' | b'u') => escapes.check_rare_escape(bytes, letter_at)?,
                    _ => return Err(SlowPath),
                }
                letters &= letters - 1;
            }
            if stops == 0 {
                if MEASURE {
                    wide.add(block);
                }
                at += STEP;
                continue;
            }
            let end = at + stops.trailing_zeros() as usize;
            // A string that goes on over the end of its line is found out here at the latest: the newline is among the lowest.
            if bytes.get(end) != Some(&b'"') || lowest.has_control() {
                return Err(SlowPath);
            }
            let is_wide = MEASURE && (wide.has_any() || block.wide() & inside != 0);
            return finish_measured::<MEASURE>(&bytes[start..end], end, &escapes, is_wide);
        }
    }

    /// What the scan found out about the string `text`, which ends at `end`.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    fn finish_measured<const MEASURE: bool>(
        text: &[u8],
        end: usize,
        escapes: &EscapeCounts,
        is_wide: bool,
    ) -> Result<ScanResult, SlowPath> {
        let mut units = text.len() as u64;
        if is_wide {
            if simdutf8::basic::from_utf8(text).is_err() {
                return Err(SlowPath);
            }
            units = count_units(text);
        }
        Ok(finish::<MEASURE>(end, escapes, text.len(), units))
    }

    /// [`super::count_units`], many at a time.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    fn count_units(text: &[u8]) -> u64 {
        let (blocks, rest) = text.as_chunks::<STEP>();
        let units = blocks.iter().map(|block| {
            let (starts, fours) = SimdBlock::load_whole(block).starts();
            u64::from(starts.count_ones() + fours.count_ones())
        });
        units.sum::<u64>() + super::count_units(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &[u8], measured: Result<(usize, u32, u32), ()>) {
        let portable = PortableScanner::string::<true>(text, 0);
        assert_eq!(
            portable
                .map(|found| (found.end, found.shape.units, found.shape.escapes))
                .map_err(|_| ()),
            measured,
            "{:?}",
            String::from_utf8_lossy(text)
        );
        assert_same(text);
    }

    fn assert_same(text: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if Avx2Scanner::is_available() {
            assert_eq!(
                PortableScanner::string::<true>(text, 0),
                Avx2Scanner::string::<true>(text, 0),
                "{text:?}"
            );
            assert_eq!(
                PortableScanner::string::<false>(text, 0),
                Avx2Scanner::string::<false>(text, 0),
                "{text:?}"
            );
        }
    }

    #[test]
    fn measures_what_a_client_would() {
        check(b"\"", Ok((0, 0, 0)));
        check(b"plain\" rest", Ok((5, 5, 0)));
        check(br#"a\nb\"c\\""#, Ok((9, 6, 3)));
        check("größer 漢字 😀\"".as_bytes(), Ok((20, 12, 0)));
        check(br#"\u0041\/""#, Ok((8, 2, 0)));
        check(br#"\u0007""#, Ok((6, 1, 1)));
        check(br#"\ud83d\ude00""#, Ok((12, 2, 0)));
    }

    #[test]
    fn declines_what_the_slow_path_must_judge() {
        check(b"no end", Err(()));
        check(b"line\nbreak\"", Err(()));
        check(br#"\x41""#, Err(()));
        check(br#"\u12g4""#, Err(()));
        check(br#"\ud83d alone""#, Err(()));
        check(br#"\\ud83d\ude00""#, Err(()));
        check(br#"\\\ud83d\ude00""#, Ok((14, 3, 1)));
        check(b"\xff\"", Err(()));
        check(b"ends in a backslash\\", Err(()));
    }

    #[test]
    fn only_four_hexadecimal_digits_are_a_number() {
        for at in 0..4 {
            for sign in 0..=u8::MAX {
                let mut text = *b"a9Fb";
                text[at] = sign;
                let digits = text.map(|digit| (digit as char).to_digit(16));
                let expected = digits.iter().try_fold(0, |value, digit| Some(value << 4 | (*digit)?));
                assert_eq!(hex4(&text, 0).ok(), expected, "{sign} at {at}");
            }
        }
        assert_eq!(hex4(b"a9F", 0), Err(SlowPath));
        assert_eq!(hex4(b"a9F", 9), Err(SlowPath));
    }

    #[test]
    fn runs_of_backslashes_over_block_edges() {
        for lead in 0..70 {
            for run in 0..70 {
                let mut text = vec![b'x'; lead];
                text.extend(std::iter::repeat_n(b'\\', run));
                text.extend(b"\"tail\"\"");
                assert_same(&text);
            }
        }
    }

    #[test]
    fn asking_for_bytes_ahead_needs_none_to_be_there() {
        let bytes = vec![b'x'; FAULT_AROUND + 3 * PREFETCH_DISTANCE];
        for length in [0, 1, PREFETCH_DISTANCE, FAULT_AROUND, bytes.len()] {
            for start in (0..PREFETCH_DISTANCE.min(length)).step_by(PREFETCH_DISTANCE / 4) {
                let slice = &bytes[start..length];
                let mut faulted = 0;
                let stretches = (0..slice.len()).step_by(PREFETCH_DISTANCE / 2).map(|at| {
                    prefetch_ahead(slice, at, &mut faulted);
                    faulted
                });
                // Where each line stands, the stretch four times as far ahead was looked at.
                let expected = (0..slice.len())
                    .step_by(PREFETCH_DISTANCE / 2)
                    .map(|at| (slice.as_ptr().addr() + at + 4 * PREFETCH_DISTANCE) / FAULT_AROUND);
                assert!(stretches.eq(expected));
            }
        }
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        let words = |text: &[u8; 32]| {
            let mut words = text
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            std::array::from_fn(|_| words.next().unwrap())
        };
        let text = *b"0c97bebabfcb4f849950e0354bfc808b";
        assert_eq!(hex32(words(&text)), Some(0x0c97_beba_bfcb_4f84_9950_e035_4bfc_808b));
        // Any sign in any place.
        for at in 0..text.len() {
            for sign in 0..=u8::MAX {
                let mut other = text;
                other[at] = sign;
                assert_eq!(hex32(words(&other)), plain_hex32(words(&other)), "{sign} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn both_ways_agree(text in prop::collection::vec(prop_oneof![
            4 => any::<u8>(), 4 => Just(b'\\'), 2 => Just(b'"'), 4 => Just(b'u'), 4 => Just(b'd'),
            8 => Just(b'8'), 2 => Just(b'n'), 8 => 0x20u8..0x7f], 0..300))
        {
            assert_same(&text);
        }
    }
}
