//! Pulling values out of one JSON line, from either of two sources.
//!
//! [`Source`] is the small vocabulary that [`super::record`] reads a record with. It is implemented twice:
//! by [`Raw`], which walks the bytes of the line in place and touches only what is asked for, and by
//! [`Tape`], which walks a line that simd-json has parsed. What a record *is* is therefore written once;
//! how bytes are read is written twice and compared by a fuzz target.
//!
//! # The acceptance contract
//!
//! A line is accepted when it is one JSON object by the grammar of RFC 8259, nested at most
//! [`MAX_DEPTH`] deep, with these allowances and limits:
//!
//! * strings may hold invalid UTF-8 and lone surrogates; both read as U+FFFD;
//! * of several equal keys in one object the last one counts;
//! * a number counts as a token count only if it is an integer from 0 to `u64::MAX`; any other number is
//!   passed over; a number too long for `f64` is what simd-json says it is;
//! * blanks, tabs and a carriage return may surround the object.
//!
//! Nothing of a line is used before the whole line is accepted. [`Raw`] may decline a line that the
//! contract accepts (it does so for everything unusual); it never accepts one that the contract refuses.
//! Lines it declines go to [`super::repair`], whose first rung is simd-json on the unchanged line.

use crate::skim::{ScanResult, SlowPath, StringScanner, TextShape, short_end};
use simd_json::{Node, StaticNode};

/// Deepest nesting that is read.
pub const MAX_DEPTH: usize = 128;

/// The inside of a JSON string, decoded only on request.
#[derive(Clone, Copy, Default)]
pub struct JsonStr<'a> {
    raw: &'a [u8],
    spelling: EscapeState,
}

/// Whether the bytes of a text are what it says. A whole word, because texts are copied word by word: a processor that
/// reads a word of which one byte has just been written has to wait until that byte has reached its cache.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(usize)]
enum EscapeState {
    #[default]
    Plain,
    Escaped,
}

/// Shows what the text says, not how it was written: texts from either source compare equal.
impl std::fmt::Debug for JsonStr<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.decode(&mut String::new()).fmt(formatter)
    }
}

impl<'a> JsonStr<'a> {
    /// A text that needs no decoding.
    #[inline]
    pub fn plain(raw: &'a [u8]) -> Self {
        JsonStr {
            raw,
            spelling: EscapeState::Plain,
        }
    }

    /// The bytes as they stand in the line: decoded already if there are no escapes.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// The text, decoded into `buffer` if it has to be.
    pub fn decode<'b>(self, buffer: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        if self.spelling == EscapeState::Plain
            && let Ok(text) = std::str::from_utf8(self.raw)
        {
            return text;
        }
        buffer.clear();
        let mut rest = self.raw;
        if self.spelling == EscapeState::Escaped {
            while let Some(at) = memchr::memchr(b'\\', rest) {
                buffer.push_str(&String::from_utf8_lossy(&rest[..at]));
                rest = decode_escape(&rest[at + 1..], buffer);
            }
        }
        buffer.push_str(&String::from_utf8_lossy(rest));
        buffer
    }
}

/// Decodes one escape (the bytes after its backslash) and returns what follows it.
fn decode_escape<'a>(bytes: &'a [u8], buffer: &mut String) -> &'a [u8] {
    let Some((&letter, rest)) = bytes.split_first() else {
        return &[];
    };
    let short = match letter {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return decode_unicode(rest, buffer),
        other => other as char,
    };
    buffer.push(short);
    rest
}

/// Decodes the digits of a `\u` escape, together with the low half that may follow it.
fn decode_unicode<'a>(bytes: &'a [u8], buffer: &mut String) -> &'a [u8] {
    let unit = |digits: Option<&[u8]>| u16::from_str_radix(std::str::from_utf8(digits?).ok()?, 16).ok();
    let Some(first) = unit(bytes.get(..4)) else {
        buffer.push(char::REPLACEMENT_CHARACTER);
        return bytes;
    };
    let mut rest = &bytes[4..];
    let mut pair = vec![first];
    if (0xd800..0xdc00).contains(&first)
        && rest.starts_with(b"\\u")
        && let Some(low) = unit(rest.get(2..6)).filter(|low| (0xdc00..0xe000).contains(low))
    {
        pair.push(low);
        rest = &rest[6..];
    }
    buffer.extend(char::decode_utf16(pair).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
    rest
}

