//! Reading and writing of packed numbers: LEB128, zigzag for signed ones.

use super::UnpackError;

/// Appends packed numbers to a byte buffer.
pub struct PackWriter {
    pub bytes: Vec<u8>,
}

impl PackWriter {
    /// Writes an unsigned number as LEB128.
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Writes a signed number in zigzag encoding.
    pub fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    pub(super) fn optional(&mut self, value: Option<u64>) {
        match value {
            None => self.number(0),
            Some(value) => {
                self.number(1);
                self.number(value);
            }
        }
    }
}

/// Consumes packed numbers from a byte slice.
pub struct PackReader<'a> {
    pub bytes: &'a [u8],
}

impl<'a> PackReader<'a> {
    #[inline]
    fn byte(&mut self) -> Result<u8, UnpackError> {
        let (&byte, rest) = self.bytes.split_first().ok_or(UnpackError)?;
        self.bytes = rest;
        Ok(byte)
    }

    /// Reads an unsigned number. Most fit one byte, so that case comes first.
    #[inline]
    pub fn number(&mut self) -> Result<u64, UnpackError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(UnpackError)
    }

    /// Reads a number that must fit `u32`.
    pub fn small(&mut self) -> Result<u32, UnpackError> {
        u32::try_from(self.number()?).map_err(|_| UnpackError)
    }

    /// Reads a signed number.
    pub fn signed(&mut self) -> Result<i64, UnpackError> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn optional(&mut self) -> Result<Option<u64>, UnpackError> {
        Ok(match self.number()? {
            0 => None,
            _ => Some(self.number()?),
        })
    }

    /// Takes `length` bytes.
    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8], UnpackError> {
        let (slice, rest) = self.bytes.split_at_checked(length).ok_or(UnpackError)?;
        self.bytes = rest;
        Ok(slice)
    }

    /// Reads the length of a list whose items take at least `size` bytes each. Fails if that exceeds the remaining
    /// bytes, so that a bogus length cannot cause a huge allocation.
    pub fn count(&mut self, size: usize) -> Result<usize, UnpackError> {
        let count = usize::try_from(self.number()?).map_err(|_| UnpackError)?;
        if count.checked_mul(size).is_none_or(|bytes| bytes > self.bytes.len()) {
            return Err(UnpackError);
        }
        Ok(count)
    }

    /// Reads a number that must be less than `limit`, such as an index.
    pub fn below(&mut self, limit: usize) -> Result<u32, UnpackError> {
        let value = self.small()?;
        if value as usize >= limit {
            return Err(UnpackError);
        }
        Ok(value)
    }
}
