//! Filter that answers 421 to requests for a host of another group than the server name of their connection (RFC 9110
//! section 15.5.20), so that the client opens a connection for that host. Clients send requests for several hosts over
//! the same connection if its certificate has their names.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_config::plan::HostPattern;
use evenkeel_wire::host;
use memchr::memchr_iter;
use std::borrow::Cow;
use std::collections::HashSet;

/// Groups of hosts by pattern. Hosts without a pattern are a group, too.
#[derive(Default)]
struct HostGroups {
    exact: HashSet<Box<[u8]>>,
    /// Suffixes of wildcards (`.example.com`).
    wildcard: HashSet<Box<[u8]>>,
    /// Bytes of the longest suffix. Bounds the work that a client can cause with a long host.
    suffix_max: usize,
}

/// Group of a host: the pattern that it falls to.
#[derive(Debug, PartialEq, Eq)]
enum Group<'h> {
    Exact(&'h [u8]),
    Wildcard(&'h [u8]),
    None,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let patterns = &from.listener.tls.as_ref()?.host_groups;
    (!patterns.is_empty()).then(|| Box::new(HostGroups::new(patterns)) as _)
}

impl HostGroups {
    fn new(patterns: &[HostPattern]) -> HostGroups {
        let mut groups = HostGroups::default();
        for pattern in patterns {
            match pattern {
                HostPattern::Exact(host) => _ = groups.exact.insert(host.as_bytes().into()),
                HostPattern::Wildcard(suffix) => {
                    groups.suffix_max = groups.suffix_max.max(suffix.len());
                    groups.wildcard.insert(suffix.as_bytes().into());
                }
            }
        }
        groups
    }

    /// Group of a host in lower case without its port: an exact name before the longest wildcard.
    fn of<'h>(&self, host: &'h [u8]) -> Group<'h> {
        if self.exact.contains(host) {
            return Group::Exact(host);
        }
        // A wildcard requires at least one byte before its suffix.
        let from = host.len().saturating_sub(self.suffix_max).max(1);
        let tail = host.get(from..).unwrap_or_default();
        let mut suffixes = memchr_iter(b'.', tail).map(|at| &tail[at..]);
        suffixes.find(|suffix| self.wildcard.contains(*suffix)).map_or(Group::None, Group::Wildcard)
    }

    /// True if both hosts are in the same group.
    fn are_one(&self, host: &[u8], server_name: &[u8]) -> bool {
        if host.eq_ignore_ascii_case(server_name) {
            return true;
        }
        let (host, server_name) = (lower(host), lower(server_name));
        self.of(&host) == self.of(&server_name)
    }
}

impl Filter for HostGroups {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let Some(tls) = cx.peer.tls() else { return Verdict::Next };
        let server_name = tls.server_name.as_deref().unwrap_or_default();
        let host = host::without_port(head.request.host);
        if self.are_one(host, server_name.as_bytes()) {
            return Verdict::Next;
        }
        let why = format!(
            "host \"{}\" is not of the group of the connection's server name \"{server_name}\" (tls.host_groups)",
            String::from_utf8_lossy(host)
        );
        Verdict::Answer(Response::new(421, why))
    }
}

impl Pure for HostGroups {}

fn lower(host: &[u8]) -> Cow<'_, [u8]> {
    if host.iter().any(u8::is_ascii_uppercase) { host.to_ascii_lowercase().into() } else { host.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_falls_to_its_most_specific_pattern_and_hosts_without_one_are_a_group() {
        let groups = HostGroups::new(&[
            HostPattern::Exact("second.example".into()),
            HostPattern::Wildcard(".wild.example".into()),
            HostPattern::Wildcard(".b.wild.example".into()),
            HostPattern::Exact("fourth.wild.example".into()),
        ]);
        for (server_name, host, are_one) in [
            ("first.example", "first.example", true),
            ("first.example", "unknown.example", true),
            ("", "unknown.example", true),
            ("", "", true),
            ("first.example", "second.example", false),
            ("second.example", "SECOND.example", true),
            ("second.example", "unknown.example", false),
            ("", "second.example", false),
            ("third.wild.example", "Fifth.Wild.example", true),
            ("third.wild.example", "fourth.wild.example", false),
            ("third.wild.example", "a.b.wild.example", false),
            ("a.b.wild.example", "c.b.wild.example", true),
            ("fourth.wild.example", "fourth.wild.example", true),
            ("third.wild.example", "wild.example", false),
            ("first.example", ".wild.example", true),
        ] {
            assert_eq!(groups.are_one(host.as_bytes(), server_name.as_bytes()), are_one, "{server_name} {host}");
        }
        let long = [b"a.".repeat(4000), b"x.wild.example".to_vec()].concat();
        assert!(groups.are_one(&long, b"third.wild.example"));
    }
}
