//! Beginnings and ends of requests, about which evenkeel and real servers have to agree. Hundreds of ambiguous messages go through
//! evenkeel to NGINX, HAProxy, Node and Go. None of them may see a request that evenkeel did not count, and no client may
//! get the answer to another request. What came of each message is committed, so that a change shows.

mod endpoints;
#[rustfmt::skip] // rows
mod payloads;

use crate::support::{DEADLINE, Folder, Running, address, eventually};
use endpoints::Endpoint;
use evenkeel_peers::installed;
use payloads::Payload;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/outcomes.tsv");

/// A final response, as its client reads it.
struct Answer {
    status: u16,
    body: String,
}

#[test]
fn no_endpoint_sees_a_request_that_was_not_counted() {
    if !installed(&["nginx", "haproxy", "node", "go"]) {
        return;
    }
    let folder = Folder::new("differential");
    let endpoints = endpoints::all(&folder);
    let listen: Vec<String> = endpoints.iter().map(|_| address()).collect();
    let log = folder.0.join("access.log");
    let mut config =
        format!("[runtime]\nworkers = 1\n[telemetry]\naccess_log = {{ path = {:?} }}\n", log.display().to_string());
    for (endpoint, listen) in endpoints.iter().zip(&listen) {
        let (name, addr) = (endpoint.name, &endpoint.addr);
        write!(
            config,
            "[listener.{name}]\nbind = [\"{listen}\"]\n[pool.{name}]\nendpoints = [\"{addr}\"]\n\
             [[route]]\nname = \"{name}\"\nmatch = {{ listener = [\"{name}\"] }}\npool = \"{name}\"\n"
        )
        .expect("a String takes everything");
    }
    let mut evenkeel = Running::start(&["run", "--config", &folder.file("evenkeel.toml", &config)]);
    let payloads = payloads::all();
    assert!(payloads.len() >= 300, "{}", payloads.len());
    let answers: Vec<Vec<Vec<Answer>>> = std::thread::scope(|scope| {
        let senders: Vec<_> = listen.iter().map(|to| scope.spawn(|| send_all(&payloads, to))).collect();
        senders.into_iter().map(|sender| sender.join().expect("every answer can be read")).collect()
    });
    evenkeel.signal(Signal::TERM);
    assert_eq!(evenkeel.code(), Some(0), "{}", evenkeel.said());

    let counted = Counted::read(&std::fs::read_to_string(&log).expect("it was written"));
    let mut cells: Vec<Vec<String>> = Vec::new();
    for (endpoint, answers) in endpoints.iter().zip(&answers) {
        let seen = Seen::read(endpoint, payloads.len());
        let judged = payloads.iter().enumerate().zip(answers);
        cells.push(
            judged.map(|((n, payload), answers)| judge(endpoint, n, payload, answers, &counted, &seen)).collect(),
        );
    }
    compare(&endpoints, &payloads, &cells);
}

/// Sends each payload on a connection of its own, and an innocent request on another, which gets the endpoint's
/// connection after it.
fn send_all(payloads: &[Payload], to: &str) -> Vec<Vec<Answer>> {
    let sent = payloads.iter().enumerate().map(|(n, payload)| {
        let answers = send(to, Some(client(n)), payload.bytes.as_bytes());
        let innocent = format!("GET /{n:04}/innocent HTTP/1.1\r\nHost: a\r\n\r\n");
        let innocent = send(to, None, innocent.as_bytes());
        let got: Vec<(u16, &str)> = innocent.iter().map(|answer| (answer.status, &*answer.body)).collect();
        assert_eq!(got, [(200, &*format!("GET /{n:04}/innocent"))], "after {}", payload.name);
        answers
    });
    sent.collect()
}

/// The address that a payload is sent from: by that its requests are found in the log of evenkeel, readable or not.
fn client(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 99, (n / 250) as u8, (n % 250 + 1) as u8)
}

/// All answers to what is sent on one connection, from an address that is chosen or any.
fn send(to: &str, from: Option<Ipv4Addr>, bytes: &[u8]) -> Vec<Answer> {
    let mut stream = match from {
        None => TcpStream::connect(to).expect("it accepts"),
        Some(from) => {
            let socket =
                rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("sockets can be had");
            rustix::net::bind(&socket, &SocketAddrV4::new(from, 0)).expect("loopback is a network");
            let to: SocketAddrV4 = to.parse().expect("an address of ours");
            rustix::net::connect(&socket, &to).expect("it accepts");
            TcpStream::from(socket)
        }
    };
    stream.set_read_timeout(Some(DEADLINE)).expect("sockets have timeouts");
    // It may have refused before the end, and closed.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    answers(&got)
}

/// Reads responses as their heads frame them; what is cut off is no response.
fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status: u16 = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_default();
        bytes = &bytes[end + 4..];
        if status < 200 {
            continue;
        }
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let chunked = head.contains("transfer-encoding: chunked");
        let (body, used) = match length {
            Some(length) if bytes.len() < length => break,
            Some(length) => (bytes[..length].to_vec(), length),
            None if chunked => unchunked(bytes),
            None => (bytes.to_vec(), bytes.len()),
        };
        bytes = &bytes[used..];
        answers.push(Answer { status, body: String::from_utf8_lossy(&body).into_owned() });
    }
    answers
}

fn unchunked(bytes: &[u8]) -> (Vec<u8>, usize) {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|window| window == b"\r\n").expect("a line");
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("digits");
        at += line + 2;
        body.extend_from_slice(&bytes[at..at + size]);
        at += size + 2;
        if size == 0 {
            return (body, at);
        }
    }
}

