//! The AVX2 scanner: 64 bytes a step.

use super::escapes::EscapeCounts;
use super::prefetch::{PREFETCH_DISTANCE, prefetch};
use super::{ScanResult, SlowPath, StringScanner, finish};
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
    _mm256_loadu_si256, _mm256_max_epu8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    _mm256_shuffle_epi8,
};

/// The AVX2 implementation. Whoever uses it has asked [`Avx2::is_available`] first.
pub struct Avx2Scanner;

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
