//! Endpoints that note what reaches them. Fields of a request say how they answer: `X-Say-Status` with a status,
//! `X-Say-Field` with a field as `name: value`, both of which they do not note.

use evenkeel_peers::own_addr;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as it reached an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub endpoint: char,
    pub method: String,
    pub target: String,
    /// In order, with names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: String,
}

/// Endpoints of a run, which last as long as the process.
pub struct Endpoints {
    addrs: Vec<(char, SocketAddr)>,
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

impl Endpoints {
    pub fn start() -> Endpoints {
        let seen = Arc::default();
        let addrs = ['A', 'B', 'C', 'D'].map(|name| (name, one(name, Arc::clone(&seen))));
        Endpoints { addrs: addrs.into(), seen }
    }

    /// A text with the addresses of endpoints: `@A@`, or `@HA@` and `@PA@` for host and port.
    pub fn fill(&self, text: &str) -> String {
        self.addrs.iter().fold(text.to_string(), |text, (name, addr)| {
            text.replace(&format!("@{name}@"), &addr.to_string())
                .replace(&format!("@H{name}@"), &addr.ip().to_string())
                .replace(&format!("@P{name}@"), &addr.port().to_string())
        })
    }

    /// Takes the request with this number, if it reached an endpoint.
    pub fn take(&self, id: usize) -> Option<Seen> {
        self.seen.lock().expect("no panic").remove(&id.to_string())
    }
}

fn one(name: char, seen: Arc<Mutex<HashMap<String, Seen>>>) -> SocketAddr {
    let addr = own_addr();
    let listener = TcpListener::bind(addr).expect("an address of its own");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || serve(name, stream, &seen));
        }
    });
    addr
}

/// Answers the requests of a connection until it ends.
fn serve(name: char, stream: TcpStream, seen: &Mutex<HashMap<String, Seen>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let first = line(&mut reader)?;
        let mut words = first.split(' ').map(str::to_string);
        let (method, target) = (words.next()?, words.next()?);
        let mut fields = Vec::new();
        loop {
            let line = line(&mut reader)?;
            let Some((name, value)) = line.split_once(':') else { break };
            fields.push((name.to_ascii_lowercase(), value.trim().to_string()));
        }
        let value = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let body = match (value("content-length"), value("transfer-encoding")) {
            (Some(length), _) => bytes(&mut reader, length.parse().ok()?)?,
            (None, Some(_)) => chunks(&mut reader)?,
            (None, None) => String::new(),
        };
        let status: u16 = value("x-say-status").and_then(|status| status.parse().ok()).unwrap_or(200);
        let said = value("x-say-field").map(|field| format!("{field}\r\n")).unwrap_or_default();
        let answer = format!("endpoint {name}\n");
        if let Some(id) = value("x-ask") {
            fields.retain(|(name, _)| !["x-ask", "x-say-status", "x-say-field"].contains(&&**name));
            let it = Seen { endpoint: name, method: method.clone(), target, fields, body };
            seen.lock().expect("no panic").insert(id, it);
        }
        let has_body = !matches!(status, 204 | 304);
        let length = if has_body { format!("Content-Length: {}\r\n", answer.len()) } else { String::new() };
        let mut response =
            format!("HTTP/1.1 {status} Said\r\nContent-Type: text/plain\r\nX-Endpoint: {name}\r\n{said}{length}\r\n");
        if method != "HEAD" && has_body {
            response += &answer;
        }
        writer.write_all(response.as_bytes()).ok()?;
    }
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).ok().filter(|n| *n > 0)?;
    Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_string())
}

fn bytes(reader: &mut impl Read, n: usize) -> Option<String> {
    let mut body = vec![0; n];
    reader.read_exact(&mut body).ok()?;
    Some(String::from_utf8_lossy(&body).into_owned())
}

fn chunks(reader: &mut impl BufRead) -> Option<String> {
    let mut body = String::new();
    loop {
        let size = usize::from_str_radix(line(reader)?.split(';').next()?, 16).ok()?;
        body += &bytes(reader, size)?;
        line(reader)?;
        if size == 0 {
            return Some(body);
        }
    }
}
