//! Ids, links and token counts in packed form.

use super::UnpackError;
use super::varint::{PackReader, PackWriter};
use crate::log::{RecordId, RecordLink};
use crate::record::Tokens;

impl PackWriter {
    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(super) fn id(&mut self, id: RecordId) {
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
    }

    pub(super) fn hash(&mut self, hash: u64) {
        self.bytes.extend_from_slice(&hash.to_le_bytes());
    }

    /// Writes a link: 0 for none, 1 for elsewhere (then the id), else 2 plus the zigzag distance back to the record.
    pub(super) fn link(&mut self, link: RecordLink, at: u32, elsewhere: &[RecordId]) {
        match link {
            RecordLink::None => self.number(0),
            RecordLink::Elsewhere(place) => {
                self.number(1);
                self.id(elsewhere.get(place as usize).copied().unwrap_or_default());
            }
            RecordLink::Here(target) => {
                let distance = i64::from(at) - i64::from(target);
                self.number(2 + (distance << 1 ^ distance >> 63) as u64);
            }
        }
    }

    pub(super) fn tokens(&mut self, tokens: &Tokens) {
        for count in [
            tokens.input,
            tokens.output,
            tokens.cache_write,
            tokens.cache_write_1h,
            tokens.cache_read,
        ] {
            self.number(count);
        }
    }
}

impl<'a> PackReader<'a> {
    pub(super) fn text(&mut self) -> Result<&'a str, UnpackError> {
        let length = usize::try_from(self.number()?).map_err(|_| UnpackError)?;
        std::str::from_utf8(self.slice(length)?).map_err(|_| UnpackError)
    }

    pub(super) fn id(&mut self) -> Result<RecordId, UnpackError> {
        let bytes = self.slice(16)?.try_into().map_err(|_| UnpackError)?;
        Ok(RecordId(u128::from_le_bytes(bytes)))
    }

    pub(super) fn hash(&mut self) -> Result<u64, UnpackError> {
        let bytes = self.slice(8)?.try_into().map_err(|_| UnpackError)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn link(
        &mut self,
        at: u32,
        records: u32,
        elsewhere: &mut Vec<RecordId>,
    ) -> Result<RecordLink, UnpackError> {
        match self.number()? {
            0 => Ok(RecordLink::None),
            1 => {
                elsewhere.push(self.id()?);
                Ok(RecordLink::Elsewhere(elsewhere.len() as u32 - 1))
            }
            code => {
                let code = code - 2;
                let distance = (code >> 1) as i64 ^ -((code & 1) as i64);
                let target = i64::from(at).checked_sub(distance).ok_or(UnpackError)?;
                let target = u32::try_from(target).map_err(|_| UnpackError)?;
                if target >= records {
                    return Err(UnpackError);
                }
                Ok(RecordLink::Here(target))
            }
        }
    }

    pub(super) fn tokens(&mut self) -> Result<Tokens, UnpackError> {
        Ok(Tokens {
            input: self.number()?,
            output: self.number()?,
            cache_write: self.number()?,
            cache_write_1h: self.number()?,
            cache_read: self.number()?,
        })
    }
}