/// What kind of value comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

/// What [`Source::remember_numbers`] keeps of an object.
pub type MemoizedNumbers = [u64; 16];

/// Pulls the values of one line in order. Every method consumes what it names.
pub trait PullParser<'a> {
    /// Where reading stands inside an open object or array.
    type Frame;

    /// The kind of the next value, without consuming it.
    fn peek(&mut self) -> Result<JsonKind, SlowPath>;
    /// Enters an object.
    fn open_object(&mut self) -> Result<Self::Frame, SlowPath>;
    /// The next key of an object, or `None` at its end (which leaves it).
    fn next_key(&mut self, frame: &mut Self::Frame) -> Result<Option<&'a [u8]>, SlowPath>;
    /// Consumes a key (with its comma and colon: `,"key":`) if exactly this follows the last value of an object. Members
    /// that say what they always say may stand before it (`,"type":"user","message":`). `false` says nothing:
    /// [`Source::key`] then tells what follows. Asking for the usual next bytes first is much cheaper than reading any
    /// key and finding out which one it is.
    #[inline]
    fn try_key(&mut self, _token: &'static [u8]) -> bool {
        false
    }
    /// Enters an object that starts with exactly these bytes, `{"key":` or `{"key":value,"key":` and so on, and consumes
    /// them. `None` says nothing: [`Source::open_object`] enters any.
    #[inline]
    fn try_open_object(&mut self, _start: &'static [u8]) -> Option<Self::Frame> {
        None
    }
    /// Where a run of members starts that may repeat on the next lines; for [`Source::remember`].
    #[inline]
    fn position_mark(&self) -> usize {
        0
    }
    /// Keeps what was read since `mark` beside its texts.
    #[inline]
    fn memoize_texts(&mut self, _mark: usize, _texts: [Option<JsonStr<'a>>; 4]) {}
    /// The same for an object of numbers: what was read since `mark` is that object, whole.
    #[inline]
    fn memoize_numbers(&mut self, _mark: usize, _numbers: MemoizedNumbers) {}
    /// If exactly the remembered object follows: consumes it and gives its numbers.
    #[inline]
    fn take_memoized_numbers(&mut self) -> Option<MemoizedNumbers> {
        None
    }
    /// If exactly the remembered bytes follow: consumes them and gives the texts they held.
    #[inline]
    fn take_memoized_texts(&mut self) -> Option<[Option<JsonStr<'a>>; 4]> {
        None
    }
    /// Number of the run that was remembered last; 0 if there is none. No two runs of a log have the same.
    #[inline]
    fn run_number(&self) -> u32 {
        0
    }
    /// Enters an array.
    fn open_array(&mut self) -> Result<Self::Frame, SlowPath>;
    /// Whether the array has another item; `false` leaves it.
    fn next_item(&mut self, frame: &mut Self::Frame) -> Result<bool, SlowPath>;
    /// A string, not measured.
    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath>;
    /// A string with its shape.
    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath>;
    /// A number, if it is an integer from 0 to `u64::MAX`.
    fn count(&mut self) -> Result<Option<u64>, SlowPath>;
    /// A literal: `Some` for a boolean.
    fn literal(&mut self) -> Result<Option<bool>, SlowPath>;
    /// Passes over a value of any kind.
    fn skip(&mut self) -> Result<(), SlowPath>;
    /// Passes over a value and returns its length in UTF-16 units as a compact JSON serialisation.
    fn serialised_units(&mut self) -> Result<u32, SlowPath>;

    /// A string if one is next; any other value is passed over.
    #[inline]
    fn text(&mut self) -> Result<Option<JsonStr<'a>>, SlowPath> {
        match self.peek()? {
            JsonKind::String => self.string().map(Some),
            _ => self.skip().map(|()| None),
        }
    }

    /// A count if a number is next; any other value is passed over.
    #[inline]
    fn number(&mut self) -> Result<Option<u64>, SlowPath> {
        match self.peek()? {
            JsonKind::Number => self.count(),
            _ => self.skip().map(|()| None),
        }
    }

    /// A boolean if one is next (`false` for everything else, which is passed over).
    #[inline]
    fn flag(&mut self) -> Result<bool, SlowPath> {
        match self.peek()? {
            JsonKind::Literal => Ok(self.literal()?.unwrap_or(false)),
            _ => self.skip().map(|()| false),
        }
    }
}

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

