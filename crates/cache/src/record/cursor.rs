//! Bytes of a head that are read from front to back, and how they are written.

use super::frame::Broken;
use crate::moment::{Date, Moment};

/// Last moment that a record may have: the end of the year 9999, as in dates of HTTP.
const MOMENT_MAX: u64 = 253_402_300_799_999;

/// Rest of a head that is being read.
pub struct Cursor<'b>(pub &'b [u8]);

impl<'b> Cursor<'b> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Broken::Content)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, Broken> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Broken> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Broken> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Broken> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn moment(&mut self) -> Result<Moment, Broken> {
        self.u64().and_then(|ms| if ms <= MOMENT_MAX { Ok(Moment(ms)) } else { Err(Broken::Content) })
    }

    /// Reads a moment that may be missing.
    pub fn moment_if(&mut self) -> Result<Option<Moment>, Broken> {
        match self.u8()? {
            0 => Ok(None),
            1 => self.moment().map(Some),
            _ => Err(Broken::Content),
        }
    }

    pub fn date(&mut self) -> Result<Date, Broken> {
        self.moment().map(|moment| Date(moment.0))
    }

    /// Reads a date that may be missing.
    pub fn date_if(&mut self) -> Result<Option<Date>, Broken> {
        self.moment_if().map(|moment| moment.map(|moment| Date(moment.0)))
    }

    /// Reads bytes behind their length.
    pub fn bytes(&mut self) -> Result<&'b [u8], Broken> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Broken::Content)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Checks that nothing is left.
    pub fn end(&self) -> Result<(), Broken> {
        if self.0.is_empty() { Ok(()) } else { Err(Broken::Content) }
    }
}

/// Adds bytes behind their length.
pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Adds a moment that may be missing.
pub fn push_moment_if(out: &mut Vec<u8>, moment: Option<Moment>) {
    out.push(u8::from(moment.is_some()));
    moment.into_iter().for_each(|moment| out.extend_from_slice(&moment.0.to_le_bytes()));
}
