//! Writes records as lines of a file, and damages some of them like crashed and racing writers do.
//!
//! `session` passes whole records; this file writes the newlines, counts the lines, and counts in the truth what survived.

use crate::rng::Rng;
use crate::truth::Truth;
use std::io::{self, Write};

/// A kind of damage. In bulk logs it strikes at random; the bundled cases place it by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The newline after the record is missing: `}{`.
    Glued,
    /// The record is cut off and the next one follows on the same line.
    Spliced,
    /// The record is cut off before its newline.
    Truncated,
    /// NUL bytes before the record, as file systems leave them after a crash.
    NulRun,
    ByteOrderMark,
    CarriageReturn,
    /// Half of an escaped surrogate pair inside a text.
    LoneSurrogate,
    /// Bytes inside a text that are not UTF-8.
    InvalidUtf8,
    /// A line that is not JSON before the record.
    Garbage,
    /// A line before the record with a string spread into an object: `{"0":"a","1":"b"}`.
    NumericKeys,
}

/// The kinds that strike at random. Appending to or reordering this list changes generated logs.
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

/// Writes records as lines of one file.
pub struct LineSink<W: Write> {
    out: W,
    written: u64,
    rng: Rng,
    /// Damaged records per million.
    rate: u64,
    /// Damage for the next record, independent of the rate.
    forced: Option<Damage>,
    /// The damage that left the last line without a newline, so the next record continues that line.
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

    /// Writes bytes as they are, for cases that damage a log themselves.
    pub fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put(bytes)
    }

    /// Writes a record without damage. Copies are written this way, so that they are always readable.
    pub fn write_intact(&mut self, record: &[u8], kind: &str, truth: &mut Truth) -> io::Result<()> {
        if let Some(open) = self.open.take() {
            truth.damage(open.name());
        }
        truth.record(kind);
        self.put(record)?;
        self.end_line(truth)
    }

    /// Writes a record, perhaps damaged unless it has to stay whole. Returns whether it can be read back.
    pub fn write_row(&mut self, record: &[u8], kind: &str, is_whole: bool, truth: &mut Truth) -> io::Result<bool> {
        if !is_whole {
            return self.write_record(record, kind, truth);
        }
        self.write_intact(record, kind, truth)?;
        Ok(true)
    }

    /// Writes a record, perhaps damaged. Returns whether it can be read back.
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
            // These leave the line open; it counts as damaged once the next record lands in it.
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
            // A record without a text stays as it is.
            Damage::LoneSurrogate | Damage::InvalidUtf8 if text_start(record).is_none() => {
                self.put(record)?;
                self.end_line(truth)?;
                return Ok(survives);
            }
            _ => self.put_damaged(record, damage, truth)?,
        }
        truth.damage(damage.name());
        self.end_line(truth)?;
        Ok(survives)
    }

    /// Writes a record whose damage stays within its own lines, without the final newline.
    fn put_damaged(&mut self, record: &[u8], damage: Damage, truth: &mut Truth) -> io::Result<()> {
        match damage {
            Damage::Glued | Damage::Spliced => {}
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
                let at = text_start(record).unwrap_or(record.len());
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
        Ok(())
    }

    /// Returns a place to cut a record off: before its usage, so that the response is certainly lost, and between characters,
    /// so that the cut does not add invalid UTF-8.
    fn cut_point(&mut self, record: &[u8]) -> usize {
        let usage = find(record, b"\"usage\":{").unwrap_or(record.len());
        let end = usage.min(record.len() * 7 / 8) as u64;
        let mut cut = self.rng.range(end / 8, end).max(1) as usize;
        while record[cut] & 0xc0 == 0x80 {
            cut -= 1;
        }
        cut
    }

    /// Closes the file. A line that was left open gets its newline; if its record was cut off, it counts as truncated.
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

/// Returns the position after the opening quote of the first text of a record; `None` if it has none.
fn text_start(record: &[u8]) -> Option<usize> {
    [b"\"text\":\"".as_slice(), b"\"content\":\"", b"\"thinking\":\""]
        .iter()
        .filter_map(|key| find(record, key).map(|at| at + key.len()))
        .min()
}
