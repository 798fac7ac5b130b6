//! Response and request of each side, and their differences.

use crate::endpoints::Seen;
use evenkeel_convert::{Answer, normal_fields, other_field, without_addresses};
use std::net::SocketAddr;

/// The response to a client, and the request at an endpoint.
#[derive(Clone, Debug)]
pub struct Side {
    pub answer: Result<Answer, String>,
    pub seen: Option<Seen>,
}

/// Fields of requests that always differ, or that say nothing.
const OF_REQUESTS: [&str; 9] = [
    "cdn-loop",
    "connection",
    "te",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "forwarded",
    "content-length",
];

impl Side {
    /// Removes what always differs, and writes `@L0@` for the addresses.
    pub fn normal(mut self, listens: &[SocketAddr]) -> Side {
        if let Some(seen) = &mut self.seen {
            normal_fields(&mut seen.fields, &OF_REQUESTS, listens);
            seen.target = without_addresses(&seen.target, listens);
        }
        if let Ok(answer) = &mut self.answer {
            answer.normal(listens);
            if self.seen.is_none() {
                answer.forget_own_page();
            }
        }
        self
    }

    fn status(&self) -> Option<u16> {
        self.answer.as_ref().ok().map(|answer| answer.status)
    }
}

/// True if a request that the original refuses reaches an endpoint here.
pub fn is_opened(there: &Side, here: &Side) -> bool {
    there.seen.is_none() && here.seen.is_some() && matches!(there.status(), Some(401 | 403 | 405 | 407 | 429))
}

/// The first difference in what matters, in words that hold for all differences of its kind.
pub fn difference(there: &Side, here: &Side) -> Option<String> {
    let (seen_there, seen_here) = (&there.seen, &here.seen);
    let name = |seen: &Option<Seen>| seen.as_ref().map_or("none".to_string(), |seen| seen.endpoint.to_string());
    if name(seen_there) != name(seen_here) {
        let statuses = [there, here].map(|side| side.status().map_or("no response".to_string(), |n| n.to_string()));
        let [to_there, to_here] = [name(seen_there), name(seen_here)];
        return Some(format!("endpoint {to_there} there ({}), {to_here} here ({})", statuses[0], statuses[1]));
    }
    if there.status() != here.status() {
        let [there, here] =
            [there, here].map(|side| side.status().map_or("no response".to_string(), |n| n.to_string()));
        return Some(format!("status {there} there, {here} here"));
    }
    if let (Some(there), Some(here)) = (seen_there, seen_here) {
        if there.method != here.method {
            return Some("the method at the endpoint".into());
        }
        if there.target != here.target {
            return Some("the path at the endpoint".into());
        }
        if let Some(name) = other_field(&there.fields, &here.fields) {
            return Some(format!("field {name} at the endpoint"));
        }
        if there.body != here.body {
            return Some("the body at the endpoint".into());
        }
    }
    let (Ok(there), Ok(here)) = (&there.answer, &here.answer) else { return None };
    evenkeel_convert::difference(there, here)
}
