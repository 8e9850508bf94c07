//! UUIDs: 32 hexadecimal digits at once.

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
pub(super) fn plain_hex32(digits: [u64; 4]) -> Option<u128> {
    let signs = digits.into_iter().flat_map(u64::to_le_bytes);
    signs
        .map(|sign| match sign {
            b'0'..=b'9' => Some(u128::from(sign - b'0')),
            b'a'..=b'f' => Some(u128::from(sign - b'a' + 10)),
            _ => None,
        })
        .try_fold(0, |number, value| Some(number << 4 | value?))
}