/// Line of evenkeel's access log.
struct Line {
    /// Method and target; empty if it could not be read.
    request: String,
    status: u16,
    /// True if it was sent to an endpoint, or a part of it.
    sent: bool,
}

/// Requests that evenkeel counted, by client and listener.
struct Counted(HashMap<(String, String), Vec<Line>>);

impl Counted {
    fn read(log: &str) -> Counted {
        let mut counted: HashMap<_, Vec<Line>> = HashMap::new();
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_string();
            let request = format!("{} {}", text("method"), text("path"));
            let status = line["status"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a number");
            let sent = !line["endpoint"].is_null();
            counted.entry((text("client"), text("listener"))).or_default().push(Line { request, status, sent });
        }
        Counted(counted)
    }

    fn of(&self, n: usize, listener: &str) -> &[Line] {
        self.0.get(&(client(n).to_string(), listener.to_string())).map_or(&[], |lines| &lines[..])
    }
}

/// Requests that an endpoint saw, by payload.
struct Seen(Vec<Vec<String>>);

impl Seen {
    fn read(endpoint: &Endpoint, payloads: usize) -> Seen {
        // It has dealt with all that came before this.
        let _ = send(&endpoint.addr, None, b"GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        eventually("the last request", || {
            endpoint.seen().iter().any(|line| line.starts_with("GET /end")).then_some(())
        });
        let mut by_payload = vec![Vec::new(); payloads];
        for line in endpoint.seen() {
            let request = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let number = line.split('/').find_map(|part| (part.len() == 4).then(|| part.parse::<usize>().ok())?);
            match number.and_then(|n| by_payload.get_mut(n)) {
                Some(of_payload) => of_payload.push(request),
                None => assert_eq!(request, "GET /end", "{} saw what nobody sent", endpoint.name),
            }
        }
        Seen(by_payload)
    }
}

/// Checks what came of a payload, and tells it in a few words: the statuses that the client got, and what the endpoint
/// saw.
fn judge(
    endpoint: &Endpoint,
    n: usize,
    payload: &Payload,
    answers: &[Answer],
    counted: &Counted,
    seen: &Seen,
) -> String {
    let about = || format!("{}, {}: {}", endpoint.name, payload.name, payload.bytes.escape_debug());
    let lines = counted.of(n, endpoint.name);
    let mut uncounted: Vec<&str> = seen.0[n].iter().map(String::as_str).collect();
    let mut take = |request: &str| {
        let at = uncounted.iter().position(|seen| *seen == request);
        at.map(|at| uncounted.remove(at)).is_some()
    };
    assert!(take(&format!("GET /{n:04}/innocent")), "an innocent request was not seen: {}", about());
    for line in lines.iter().filter(|line| line.sent) {
        let was_seen = take(&line.request);
        assert!(was_seen || line.status != 200, "{} was answered by nobody: {}", line.request, about());
    }
    assert!(uncounted.is_empty(), "not counted: {uncounted:?}: {}", about());

    assert!(answers.len() <= lines.len(), "more answers than requests: {}", about());
    for (answer, line) in answers.iter().zip(lines) {
        assert_eq!(answer.status, line.status, "{}", about());
        let bodiless = line.request.starts_with("HEAD ") || !line.sent;
        assert!(answer.status != 200 || bodiless || answer.body == line.request, "another's answer: {}", about());
    }
    let statuses: Vec<String> = answers.iter().map(|answer| answer.status.to_string()).collect();
    let number = format!("/{n:04}/");
    // Sorted, as requests on two connections may be written down in either order.
    let mut requests: Vec<String> =
        seen.0[n].iter().filter(|request| !request.ends_with("/innocent")).map(|r| r.replace(&number, "/")).collect();
    requests.sort();
    format!("{} | {}", statuses.join(" "), requests.join(", "))
}

/// Writes the outcomes down, or compares them with those that are committed. Another version of a server may see things
/// in another way, and is not compared.
fn compare(endpoints: &[Endpoint], payloads: &[Payload], cells: &[Vec<String>]) {
    let versions: Vec<&str> = endpoints.iter().map(|endpoint| &*endpoint.version).collect();
    let mut table = format!("message\t{}\n", versions.join("\t"));
    for (n, payload) in payloads.iter().enumerate() {
        let row: Vec<&str> = cells.iter().map(|column| &*column[n]).collect();
        writeln!(table, "{}\t{}", payload.name, row.join("\t")).expect("a String takes everything");
    }
    if std::env::var_os("EVENKEEL_BLESS").is_some() {
        std::fs::write(TABLE, &table).expect("it can be written");
    }
    let committed = std::fs::read_to_string(TABLE).unwrap_or_default();
    assert_eq!(committed.lines().count(), table.lines().count(), "outcomes.tsv is of other messages; {BLESS}");
    let heads: Vec<&str> = committed.lines().next().unwrap_or_default().split('\t').skip(1).collect();
    for (column, version) in versions.iter().enumerate() {
        if heads.get(column) != Some(version) {
            eprintln!("not compared: {version}; the outcomes are of {:?}", heads.get(column));
            continue;
        }
        for (was, is) in committed.lines().zip(table.lines()) {
            let cell = |line: &str| {
                (line.split('\t').next().map(String::from), line.split('\t').nth(column + 1).map(String::from))
            };
            assert_eq!(cell(was), cell(is), "{version}; {BLESS}");
        }
    }
}

const BLESS: &str = "EVENKEEL_BLESS=1 cargo test -p evenkeel --test all differential:: writes it anew";
