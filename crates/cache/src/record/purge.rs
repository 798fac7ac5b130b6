//! Records of purges, and of single responses that were dropped.

use super::cursor::{Cursor, push_bytes};
use super::frame::Broken;
use super::response::is_key;
use crate::moment::Moment;
use crate::store::{Fate, Target};

/// Responses that a purge covers: all of a URL, or others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All keys with this URL, whatever their other parts.
    Url(Box<[u8]>),
    Log(Target),
}

/// A purge, with its moment for those that make responses stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRecord {
    pub scope: Scope,
    pub fate: Fate,
    pub at: Moment,
}

impl PurgeRecord {
    /// Purge that removes everything.
    pub fn all(at: Moment) -> PurgeRecord {
        PurgeRecord { scope: Scope::Log(Target::All), fate: Fate::Removed, at }
    }

    /// Writes the head of a record.
    pub fn write(&self) -> Vec<u8> {
        let (kind, text): (u8, &[u8]) = match &self.scope {
            Scope::Url(url) => (0, url),
            Scope::Log(Target::Prefix(prefix)) => (1, prefix),
            Scope::Log(Target::Tag(tag)) => (2, tag),
            Scope::Log(Target::All) => (3, b""),
        };
        let mut out = vec![kind, u8::from(self.fate == Fate::Stale)];
        out.extend_from_slice(&self.at.0.to_le_bytes());
        push_bytes(&mut out, text);
        out
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The bytes are not a head that [`PurgeRecord::write`] makes.
    pub fn read(head: &[u8]) -> Result<PurgeRecord, Broken> {
        let mut from = Cursor(head);
        let (kind, fate, at, text) = (from.u8()?, from.u8()?, from.moment()?, from.bytes()?);
        from.end()?;
        let scope = match (kind, text.is_empty()) {
            (0, false) => Scope::Url(text.into()),
            (1, _) => Scope::Log(Target::Prefix(text.into())),
            (2, false) => Scope::Log(Target::Tag(text.into())),
            (3, true) => Scope::Log(Target::All),
            _ => return Err(Broken::Content),
        };
        let fate = match fate {
            0 => Fate::Removed,
            1 => Fate::Stale,
            _ => return Err(Broken::Content),
        };
        Ok(PurgeRecord { scope, fate, at })
    }
}

/// End of a single stored response, named by its key and by the request values that it varies by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    pub key: Box<[u8]>,
    pub url_len: usize,
    pub varying: Box<[u8]>,
}

impl Dropped {
    /// Writes the head of a record.
    pub fn write(&self) -> Vec<u8> {
        let mut out = (self.url_len as u32).to_le_bytes().to_vec();
        push_bytes(&mut out, &self.key);
        push_bytes(&mut out, &self.varying);
        out
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The bytes are not a head that [`Dropped::write`] makes.
    pub fn read(head: &[u8]) -> Result<Dropped, Broken> {
        let mut from = Cursor(head);
        let (url_len, key, varying) = (from.u32()? as usize, from.bytes()?, from.bytes()?);
        from.end()?;
        if !is_key(key, url_len) {
            return Err(Broken::Content);
        }
        Ok(Dropped { key: key.into(), url_len, varying: varying.into() })
    }
}
