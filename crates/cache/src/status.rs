//! `Cache-Status` of a response (RFC 9211): the actions of this cache, for operators and their tools.

use crate::decide::Cause;
use crate::refusal::{Bypass, Refusal};

/// Reason why a request was forwarded (RFC 9211 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was not to be used, by the rules of the route or for a [`Bypass`].
    Bypass,
    /// A cache does not serve this method.
    Method,
    /// Nothing is stored under the key.
    UriMiss,
    /// All that is stored under the key is for other requests.
    VaryMiss,
    /// The stored response is stale, or validated before each use.
    Stale,
    /// Directives of the request made it so.
    Request,
    /// Part of the content is not stored.
    Partial,
}

impl Forward {
    /// Short text of the reason, for explanations: lower case, ASCII.
    pub fn text(self) -> &'static str {
        match self {
            Forward::Bypass => "the request was not for the cache",
            Forward::Method => "the method was not for the cache",
            Forward::UriMiss => "nothing was stored",
            Forward::VaryMiss => "what was stored is for other requests",
            Forward::Stale => "what was stored was stale",
            Forward::Request => "the request accepted nothing stored",
            Forward::Partial => "a part was not stored",
        }
    }

    fn token(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Request => "request",
            Forward::Partial => "partial",
        }
    }
}

impl From<Cause> for Forward {
    fn from(cause: Cause) -> Forward {
        if cause == Cause::Request { Forward::Request } else { Forward::Stale }
    }
}

impl From<Bypass> for Forward {
    fn from(bypass: Bypass) -> Forward {
        if bypass == Bypass::Method { Forward::Method } else { Forward::Bypass }
    }
}

/// Member that this cache adds to `Cache-Status`. Members of other caches stay before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStatus<'s> {
    /// Reason why the request was forwarded; `None` for a hit.
    pub forward: Option<Forward>,
    /// Status of the endpoint's response, if the client got another status.
    pub forward_status: Option<u16>,
    /// Seconds of freshness that are left of the stored response, negative if it is stale.
    pub ttl: Option<i64>,
    /// True if the response was stored.
    pub is_stored: bool,
    /// True if the request waited for the request of another client.
    pub is_collapsed: bool,
    /// Key of the response, for debugging. Bytes that are not printable ASCII are shown as dots.
    pub key: Option<&'s [u8]>,
    /// Reason in a few words, as from [`Refusal::text`].
    pub detail: Option<&'s str>,
}

impl CacheStatus<'_> {
    /// Adds the member to `out`. `name`: name of this cache, as `evenkeel` or a host name.
    pub fn write(&self, name: &str, out: &mut Vec<u8>) {
        string_or_token(name.as_bytes(), out);
        match self.forward {
            None => out.extend_from_slice(b"; hit"),
            Some(forward) => add(out, "fwd", forward.token().as_bytes()),
        }
        if let Some(status) = self.forward_status {
            add(out, "fwd-status", status.to_string().as_bytes());
        }
        if let Some(ttl) = self.ttl {
            add(out, "ttl", ttl.to_string().as_bytes());
        }
        // Both are about requests that were forwarded.
        if self.is_stored && self.forward.is_some() {
            out.extend_from_slice(b"; stored");
        }
        if self.is_collapsed && self.forward.is_some() {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            string(key, out);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            string_or_token(detail.as_bytes(), out);
        }
    }
}

impl<'s> From<Refusal> for CacheStatus<'s> {
    /// Returns the status of a response that was not stored, without the reason why it was asked for.
    fn from(refusal: Refusal) -> CacheStatus<'s> {
        CacheStatus { detail: Some(refusal.text()), ..CacheStatus::default() }
    }
}

fn add(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    [b"; ", key.as_bytes(), b"=", value].into_iter().for_each(|part| out.extend_from_slice(part));
}

/// Writes these bytes as a token of structured fields if they form one, otherwise as a string.
fn string_or_token(bytes: &[u8], out: &mut Vec<u8>) {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(b);
    let is_token = bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.iter().all(is_part);
    if is_token { out.extend_from_slice(bytes) } else { string(bytes, out) }
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => out.push(b'.'),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::structured::dictionary;

    fn of(status: CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write("evenkeel", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_are_those_of_the_rfc() {
        let hit = CacheStatus { ttl: Some(30), ..CacheStatus::default() };
        assert_eq!(of(hit), "evenkeel; hit; ttl=30");
        let miss = CacheStatus { forward: Some(Forward::UriMiss), is_stored: true, is_collapsed: true, ..hit };
        assert_eq!(of(miss), "evenkeel; fwd=uri-miss; ttl=30; stored; collapsed");
        let renewed = CacheStatus {
            forward: Some(Forward::Stale),
            forward_status: Some(304),
            ttl: Some(-2),
            ..CacheStatus::default()
        };
        assert_eq!(of(renewed), "evenkeel; fwd=stale; fwd-status=304; ttl=-2");
        assert_eq!((Forward::from(Cause::NoCache), Forward::from(Cause::Request)), (Forward::Stale, Forward::Request));
        let refused = CacheStatus { forward: Some(Forward::from(Bypass::Method)), ..Refusal::Private.into() };
        assert_eq!(of(refused), "evenkeel; fwd=method; detail=private");
        let refused = CacheStatus { forward: Some(Forward::from(Bypass::Body)), ..Refusal::Tags.into() };
        assert_eq!(of(refused), "evenkeel; fwd=bypass; detail=\"too many tags, or one too long\"");
    }

    #[test]
    fn any_key_and_name_is_a_structured_value() {
        let mut out = b"a; x=".to_vec();
        CacheStatus { key: Some(b"http://a/\"\\\0\xff"), ..CacheStatus::default() }.write("1 \"x", &mut out);
        assert_eq!(out, b"a; x=\"1 \\\"x\"; hit; key=\"http://a/\\\"\\\\..\"");
        assert!(dictionary([&out[..]].into_iter()).is_some());
    }
}
