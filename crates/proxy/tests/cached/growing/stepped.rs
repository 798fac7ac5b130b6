//! An endpoint whose responses come step by step, and clients that read them as they come.

use crate::support::h2_client::{ACK, DATA, END_STREAM, Frame, H2Client, HEADERS, RST_STREAM, SETTINGS};
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use std::net::Shutdown;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

pub const FRESH: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\n";

pub enum Step {
    Send(Vec<u8>),
    Close,
    Next,
}

/// Endpoint whose responses come step by step, as the test says.
pub struct Stepped {
    pub endpoint: Endpoint,
    /// Steps of each request, in the order in which they came.
    steps: Arc<Mutex<Vec<Sender<Step>>>>,
}

impl Stepped {
    pub fn new() -> Stepped {
        let steps: Arc<Mutex<Vec<Sender<Step>>>> = Arc::default();
        let all = steps.clone();
        let endpoint = Endpoint::start(move |conn| {
            while conn.request_if_whole().is_some() {
                let (to, steps) = channel();
                all.lock().expect("no panic").push(to);
                loop {
                    match steps.recv_timeout(SOON) {
                        Ok(Step::Send(bytes)) => conn.send(bytes),
                        Ok(Step::Next) => break,
                        Ok(Step::Close) | Err(_) => return,
                    }
                }
            }
        });
        Stepped { endpoint, steps }
    }

    pub fn proxy(&self, cache: &str, sections: &str) -> Proxy {
        Proxy::start(&self.config(cache, sections))
    }

    /// Configuration of a proxy with a cached route, further sections, and one worker.
    pub fn config(&self, cache: &str, sections: &str) -> String {
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n[pool.web]\n\
             endpoints = ['{}']\n[[route]]\npool = 'web'\ncache = {cache}\nretry = {{ attempts = 0 }}\n{sections}",
            self.endpoint.addr
        )
    }

    pub fn requests(&self) -> usize {
        self.steps.lock().expect("no panic").len()
    }

    pub fn has_requests(&self, n: usize) {
        wait_until("the request has come", || self.requests() == n);
    }

    /// Takes a step of the response to a request.
    pub fn step_of(&self, request: usize, step: Step) {
        self.steps.lock().expect("no panic")[request].send(step).expect("the endpoint is there");
    }

    /// Takes a step of the response to the last request.
    pub fn step(&self, step: Step) {
        self.step_of(self.requests() - 1, step);
    }

    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        self.step(Step::Send(bytes.as_ref().to_vec()));
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        // The endpoint waits for no further steps.
        self.steps.lock().expect("no panic").clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    H1,
    H2,
}

pub const VERSIONS: [Version; 2] = [Version::H1, Version::H2];

/// A client that reads the response to a GET as it comes.
pub enum Reads {
    H1(Client),
    H2(H2Client),
}

impl Reads {
    pub fn new(proxy: &Proxy, version: Version, fields: &[(&str, &str)]) -> Reads {
        let mut reads = match version {
            Version::H1 => Reads::H1(proxy.client()),
            Version::H2 => Reads::H2(H2Client::connect(proxy.addr())),
        };
        match &mut reads {
            Reads::H1(client) => {
                let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                client.send(format!("GET /p HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            }
            Reads::H2(client) => {
                let pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/p"), (":authority", "a")];
                client.head(1, &[&pseudo[..], fields].concat(), true);
            }
        }
        reads
    }

    pub fn head(&mut self) -> String {
        match self {
            Reads::H1(client) => client.head(),
            Reads::H2(client) => {
                client.next(HEADERS).expect("a head");
                client.head.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
            }
        }
    }

    /// Reads bytes of the body, which must have a length over HTTP/1.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        match self {
            Reads::H1(client) => client.bytes(n),
            Reads::H2(client) => {
                let mut bytes = Vec::new();
                while bytes.len() < n {
                    bytes.extend(data(client).expect("more of the body").0);
                }
                bytes
            }
        }
    }

    /// Reads the rest of the body, and true if it is whole. Over HTTP/1, `length` is its length.
    pub fn rest(&mut self, length: usize) -> (Vec<u8>, bool) {
        match self {
            Reads::H1(client) => {
                let _ = client.stream.shutdown(Shutdown::Write);
                let rest = client.rest();
                let is_whole = rest.len() == length;
                (rest, is_whole)
            }
            Reads::H2(client) => {
                let mut rest = Vec::new();
                loop {
                    match data(client) {
                        Some((bytes, ends)) => {
                            rest.extend(bytes);
                            if ends {
                                return (rest, true);
                            }
                        }
                        None => return (rest, false),
                    }
                }
            }
        }
    }

    pub fn leave(self) {
        match self {
            Reads::H1(client) => client.reset(),
            Reads::H2(client) => {
                client.send(&Frame::new(RST_STREAM, 0, 1, 8_u32.to_be_bytes()));
            }
        }
    }
}

/// Next data of the stream, and true at its end; `None` if it was reset.
pub fn data(client: &mut H2Client) -> Option<(Vec<u8>, bool)> {
    loop {
        let frame = client.frame()?;
        match frame.kind {
            DATA => {
                if !frame.payload.is_empty() {
                    client.give(0, frame.payload.len() as u32);
                    client.give(1, frame.payload.len() as u32);
                }
                return Some((frame.payload, frame.flags & END_STREAM != 0));
            }
            HEADERS if frame.flags & END_STREAM != 0 => return Some((Vec::new(), true)),
            RST_STREAM => return None,
            SETTINGS if frame.flags & ACK == 0 => {
                client.send(&Frame::new(SETTINGS, ACK, 0, ""));
            }
            _ => {}
        }
    }
}

pub fn metric(proxy: &Proxy, name: &str) -> u64 {
    let metrics = proxy.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name) && line.as_bytes().get(name.len()) == Some(&b' '));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the metric exists")
}
