//! Response and request of each side, and their differences.

use crate::client::Answer;
use crate::endpoints::Seen;
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

/// Fields of responses that always differ, or that say nothing.
const OF_RESPONSES: [&str; 8] =
    ["connection", "date", "server", "keep-alive", "transfer-encoding", "content-length", "x-endpoint", "via"];

impl Side {
    /// Removes what always differs, and writes `@L0@` for the addresses.
    pub fn normal(mut self, listens: &[SocketAddr]) -> Side {
        let plain = |text: &str| {
            listens.iter().enumerate().fold(text.to_string(), |text, (n, addr)| {
                text.replace(&addr.to_string(), &format!("@L{n}@"))
                    .replace(&format!(":{}", addr.port()), &format!(":@P{n}@"))
            })
        };
        let fields = |fields: &mut Vec<(String, String)>, gone: &[&str]| {
            fields.retain(|(name, _)| !gone.contains(&&**name));
            fields.iter_mut().for_each(|(_, value)| *value = plain(value));
            fields.sort();
        };
        if let Some(seen) = &mut self.seen {
            fields(&mut seen.fields, &OF_REQUESTS);
            seen.target = plain(&seen.target);
        }
        if let Ok(answer) = &mut self.answer {
            fields(&mut answer.fields, &OF_RESPONSES);
            answer.body = plain(&answer.body);
            // A page that a program makes by itself, and what it says of it.
            if self.seen.is_none() && (answer.status >= 300 || answer.status == 200 && answer.body.is_empty()) {
                answer.fields.retain(|(name, _)| name != "content-type" && name != "cache-control");
                if answer.body.to_ascii_lowercase().contains("<html>") || is_own_page(&answer.body) {
                    answer.body.clear();
                }
            }
        }
        self
    }

    fn status(&self) -> Option<u16> {
        self.answer.as_ref().ok().map(|answer| answer.status)
    }
}

/// True for the body of evenkeel's own errors.
fn is_own_page(body: &str) -> bool {
    body.len() < 200 && body.lines().count() <= 1
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
    if let Some(name) = other_field(&there.fields, &here.fields) {
        return Some(format!("field {name} of the response"));
    }
    (there.body != here.body).then(|| "the body of the response".into())
}

/// Name of the first field that is not the same in both, which are sorted.
fn other_field(there: &[(String, String)], here: &[(String, String)]) -> Option<String> {
    let lacks = |one: &[(String, String)], other: &[(String, String)]| {
        let count = |all: &[(String, String)], field: &(String, String)| all.iter().filter(|f| *f == field).count();
        one.iter().find(|field| count(one, field) != count(other, field)).map(|(name, _)| name.clone())
    };
    lacks(there, here).or_else(|| lacks(here, there))
}
