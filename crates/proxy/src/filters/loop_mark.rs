//! Loop detection: marks the requests that a listener forwards on a route. A request that arrives with the mark was
//! forwarded here before. An endpoint leads back to this proxy, and the request would circulate until some resource is
//! exhausted.
//!
//! The field is `CDN-Loop` (RFC 8586), which servers use for nothing else. `Via` would serve the purpose, but NGINX
//! does not compress responses to requests that have it (`gzip_proxied`), and other servers behave alike.

use super::exchange::Exchange;
use super::filter::{Filter, Own, Pure, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::fields::list;

/// Mark of a route at a listener of an instance. Two instances in a chain have different marks even with the same
/// configuration, and so do two listeners of an instance.
#[derive(Debug)]
pub struct Mark {
    line: Box<str>,
}

const NAME: &str = "CDN-Loop";

struct LoopMark {
    mark: Mark,
    /// Reason in the response to a marked request.
    why: Box<str>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref().filter(|_| from.listener.detect_loops)?;
    let why = format!(
        "loop detected: the request passed route \"{}\" before; an endpoint of pool \"{}\" leads back here",
        route.plan.name, route.plan.action
    );
    let mark = Mark::new(route.instance, &from.listener.name, &route.plan.name);
    Some(Box::new(LoopMark { mark, why: why.into() }))
}

impl Filter for LoopMark {
    type State = ();

    #[inline]
    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if cx.facts.has_passed_proxies && self.mark.is_on(head.request) {
            cx.stats.loops.add(1);
            return Verdict::Answer(Response::new(508, &*self.why));
        }
        head.edits.lines().extend_from_slice(self.mark.line());
        Verdict::Next
    }
}

impl Pure for LoopMark {}

impl Mark {
    /// Computes the mark. It is the same for all workers, and stays the same over reloads and upgrades.
    pub fn new(instance: u64, listener: &str, route: &str) -> Mark {
        let of = [instance.to_le_bytes().as_slice(), listener.as_bytes(), &[0], route.as_bytes()].concat();
        Mark { line: format!("{NAME}: evenkeel-{:016x}\r\n", stable_hash(&of)).into() }
    }

    /// The field line, ending in CRLF.
    pub fn line(&self) -> &[u8] {
        self.line.as_bytes()
    }

    /// Returns true if a request has this mark.
    pub fn is_on(&self, request: &Request<'_, '_>) -> bool {
        let mine = &self.line()[NAME.len() + 2..self.line.len() - 2];
        let named = |info: &[u8]| info.split(|b| *b == b';').next().is_some_and(|id| id.trim_ascii() == mine);
        request.values(NAME).any(|value| list(value).any(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    #[test]
    fn a_mark_is_of_an_instance_a_listener_and_a_route() {
        let mark = |instance, listener, route| Mark::new(instance, listener, route).line;
        let all =
            [mark(1, "web", "r"), mark(2, "web", "r"), mark(1, "web2", "r"), mark(1, "web", "2r"), mark(1, "we", "br")];
        assert!(all.iter().enumerate().all(|(at, mark)| !all[..at].contains(mark)), "{all:?}");
        assert_eq!(all[0], mark(1, "web", "r"));
    }

    #[test]
    fn it_is_found_among_others_with_parameters_or_without() {
        let mark = Mark::new(7, "web", "r");
        let mine = mark.line["CDN-Loop: ".len()..].trim_end().to_string();
        let is_on = |values: &[&str]| {
            let mut table: Table = values.iter().map(|value| (&b"cdn-loop"[..], value.as_bytes())).collect();
            mark.is_on(&Request { method: "GET", target: "/", host: b"a", fields: table.fields() })
        };
        assert!(is_on(&[&mine]) && is_on(&["foo", &mine]) && is_on(&[&format!("foo.example; n=1 , {mine} ; n=2,x")]));
        assert!(
            !is_on(&[])
                && !is_on(&["evenkeel", ""])
                && !is_on(&[&mine[..mine.len() - 1]])
                && !is_on(&[&format!("{mine}0")])
        );
    }
}
