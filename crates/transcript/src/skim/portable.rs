//! The portable scanner, built on `memchr`.

use super::escapes::{EscapeCounts, is_escape_letter};
use super::{ScanResult, SlowPath, StringScanner, count_utf16_units, make_result};

pub struct PortableScanner;

impl StringScanner for PortableScanner {
    fn scan<const MEASURE: bool>(bytes: &[u8], start: usize) -> Result<ScanResult, SlowPath> {
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
            units = count_utf16_units(inside);
        }
        Ok(make_result::<MEASURE>(end, &escapes, end - start, units))
    }
}
