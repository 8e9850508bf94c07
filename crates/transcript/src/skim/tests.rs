use super::escapes::parse_hex4;
use super::hex::parse_hex32_portable;
use super::prefetch::{FAULT_AROUND, PREFETCH_DISTANCE};
use super::*;
use proptest::prelude::*;

fn check(text: &[u8], measured: Result<(usize, u32, u32), ()>) {
    let portable = PortableScanner::scan::<true>(text, 0);
    assert_eq!(
        portable
            .map(|found| (found.end, found.shape.units, found.shape.escapes))
            .map_err(|_| ()),
        measured,
        "{:?}",
        String::from_utf8_lossy(text)
    );
    assert_scanners_agree(text);
}

fn assert_scanners_agree(text: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if Avx2Scanner::is_available() {
        assert_eq!(
            PortableScanner::scan::<true>(text, 0),
            Avx2Scanner::scan::<true>(text, 0),
            "{text:?}"
        );
        assert_eq!(
            PortableScanner::scan::<false>(text, 0),
            Avx2Scanner::scan::<false>(text, 0),
            "{text:?}"
        );
    }
}

#[test]
fn measures_as_the_client_does() {
    check(b"\"", Ok((0, 0, 0)));
    check(b"plain\" rest", Ok((5, 5, 0)));
    check(br#"a\nb\"c\\""#, Ok((9, 6, 3)));
    check("größer 漢字 😀\"".as_bytes(), Ok((20, 12, 0)));
    check(br#"\u0041\/""#, Ok((8, 2, 0)));
    check(br#"\u0007""#, Ok((6, 1, 1)));
    check(br#"\ud83d\ude00""#, Ok((12, 2, 0)));
}

#[test]
fn declines_strings_for_the_slow_path() {
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
fn hex4_accepts_exactly_four_digits() {
    for at in 0..4 {
        for sign in 0..=u8::MAX {
            let mut text = *b"a9Fb";
            text[at] = sign;
            let digits = text.map(|digit| (digit as char).to_digit(16));
            let expected = digits.iter().try_fold(0, |value, digit| Some(value << 4 | (*digit)?));
            assert_eq!(parse_hex4(&text, 0).ok(), expected, "{sign} at {at}");
        }
    }
    assert_eq!(parse_hex4(b"a9F", 0), Err(SlowPath));
    assert_eq!(parse_hex4(b"a9F", 9), Err(SlowPath));
}

#[test]
fn runs_of_backslashes_over_block_edges() {
    for lead in 0..70 {
        for run in 0..70 {
            let mut text = vec![b'x'; lead];
            text.extend(std::iter::repeat_n(b'\\', run));
            text.extend(b"\"tail\"\"");
            assert_scanners_agree(&text);
        }
    }
}

#[test]
fn prefetching_beyond_the_slice_is_harmless() {
    let bytes = vec![b'x'; FAULT_AROUND + 3 * PREFETCH_DISTANCE];
    for length in [0, 1, PREFETCH_DISTANCE, FAULT_AROUND, bytes.len()] {
        for start in (0..PREFETCH_DISTANCE.min(length)).step_by(PREFETCH_DISTANCE / 4) {
            let slice = &bytes[start..length];
            let mut faulted = 0;
            let windows = (0..slice.len()).step_by(PREFETCH_DISTANCE / 2).map(|at| {
                prefetch_ahead(slice, at, &mut faulted);
                faulted
            });
            // At each line, the window four prefetch distances ahead has been faulted in.
            let expected = (0..slice.len())
                .step_by(PREFETCH_DISTANCE / 2)
                .map(|at| (slice.as_ptr().addr() + at + 4 * PREFETCH_DISTANCE) / FAULT_AROUND);
            assert!(windows.eq(expected));
        }
    }
}

#[test]
fn hex32_equals_the_portable_parser() {
    let words = |text: &[u8; 32]| {
        let mut words = text
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        std::array::from_fn(|_| words.next().unwrap())
    };
    let text = *b"0c97bebabfcb4f849950e0354bfc808b";
    assert_eq!(
        parse_hex32(words(&text)),
        Some(0x0c97_beba_bfcb_4f84_9950_e035_4bfc_808b)
    );
    // Any sign in any place.
    for at in 0..text.len() {
        for sign in 0..=u8::MAX {
            let mut other = text;
            other[at] = sign;
            assert_eq!(
                parse_hex32(words(&other)),
                parse_hex32_portable(words(&other)),
                "{sign} at {at}"
            );
        }
    }
}

proptest! {
    #[test]
    fn both_scanners_agree(text in prop::collection::vec(prop_oneof![
        4 => any::<u8>(), 4 => Just(b'\\'), 2 => Just(b'"'), 4 => Just(b'u'), 4 => Just(b'd'),
        8 => Just(b'8'), 2 => Just(b'n'), 8 => 0x20u8..0x7f], 0..300))
    {
        assert_scanners_agree(&text);
    }
}