fn float_units(value: f64) -> u32 {
    format!("{value}").len() as u32
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

/// Walks a line that simd-json has parsed.
pub struct TapeParser<'t, 'a> {
    nodes: &'t [Node<'a>],
    at: usize,
}

/// Members left in an open object or array.
pub struct TapeFrame {
    left: usize,
}

impl<'t, 'a> TapeParser<'t, 'a> {
    /// Starts at the root of a tape.
    pub fn new(nodes: &'t [Node<'a>]) -> Self {
        TapeParser { nodes, at: 0 }
    }

    fn next(&mut self) -> Result<Node<'a>, SlowPath> {
        let node = self.nodes.get(self.at).copied().ok_or(SlowPath)?;
        self.at += 1;
        Ok(node)
    }

    fn open(&mut self) -> Result<TapeFrame, SlowPath> {
        match self.next()? {
            Node::Object { len, .. } | Node::Array { len, .. } => Ok(TapeFrame { left: len }),
            _ => Err(SlowPath),
        }
    }

    fn member(frame: &mut TapeFrame) -> bool {
        let more = frame.left > 0;
        frame.left -= usize::from(more);
        more
    }
}

/// The shape of a decoded string.
pub fn decoded_shape(text: &str) -> TextShape {
    let mut shape = TextShape::default();
    for character in text.chars() {
        let units = character.len_utf16() as u32;
        shape.units = shape.units.saturating_add(units);
        match character {
            '"' | '\\' | '\n' | '\t' | '\r' | '\u{8}' | '\u{c}' => shape.escapes += 1,
            '\0'..='\u{1f}' => {
                shape.escapes += 1;
                shape.long_escapes += 1;
            }
            '\u{80}'.. => {
                let beyond = character.len_utf8() as u32 - units;
                shape.wide = shape.wide.saturating_add(beyond);
            }
            _ => {}
        }
    }
    shape
}

impl<'a> PullParser<'a> for TapeParser<'_, 'a> {
    type Frame = TapeFrame;

    fn peek(&mut self) -> Result<JsonKind, SlowPath> {
        Ok(match self.nodes.get(self.at).ok_or(SlowPath)? {
            Node::String(_) => JsonKind::String,
            Node::Object { .. } => JsonKind::Object,
            Node::Array { .. } => JsonKind::Array,
            Node::Static(StaticNode::Null | StaticNode::Bool(_)) => JsonKind::Literal,
            Node::Static(_) => JsonKind::Number,
        })
    }

    fn open_object(&mut self) -> Result<TapeFrame, SlowPath> {
        self.open()
    }

