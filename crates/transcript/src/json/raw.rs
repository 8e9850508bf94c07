//! The fast path: parses the bytes of a line in place, without a tape and without a copy.

use super::text::{EscapeState, JsonStr};
use super::{JsonKind, MAX_DEPTH, MemoizedNumbers, PullParser, float_units};
use crate::skim::{ScanResult, SlowPath, StringScanner, TextShape, find_short_end};

/// Declines a line. The cold-path hint keeps this code out of the layout of the hot path.
#[inline(always)]
fn decline<T>() -> Result<T, SlowPath> {
    std::hint::cold_path();
    Err(SlowPath)
}

/// The fast-path parser. `S` scans the strings.
pub struct RawParser<'a, S> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// The run memoized on an earlier line, and its texts.
    memoized_run: (&'a [u8], [Option<JsonStr<'a>>; 4]),
    /// Number of runs memoized so far, including those on earlier blocks of the log.
    runs: u32,
    /// The memoized object, the depth it was found at, and its numbers.
    memoized_numbers: (&'a [u8], usize, MemoizedNumbers),
    scan: std::marker::PhantomData<S>,
}

/// An open object or array.
pub struct RawFrame {
    started: bool,
}

impl<'a, S: StringScanner> RawParser<'a, S> {
    /// Starts at `at`. The slice may extend beyond the line.
    #[inline]
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        RawParser {
            bytes,
            at,
            depth: 0,
            memoized_run: Default::default(),
            runs: 0,
            memoized_numbers: Default::default(),
            scan: std::marker::PhantomData,
        }
    }

    /// Continues the numbering of memoized runs after `runs` runs of earlier slices.
    pub fn with_run_offset(self, runs: u32) -> Self {
        RawParser { runs, ..self }
    }

    /// Starts the line at `at` of the same slice.
    #[inline]
    pub fn restart(&mut self, at: usize) {
        (self.at, self.depth) = (at, 0);
    }

    /// Returns the current index. It is never beyond the newline that ends the line.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the bytes since `start`, without blanks before them.
    pub fn bytes_since(&self, start: usize) -> &'a [u8] {
        self.bytes[start..self.at].trim_ascii_start()
    }

    /// Returns the index after the newline, or the end of the slice. Declines the line if anything but blanks is left
    /// on it.
    #[inline]
    pub fn end_of_line(&mut self) -> Result<usize, SlowPath> {
        match self.next_byte() {
            None => Ok(self.at),
            Some(b'\n') => Ok(self.at + 1),
            Some(_) => decline(),
        }
    }

    /// Skips blanks and returns the next byte without consuming it. A newline is not a blank: it ends the line.
    #[inline]
    fn next_byte(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), SlowPath> {
        if self.next_byte() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            decline()
        }
    }

    #[inline]
    fn open_container(&mut self, bracket: u8) -> Result<RawFrame, SlowPath> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return decline();
        }
        Ok(RawFrame { started: false })
    }

    /// Moves to the next member of an object or array. Returns `false` at its end, which is consumed.
    #[inline]
    fn next_member(&mut self, frame: &mut RawFrame, closing: u8) -> Result<bool, SlowPath> {
        match self.next_byte() {
            Some(byte) if byte == closing => {
                self.at += 1;
                self.depth -= 1;
                return Ok(false);
            }
            Some(b',') if frame.started => self.at += 1,
            Some(_) if !frame.started => {}
            _ => return decline(),
        }
        frame.started = true;
        Ok(true)
    }

    /// Reads a short, plain string that starts at the current byte; most strings are like that. `None` consumes nothing
    /// and only means that the full scan has to look.
    #[inline(always)]
    fn try_short_string(&mut self) -> Option<&'a [u8]> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        let start = self.at + 1;
        let end = find_short_end::<3>(self.bytes, start)?;
        self.at = end + 1;
        self.bytes.get(start..end)
    }

    /// Reads a string without measuring it.
    #[inline]
    fn parse_string(&mut self) -> Result<JsonStr<'a>, SlowPath> {
        match self.try_short_string() {
            Some(raw) => Ok(JsonStr::plain(raw)),
            None => self.long_string::<false>().map(|(text, _)| text),
        }
    }

    /// Reads a string and measures it.
    #[inline]
    fn parse_measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        match self.try_short_string() {
            Some(raw) => {
                let units = raw.len() as u32;
                Ok((
                    JsonStr::plain(raw),
                    TextShape {
                        units,
                        ..TextShape::default()
                    },
                ))
            }
            None => self.long_string::<true>(),
        }
    }

    /// Reads any string by the full scan. Not inlined: the inlined short-string path then needs no call and no spilled
    /// registers.
    #[inline(never)]
    fn long_string<const MEASURE: bool>(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        self.expect(b'"')?;
        let start = self.at;
        let ScanResult {
            end,
            has_escapes,
            shape,
        } = S::scan::<MEASURE>(self.bytes, start)?;
        self.at = end + 1;
        let raw = &self.bytes[start..end];
        let escapes = match has_escapes {
            true => EscapeState::Escaped,
            false => EscapeState::Plain,
        };
        Ok((JsonStr { raw, escapes }, shape))
    }

    /// Consumes `token` if exactly these bytes follow. Fails near the end of the slice, because every token is compared
    /// within the same 64-byte window: the compiler then needs one bounds check for a series of tokens.
    #[inline(always)]
    fn try_bytes(&mut self, token: &'static [u8]) -> bool {
        // Two comparisons of at most 32 bytes: the compiler inlines those, but calls `memcmp` for longer ones.
        let (start, rest) = token.split_at(token.len().min(32));
        let Some(window) = self.bytes.get(self.at..self.at + 64) else {
            return false;
        };
        // Not a closure: as a separate function it would not know the constant token, and would compare byte by byte.
        let found = window.starts_with(start) && window[32..].starts_with(rest);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Reads a key as the client writes it: directly after the comma, short, without escapes, directly followed by the
    /// colon. `None` consumes nothing.
    #[inline(always)]
    fn try_short_key(&mut self, frame: &mut RawFrame) -> Option<&'a [u8]> {
        let mut start = self.at + 1;
        if frame.started {
            if self.bytes.get(self.at) != Some(&b',') {
                return None;
            }
            start += 1;
        }
        if self.bytes.get(start - 1) != Some(&b'"') {
            return None;
        }
        let end = find_short_end::<2>(self.bytes, start)?;
        if self.bytes.get(end + 1) != Some(&b':') {
            return None;
        }
        frame.started = true;
        self.at = end + 2;
        self.bytes.get(start..end)
    }

    /// Reads any key, or the end of the object. Declines keys with escapes.
    #[inline(never)]
    fn long_key(&mut self, frame: &mut RawFrame) -> Result<Option<&'a [u8]>, SlowPath> {
        if !self.next_member(frame, b'}')? {
            return Ok(None);
        }
        let key = self.parse_string()?;
        if key.escapes == EscapeState::Escaped {
            return decline();
        }
        self.expect(b':')?;
        Ok(Some(key.raw))
    }

    /// Reads a count of one to seven digits that is followed by a comma or a closing brace, as most counts are. `None`
    /// consumes nothing. Works on eight bytes at once, loaded as one little-endian word (SWAR).
    #[inline]
    fn try_short_count(&mut self) -> Option<u64> {
        const EACH: u64 = 0x0101_0101_0101_0101;
        let window = self.bytes.get(self.at..self.at + 8)?;
        let digits = u64::from_le_bytes(window.try_into().ok()?) ^ (EACH * 0x30);
        // After the XOR a digit byte is 0 to 9. Adding six carries any larger low nibble into the high nibble, so the
        // high nibble is zero for digits only.
        let others = (digits | ((digits & (EACH * 0x7f)) + EACH * 6)) & (EACH * 0xf0);
        let length = others.trailing_zeros() as usize / 8;
        if !matches!(length, 1..=7) || !matches!(window[length], b',' | b'}') || (window[0] == b'0' && length > 1) {
            return None;
        }
        self.at += length;
        // Shift out the bytes after the digits, which leaves leading zeroes. Then combine neighbors: eight digits to
        // four pairs, two groups of four, one number.
        let digits = digits << (64 - 8 * length);
        let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
        Some((fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff)
    }

    /// Reads the bytes of a number of ordinary length. Declines exponents and very long numbers: simd-json reads those.
    #[inline(never)]
    fn number_token(&mut self) -> Result<&'a [u8], SlowPath> {
        self.next_byte();
        let start = self.at;
        let rest = &self.bytes[start..];
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut at = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(at);
        if whole == 0 || whole > 15 || (whole > 1 && rest[at] == b'0') {
            return decline();
        }
        at += whole;
        if rest.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            if fraction == 0 || fraction > 30 {
                return decline();
            }
            at += 1 + fraction;
        }
        if matches!(rest.get(at), Some(b'e' | b'E')) {
            return decline();
        }
        self.at = start + at;
        Ok(&rest[..at])
    }

    #[inline]
    fn literal_token(&mut self) -> Result<Option<bool>, SlowPath> {
        self.next_byte();
        let rest = &self.bytes[self.at..];
        let (length, value) = match rest.first() {
            Some(b't') if rest.starts_with(b"true") => (4, Some(true)),
            Some(b'f') if rest.starts_with(b"false") => (5, Some(false)),
            Some(b'n') if rest.starts_with(b"null") => (4, None),
            _ => return decline(),
        };
        self.at += length;
        Ok(value)
    }

    /// Skips a value of any kind. With `MEASURE`, returns its length in UTF-16 units when serialized as compact JSON.
    ///
    /// Iterative: a stack of bits (1 = object, 0 = array) tracks the open containers, so deep nesting costs no call
    /// stack.
    fn walk_value<const MEASURE: bool>(&mut self) -> Result<u32, SlowPath> {
        let mut units = 0u32;
        let mut objects = 0u128;
        let mut open = 0usize;
        loop {
            // A value comes next.
            let first = self.next_byte().map_or_else(decline, Ok)?;
            match first {
                b'"' => units = units.saturating_add(self.string_units::<MEASURE>()?),
                b'{' | b'[' => {
                    self.at += 1;
                    open += 1;
                    if self.depth + open > MAX_DEPTH {
                        return decline();
                    }
                    objects = objects << 1 | u128::from(first == b'{');
                    units = units.saturating_add(1);
                    let closing = if first == b'{' { b'}' } else { b']' };
                    if self.next_byte() != Some(closing) {
                        if first == b'{' {
                            units = units.saturating_add(self.key_units::<MEASURE>()?);
                        }
                        continue;
                    }
                }
                b't' | b'f' | b'n' => {
                    let start = self.at;
                    self.literal_token()?;
                    units = units.saturating_add((self.at - start) as u32);
                }
                _ => {
                    let token = self.number_token()?;
                    if MEASURE {
                        units = units.saturating_add(number_units(token));
                    }
                }
            }
            // A value ended. Close the containers that end here, then continue after the comma.
            loop {
                if open == 0 {
                    return Ok(units);
                }
                let is_object = objects & 1 == 1;
                if !MEASURE && is_object && self.try_short_key(&mut RawFrame { started: true }).is_some() {
                    break;
                }
                match self.next_byte() {
                    Some(b',') => {
                        self.at += 1;
                        units = units.saturating_add(1);
                        if is_object {
                            units = units.saturating_add(self.key_units::<MEASURE>()?);
                        }
                        break;
                    }
                    Some(byte) if byte == if is_object { b'}' } else { b']' } => {
                        self.at += 1;
                        open -= 1;
                        objects >>= 1;
                        units = units.saturating_add(1);
                    }
                    _ => return decline(),
                }
            }
        }
    }

    #[inline]
    fn string_units<const MEASURE: bool>(&mut self) -> Result<u32, SlowPath> {
        if !MEASURE {
            return self.parse_string().map(|_| 0);
        }
        let (_, shape) = self.parse_measured_string()?;
        Ok(shape.serialized_units().saturating_add(2))
    }

    /// Reads a key and its colon.
    #[inline]
    fn key_units<const MEASURE: bool>(&mut self) -> Result<u32, SlowPath> {
        let units = self.string_units::<MEASURE>()?;
        self.expect(b':')?;
        Ok(units.saturating_add(1))
    }
}

