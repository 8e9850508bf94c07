//! The AVX2 scanner: 64 bytes a step.

use super::escapes::EscapeCounts;
use super::prefetch::{PREFETCH_DISTANCE, prefetch};
use super::{ScanResult, SlowPath, StringScanner, make_result};
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_loadu_si256,
    _mm256_max_epu8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
};

/// The AVX2 scanner. Callers must check [`Avx2Scanner::is_available`] first.
pub struct Avx2Scanner;

impl Avx2Scanner {
    /// Returns whether the processor has all features that the scan is compiled for.
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

/// 64 bytes in two registers.
#[derive(Clone, Copy)]
struct SimdBlock(__m256i, __m256i);

/// One bit per byte of a block, lowest bit first.
struct BlockMasks {
    /// Bytes after the backslash of an escape.
    escaped: u64,
    /// Quotes and control characters that are not escaped.
    stops: u64,
    /// Escaped bytes that are not one of the common letters.
    unusual: u64,
    /// 1 if the first byte of the next block is escaped.
    carry: u64,
}

impl SimdBlock {
    #[inline(always)]
    fn load_whole(bytes: &[u8; STEP]) -> SimdBlock {
        // SAFETY: both unaligned 32-byte loads are inside the 64 bytes; AVX2 as in `mask`.
        unsafe {
            SimdBlock(
                _mm256_loadu_si256(bytes.as_ptr().cast()),
                _mm256_loadu_si256(bytes.as_ptr().add(32).cast()),
            )
        }
    }

    /// Loads the 64 bytes at `at`. Bytes beyond the slice read as zeroes, which count as control characters.
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
        // SAFETY: pure register arithmetic; AVX2 is present because every caller is reached through a function compiled
        // for AVX2 after a run-time check.
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

    /// Returns a mask of the escaped bytes and the carry into the next block. `carry` is 1 if the first byte of this
    /// block is escaped by the block before.
    #[inline(always)]
    fn escaped(self, carry: u64) -> (u64, u64) {
        let backslashes = self.equals(b'\\');
        // In a run of backslashes every second one is escaped. The subtraction propagates a borrow through each run and
        // so finds where it ends (simdjson's method).
        let potential = backslashes & !carry;
        let codes = (potential << 1 | ODD).wrapping_sub(potential) ^ ODD;
        (codes ^ (backslashes | carry), (codes & backslashes) >> 63)
    }

    /// Returns all masks of the block; `carry` as in `escaped`.
    #[inline(always)]
    fn masks(self, carry: u64) -> BlockMasks {
        let (escaped, carry) = self.escaped(carry);
        BlockMasks {
            escaped,
            // An escaped control character does not stop here; it is not an escape letter either, so it shows up in
            // `unusual`.
            stops: self.stops() & !escaped,
            unusual: escaped & !self.usual_letters(),
            carry,
        }
    }

    /// Returns a mask of quotes and control characters: where a string ends or is invalid.
    #[inline(always)]
    fn stops(self) -> u64 {
        self.equals(b'"') | self.controls()
    }

    /// Returns a mask of control characters.
    #[inline(always)]
    fn controls(self) -> u64 {
        // SAFETY: as in `mask`.
        unsafe {
            let limit = _mm256_set1_epi8(0x1f);
            let controls = |bytes| _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, limit), bytes);
            Self::mask(controls(self.0), controls(self.1))
        }
    }

    /// Returns a mask of the bytes that start a character, and one of those that start a character of two UTF-16 units.
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

    /// Returns a mask of the letters of common escapes. A shuffle looks each byte up by its low nibble and compares the
    /// result with the byte itself. `"`, `b` and `r` share a nibble; only the quote is in the table.
    #[inline(always)]
    fn usual_letters(self) -> u64 {
        const BY_LOW_BITS: [u8; 16] = {
            // 0xff matches no byte: the shuffle yields zero for bytes with the top bit set.
            let mut table = [0xff; 16];
            let letters = *b"\"\\fnt";
            let mut at = 0;
            while at < letters.len() {
                table[letters[at] as usize & 15] = letters[at];
                at += 1;
            }
            table
        };
        // SAFETY: the table has the 16 bytes that are loaded; AVX2 as in `mask`.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(BY_LOW_BITS.as_ptr().cast()));
            Self::mask(
                _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, self.0), self.0),
                _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, self.1), self.1),
            )
        }
    }

    /// Returns a mask of the bytes outside ASCII.
    #[inline(always)]
    fn wide(self) -> u64 {
        Self::mask(self.0, self.1)
    }
}

