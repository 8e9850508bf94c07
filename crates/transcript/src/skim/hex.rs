//! UUIDs: 32 hexadecimal digits at once.

/// Parses 32 lower-case hexadecimal digits, most significant first; returns `None` if any byte is not one. Every record
/// has a UUID, so all digits are converted at once with SSE2.
#[cfg(target_arch = "x86_64")]
pub fn parse_hex32(digits: [u64; 4]) -> Option<u128> {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_packus_epi16, _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi16, _mm_slli_epi16, _mm_srli_epi16,
        _mm_storeu_si128, _mm_sub_epi8,
    };
    // SAFETY: pure register arithmetic with SSE2, which is part of x86-64; the unaligned store writes exactly the 16
    // bytes of `bytes`.
    unsafe {
        // Values of sixteen digits, and a mask of the valid ones.
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
        // Join two digits to a byte; the first is the high nibble.
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

/// The portable fallback.
#[cfg(not(target_arch = "x86_64"))]
pub fn parse_hex32(digits: [u64; 4]) -> Option<u128> {
    parse_hex32_portable(digits)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn parse_hex32_portable(digits: [u64; 4]) -> Option<u128> {
    let signs = digits.into_iter().flat_map(u64::to_le_bytes);
    signs
        .map(|sign| match sign {
            b'0'..=b'9' => Some(u128::from(sign - b'0')),
            b'a'..=b'f' => Some(u128::from(sign - b'a' + 10)),
            _ => None,
        })
        .try_fold(0, |number, value| Some(number << 4 | value?))
}
