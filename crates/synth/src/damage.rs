//! Where records become lines of a file, and where lines get damaged the way crashed and raced writers damage them.
//! `session` hands over whole records; this file decides about newlines, counts lines and tells the truth what survived.

use crate::rng::Rng;
use crate::truth::Truth;
use std::io::{self, Write};

/// The kinds of damage that strike at random; the bundled cases place theirs by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The newline is missing: `}{`.
    Glued,
    /// The record stops and the next one follows in the same line.
    Spliced,
    /// The record stops; the newline is there.
    Truncated,
    /// NUL bytes before the record, as a file system leaves them after a crash.
    NulRun,
    ByteOrderMark,
    CarriageReturn,
    /// Half of a surrogate pair as an escape inside a text.
    LoneSurrogate,
    /// A byte that is no UTF-8 inside a text.
    InvalidUtf8,
    /// A line of something else before the record.
    Garbage,
    /// A string that was spread into an object: `{"0":"a","1":"b"}`.
    NumericKeys,
}

const RANDOM: [Damage; 10] = [
    Damage::Glued,
    Damage::Spliced,
    Damage::Truncated,
    Damage::NulRun,
    Damage::ByteOrderMark,
    Damage::CarriageReturn,
    Damage::LoneSurrogate,
    Damage::InvalidUtf8,
    Damage::Garbage,
    Damage::NumericKeys,
];

impl Damage {
    pub fn name(self) -> &'static str {
        match self {
            Damage::Glued => "glued",
            Damage::Spliced => "spliced",
            Damage::Truncated => "truncated",
            Damage::NulRun => "nul_run",
            Damage::ByteOrderMark => "bom",
            Damage::CarriageReturn => "crlf",
            Damage::LoneSurrogate => "lone_surrogate",
            Damage::InvalidUtf8 => "invalid_utf8",
            Damage::Garbage => "garbage",
            Damage::NumericKeys => "numeric_keys",
        }
    }
}

/// Writes records as lines into one file.
pub struct LineSink<W: Write> {
    out: W,
    written: u64,
    rng: Rng,
    /// Damaged records per million.
    rate: u64,
    /// The next record is damaged in this way, whatever the rate says.
    forced: Option<Damage>,
    /// The file does not end in a newline: the next record lands in a line that was left open by this damage.
    open: Option<Damage>,
}

impl<W: Write> LineSink<W> {
    pub fn new(out: W, rng: Rng, rate: u64) -> Self {
        Self {
            out,
            written: 0,
            rng,
            rate,
            forced: None,
            open: None,
        }
    }

    pub fn written(&self) -> u64 {
        self.written
    }

    pub fn force_damage(&mut self, damage: Damage) {
        self.forced = Some(damage);
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn end_line(&mut self, truth: &mut Truth) -> io::Result<()> {
        truth.lines += 1;
        self.put(b"\n")
    }

    /// Bytes as they are, for the cases that write their own damage.
    pub fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put(bytes)
    }

    /// Writes a record without damage. Copies go this way, so that a copy never outlives a damaged original.
    pub fn write_intact(&mut self, record: &[u8], kind: &str, truth: &mut Truth) -> io::Result<()> {
        if let Some(open) = self.open.take() {
            truth.damage(open.name());
        }
        truth.record(kind);
        self.put(record)?;
        self.end_line(truth)
    }

    /// Writes a record, perhaps damaged, and says whether it can be read back.
    pub fn write_record(&mut self, record: &[u8], kind: &str, truth: &mut Truth) -> io::Result<bool> {
        let struck = self.rate > 0 && self.rng.below(1_000_000) < self.rate;
        let chance = if struck { Some(*self.rng.pick(&RANDOM)) } else { None };
        let damage = self.forced.take().or(chance);
        let Some(damage) = damage.filter(|_| self.open.is_none()) else {
            self.write_intact(record, kind, truth)?;
            return Ok(true);
        };
        let survives = !matches!(damage, Damage::Spliced | Damage::Truncated);
        if survives {
            truth.record(kind);
        } else {
            truth.lost_records += 1;
        }
        match damage {
            Damage::Glued => {
                self.put(record)?;
                self.open = Some(damage);
                return Ok(survives);
            }
            Damage::Spliced => {
                let cut = self.cut_point(record);
                self.put(&record[..cut])?;
                self.open = Some(damage);
                return Ok(survives);
            }
            Damage::Truncated => {
                let cut = self.cut_point(record);
                self.put(&record[..cut])?;
            }
            Damage::NulRun => {
                let run = self.rng.range(1, 600) as usize;
                self.put(&vec![0; run])?;
                self.put(record)?;
            }
            Damage::ByteOrderMark => {
                self.put("\u{feff}".as_bytes())?;
                self.put(record)?;
            }
            Damage::CarriageReturn => {
                self.put(record)?;
                self.put(b"\r")?;
            }
            Damage::LoneSurrogate | Damage::InvalidUtf8 => {
                let Some(at) = text_start(record) else {
                    self.put(record)?;
                    self.end_line(truth)?;
                    return Ok(survives);
                };
                self.put(&record[..at])?;
                self.put(if damage == Damage::InvalidUtf8 {
                    b"\xff\xfe"
                } else {
                    b"\\ud83d "
                })?;
                self.put(&record[at..])?;
            }
            Damage::Garbage | Damage::NumericKeys => {
                self.put(if damage == Damage::Garbage {
                    b"<<< lost connection, retrying (3) >>>"
                } else {
                    b"{\"0\":\"k\",\"1\":\"e\",\"2\":\"t\",\"3\":\"t\",\"4\":\"l\",\"5\":\"e\"}"
                })?;
                self.end_line(truth)?;
                self.put(record)?;
            }
        }
        truth.damage(damage.name());
        self.end_line(truth)?;
        Ok(survives)
    }

    /// A place inside the record to stop at: before its usage, so that what is lost is lost beyond doubt, and never
    /// inside a character, so that one damage does not hide another.
    fn cut_point(&mut self, record: &[u8]) -> usize {
        let usage = find(record, b"\"usage\":{").unwrap_or(record.len());
        let end = usage.min(record.len() * 7 / 8) as u64;
        let mut cut = self.rng.range(end / 8, end).max(1) as usize;
        while record[cut] & 0xc0 == 0x80 {
            cut -= 1;
        }
        cut
    }

    /// Closes the file. A line left open has no record to land in it: it is complete, or merely cut short.
    pub fn finish(mut self, truth: &mut Truth) -> io::Result<W> {
        if let Some(open) = self.open.take() {
            if open == Damage::Spliced {
                truth.damage(Damage::Truncated.name());
            }
            self.end_line(truth)?;
        }
        self.out.flush()?;
        truth.files += 1;
        truth.bytes += self.written;
        Ok(self.out)
    }
}

fn find(record: &[u8], key: &[u8]) -> Option<usize> {
    record.windows(key.len()).position(|part| part == key)
}

/// Where the first text of a record begins, just after its opening quote.
fn text_start(record: &[u8]) -> Option<usize> {
    [b"\"text\":\"".as_slice(), b"\"content\":\"", b"\"thinking\":\""]
        .iter()
        .filter_map(|key| find(record, key).map(|at| at + key.len()))
        .min()
}
