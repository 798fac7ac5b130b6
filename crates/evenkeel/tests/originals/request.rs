//! A request of a table, sent to one of the two programs, and what came of it.

use super::endpoint::{Endpoints, MARK, Seen};
use super::program::Kind;
use super::table::Row;
use crate::support::{DEADLINE, text};
use rustix::net::{AddressFamily, SocketType};
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Command;

/// Answer to a request, and the request as endpoints saw it.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    status: u16,
    location: Option<String>,
    /// Body of an answer that no endpoint gave.
    body: Option<String>,
    fields: Vec<String>,
    seen: Vec<Sight>,
}

/// A request as an endpoint saw it, with the fields that matter.
#[derive(Debug, PartialEq, Eq)]
struct Sight {
    line: String,
    fields: Vec<String>,
}

/// Fields of responses that are compared, beside all that begin with `x-` and `access-control-`.
const COMPARED: [&str; 5] =
    ["cache-control", "strict-transport-security", "www-authenticate", "referrer-policy", "set-cookie"];

impl Outcome {
    /// Sends a request as often as its row says, and keeps what came of the last one.
    pub fn of(row: &Row, number: usize, addr: &str, endpoints: &Endpoints, kind: Kind) -> Outcome {
        let mut outcome = None;
        for _ in 0..row.times {
            let mark = number.to_string();
            let is_tls = row.listener.as_ref().is_some_and(|name| name.contains("tls"));
            let response = if is_tls { over_tls(row, addr, &mark) } else { plain(row, addr, &mark) };
            let seen = endpoints.take(&mark);
            outcome = Some(Outcome::read(row, &response, &seen, addr, is_tls, kind));
        }
        outcome.expect("a row is sent at least once")
    }

    fn read(row: &Row, response: &str, seen: &[Seen], addr: &str, is_tls: bool, kind: Kind) -> Outcome {
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut location = None;
        let mut fields = Vec::new();
        let port = addr.rsplit_once(':').map_or("", |(_, port)| port);
        for line in head.lines().skip(1) {
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            let is_compared = name.starts_with("x-")
                || name.starts_with("access-control-")
                // HAProxy forbids caches to keep its own answers.
                || COMPARED.contains(&name.as_str()) && !(seen.is_empty() && value == "no-cache")
                // NGINX names itself there.
                || name == "server" && kind == Kind::Haproxy && value == "endpoint";
            match name.as_str() {
                "location" => {
                    let scheme = if is_tls { "https" } else { "http" };
                    // Clients complete a path by what they asked.
                    let whole = match value.starts_with('/') {
                        true => format!("{scheme}://{}{value}", row.host()),
                        false => value.to_string(),
                    };
                    location = Some(whole.replace(&format!(":{port}"), ""));
                }
                // The value is made anew by each of them.
                "set-cookie" => fields.push(format!("set-cookie: {}", value.split('=').next().unwrap_or_default())),
                _ if is_compared => fields.push(format!("{name}: {}", without_time(value))),
                _ => {}
            }
        }
        fields.sort();
        let body = (seen.is_empty() && (200..300).contains(&status)).then(|| body.to_string());
        Outcome { status, location, body, fields, seen: seen.iter().map(Sight::of).collect() }
    }

    /// The outcome without fields about the client that evenkeel always adds and the original has not been told to.
    pub fn without_own_fields(mut self, original: &Outcome) -> Outcome {
        for (at, sight) in self.seen.iter_mut().enumerate() {
            let has = |name: &str| {
                let theirs = original.seen.get(at).into_iter().flat_map(|sight| &sight.fields);
                theirs.into_iter().any(|field| field.split(':').next() == Some(name))
            };
            sight.fields.retain(|field| {
                let name = field.split(':').next().unwrap_or_default();
                !name.starts_with("x-forwarded-") || has(name)
            });
        }
        self
    }
}

impl Sight {
    fn of(seen: &Seen) -> Sight {
        let matters = |name: &str| {
            name == "host" || name.starts_with("x-") || name == "authorization" || name == "accept-encoding"
        };
        let kept = seen.fields.iter().filter(|(name, _)| matters(name));
        let mut fields: Vec<String> = kept.map(|(name, value)| format!("{name}: {}", without_time(value))).collect();
        fields.sort();
        Sight { line: format!("{} {} {}", seen.endpoint, seen.method, seen.target), fields }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(location) = &self.location {
            write!(f, " -> {location}")?;
        }
        if let Some(body) = &self.body {
            write!(f, " {body:?}")?;
        }
        write!(f, " {:?}", self.fields)?;
        self.seen.iter().try_for_each(|sight| write!(f, " [{} {:?}]", sight.line, sight.fields))
    }
}

/// The value with the time in it replaced: seconds since 1970, with or without a fraction.
fn without_time(value: &str) -> String {
    let is_time = |part: &str| part.len() >= 10 && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match value.split_once('=') {
        Some((name, time)) if is_time(time) => format!("{name}=<time>"),
        _ if is_time(value) && !value.contains("127.") => "<time>".to_string(),
        _ => value.to_string(),
    }
}

fn plain(row: &Row, addr: &str, mark: &str) -> String {
    let mut stream = connect(row, addr);
    stream.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
    let mut request = format!("{} {} HTTP/1.1\r\n", row.method, row.target);
    if !row.fields.iter().any(|(name, _)| name == "Host") {
        request.push_str("Host: test\r\n");
    }
    for (name, value) in &row.fields {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = row.body {
        request.push_str(&format!("Content-Length: {length}\r\n"));
    }
    request.push_str(&format!("{MARK}: {mark}\r\nConnection: close\r\n\r\n"));
    let _ = stream.write_all(request.as_bytes());
    if let Some(length) = row.body {
        let _ = stream.write_all(&vec![b'x'; length]);
    }
    let mut response = Vec::new();
    // What was refused before its body was read may end in a reset.
    let _ = stream.read_to_end(&mut response);
    text(&response)
}

fn connect(row: &Row, addr: &str) -> TcpStream {
    let Some(from) = &row.from else { return TcpStream::connect(addr).expect("it accepts") };
    let from: Ipv4Addr = from.parse().expect("an address");
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("sockets can be had");
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0)).expect("loopback is a network");
    rustix::net::connect(&socket, &addr.parse::<SocketAddrV4>().expect("an address of ours")).expect("it accepts");
    TcpStream::from(socket)
}

fn over_tls(row: &Row, addr: &str, mark: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["-k", "-i", "-sS", "--http1.1", "--path-as-is", "--noproxy", "*", "--max-time", "20", "-A", ""]);
    command.args(["--connect-to", &format!("::{addr}"), "-X", &row.method, "-H", &format!("{MARK}: {mark}")]);
    for (name, value) in row.fields.iter().filter(|(name, _)| name != "Host") {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    let out = command.arg(format!("https://{}{}", row.host(), row.target)).output().expect("it is installed");
    text(&out.stdout)
}
