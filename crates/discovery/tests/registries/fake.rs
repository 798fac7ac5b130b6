//! Fakes of Consul, Nomad, Docker, and of a server of lists.
// Each binary of tests uses a part of this file.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Original whose rules a fake keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Consul,
    Nomad,
    Http,
    Docker,
}

pub const KINDS: [Kind; 4] = [Kind::Consul, Kind::Nomad, Kind::Http, Kind::Docker];

/// Fault that requests meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Accepts and never answers.
    Hangs,
    /// Answers with what is no list.
    Garbage,
    /// Answers with this status.
    Refuses(u16),
    /// Sends a body of 100 MB.
    Huge,
    /// Breaks off within the body.
    Cuts,
}

/// Rules of indexes that are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    Right,
    Missing,
    /// Index 0 in each answer.
    Zero,
    /// Same index in all answers, which come at once.
    Equal,
}

#[derive(Clone, Debug)]
pub struct State {
    /// Host and port of each entry.
    pub entries: Vec<(String, u64)>,
    pub index: u64,
    pub fault: Fault,
    pub rule: Index,
    /// Token that requests need.
    pub token: Option<String>,
    /// Milliseconds since the last contact to the leader, of answers that may be stale.
    pub contact: u64,
}

/// Server that runs in the background, until it is stopped or dropped.
pub struct Registry {
    pub kind: Kind,
    pub addr: SocketAddr,
    pub state: watch::Sender<State>,
    pub token_file: Option<String>,
    /// Requests, and connections, so far.
    pub requests: Arc<AtomicUsize>,
    pub connections: Arc<AtomicUsize>,
    task: Option<AbortHandle>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Registry {
    pub async fn start(kind: Kind, entries: &[&str]) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let state = State {
            entries: read(entries),
            index: 10,
            fault: Fault::None,
            rule: Index::Right,
            token: None,
            contact: 0,
        };
        let mut registry = Registry {
            kind,
            addr: listener.local_addr().expect("it is bound"),
            state: watch::Sender::new(state),
            token_file: None,
            requests: Arc::default(),
            connections: Arc::default(),
            task: None,
        };
        registry.serve(listener);
        registry
    }

    fn serve(&mut self, listener: TcpListener) {
        let (kind, state) = (self.kind, self.state.clone());
        let (requests, connections) = (self.requests.clone(), self.connections.clone());
        let serve = async move {
            // Connections end with their listener.
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Relaxed);
                open.spawn(connection(stream, kind, state.clone(), requests.clone()));
            }
        };
        self.task = Some(tokio::spawn(serve).abort_handle());
    }

    /// Ends the server with its connections.
    pub fn stop(&mut self) {
        self.task.take().iter().for_each(AbortHandle::abort);
    }

    /// Starts a server that was stopped, at the same address.
    pub async fn restart(&mut self) {
        loop {
            if let Ok(listener) = TcpListener::bind(self.addr).await {
                return self.serve(listener);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sets the list, with the next index.
    pub fn set(&self, entries: &[&str]) {
        self.state.send_modify(|state| (state.entries, state.index) = (read(entries), state.index + 1));
    }

    pub fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Relaxed)
    }

    /// Key and value of `discover` that name this server.
    pub fn source(&self) -> String {
        let token = self.token_file.as_ref().map(|file| format!(", token_file = '{file}'")).unwrap_or_default();
        match self.kind {
            Kind::Consul => "consul = { service = 'web' }".into(),
            Kind::Nomad => "nomad = { service = 'web' }".into(),
            Kind::Http => format!("http = {{ url = 'http://{}/web.json', every = '1s'{token} }}", self.addr),
            Kind::Docker => "docker = { labels = ['pool=web'], port = 80 }".into(),
        }
    }

    /// Section with the server of the source.
    pub fn section(&self) -> String {
        let token = self.token_file.as_ref().map(|file| format!("token_file = '{file}'\n")).unwrap_or_default();
        let url = format!("url = 'http://{}'\n{token}", self.addr);
        match self.kind {
            Kind::Consul => format!("[discovery.consul]\n{url}wait = '1s'\n"),
            Kind::Nomad => format!("[discovery.nomad]\n{url}wait = '1s'\n"),
            Kind::Http => String::new(),
            Kind::Docker => format!("[discovery.docker]\n{url}"),
        }
    }
}

fn read(entries: &[&str]) -> Vec<(String, u64)> {
    let entry = |text: &&str| {
        let (host, port) = text.rsplit_once(':').expect("HOST:PORT");
        (host.trim_matches(['[', ']']).to_owned(), port.parse().expect("a number"))
    };
    entries.iter().map(entry).collect()
}

async fn connection(mut stream: TcpStream, kind: Kind, state: watch::Sender<State>, requests: Arc<AtomicUsize>) {
    while let Some(head) = head(&mut stream).await {
        requests.fetch_add(1, Relaxed);
        if answer(&mut stream, kind, &state, &head).await.is_none() {
            return;
        }
    }
}

async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(read).ok()
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn parameter(path: &str, name: &str) -> Option<String> {
    let parameters = path.split_once('?')?.1.split('&').map(|one| one.split_once('=').unwrap_or((one, "")));
    parameters.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next()
}

