//! Endpoints that write down what they are asked.

use crate::support::{address, eventually};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Field that marks requests of a table: checks of health do not have it.
pub const MARK: &str = "Row";

/// Servers by name. Each answers 200, or what a path asks for.
pub struct Endpoints {
    pub addresses: BTreeMap<String, String>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request as an endpoint got it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub endpoint: String,
    pub method: String,
    pub target: String,
    /// Fields with their names in lower case.
    pub fields: Vec<(String, String)>,
}

impl Endpoints {
    pub fn start(names: &[String]) -> Endpoints {
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let mut addresses = BTreeMap::new();
        for name in names {
            let addr = address();
            let listener = TcpListener::bind(&addr).expect("the address is its own");
            addresses.insert(name.clone(), addr);
            // Several endpoints of one pool: `web` and `web/2`, of which either may be chosen.
            let (name, seen) = (name.split('/').next().unwrap_or_default().to_string(), seen.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let (name, seen) = (name.clone(), seen.clone());
                    std::thread::spawn(move || serve(&name, BufReader::new(stream), &seen));
                }
            });
        }
        Endpoints { addresses, seen }
    }

    /// Takes everything that was asked under this mark.
    pub fn take(&self, mark: &str) -> Vec<Seen> {
        let mut seen = self.seen.lock().expect("no panic while held");
        let is_own =
            |seen: &Seen| seen.fields.iter().any(|(name, value)| *name == MARK.to_ascii_lowercase() && value == mark);
        let (own, rest) = seen.drain(..).partition(is_own);
        *seen = rest;
        own
    }

    /// Waits until all of them accept connections.
    pub fn ready(addresses: impl Iterator<Item = String>, mut alive: impl FnMut()) {
        for address in addresses {
            eventually("a program that accepts", || {
                alive();
                TcpStream::connect(&address).ok()
            });
        }
    }
}

fn serve(name: &str, mut stream: BufReader<TcpStream>, seen: &Mutex<Vec<Seen>>) -> Option<()> {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_string(), words.next().unwrap_or_default().to_string());
        let mut fields = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
            let Some((field, value)) = line.trim_end().split_once(':') else { break };
            fields.push((field.to_ascii_lowercase(), value.trim().to_string()));
        }
        let get = |field: &str| fields.iter().find(|(name, _)| name == field).map(|(_, value)| value.clone());
        if let Some(length) = get("content-length").and_then(|length| length.parse::<usize>().ok()) {
            stream.read_exact(&mut vec![0; length]).ok()?;
        }
        let is_last = get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let response = response(&method, &target, &get("host").unwrap_or_default());
        seen.lock().expect("no panic while held").push(Seen { endpoint: name.to_string(), method, target, fields });
        stream.get_mut().write_all(response.as_bytes()).ok().filter(|()| !is_last)?;
    }
}

/// Response of every endpoint: a path with `status-503` gets that status, and one with `moved` a redirect.
fn response(method: &str, target: &str, host: &str) -> String {
    let asked = target.split("status-").nth(1).and_then(|rest| rest.get(..3)).filter(|s| s.parse::<u16>().is_ok());
    let status = asked.unwrap_or("200");
    let (status, location) = match target.contains("moved") {
        true => ("302", format!("location: http://{host}{}\r\n", target.replace("moved", "there"))),
        false => (status, String::new()),
    };
    let fields = "server: endpoint\r\nx-powered-by: endpoint\r\nset-cookie: id=1; path=/\r\n";
    let body = if method == "HEAD" || status == "204" { "" } else { "ok" };
    let length = if status == "204" { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status} X\r\n{fields}{location}{length}\r\n{body}")
}
