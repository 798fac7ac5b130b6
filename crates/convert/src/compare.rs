//! Responses of an original and its conversion to the same request, and their differences.

use crate::asks::Ask;
use std::net::SocketAddr;

/// A response of HTTP/1.1 without its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// In order, with names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: String,
}

/// Fields of responses that always differ, or that carry no meaning for clients.
const FIELDS: [&str; 8] =
    ["connection", "date", "server", "keep-alive", "transfer-encoding", "content-length", "x-endpoint", "via"];

impl Ask {
    /// The request as it is sent, with `more` fields, each with the end of its line.
    pub fn bytes(&self, more: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.host);
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += more;
        head += "Connection: close\r\n";
        if !self.body.is_empty() {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        format!("{head}\r\n{}", self.body).into_bytes()
    }
}

impl Answer {
    /// Reads a response, with as much of its body as there is. Interim responses are skipped.
    pub fn read(bytes: &[u8]) -> Option<Answer> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        if (100..200).contains(&status) && status != 101 {
            return Answer::read(body.as_bytes());
        }
        let field = |line: &str| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        };
        let fields: Vec<_> = lines.filter_map(field).collect();
        let chunked = fields.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { dechunked(body) } else { body.to_string() };
        Some(Answer { status, fields, body })
    }

    /// True if these bytes are a whole response to a request of this method, whether the connection ends or not.
    pub fn is_whole(bytes: &[u8], method: &str) -> bool {
        let Some(answer) = Answer::read(bytes) else { return false };
        let value = |name| answer.fields.iter().find(|(n, _)| n == name).map(|(_, value)| &**value);
        let length = value("content-length").and_then(|length| length.parse().ok());
        let is_last = bytes.ends_with(b"0\r\n\r\n") && value("transfer-encoding").is_some();
        method == "HEAD"
            || matches!(answer.status, 204 | 304)
            || length.is_some_and(|n: usize| answer.body.len() >= n)
            || is_last
    }

    /// Removes fields that always differ, and writes `@L0@` for the first of the addresses that were asked.
    pub fn normal(&mut self, listens: &[SocketAddr]) {
        normal_fields(&mut self.fields, &FIELDS, listens);
        self.body = without_addresses(&self.body, listens);
    }

    /// Removes the page of a response that a proxy makes by itself, and the fields that describe the page.
    pub fn forget_own_page(&mut self) {
        if self.status < 300 && !(self.status == 200 && self.body.is_empty()) {
            return;
        }
        // The pages of HAProxy and NGINX, and evenkeel's line with the status and its phrase.
        let is_line = self.body.starts_with(&format!("{} ", self.status)) && self.body.lines().count() == 1;
        if is_line || self.body.is_empty() || self.body.to_ascii_lowercase().contains("<html>") {
            self.fields.retain(|(name, _)| name != "content-type" && name != "cache-control");
            self.body.clear();
        }
    }
}

/// The first difference between two responses, in words that hold for all differences of its kind.
pub fn difference(there: &Answer, here: &Answer) -> Option<String> {
    if there.status != here.status {
        return Some(format!("status {} there, {} here", there.status, here.status));
    }
    if let Some(name) = other_field(&there.fields, &here.fields) {
        return Some(format!("field {name} of the response"));
    }
    (there.body != here.body).then(|| "the body of the response".into())
}

/// Removes fields by name, writes `@L0@` for addresses, and sorts.
pub fn normal_fields(fields: &mut Vec<(String, String)>, gone: &[&str], listens: &[SocketAddr]) {
    fields.retain(|(name, _)| !gone.contains(&&**name));
    fields.iter_mut().for_each(|(_, value)| *value = without_addresses(value, listens));
    fields.sort();
}

/// Writes `@L0@` for the first address, and `:@P0@` for its port alone.
pub fn without_addresses(text: &str, listens: &[SocketAddr]) -> String {
    listens.iter().enumerate().fold(text.to_string(), |text, (n, addr)| {
        text.replace(&addr.to_string(), &format!("@L{n}@")).replace(&format!(":{}", addr.port()), &format!(":@P{n}@"))
    })
}

/// Name of the first field that is not the same in both, which are sorted.
pub fn other_field(there: &[(String, String)], here: &[(String, String)]) -> Option<String> {
    let lacks = |one: &[(String, String)], other: &[(String, String)]| {
        let count = |all: &[(String, String)], field: &(String, String)| all.iter().filter(|f| *f == field).count();
        one.iter().find(|field| count(one, field) != count(other, field)).map(|(name, _)| name.clone())
    };
    lacks(there, here).or_else(|| lacks(here, there))
}

fn dechunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16).unwrap_or(0);
        let Some(chunk) = rest.get(..size).filter(|_| size > 0) else { break };
        body += chunk;
        text = rest.get(size + 2..).unwrap_or("");
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read_and_compared_without_what_frames_them() {
        let chunked = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        let plain = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\nContent-Length: 2\r\nx-a: 1\r\n\r\nab";
        assert!(Answer::is_whole(chunked, "GET") && Answer::is_whole(plain, "GET"));
        assert!(!Answer::is_whole(&plain[..plain.len() - 1], "GET") && !Answer::is_whole(b"HTTP/1.1 200", "HEAD"));
        let [there, mut here] = [&chunked[..], &plain[..]].map(|bytes| {
            let mut answer = Answer::read(bytes).expect("a response");
            answer.normal(&[]);
            answer
        });
        assert_eq!(difference(&there, &here), None);
        here.fields.push(("x-a".into(), "1".into()));
        assert_eq!(difference(&there, &here).as_deref(), Some("field x-a of the response"));
        here.status = 403;
        assert_eq!(difference(&there, &here).as_deref(), Some("status 200 there, 403 here"));
    }

    #[test]
    fn addresses_are_the_same_on_both_sides() {
        let listens = |port: u16| [SocketAddr::from(([127, 0, 0, 1], port))];
        let text =
            |port| without_addresses(&format!("http://127.0.0.1:{port}/a http://b.test:{port}/"), &listens(port));
        assert_eq!(text(8080), text(9090));
        assert_eq!(text(8080), "http://@L0@/a http://b.test:@P0@/");
    }
}
