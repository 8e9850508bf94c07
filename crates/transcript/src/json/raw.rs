//! The fast path: parses the bytes of a line in place, without a tape and without a copy.

use super::text::{EscapeState, JsonStr};
use super::{JsonKind, MAX_DEPTH, MemoizedNumbers, PullParser, float_units};
use crate::skim::{ScanResult, SlowPath, StringScanner, TextShape, short_end};

/// Declines a line. Hardly ever, and the code for it is kept out of the way of what every line runs through.
#[inline(always)]
fn decline<T>() -> Result<T, SlowPath> {
    std::hint::cold_path();
    Err(SlowPath)
}

/// Walks the bytes of a line in place.
pub struct RawParser<'a, S> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// The run of members that [`Source::remember`] was given on an earlier line, and its texts.
    memoized_run: (&'a [u8], [Option<JsonStr<'a>>; 4]),
    /// How many runs were remembered, on other blocks of the log too.
    runs: u32,
    /// The object that [`Source::remember_numbers`] was given, the depth it was at, and its numbers.
    memoized_numbers: (&'a [u8], usize, MemoizedNumbers),
    scan: std::marker::PhantomData<S>,
}

/// Whether an object or array has given its first member yet.
pub struct RawFrame {
    started: bool,
}

impl<'a, S: StringScanner> RawParser<'a, S> {
    /// Starts at `at`; the slice may go on beyond the line.
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

    /// Numbers remembered runs from here on: the slice follows others, on which as many were remembered.
    pub fn with_run_offset(self, runs: u32) -> Self {
        RawParser { runs, ..self }
    }

    /// Starts anew at `at`, on another line of the same slice.
    #[inline]
    pub fn restart(&mut self, at: usize) {
        (self.at, self.depth) = (at, 0);
    }

    /// Where reading stands: never beyond the newline that ends the line.
    pub fn position(&self) -> usize {
        self.at
    }

    /// After the value: the index after the newline (or the end of the slice), if nothing else is left.
    #[inline]
    pub fn end_of_line(&mut self) -> Result<usize, SlowPath> {
        match self.next_byte() {
            None => Ok(self.at),
            Some(b'\n') => Ok(self.at + 1),
            Some(_) => decline(),
        }
    }