/// Answers a request; `None` if the connection ends.
async fn answer(stream: &mut TcpStream, kind: Kind, state: &watch::Sender<State>, head: &str) -> Option<()> {
    let path = head.split(' ').nth(1)?.to_owned();
    let mut seen = state.subscribe();
    let mut now = seen.borrow_and_update().clone();
    let is_events = kind == Kind::Docker && path.starts_with("/events");
    match now.fault {
        Fault::Hangs => return std::future::pending().await,
        Fault::Refuses(status) => return send(stream, &format!("{status} Refused"), "", "not\nnow").await,
        Fault::Garbage if !is_events => return send(stream, "200 OK", "", "<html>").await,
        Fault::Huge if !is_events => return huge(stream).await,
        Fault::Cuts if !is_events => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[").await.ok()?;
            return None;
        }
        _ => {}
    }
    let token = ["x-consul-token", "x-nomad-token", "authorization"].into_iter().find_map(|name| field(head, name));
    if now.token.is_some() && token.map(|token| token.trim_start_matches("Bearer ")) != now.token.as_deref() {
        return send(stream, "403 Forbidden", "", "no permission").await;
    }
    match kind {
        Kind::Consul | Kind::Nomad => {
            let since = parameter(&path, "index").and_then(|index| index.parse::<u64>().ok()).unwrap_or_default();
            let wait = parameter(&path, "wait").and_then(|wait| wait.trim_end_matches("ms").parse().ok());
            if since > 0 && now.rule != Index::Equal && now.fault == Fault::None {
                let newer =
                    seen.wait_for(|state| state.index > since || state.fault != Fault::None || state.index < since);
                let _ = timeout(Duration::from_millis(wait.unwrap_or(300_000)), newer).await;
                now = state.borrow().clone();
            }
            let name = if kind == Kind::Consul { "X-Consul" } else { "X-Nomad" };
            let index = match now.rule {
                Index::Right => format!("{name}-Index: {}\r\n", now.index),
                Index::Missing => String::new(),
                Index::Zero => format!("{name}-Index: 0\r\n"),
                Index::Equal => format!("{name}-Index: 77\r\n"),
            };
            let contact = if path.contains("stale") { now.contact } else { 0 };
            let fields = format!("{index}{name}-LastContact: {contact}\r\n{name}-KnownLeader: true\r\n");
            send(stream, "200 OK", &fields, &list(kind, &now)).await
        }
        Kind::Http => {
            let etag = |state: &State| format!("\"{}\"", state.index);
            let known = field(head, "if-none-match").map(str::to_owned);
            let holds = field(head, "prefer").is_some_and(|prefer| prefer.starts_with("wait="));
            if known.as_deref() == Some(&*etag(&now)) && holds {
                let newer =
                    seen.wait_for(|state| Some(&*etag(state)) != known.as_deref() || state.fault != Fault::None);
                let _ = timeout(Duration::from_secs(1), newer).await;
                now = state.borrow().clone();
            }
            let fields = format!("ETag: {}\r\nPreference-Applied: wait\r\n", etag(&now));
            match known.as_deref() == Some(&*etag(&now)) {
                true => send(stream, "304 Not Modified", &fields, "").await,
                false => send(stream, "200 OK", &fields, &list(kind, &now)).await,
            }
        }
        Kind::Docker if is_events => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.ok()?;
            loop {
                seen.changed().await.ok()?;
                let event = "{\"Type\":\"container\",\"Action\":\"start\"}\n";
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                stream.write_all(chunk.as_bytes()).await.ok()?;
            }
        }
        Kind::Docker => send(stream, "200 OK", "", &list(kind, &now)).await,
    }
}

async fn send(stream: &mut TcpStream, status: &str, fields: &str, body: &str) -> Option<()> {
    let length = if status.starts_with("304") { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let text = format!("HTTP/1.1 {status}\r\n{fields}{length}\r\n{body}");
    stream.write_all(text.as_bytes()).await.ok()
}

async fn huge(stream: &mut TcpStream) -> Option<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n[").await.ok()?;
    let blank = vec![b' '; 1 << 20];
    for _ in 0..95 {
        stream.write_all(&blank).await.ok()?;
    }
    None
}

/// List in the form of the registry.
fn list(kind: Kind, state: &State) -> String {
    let one = |(n, (host, port)): (usize, &(String, u64))| match kind {
        Kind::Consul => format!(
            r#"{{"Node":{{"Node":"node-{n}","Address":"{host}","Datacenter":"dc1"}},"Service":{{"ID":"web-{host}-{port}","Service":"web","Address":"","Port":{port},"Weights":{{"Passing":1,"Warning":1}}}},"Checks":[{{"CheckID":"serfHealth","Status":"passing"}}]}}"#
        ),
        Kind::Nomad => format!(
            r#"{{"ID":"_nomad-task-{host}-{port}","ServiceName":"web","Address":"{host}","Port":{port},"Tags":[],"Datacenter":"dc1"}}"#
        ),
        Kind::Http if host.contains(':') => format!(r#""[{host}]:{port}""#),
        Kind::Http => format!(r#""{host}:{port}""#),
        Kind::Docker => format!(
            r#"{{"Id":"{n}","Names":["/web-{host}-{port}"],"Labels":{{"pool":"web","evenkeel.port":"{port}"}},"State":"running","Status":"Up 5 seconds","Ports":[],"NetworkSettings":{{"Networks":{{"front":{{"IPAddress":"{host}"}}}}}}}}"#
        ),
    };
    let entries: Vec<String> = state.entries.iter().enumerate().map(one).collect();
    format!("[{}]", entries.join(","))
}
