//! Conditions of changes to fields: requests by the match language of routes, and responses by status and fields.

use crate::filters::template::parameters::Parameters;
use crate::matching::criteria::{Criteria, Fields};
use crate::peer::sender::{Seen, Sender};
use evenkeel_config::plan::{HostPattern, Listener, Match, PathPattern, Paths, ResponseWhen, Route};
use evenkeel_wire::head::{self, Request};
use evenkeel_wire::host;
use std::cell::Cell;
use std::ops::RangeInclusive;

/// `when` of a change to requests, in the match language of routes.
pub struct RequestWhen {
    hosts: Box<[HostPattern]>,
    path: PathPattern,
    pattern: Parameters,
    criteria: Criteria,
}

/// Settings by which conditions compare paths, as their route does.
#[derive(Clone, Copy, Debug)]
pub struct PathReading {
    ignore_case: bool,
    /// True if another spelling is another path.
    as_sent: bool,
}

impl PathReading {
    /// Settings of a listener and of a route.
    pub fn of(listener: &Listener, route: &Route) -> PathReading {
        let as_sent = route.paths.unwrap_or(listener.paths) == Paths::AsSent;
        PathReading { ignore_case: listener.ignore_case, as_sent }
    }
}

impl RequestWhen {
    /// Compiles a condition; `None` for the condition that every request meets.
    pub fn new(matching: &Match, PathReading { ignore_case, as_sent }: PathReading) -> Option<RequestWhen> {
        (*matching != Match::all()).then(|| RequestWhen {
            hosts: matching.hosts.clone().into(),
            path: matching.path.clone(),
            pattern: Parameters::of(&matching.path, ignore_case, as_sent),
            criteria: Criteria::new(matching, ignore_case),
        })
    }

    /// True if a request with these added lines meets the condition. Nothing counts once the sender has no steps left.
    pub fn meets(&self, request: &Request<'_, '_>, added: &[u8], sender: &Sender<'_>) -> bool {
        let host = host::without_port(request.host);
        let is_host = |pattern: &HostPattern| match pattern {
            HostPattern::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            HostPattern::Wildcard(suffix) => {
                let suffix = suffix.as_bytes();
                host.len() > suffix.len() && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
            }
        };
        (self.hosts.is_empty() || self.hosts.iter().any(is_host))
            && self.is_path(request.path())
            && self.criteria.meets(&Seen { request, path: request.path().as_bytes(), added }, sender)
    }

    fn is_path(&self, path: &str) -> bool {
        let Some(matched) = self.pattern.prefix_len(path) else { return false };
        match self.path {
            PathPattern::Any | PathPattern::StartsWith(_) => true,
            PathPattern::Pattern(_) => matched == path.len(),
            PathPattern::Prefix(_) => matched == path.len() || path[matched..].starts_with('/'),
        }
    }
}

/// `when` of a change to responses. The part about the request is compared when the request comes.
pub struct When {
    statuses: Box<[RangeInclusive<u16>]>,
    fields: Fields,
    request: Option<RequestWhen>,
}

impl When {
    /// Compiles a condition; `None` for the condition that every response meets.
    pub fn new(when: &ResponseWhen, paths: PathReading) -> Option<When> {
        (!when.is_any()).then(|| When {
            statuses: when.statuses.clone().into(),
            fields: Fields::new(&when.headers),
            request: RequestWhen::new(&when.request, paths),
        })
    }

    /// Condition for the request of the response.
    pub fn of_request(&self) -> Option<&RequestWhen> {
        self.request.as_ref()
    }

    /// True if a response with these added lines meets the condition, apart from its request.
    pub fn meets(&self, status: u16, fields: &head::Fields<'_, '_>, added: &[u8], steps: &Cell<u32>) -> bool {
        (self.statuses.is_empty() || self.statuses.iter().any(|range| range.contains(&status)))
            && self.fields.meet(fields, added, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::Scheme;
    use evenkeel_wire::head::Table;

    fn meets(when: &str, target: &str, host: &str, fields: &[(&str, &str)], added: &[u8]) -> bool {
        meets_with("", when, target, host, fields, added)
    }

    fn meets_with(set: &str, when: &str, target: &str, host: &str, fields: &[(&str, &str)], added: &[u8]) -> bool {
        let text = format!(
            "[listener.web]\nbind = ['127.0.0.1:1']\n{set}\n[pool.web]\nendpoints = ['127.0.0.1:2']\n[[route]]\npool = 'web'\n\
             [[route.request_headers.edits]]\nwhen = {when}\nremove = ['X']\n"
        );
        let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
        let plan =
            outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)));
        let when = &plan.routes[0].filters.request_headers.edits[0].when;
        let paths = PathReading::of(&plan.listeners[0], &plan.routes[0]);
        let when = RequestWhen::new(when, paths).expect("a condition");
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let request = Request { method: "GET", target, host: host.as_bytes(), fields: table.fields() };
        when.meets(&request, added, &Sender::new(std::net::Ipv4Addr::LOCALHOST.into(), Scheme::Http))
    }

    #[test]
    fn a_request_meets_a_condition_as_it_matches_a_route() {
        for (when, target, host, is) in [
            ("{ path = '/a/{id}' }", "/a/b?c", "h", true),
            ("{ path = '/a/{id}' }", "/a/b/c", "h", false),
            ("{ path = '/a/{*rest}' }", "/a/b/c", "h", true),
            ("{ prefix = '/a' }", "/a/b", "h", true),
            ("{ prefix = '/a' }", "/ab", "h", false),
            ("{ starts_with = '/a' }", "/ab", "h", true),
            ("{ host = ['a.example'] }", "/", "A.example:80", true),
            ("{ host = ['*.example'] }", "/", "b.a.example", true),
            ("{ host = ['*.example'] }", "/", "example", false),
            ("{ search = 'x$' }", "/ax", "h", true),
            ("{ not = { query = { a = '1' } } }", "/?a=1", "h", false),
        ] {
            assert_eq!(meets(when, target, host, &[], b""), is, "{when} {target} {host}");
        }
    }

    #[test]
    fn paths_are_compared_in_the_spellings_that_the_route_takes() {
        for (set, target, is) in [
            ("", "/%61pi/x", true),
            ("paths = 'normalise'", "/%61pi/x", true),
            ("paths = 'as_sent'", "/%61pi/x", false),
            ("paths = 'as_sent'", "/api/%61", true),
            ("paths = 'as_sent'", "/API/x", false),
            ("paths = 'as_sent'\nignore_case = true", "/API/x", true),
        ] {
            assert_eq!(meets_with(set, "{ starts_with = '/api/' }", target, "h", &[], b""), is, "{set} {target}");
        }
    }

    #[test]
    fn fields_that_were_added_count() {
        let when = "{ header = { X-A = { prefix = '1' } } }";
        assert!(meets(when, "/", "h", &[("x-a", "12")], b""));
        assert!(meets(when, "/", "h", &[("x-a", "2")], b"X-A: 12\r\n"));
        assert!(!meets(when, "/", "h", &[], b"X-B: 12\r\n"));
        let absent = "{ header = { X-A = { present = false } } }";
        assert!(!meets(absent, "/", "h", &[], b"X-A: 1\r\n") && meets(absent, "/", "h", &[], b""));
    }
}