    /// The next byte that is not blank, without consuming it. A newline is not blank: it ends the line.
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
    fn open(&mut self, bracket: u8) -> Result<RawFrame, SlowPath> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return decline();
        }
        Ok(RawFrame { started: false })
    }

    /// Moves to the next member of a container; `false` when it ended.
    #[inline]
    fn member(&mut self, frame: &mut RawFrame, closing: u8) -> Result<bool, SlowPath> {
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

    /// A string as most are: right here (no blanks), short and plain. `None` consumes nothing and means only that
    /// the long way must look.
    #[inline(always)]
    fn short_string(&mut self) -> Option<&'a [u8]> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        let start = self.at + 1;
        let end = short_end::<3>(self.bytes, start)?;
        self.at = end + 1;
        self.bytes.get(start..end)
    }

    /// A string that is not to be measured.
    #[inline]
    fn quoted(&mut self) -> Result<JsonStr<'a>, SlowPath> {
        match self.short_string() {
            Some(raw) => Ok(JsonStr::plain(raw)),
            None => self.long_string::<false>().map(|(text, _)| text),
        }
    }

    /// A string with its shape.
    #[inline]
    fn quoted_measured(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        match self.short_string() {
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

    /// Any string. Not inlined, so that the ways for short ones stay free of its calls and registers.
    #[inline(never)]
    fn long_string<const MEASURE: bool>(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        self.expect(b'"')?;
        let start = self.at;
        let ScanResult {
            end,
            has_escapes,
            shape,
        } = S::string::<MEASURE>(self.bytes, start)?;
        self.at = end + 1;
        let raw = &self.bytes[start..end];
        let spelling = match has_escapes {
            true => EscapeState::Escaped,
            false => EscapeState::Plain,
        };
        Ok((JsonStr { raw, spelling }, shape))
    }

    /// Consumes exactly these bytes if they are right here (and are not among the last few of the slice: one window
    /// for all tokens means one check of bounds for a row of them).
    #[inline(always)]
    fn try_bytes(&mut self, token: &'static [u8]) -> bool {
        // In two steps: longer ones are not compared in place.
        let (start, rest) = token.split_at(token.len().min(32));
        let Some(window) = self.bytes.get(self.at..self.at + 64) else {
            return false;
        };
        // No closure here: it would be a function of its own, which knows no token and compares byte by byte.
        let found = window.starts_with(start) && window[32..].starts_with(rest);
        if found {
            self.at += token.len();
        }
        found
    }

    /// A key the client's way: right after its comma, short, plain, its colon right behind. `None` consumes nothing.
    #[inline(always)]
    fn short_key(&mut self, frame: &mut RawFrame) -> Option<&'a [u8]> {
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
        let end = short_end::<2>(self.bytes, start)?;
        if self.bytes.get(end + 1) != Some(&b':') {
            return None;
        }
        frame.started = true;
        self.at = end + 2;
        self.bytes.get(start..end)
    }

    /// Any key, or the end of the object.
    #[inline(never)]
    fn long_key(&mut self, frame: &mut RawFrame) -> Result<Option<&'a [u8]>, SlowPath> {
        if !self.member(frame, b'}')? {
            return Ok(None);
        }
        let key = self.quoted()?;
        if key.spelling == EscapeState::Escaped {
            return decline();
        }
        self.expect(b':')?;
        Ok(Some(key.raw))
    }

    /// A count as most are: one to seven digits, then something that cannot belong to a number. `None` consumes
    /// nothing. Reads eight bytes as one number, first digit lowest.
    #[inline]
    fn short_count(&mut self) -> Option<u64> {
        const EACH: u64 = 0x0101_0101_0101_0101;
        let window = self.bytes.get(self.at..self.at + 8)?;
        let digits = u64::from_le_bytes(window.try_into().ok()?) ^ (EACH * 0x30);
        // What was a digit is now 0 to 9; adding six lifts the others' low half over its edge.
        let others = (digits | ((digits & (EACH * 0x7f)) + EACH * 6)) & (EACH * 0xf0);
        let length = others.trailing_zeros() as usize / 8;
        if !matches!(length, 1..=7) || !matches!(window[length], b',' | b'}') || (window[0] == b'0' && length > 1) {
            return None;
        }
        self.at += length;
        // Zeroes take the place of what follows the digits; then neighbours are joined, twice as many each time.
        let digits = digits << (64 - 8 * length);
        let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
        Some((fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff)
    }

    /// A number token of ordinary length. The unusual ones are left to simd-json.
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

    /// Walks a value of any kind. With `MEASURE` the result is its serialised length in units.
    ///
    /// A loop with a stack of bits (1 = object), not recursion: depth costs no stack.
    fn walk<const MEASURE: bool>(&mut self) -> Result<u32, SlowPath> {
        let mut units = 0u32;
        let mut objects = 0u128;
        let mut open = 0usize;
        loop {
            // A value is next.
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
            // A value ended: close what ends here, then go on after the comma.
            loop {
                if open == 0 {
                    return Ok(units);
                }
                let is_object = objects & 1 == 1;
                if !MEASURE && is_object && self.short_key(&mut RawFrame { started: true }).is_some() {
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
            return self.quoted().map(|_| 0);
        }
        let (_, shape) = self.quoted_measured()?;
        Ok(shape.serialised_units().saturating_add(2))
    }

    /// A key and its colon.
    #[inline]
    fn key_units<const MEASURE: bool>(&mut self) -> Result<u32, SlowPath> {
        let units = self.string_units::<MEASURE>()?;
        self.expect(b':')?;
        Ok(units.saturating_add(1))
    }
}

/// Serialised length of a number: integers as they are, fractions in the shortest form that reads back.
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
        self.open(b'{')
    }

    #[inline]
    fn next_key(&mut self, frame: &mut RawFrame) -> Result<Option<&'a [u8]>, SlowPath> {
        if frame.started && self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
            self.depth -= 1;
            return Ok(None);
        }
        match self.short_key(frame) {
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
        // What is too deep is declined where it is opened the long way.
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

    /// Equal bytes are equal tokens, up to the last one: if that is a number that goes on behind the run, the rest of
    /// it is not what may follow a value, and the line is declined.
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

    /// Equal bytes are the same object, and at the same depth no deeper than allowed.
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
        self.open(b'[')
    }

    #[inline]
    fn next_item(&mut self, frame: &mut RawFrame) -> Result<bool, SlowPath> {
        self.member(frame, b']')
    }

    #[inline]
    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath> {
        self.quoted()
    }

    #[inline]
    fn text(&mut self) -> Result<Option<JsonStr<'a>>, SlowPath> {
        if let Some(raw) = self.short_string() {
            return Ok(Some(JsonStr::plain(raw)));
        }
        if self.try_bytes(b"null") {
            return Ok(None);
        }
        match self.peek()? {
            JsonKind::String => self.long_string::<false>().map(|(text, _)| Some(text)),
            _ => self.walk::<false>().map(|_| None),
        }
    }

    #[inline]
    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        self.quoted_measured()
    }

    #[inline]
    fn count(&mut self) -> Result<Option<u64>, SlowPath> {
        if let Some(count) = self.short_count() {
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
        if self.short_string().is_some() || self.short_count().is_some() || self.try_bytes(b"null") {
            return Ok(());
        }
        self.walk::<false>().map(|_| ())
    }

    #[inline]
    fn serialised_units(&mut self) -> Result<u32, SlowPath> {
        self.walk::<true>()
    }
}
