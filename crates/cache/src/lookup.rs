//! Wishes of a request to a cache: plain reads, and the responses that they accept.

use crate::moment::SECONDS_MAX;
use crate::policy::Policy;
use crate::refusal::Bypass;
use crate::syntax::directives::Directives;
use crate::syntax::list;
use evenkeel_wire::head::Request;

/// Fields of a client that a request to validate or to fill replaces: the shell drops these, and adds
/// [`crate::decide::validators`]. Otherwise the endpoint would answer for the client's copy, not for the stored
/// response.
pub const REPLACED: [&str; 4] = ["if-none-match", "if-modified-since", "if-range", "range"];

/// Wishes of a request that may be served from a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    pub is_head: bool,
    /// Directives that count: all, or none if the policy ignores directives of requests.
    pub directives: Directives,
}

impl Lookup {
    /// Reads a request. `has_body`: true if content follows its head, whatever its fields state.
    ///
    /// # Errors
    /// The reason why the request passes by.
    pub fn of(request: &Request<'_, '_>, has_body: bool, policy: &Policy) -> Result<Lookup, Bypass> {
        let is_head = match request.method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err(Bypass::Method),
        };
        if has_body {
            return Err(Bypass::Body);
        }
        for row in request.fields.rows.iter() {
            if let Some(bypass) = passes_by(row.name(request.fields.bytes), row.value(request.fields.bytes)) {
                return Err(bypass);
            }
        }
        if !policy.request_directives {
            return Ok(Lookup { is_head, directives: Directives::default() });
        }
        let mut directives = Directives::of_request(request.values("cache-control"));
        // Only for clients of HTTP/1.0, which know no Cache-Control (RFC 9111 section 5.4).
        if request.field("cache-control").is_none() {
            let mut pragmas = request.values("pragma").flat_map(list::members);
            directives.no_cache |= pragmas.any(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"));
        }
        Ok(Lookup { is_head, directives })
    }

    /// True if the request accepts a response of this age in seconds, which stays fresh for `left` more seconds, as
    /// fresh.
    pub(crate) fn accepts(&self, age: u32, left: u32) -> bool {
        let wants = &self.directives;
        wants.max_age.is_none_or(|max| age <= max) && wants.min_fresh.is_none_or(|min| left >= min)
    }

    /// Seconds after the end of freshness that the request accepts; `None` if it wants fresh responses.
    pub(crate) fn stale_max(&self) -> Option<u32> {
        self.directives.max_stale.map(|max| max.min(SECONDS_MAX))
    }
}

/// Reason why a request with this field passes by. Every request has each of its fields looked at, so lengths go first.
fn passes_by(name: &[u8], value: &[u8]) -> Option<Bypass> {
    let (known, bypass) = match name.len() {
        7 => ("upgrade", Bypass::Upgrade),
        8 => ("if-match", Bypass::Precondition),
        14 if value != b"0" => ("content-length", Bypass::Body),
        17 => ("transfer-encoding", Bypass::Body),
        19 => ("if-unmodified-since", Bypass::Precondition),
        _ => return None,
    };
    name.eq_ignore_ascii_case(known.as_bytes()).then_some(bypass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn of(method: &str, fields: &[(&str, &str)], obeys: bool) -> Result<Lookup, Bypass> {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let request = Request { method, target: "/", host: b"a", fields: table.fields() };
        Lookup::of(&request, false, &Policy { request_directives: obeys, ..Policy::default() })
    }

    #[test]
    fn only_plain_reads_are_looked_up() {
        assert_eq!(of("GET", &[("Content-Length", "0")], false), Ok(Lookup::default()));
        assert!(of("HEAD", &[], false).unwrap().is_head);
        for (method, fields, why) in [
            ("POST", &[][..], Bypass::Method),
            ("get", &[], Bypass::Method),
            ("GET", &[("Content-Length", "1")], Bypass::Body),
            ("GET", &[("Transfer-Encoding", "chunked")], Bypass::Body),
            ("GET", &[("If-Match", "\"a\"")], Bypass::Precondition),
            ("GET", &[("If-Unmodified-Since", "x")], Bypass::Precondition),
            ("GET", &[("Upgrade", "websocket")], Bypass::Upgrade),
        ] {
            assert_eq!(of(method, fields, false), Err(why), "{method} {fields:?}");
        }
    }

    #[test]
    fn directives_count_only_if_the_policy_obeys_them() {
        let no_cache = [("Cache-Control", "no-cache")];
        assert!(of("GET", &no_cache, true).unwrap().directives.no_cache);
        assert!(!of("GET", &no_cache, false).unwrap().directives.no_cache);
        assert!(of("GET", &[("Pragma", "foo, No-Cache")], true).unwrap().directives.no_cache);
        assert!(!of("GET", &[("Pragma", "no-cache"), ("Cache-Control", "x")], true).unwrap().directives.no_cache);
    }
}
