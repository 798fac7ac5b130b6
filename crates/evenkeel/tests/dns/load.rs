//! Load of queries, all of which have to be answered: by datagrams from ports that change, on TCP connections that stay, and on a
//! new one for each query.

use crate::support::DEADLINE;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// Queries that one client sends before it comes as another one, from another port.
const AS_ONE: u64 = 20;

/// Between two queries: those who ask are not to keep those who answer from the machine.
const PACE: Duration = Duration::from_micros(200);

/// Clients that ask for the addresses of one name until told to end.
pub struct Load {
    stop: Arc<AtomicBool>,
    /// Answers by kind of client: datagrams, connections that stay, new connections.
    pub answered: [Arc<AtomicU64>; 3],
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    /// Two clients of each kind.
    pub fn start(listen: &str, name: &str) -> Load {
        let mut load = Load { stop: Arc::default(), answered: Default::default(), threads: Vec::new() };
        for (kind, client) in [by_datagrams, on_one_connection, on_new_connections].into_iter().enumerate() {
            for _ in 0..2 {
                let (stop, answered) = (load.stop.clone(), load.answered[kind].clone());
                let (listen, query) = (listen.to_string(), query(name));
                load.threads.push(std::thread::spawn(move || client(&listen, query, &stop, &answered)));
            }
        }
        load
    }

    /// Number of answers of each kind.
    pub fn counts(&self) -> [u64; 3] {
        self.answered.each_ref().map(|n| n.load(SeqCst))
    }

    /// Ends it; what went wrong.
    pub fn end(self) -> Vec<String> {
        self.stop.store(true, SeqCst);
        let ended = self.threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.filter_map(Result::err).collect()
    }
}

/// A query for the addresses of a name, with an id of 0.
pub fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}

/// The addresses in an answer to a query with one question; its code if that is not 0.
pub fn addresses(query: &[u8], answer: &[u8]) -> Result<Vec<Ipv4Addr>, String> {
    let wrong = || format!("to {query:02x?} came {answer:02x?}");
    let (head, rest) = answer.split_at_checked(query.len()).ok_or_else(wrong)?;
    if head[..2] != query[..2] || head[12..] != query[12..] || head[2] & 0x80 == 0 {
        return Err(wrong());
    }
    if head[3] & 0xf != 0 {
        return Err(format!("code {}", head[3] & 0xf));
    }
    // A pointer, type, class, time to live, and length before each.
    Ok(rest.chunks_exact(16).map(|record| Ipv4Addr::from([record[12], record[13], record[14], record[15]])).collect())
}

/// Looks at an answer, and counts it.
fn take(query: &[u8], answer: &[u8], answered: &AtomicU64) -> Result<(), String> {
    if addresses(query, answer)?.is_empty() {
        return Err("no addresses".to_string());
    }
    answered.fetch_add(1, SeqCst);
    std::thread::sleep(PACE);
    Ok(())
}

fn by_datagrams(listen: &str, mut query: Vec<u8>, stop: &AtomicBool, answered: &AtomicU64) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("datagrams: {error}");
    let mut answer = [0; 1500];
    while !stop.load(SeqCst) {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(fail)?;
        socket.connect(listen).map_err(fail)?;
        socket.set_read_timeout(Some(DEADLINE)).map_err(fail)?;
        for id in 0..AS_ONE {
            query[1] = id as u8;
            socket.send(&query).map_err(fail)?;
            let len = socket.recv(&mut answer).map_err(|error| format!("a query was lost: {error}"))?;
            take(&query, &answer[..len], answered)?;
        }
    }
    Ok(())
}

fn on_one_connection(listen: &str, query: Vec<u8>, stop: &AtomicBool, answered: &AtomicU64) -> Result<(), String> {
    let mut stream = connect(listen)?;
    while !stop.load(SeqCst) {
        let answer = ask(&mut stream, &query).map_err(|error| format!("a connection that stays: {error}"))?;
        take(&query, &answer, answered)?;
    }
    Ok(())
}

fn on_new_connections(listen: &str, query: Vec<u8>, stop: &AtomicBool, answered: &AtomicU64) -> Result<(), String> {
    while !stop.load(SeqCst) {
        let answer = ask(&mut connect(listen)?, &query).map_err(|error| format!("a new connection: {error}"))?;
        take(&query, &answer, answered)?;
    }
    Ok(())
}

fn connect(listen: &str) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(listen).map_err(|error| format!("connecting: {error}"))?;
    stream.set_read_timeout(Some(DEADLINE)).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Sends a query over a connection, and reads the answer.
pub fn ask(stream: &mut TcpStream, query: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(&[&(query.len() as u16).to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