    fn next_key(&mut self, frame: &mut TapeFrame) -> Result<Option<&'a [u8]>, SlowPath> {
        if !Self::member(frame) {
            return Ok(None);
        }
        Ok(Some(self.string()?.raw))
    }

    fn open_array(&mut self) -> Result<TapeFrame, SlowPath> {
        self.open()
    }

    fn next_item(&mut self, frame: &mut TapeFrame) -> Result<bool, SlowPath> {
        Ok(Self::member(frame))
    }

    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath> {
        match self.next()? {
            Node::String(text) => Ok(JsonStr::plain(text.as_bytes())),
            _ => Err(SlowPath),
        }
    }

    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        match self.next()? {
            Node::String(text) => Ok((JsonStr::plain(text.as_bytes()), decoded_shape(text))),
            _ => Err(SlowPath),
        }
    }

    fn count(&mut self) -> Result<Option<u64>, SlowPath> {
        match self.next()? {
            Node::Static(StaticNode::U64(value)) => Ok(Some(value)),
            Node::Static(StaticNode::I64(value)) => Ok(u64::try_from(value).ok()),
            _ => Ok(None),
        }
    }

    fn literal(&mut self) -> Result<Option<bool>, SlowPath> {
        match self.next()? {
            Node::Static(StaticNode::Bool(value)) => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    fn skip(&mut self) -> Result<(), SlowPath> {
        if let Node::Object { count, .. } | Node::Array { count, .. } = self.next()? {
            self.at += count;
        }
        Ok(())
    }

    fn serialised_units(&mut self) -> Result<u32, SlowPath> {
        // Every container adds its brackets, the commas between its members and, in objects, the colons.
        let mut units = 0u32;
        let mut left = 1usize;
        while left > 0 {
            left -= 1;
            let own = match self.next()? {
                Node::String(text) => decoded_shape(text).serialised_units().saturating_add(2),
                Node::Object { len, .. } => {
                    left += 2 * len;
                    (2 + len + len.saturating_sub(1)) as u32
                }
                Node::Array { len, .. } => {
                    left += len;
                    (2 + len.saturating_sub(1)) as u32
                }
                Node::Static(StaticNode::Null) => 4,
                Node::Static(StaticNode::Bool(value)) => 5 - u32::from(value),
                Node::Static(StaticNode::I64(value)) => value.to_string().len() as u32,
                Node::Static(StaticNode::U64(value)) => value.to_string().len() as u32,
                Node::Static(StaticNode::F64(value)) => float_units(value),
            };
            units = units.saturating_add(own);
        }
        Ok(units)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{WireRecord, read};
    use super::super::skim::PortableScanner;
    use super::*;

    fn debug_string(record: WireRecord<'_>) -> String {
        format!("{record:?}")
    }

    fn by_tape(line: &str) -> Option<String> {
        let mut bytes = line.as_bytes().to_vec();
        let tape = simd_json::to_tape(&mut bytes).ok()?;
        let mut record = WireRecord::default();
        read(&mut TapeParser::new(&tape.0), &mut record).ok()?;
        Some(debug_string(record))
    }

    /// What one walker makes of line after line. Behind the last one there are `padding` bytes, so that it is read
    /// the short ways too, which want some room.
    fn by_raw<S: StringScanner>(lines: &[&str], padding: usize) -> Vec<Option<String>> {
        let mut text = lines.join("\n");
        if padding > 0 {
            text.push('\n');
            text.extend(std::iter::repeat_n('7', padding));
        }
        let mut raw = RawParser::<S>::new(text.as_bytes(), 0);
        let mut start = 0;
        let mut found = Vec::new();
        for line in lines {
            raw.restart(start);
            let mut record = WireRecord::default();
            let end = read(&mut raw, &mut record).and_then(|()| raw.end_of_line());
            assert!(raw.position() <= start + line.len(), "reads beyond its line: {line}");
            start += line.len() + 1;
            assert!(end.is_err() || end == Ok(start.min(text.len())), "{line}");
            found.push(end.is_ok().then(|| debug_string(record)));
        }
        found
    }

    fn by_raws(lines: &[&str], padding: usize) -> Vec<Option<String>> {
        let found = by_raw::<PortableScanner>(lines, padding);
        #[cfg(target_arch = "x86_64")]
        if super::super::skim::Avx2Scanner::is_available() {
            assert_eq!(found, by_raw::<super::super::skim::Avx2Scanner>(lines, padding));
        }
        found
    }

    /// Reads the lines one after another and each alone. Every line says whether the walker reads it, as one of several.
    /// What it reads is what simd-json reads.
    fn check(lines: &[(bool, &str)]) {
        let texts = lines.iter().map(|(_, line)| *line).collect::<Vec<_>>();
        for padding in [0, 1, 20, 100] {
            let found = by_raws(&texts, padding);
            for ((is_read, line), found) in lines.iter().zip(found) {
                let slow = by_tape(line);
                let alone = by_raws(&[line], padding).swap_remove(0);
                assert_eq!(found.is_some(), *is_read, "{line}");
                assert!(alone.is_some() || !is_read, "{line}");
                for fast in [found, alone].into_iter().flatten() {
                    assert_eq!(Some(fast), slow, "{line}");
                }
            }
        }
    }

    #[test]
    fn counts_are_integers_of_any_length() {
        let digits = "12345678901234567890";
        let mut numbers = (1..=20)
            .map(|length| (length <= 15, &digits[..length], digits[..length].parse().ok()))
            .collect::<Vec<(bool, &str, Option<u64>)>>();
        numbers.extend([
            (true, "0", Some(0)),
            (true, "-0", Some(0)),
            (true, "9", Some(9)),
            (true, "9999999", Some(9_999_999)),
            (true, "10000000", Some(10_000_000)),
            (true, "99999999", Some(99_999_999)),
            (true, "1000001", Some(1_000_001)),
            (true, "999999999999999", Some(999_999_999_999_999)),
            (false, "18446744073709551615", Some(u64::MAX)),
            (false, "18446744073709551616", None),
            (false, "123456789012345678901234567890", None),
            (true, "-1", None),
            (true, "-1234567", None),
            (false, "-9223372036854775808", None),
            (false, "-9223372036854775809", None),
            (true, "0.5", None),
            (true, "12.0", None),
            (true, "-0.0", None),
            (true, "1234567.5", None),
            (false, "1e5", None),
            (false, "1E+2", None),
            (false, "1.5e-3", None),
        ]);
        for (is_read, number, count) in numbers {
            for (before, after) in [
                ("", ""),
                ("", ",\"postTokens\":7"),
                (" ", " "),
                ("", "\t,\"postTokens\":7"),
            ] {
                let line = format!("{{\"compactMetadata\":{{\"preTokens\":{before}{number}{after}}}}}");
                check(&[(is_read, &line)]);
                // Skipped, and measured.
                check(&[(is_read, &format!("{{\"x\":{before}{number}{after}}}"))]);
                let input =
                    format!("{{\"message\":{{\"content\":[{{\"input\":{{\"a\":{before}{number}{after}}}}}]}}}}");
                check(&[(is_read, &input)]);
                let slow = by_tape(&line).expect(&line);
                let expected = match count {
                    Some(count) => format!("pre_tokens: Some({count})"),
                    None => "pre_tokens: None".to_owned(),
                };
                assert!(slow.contains(&expected), "{line} {slow}");
            }
        }
        for wrong in [
            "01", "00", "-01", "1.", ".5", "+1", "-", "1a", "1:", "12/", "1;", "1 2", "1\"", "0x1", "1..2", "1e", "",
        ] {
            let line = format!("{{\"compactMetadata\":{{\"preTokens\":{wrong},\"postTokens\":7}}}}");
            assert_eq!(by_tape(&line), None, "{line}");
            check(&[(false, &line), (false, &format!("{{\"x\":{wrong}}}"))]);
        }
    }

    #[test]
    fn a_setting_is_recalled_only_where_it_is_the_same() {
        let setting = |branch: &str, rest: &str| {
            format!(
                "{{\"type\":\"user\",\"userType\":\"external\",\"entrypoint\":\"cli\",\"cwd\":\"/home\",\
                 \"sessionId\":\"s\",\"version\":\"1.2\",\"gitBranch\":{branch}{rest}}}"
            )
        };
        let long = format!("\"{}\"", "long/".repeat(30));
        // Each line comes after all those above it.
        for lines in [
            [
                (true, setting("\"main\"", "")),
                (true, setting("\"main\"", ",\"uuid\":\"u\"")),
                (true, setting("\"main2\"", "")),
                (true, setting("\"main\"", "")),
                (true, setting("\"mai\"", "")),
                (true, setting("\"main\\n\"", "")),
                (true, setting("\"main\\n\"", ",\"isMeta\":true")),
                (true, setting("\"m\\u0061in\"", "")),
            ],
            [
                (true, setting("\"main\"", ",\"slug\":\"a\"")),
                (true, setting("\"main\"", ",\"slug\":\"a\"")),
                (true, setting("\"main\"", ",\"slug\":\"ab\"")),
                (true, setting("\"main\"", ",\"slug\":\"a\",\"cwd\":\"/later\"")),
                (true, setting("\"main\"", ",\"slug\":\"a\",\"sessionId\":null")),
                (true, setting("\"main\"", ",\"slugs\":\"a\"")),
                (true, setting("\"main\"", ",\"slug\":\"a\\\"\"")),
                (true, setting("\"main\"", ",\"slug\": \"a\"")),
            ],
            // A number that goes on behind what is remembered is left to the slow path.
            [
                (true, setting("1", "")),
                (false, setting("12", "")),
                (false, setting("1.5", "")),
                (true, setting("1", ",\"uuid\":\"u\"")),
                (true, setting("-1", "")),
                (true, setting("null", "")),
                (false, setting("nullx", "")),
                (true, setting("null", "")),
            ],
            [
                (true, setting("null", ",\"slug\":3")),
                (true, setting("null", ",\"slug\":3,\"type\":\"x\"")),
                (false, setting("null", ",\"slug\":31")),
                (true, setting(&long, "")),
                (true, setting(&long, ",\"uuid\":\"u\"")),
                (true, setting("{\"a\":[1,{}]}", "")),
                (true, setting("{\"a\":[1,{}]}", "")),
                (false, setting("{\"a\":[1,{}]}]", "")),
            ],
        ] {
            check(&lines.each_ref().map(|(is_read, line)| (*is_read, line.as_str())));
        }
    }

    #[test]
    fn a_usage_is_recalled_only_where_it_is_the_same() {
        let line = |usage: &str| format!(r#"{{"type":"assistant","message":{{"id":"m","usage":{usage}}},"uuid":"u"}}"#);
        let deep = |depth: usize| format!(r#"{{"input_tokens":1,"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let nested = |usage: &str| {
            format!(r#"{{"type":"progress","data":{{"message":{{"message":{{"usage":{usage}}}}}}},"uuid":"u"}}"#)
        };
        let one = r#"{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3}"#;
        let listed = r#"{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"message","input_tokens":7},{"output_tokens":9}]}"#;
        let nearly = &one[..one.len() - 1];
        check(&[
            (true, &line(one)),
            (true, &line(one)),
            (true, &line(&format!("{nearly}0}}"))),
            (true, &line(&format!("{nearly},\"cache_creation_input_tokens\":4}}"))),
            (true, &line(listed)),
            (true, &line(listed)),
            (true, &nested(listed)),
            (true, &nested(one)),
            (true, &line(one)),
            (true, &line("null")),
            (true, &line(one)),
            (false, &line(nearly)),
            (false, &line(&format!("{one}}}"))),
            (true, &line(one)),
        ]);
        // What is just deep enough on one line is too deep where it stands deeper.
        let most = MAX_DEPTH - 3;
        check(&[
            (true, &line(&deep(most))),
            (true, &line(&deep(most))),
            (false, &line(&deep(most + 1))),
            (false, &nested(&deep(most))),
            (true, &line(&deep(most))),
        ]);
    }

    #[test]
    fn a_setting_of_an_unusual_order_is_read_all_the_same() {
        let usual = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
        let early = format!(r#"{{"cwd":"/early","sessionId":"early",{usual},"uuid":"u"}}"#);
        let late = format!(r#"{{{usual},"version":"late","cwd":5,"uuid":"u"}}"#);
        let twice = format!(r#"{{{usual},"cwd":"/between",{usual}}}"#);
        let nested = format!(r#"{{{usual},"data":{{{usual},"agentId":"a"}},"message":{{{usual}}}}}"#);
        let first = format!("{{{usual}}}");
        check(&[
            (true, &early),
            (true, &first),
            (true, &early),
            (true, &late),
            (true, &twice),
            (true, &nested),
            (true, r#"{"userType":"external","sessionId":"t","cwd":"/b","uuid":"u"}"#),
            (true, r#"{"userType":"external","cwd":"/c"}"#),
            (true, r#"{"cwd":"/d","userType":"external"}"#),
            (
                true,
                r#"{"userType":null,"cwd":null,"sessionId":true,"version":1,"gitBranch":[]}"#,
            ),
            (
                true,
                r#"{"userType":null,"cwd":null,"sessionId":true,"version":1,"gitBranch":[],"cwd":"/e"}"#,
            ),
            (
                true,
                r#"{"userType":{"cwd":"/no"},"cwd":"C:\\f","sessionId":"s","version":"1","gitBranch":"\u0067"}"#,
            ),
            (
                true,
                r#"{"userType":{"cwd":"/no"},"cwd":"C:\\f","sessionId":"s","version":"1","gitBranch":"\u0067"}"#,
            ),
            (true, &first),
        ]);
    }

    /// Lines as the client writes them, of several of its versions.
    fn usual_lines() -> Vec<String> {
        let setting = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
        let head = format!(r#"{{"parentUuid":"p","isSidechain":false,{setting},"slug":"x""#);
        let usage = concat!(
            r#"{"input_tokens":5,"cache_creation_input_tokens":6,"cache_read_input_tokens":7,"#,
            r#""cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":4},"output_tokens":8,"#,
            r#""service_tier":"standard"}"#
        );
        let answer = |block: &str, stop: &str| {
            format!(
                r#"{{"model":"m","id":"msg","type":"message","role":"assistant","content":[{block}],{stop},"usage":{usage}}}"#
            )
        };
        let result = r#"[{"tool_use_id":"t","type":"tool_result","content":"a\nb","is_error":true}]"#;
        let call = concat!(
            r#"{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/a/b","limit":3},"#,
            r#""caller":{"type":"direct"}}"#
        );
        let tail = r#""uuid":"u","timestamp":"2026-08-07T16:21:32.976Z""#;
        let stops = [
            r#""stop_reason":null,"stop_sequence":null"#,
            r#""stop_reason":"tool_use","stop_sequence":null"#,
            r#""stop_reason":"end_turn","stop_sequence":null,"stop_details":null"#,
        ];
        let thought = r#"{"type":"thinking","thinking":"so","signature":"Erq"}"#;
        let said = r#"{"type":"text","text":"done"}"#;
        vec![
            format!(
                r#"{head},"message":{},"requestId":"r","type":"assistant",{tail}}}"#,
                answer(said, stops[0])
            ),
            format!(
                r#"{head},"type":"user","message":{{"role":"user","content":{result}}},{tail},"toolUseResult":{{"a":[1]}},"sourceToolAssistantUUID":"q"}}"#
            ),
            format!(
                r#"{{"parentUuid":"p","isSidechain":false,"message":{},"requestId":"r","type":"assistant",{tail},"effort":"high","session_id":"s",{setting}}}"#,
                answer(call, stops[2])
            ),
            format!(
                r#"{{"parentUuid":null,"isSidechain":true,{setting},"agentId":"g","slug":"x","message":{},"type":"assistant",{tail}}}"#,
                answer(thought, stops[1])
            ),
            format!(
                r#"{{"parentUuid":"p","isSidechain":false,"promptId":"i","type":"user","message":{{"role":"user","content":"go"}},{tail},"session_id":"s",{setting}}}"#
            ),
            format!(
                r#"{head},"type":"progress","data":{{"type":"hook_progress","hookName":"h"}},"parentToolUseID":"t","toolUseID":"t",{tail}}}"#
            ),
        ]
    }

    #[test]
    fn what_is_usual_is_read_like_everything_else() {
        let lines = usual_lines();
        check(&lines.iter().map(|line| (true, line.as_str())).collect::<Vec<_>>());
        for line in &lines {
            assert!(line.is_ascii());
            for at in 0..line.len() {
                let (before, after) = line.split_at(at);
                for change in ["", "x", "\"", "}", ",", " ", "5", "\\"] {
                    let changed = format!("{before}{change}{}", &after[1..]);
                    let found = by_raws(&[line, &changed], 100).swap_remove(1);
                    assert!(found.is_none() || found == by_tape(&changed), "{changed}");
                }
            }
        }
    }

    #[test]
    fn a_usual_object_may_not_be_too_deep() {
        let deep = |depth: usize| {
            let usage = format!(r#"{{"input_tokens":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"parentUuid":"p","message":{{"model":"m","usage":{usage}}}}}"#)
        };
        let (most, more) = (deep(MAX_DEPTH - 3), deep(MAX_DEPTH - 2));
        assert!(by_raws(&[&most], 100)[0].is_some());
        assert!(by_raws(&[&more], 100)[0].is_none());
    }

    #[test]
    fn keys_come_in_any_order_and_the_last_of_equal_ones_counts() {
        check(&[
            (true, "{}"),
            (true, r#"{"":1,"uuid":"a"}"#),
            (
                true,
                r#"{"uuid":"a","type":"user","isSidechain":true,"parentUuid":"p"}"#,
            ),
            (
                true,
                r#"{"isSidechain":true,"type":"user","uuid":"a","timestamp":"t","uuid":"b"}"#,
            ),
            (true, r#"{"type":"user","type":"assistant","uuid":"a","uuid":null}"#),
            (true, r#"{"uuid":"a","uuidx":"b","uui":"c","typ":"d","types":"e"}"#),
            (
                true,
                r#"{"message":{"id":"1","model":"m"},"message":{"model":"n"},"type":"x"}"#,
            ),
            (
                true,
                r#"{"message":{"id":"1","usage":{"input_tokens":1}},"message":null}"#,
            ),
            (
                true,
                r#"{"message":{"usage":{"output_tokens":1,"input_tokens":2,"output_tokens":30,
"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":4,"ephemeral_1h_input_tokens":5},
"cache_read_input_tokens":6,"cache_creation_input_tokens":70,"iterations":[{"type":"message","input_tokens":8},
{"output_tokens":9,"input_tokens":1,"type":"message"},7],"speed":"x"},"id":"i"}}"#
                    .replace('\n', "")
                    .as_str(),
            ),
            (
                true,
                r#"{"message":{"usage":{"input_tokens":1},"usage":{"output_tokens":2},"usage":{}}}"#,
            ),
            (
                true,
                r#"{"message":{"content":"one","content":[{"text":"two","type":"text"},3],"role":"r"}}"#,
            ),
            (
                true,
                r#"{"message":{"content":[{"input":{"path":"a","limit":3},"id":"t","input":{"offset":4,"command":"c"}}]}}"#,
            ),
            (true, r#"{"content":"a\nb","content":"tab\t"}"#),
        ]);
    }

    #[test]
    fn values_of_other_kinds_are_passed_over() {
        let values = [
            "null",
            "true",
            "false",
            "5",
            "-2.5",
            "{}",
            "[]",
            r#"{"a":[null]}"#,
            r#"["x",{"y":1}]"#,
            r#""s""#,
        ];
        for value in values {
            for key in [
                "type",
                "uuid",
                "cwd",
                "isMeta",
                "isSidechain",
                "message",
                "content",
                "attachment",
                "data",
                "userType",
                "compactMetadata",
                "other",
            ] {
                check(&[
                    (true, &format!(r#"{{"{key}":{value}}}"#)),
                    (
                        true,
                        &format!(r#"{{"version":"v","{key}":{value},"timestamp":"t","requestId":null}}"#),
                    ),
                    (true, &format!(r#"{{ "{key}" : {value} , "timestamp" :"t"}} "#)),
                    (false, &format!(r#"{{"{key}":{value}x,"timestamp":"t"}}"#)),
                    (false, &format!(r#"{{"{key}":{value},}}"#)),
                    (false, &format!(r#"{{"{key}":{value}"timestamp":"t"}}"#)),
                    (false, &format!(r#"{{"{key}"{value}}}"#)),
                ]);
            }
            for key in ["id", "model", "stop_reason", "usage", "content", "role"] {
                check(&[(true, &format!(r#"{{"message":{{"{key}":{value},"type":"t"}}}}"#))]);
            }
            for key in [
                "type",
                "id",
                "name",
                "input",
                "text",
                "thinking",
                "signature",
                "content",
                "is_error",
            ] {
                check(&[(
                    true,
                    &format!(r#"{{"message":{{"content":[{{"{key}":{value},"x":1}}]}}}}"#),
                )]);
            }
            for key in [
                "input_tokens",
                "output_tokens",
                "cache_creation",
                "iterations",
                "service_tier",
            ] {
                check(&[(
                    true,
                    &format!(r#"{{"message":{{"usage":{{"{key}":{value},"speed":1}}}}}}"#),
                )]);
            }
        }
    }

    #[test]
    fn escaped_keys_are_left_to_the_slow_path_where_they_matter() {
        check(&[
            (false, r#"{"\u0075uid":"a"}"#),
            (false, r#"{"uuid":"a","t\u0079pe":"user"}"#),
            (false, r#"{"message":{"\u0069d":"a"}}"#),
            (false, r#"{"message":{"content":[{"input":{"a\nb":1}}]}}"#),
            (true, r#"{"x":{"\u0069d":"a","b\\":[{"\"":1}]},"uuid":"a"}"#),
            (true, r#"{"message":{"content":[{"input":{"x":{"a\nb":1}}}]}}"#),
            (false, r#"{"x":{"\q":1}}"#),
        ]);
        assert!(
            by_tape(r#"{"\u0075uid":"of an escaped key"}"#).is_some_and(|shown| shown.contains("of an escaped key"))
        );
    }
}
