//! Record of a stored response: its key, its terms, its fields, and its body.

use super::cursor::{Cursor, push_bytes, push_moment_if};
use super::frame::Broken;
use crate::freshness::Source;
use crate::key::KeyParts;
use crate::moment::{Moment, SECONDS_MAX};
use crate::stored::{Stored, Terms, fields_of, push_line};
use crate::tags::{TAG_MAX, TAGS_MAX};
use evenkeel_wire::endpoint_head::is_token;
use std::ops::RangeInclusive;

/// Statuses that a response can be stored with.
const STATUSES: RangeInclusive<u16> = 200..=599;

/// Head of a record of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseRecord {
    /// All bytes of its key.
    pub key: Box<[u8]>,
    /// Bytes of the key that are the URL.
    pub url_len: usize,
    pub stored: Stored,
    /// Moment of the soft purge that covers it.
    pub stale_from: Option<Moment>,
    /// Hits of its key, including its other variants.
    pub hits: u32,
}

impl ResponseRecord {
    /// Writes the head of a record.
    pub fn write(key: &[u8], url_len: usize, stored: &Stored, stale_from: Option<Moment>, hits: u32) -> Vec<u8> {
        let Terms { received, date, is_dated, last_modified, initial_age, lifetime, source, .. } = stored.terms;
        let Terms { stale_while_revalidate, stale_if_error, no_cache, must_revalidate, immutable, .. } = stored.terms;
        let mut out = Vec::with_capacity(128 + key.len() + stored.size());
        out.extend_from_slice(&(url_len as u32).to_le_bytes());
        push_bytes(&mut out, key);
        out.extend_from_slice(&stored.status.to_le_bytes());
        out.extend_from_slice(&received.0.to_le_bytes());
        out.extend_from_slice(&date.0.to_le_bytes());
        push_moment_if(&mut out, last_modified.map(|date| Moment(date.0)));
        for seconds in [initial_age, lifetime, stale_while_revalidate, stale_if_error] {
            out.extend_from_slice(&seconds.to_le_bytes());
        }
        out.push(source as u8);
        out.push(
            u8::from(no_cache) | u8::from(must_revalidate) << 1 | u8::from(immutable) << 2 | u8::from(is_dated) << 3,
        );
        push_moment_if(&mut out, stale_from);
        out.extend_from_slice(&hits.to_le_bytes());
        push_bytes(&mut out, stored.lines());
        push_bytes(&mut out, stored.varying());
        push_bytes(&mut out, stored.tag_lines());
        out
    }

    /// Reads a head.
    ///
    /// # Errors
    /// The bytes are not a head that [`ResponseRecord::write`] makes of something that can be stored.
    pub fn read(head: &[u8]) -> Result<ResponseRecord, Broken> {
        let mut from = Cursor(head);
        let url_len = from.u32()? as usize;
        let key = from.bytes()?;
        let status = from.u16()?;
        let (received, date, last_modified) = (from.moment()?, from.date()?, from.date_if()?);
        let [initial_age, lifetime, stale_while_revalidate, stale_if_error] =
            [from.u32()?, from.u32()?, from.u32()?, from.u32()?];
        let source = from.u8()?;
        let source = Source::ALL.into_iter().find(|known| *known as u8 == source).ok_or(Broken::Content)?;
        let flags = from.u8()?;
        let [no_cache, must_revalidate, immutable, is_dated] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
        let (stale_from, hits) = (from.moment_if()?, from.u32()?);
        let (lines, varying, tags) = (from.bytes()?, from.bytes()?, from.bytes()?);
        from.end()?;
        let is_possible = STATUSES.contains(&status)
            && flags < 16
            && initial_age <= SECONDS_MAX
            && lifetime <= SECONDS_MAX
            && is_key(key, url_len)
            && are_fields(lines)
            && are_varying(varying)
            && are_tags(tags);
        if !is_possible {
            return Err(Broken::Content);
        }
        let terms = Terms {
            received,
            date,
            is_dated,
            last_modified,
            initial_age,
            lifetime,
            source,
            stale_while_revalidate,
            stale_if_error,
            no_cache,
            must_revalidate,
            immutable,
        };
        let stored = Stored::new(status, terms, lines.to_vec(), varying, tags);
        Ok(ResponseRecord { key: key.into(), url_len, stored, stale_from, hits })
    }
}

/// True if the bytes are a key that begins with a URL of this length.
pub(super) fn is_key(key: &[u8], url_len: usize) -> bool {
    let is_url = |url: &[u8]| url.strip_suffix(b"\0").is_some_and(|url| !url.is_empty() && !url.contains(&0));
    key.get(..url_len).is_some_and(is_url) && KeyParts::of(key, url_len).is_some()
}

/// True if the lines are fields as `push_line` writes them.
fn are_fields(lines: &[u8]) -> bool {
    let mut again = Vec::with_capacity(lines.len());
    fields_of(lines).all(|(name, value)| push_line(&mut again, name, value)) && again == lines
}

fn are_varying(lines: &[u8]) -> bool {
    let is_line = |line: &[u8]| {
        let name = line.split(|b| *b == b':').next().unwrap_or_default();
        is_token(name) && (name.len() == line.len() || line[name.len()..].starts_with(b": "))
    };
    are_lines(lines) && lines.split_inclusive(|b| *b == b'\n').all(|line| is_line(&line[..line.len() - 1]))
}

fn are_tags(lines: &[u8]) -> bool {
    let mut count = 0;
    let is_tag = |line: &[u8]| (2..=TAG_MAX + 1).contains(&line.len());
    are_lines(lines) && lines.split_inclusive(|b| *b == b'\n').inspect(|_| count += 1).all(is_tag) && count <= TAGS_MAX
}

/// True if each line has an end.
fn are_lines(lines: &[u8]) -> bool {
    lines.last().is_none_or(|last| *last == b'\n')
}
