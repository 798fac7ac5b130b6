//! A scripted name server over UDP and TCP, and addresses that nobody else uses.
// Each test uses a part of this module.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

pub const A: u16 = 1;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;

/// Response of the server to a question.
#[derive(Clone)]
pub enum Says {
    /// Records, with TTL and data.
    Records(Vec<(u32, Vec<u8>)>),
    /// Records over TCP only; truncated over UDP.
    Truncated(Vec<(u32, Vec<u8>)>),
    /// Services with addresses of their targets in the additional section, by name and type: as many as fit,
    /// starting with a different one each time.
    Beside(Vec<(u32, Vec<u8>)>, Vec<(String, u16, Vec<u8>)>),
    /// Records, but a format error for queries with EDNS.
    NoEdns(Vec<(u32, Vec<u8>)>),
    /// A response code without records.
    Code(u8),
    Silence,
}

/// Name, record type, and time of a query.
type Asked = (String, u16, Instant);

type Zone = Arc<Mutex<HashMap<(String, u16), Says>>>;

pub struct Names {
    pub addr: SocketAddr,
    zone: Zone,
    /// All queries received over UDP.
    asked: watch::Sender<Vec<Asked>>,
}

/// Address records with this TTL.
pub fn v4(ttl: u32, addrs: &[[u8; 4]]) -> Says {
    Says::Records(addrs.iter().map(|addr| (ttl, addr.to_vec())).collect())
}

/// Service records: priority, weight, port, target.
pub fn srv(ttl: u32, services: &[(u16, u16, u16, &str)]) -> Says {
    let record = |&(priority, weight, port, target): &(u16, u16, u16, &str)| {
        let mut data = [priority, weight, port].map(u16::to_be_bytes).concat();
        data.extend_from_slice(&wire_name(target));
        (ttl, data)
    };
    Says::Records(services.iter().map(record).collect())
}

impl Names {
    pub fn start() -> Names {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            // The port may be taken for TCP.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("it has one")) {
                break (udp, tcp);
            }
        };
        let addr = udp.local_addr().expect("it has one");
        let names = Names { addr, zone: Arc::default(), asked: watch::Sender::default() };
        let (zone, asked) = (names.zone.clone(), names.asked.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                let (name, kind) = question(&buffer[..length]);
                let answer = answer(&buffer[..length], &zone, true);
                asked.send_modify(|asked| asked.push((name, kind, Instant::now())));
                if let Some(answer) = answer {
                    let _ = udp.send_to(&answer, from);
                }
            }
        });
        let zone = names.zone.clone();
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().map_while(Result::ok) {
                let mut length = [0; 2];
                let mut message = Vec::new();
                if stream.read_exact(&mut length).is_err() {
                    continue;
                }
                message.resize(usize::from(u16::from_be_bytes(length)), 0);
                if stream.read_exact(&mut message).is_ok()
                    && let Some(answer) = answer(&message, &zone, false)
                {
                    let length = (answer.len() as u16).to_be_bytes();
                    let _ = stream.write_all(&[&length, &answer[..]].concat());
                }
            }
        });
        names
    }

    /// Sets the response to a question.
    pub fn say(&self, name: &str, kind: u16, says: Says) {
        self.zone.lock().expect("no panic while held").insert((name.to_string(), kind), says);
    }

    /// Removes a name and all its records.
    pub fn forget(&self, name: &str) {
        self.zone.lock().expect("no panic while held").retain(|(known, _), _| known != name);
    }

    /// Times of the queries for this name and type.
    pub fn asked(&self, name: &str, kind: u16) -> Vec<Instant> {
        let asked = self.asked.borrow();
        asked.iter().filter(|(n, k, _)| n == name && *k == kind).map(|(_, _, at)| *at).collect()
    }

    /// Waits for this many further queries for a name and type.
    pub async fn asked_again(&self, name: &str, kind: u16, times: usize) {
        let before = self.asked(name, kind).len();
        let mut asked = self.asked.subscribe();
        let enough =
            asked.wait_for(|all| all.iter().filter(|(n, k, _)| n == name && *k == kind).count() >= before + times);
        let came = tokio::time::timeout(Duration::from_secs(30), enough).await;
        assert!(came.is_ok(), "nobody asks for {name}");
    }
}

/// Polls until `holds` is true: nothing reports a look that changes nothing.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn question(message: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while let Some(length) = message.get(at).map(|length| usize::from(*length)).filter(|length| *length > 0) {
        labels.push(String::from_utf8_lossy(&message[at + 1..at + 1 + length]).into_owned());
        at += 1 + length;
    }
    (labels.join("."), u16::from_be_bytes([message[at + 1], message[at + 2]]))
}

fn answer(asked: &[u8], zone: &Zone, udp: bool) -> Option<Vec<u8>> {
    let (name, kind) = question(asked);
    let zone = zone.lock().expect("no panic while held");
    let exists = zone.keys().any(|(known, _)| *known == name);
    let says = zone.get(&(name, kind));
    let (code, truncated, records) = match says {
        Some(Says::Silence) => return None,
        Some(Says::Code(code)) => (*code, false, vec![]),
        Some(Says::Truncated(_)) if udp => (0, true, vec![]),
        Some(Says::NoEdns(_)) if asked[10..12] != [0, 0] => (1, false, vec![]),
        Some(Says::Records(records) | Says::Truncated(records) | Says::NoEdns(records) | Says::Beside(records, _)) => {
            (0, false, records.clone())
        }
        None => (if exists { 0 } else { 3 }, false, vec![]),
    };
    let mut out = asked[..2].to_vec();
    out.extend_from_slice(&[0x81 | u8::from(truncated) << 1, 0x80 | code, 0, 1]);
    out.extend_from_slice(&(records.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 0]);
    // The question alone, without the OPT record after it.
    let named = asked[12..].iter().position(|byte| *byte == 0).expect("the root ends a name");
    out.extend_from_slice(&asked[12..12 + named + 5]);
    for (ttl, data) in records {
        // Pointer to the name in the question, type, and class.
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0, 1]);
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(&data);
    }
    if let Some(Says::Beside(_, addrs)) = says {
        // Largest datagram that the query permits, by its EDNS data.
        let edns = asked.get(12 + named + 8..12 + named + 10).map(|size| u16::from_be_bytes([size[0], size[1]]));
        let limit = if udp { usize::from(edns.unwrap_or(512)) } else { usize::MAX };
        let first = usize::from(asked[1]) % addrs.len();
        let mut beside = 0u16;
        for (name, kind, data) in addrs[first..].iter().chain(&addrs[..first]) {
            let mut record = wire_name(name);
            record.extend_from_slice(&kind.to_be_bytes());
            record.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
            record.extend_from_slice(data);
            if out.len() + record.len() > limit {
                break;
            }
            out.extend_from_slice(&record);
            beside += 1;
        }
        out[10..12].copy_from_slice(&beside.to_be_bytes());
    }
    Some(out)
}

fn wire_name(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}