/// Returns the serialized length of a number: integers unchanged, fractions in the shortest notation that round-trips.
fn number_units(token: &[u8]) -> u32 {
    if !token.contains(&b'.') {
        return if token == b"-0" { 1 } else { token.len() as u32 };
    }
    let value = std::str::from_utf8(token)
        .ok()
        .and_then(|token| token.parse::<f64>().ok());
    value.map_or(token.len() as u32, float_units)
}

impl<'a, S: StringScanner> PullParser<'a> for RawParser<'a, S> {
    type Frame = RawFrame;

    #[inline]
    fn peek(&mut self) -> Result<JsonKind, SlowPath> {
        match self.next_byte().map_or_else(decline, Ok)? {
            b'"' => Ok(JsonKind::String),
            b'{' => Ok(JsonKind::Object),
            b'[' => Ok(JsonKind::Array),
            b't' | b'f' | b'n' => Ok(JsonKind::Literal),
            b'-' | b'0'..=b'9' => Ok(JsonKind::Number),
            _ => decline(),
        }
    }

    #[inline]
    fn open_object(&mut self) -> Result<RawFrame, SlowPath> {
        self.open_container(b'{')
    }

    #[inline]
    fn next_key(&mut self, frame: &mut RawFrame) -> Result<Option<&'a [u8]>, SlowPath> {
        // Check for the end of the object first: most keys were taken by `try_key` before.
        if frame.started && self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            self.depth -= 1;
            return Ok(None);
        }
        match self.try_short_key(frame) {
            Some(key) => Ok(Some(key)),
            None => self.long_key(frame),
        }
    }

    #[inline(always)]
    fn try_key(&mut self, token: &'static [u8]) -> bool {
        self.try_bytes(token)
    }

    #[inline(always)]
    fn try_open_object(&mut self, start: &'static [u8]) -> Option<RawFrame> {
        // At the depth limit, `open_object` is left to decline the line.
        if self.depth >= MAX_DEPTH || !self.try_bytes(start) {
            return None;
        }
        self.depth += 1;
        Some(RawFrame { started: true })
    }

    #[inline]
    fn position_mark(&self) -> usize {
        self.at
    }

    #[inline]
    fn memoize_texts(&mut self, mark: usize, texts: [Option<JsonStr<'a>>; 4]) {
        self.memoized_run = (&self.bytes[mark..self.at], texts);
        self.runs += 1;
    }

    #[inline]
    fn run_number(&self) -> u32 {
        self.runs
    }

    /// Equal bytes are equal tokens, except that the last token may be a number that continues after the run. Its
    /// remaining digits cannot follow a value, so the line is declined.
    #[inline]
    fn take_memoized_texts(&mut self) -> Option<[Option<JsonStr<'a>>; 4]> {
        let (run, texts) = &self.memoized_run;
        let is_next = !run.is_empty() && self.bytes.get(self.at..self.at + run.len()) == Some(run);
        if is_next {
            self.at += run.len();
        }
        is_next.then_some(*texts)
    }

    #[inline]
    fn memoize_numbers(&mut self, mark: usize, numbers: MemoizedNumbers) {
        self.memoized_numbers = (&self.bytes[mark..self.at], self.depth, numbers);
    }

    /// Equal bytes are the same object. The depth must be equal too, or the object could exceed the depth limit.
    #[inline]
    fn take_memoized_numbers(&mut self) -> Option<MemoizedNumbers> {
        let (object, depth, numbers) = &self.memoized_numbers;
        let follows = self.bytes.get(self.at..self.at + object.len());
        let is_next = !object.is_empty() && self.depth == *depth && follows == Some(object);
        is_next.then(|| {
            self.at += object.len();
            *numbers
        })
    }

    #[inline]
    fn open_array(&mut self) -> Result<RawFrame, SlowPath> {
        self.open_container(b'[')
    }

    #[inline]
    fn next_item(&mut self, frame: &mut RawFrame) -> Result<bool, SlowPath> {
        self.next_member(frame, b']')
    }

    #[inline]
    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath> {
        self.parse_string()
    }

    #[inline]
    fn text(&mut self) -> Result<Option<JsonStr<'a>>, SlowPath> {
        if let Some(raw) = self.try_short_string() {
            return Ok(Some(JsonStr::plain(raw)));
        }
        if self.try_bytes(b"null") {
            return Ok(None);
        }
        match self.peek()? {
            JsonKind::String => self.long_string::<false>().map(|(text, _)| Some(text)),
            _ => self.walk_value::<false>().map(|_| None),
        }
    }

    #[inline]
    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        self.parse_measured_string()
    }

    #[inline]
    fn count(&mut self) -> Result<Option<u64>, SlowPath> {
        if let Some(count) = self.try_short_count() {
            return Ok(Some(count));
        }
        let token = self.number_token()?;
        if token == b"-0" {
            return Ok(Some(0));
        }
        Ok(token.iter().try_fold(0u64, |value, &digit| {
            digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0'))
        }))
    }

    #[inline]
    fn literal(&mut self) -> Result<Option<bool>, SlowPath> {
        self.literal_token()
    }

    #[inline]
    fn skip(&mut self) -> Result<(), SlowPath> {
        if self.try_short_string().is_some() || self.try_short_count().is_some() || self.try_bytes(b"null") {
            return Ok(());
        }
        self.walk_value::<false>().map(|_| ())
    }

    #[inline]
    fn serialized_units(&mut self) -> Result<u32, SlowPath> {
        self.walk_value::<true>()
    }
}