/// Accumulates, without branches, whether any block has bytes outside ASCII.
struct NonAsciiMask(__m256i);

impl NonAsciiMask {
    #[inline(always)]
    fn new() -> NonAsciiMask {
        // SAFETY: as in `SimdBlock::mask`.
        NonAsciiMask(unsafe { _mm256_set1_epi8(0) })
    }

    #[inline(always)]
    fn add(&mut self, block: SimdBlock) {
        // SAFETY: as in `SimdBlock::mask`.
        self.0 = unsafe { _mm256_or_si256(self.0, _mm256_or_si256(block.0, block.1)) };
    }

    #[inline(always)]
    fn has_any(&self) -> bool {
        // SAFETY: as in `SimdBlock::mask`.
        unsafe { _mm256_movemask_epi8(self.0) != 0 }
    }
}

/// Accumulates, without branches, the minimum byte per lane, to detect control characters.
struct ByteMinimum(__m256i);

impl ByteMinimum {
    #[inline(always)]
    fn new() -> ByteMinimum {
        // SAFETY: as in `SimdBlock::mask`.
        ByteMinimum(unsafe { _mm256_set1_epi8(-1) })
    }

    #[inline(always)]
    fn add(&mut self, block: SimdBlock) {
        // SAFETY: as in `SimdBlock::mask`.
        self.0 = unsafe { _mm256_min_epu8(self.0, _mm256_min_epu8(block.0, block.1)) };
    }

    #[inline(always)]
    fn has_control(&self) -> bool {
        // SAFETY: as in `SimdBlock::mask`.
        unsafe {
            let limit = _mm256_set1_epi8(0x1f);
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(self.0, limit), self.0)) != 0
        }
    }
}

impl StringScanner for Avx2Scanner {
    #[inline]
    fn scan<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath> {
        // SAFETY: callers select `Avx2Scanner` only after `Avx2Scanner::is_available`.
        unsafe { scan::<MEASURE>(bytes, start) }
    }
}

/// The scan. A separate function because `target_feature` applies to functions; it is not inlined because it would
/// bloat every caller of the parser.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn scan<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath> {
    let mut escapes = EscapeCounts::default();
    let mut at = start;
    let mut wide = NonAsciiMask::new();
    let mut lowest = ByteMinimum::new();
    let mut carry = 0u64;
    loop {
        // Hot loop over ordinary blocks. Every block takes the same steps whether it has escapes or not: about half of
        // them do, so a branch would be mispredicted. There is no call inside, so that all state stays in registers.
        let mut all = 0u32;
        for block in bytes.get(at..).unwrap_or_default().as_chunks::<STEP>().0 {
            prefetch(bytes, at + PREFETCH_DISTANCE);
            let block = SimdBlock::load_whole(block);
            let (escaped, next_carry) = block.escaped(carry);
            let ends = block.equals(b'"') & !escaped;
            let odd = escaped & !block.usual_letters();
            // One branch for both rare events: the end of the string, and an uncommon escape.
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
                return finish_scan::<MEASURE>(&bytes[start..end], end, &escapes, is_wide);
            }
            all += escaped.count_ones();
            carry = next_carry;
            lowest.add(block);
            if MEASURE {
                wide.add(block);
            }
            at += STEP;
        }
        // A block with an uncommon escape, or the last partial block: all checks, letter by letter where needed.
        let block = SimdBlock::load(bytes, at);
        let BlockMasks {
            escaped,
            stops,
            unusual,
            carry: next_carry,
        } = block.masks(carry);
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
        // A string that continues over the end of its line is detected here at the latest: the newline is among the
        // minima.
        if bytes.get(end) != Some(&b'"') || lowest.has_control() {
            return Err(SlowPath);
        }
        let is_wide = MEASURE && (wide.has_any() || block.wide() & inside != 0);
        return finish_scan::<MEASURE>(&bytes[start..end], end, &escapes, is_wide);
    }
}

/// Assembles the result for the string `text`, which ends at `end`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
#[inline]
fn finish_scan<const MEASURE: bool>(
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
        units = count_utf16_units(text);
    }
    Ok(make_result::<MEASURE>(end, escapes, text.len(), units))
}

/// [`super::count_utf16_units`], 64 bytes a step.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn count_utf16_units(text: &[u8]) -> u64 {
    let (blocks, rest) = text.as_chunks::<STEP>();
    let units = blocks.iter().map(|block| {
        let (starts, fours) = SimdBlock::load_whole(block).starts();
        u64::from(starts.count_ones() + fours.count_ones())
    });
    units.sum::<u64>() + super::count_utf16_units(rest)
}
