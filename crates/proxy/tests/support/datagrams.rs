//! UDP endpoints and clients.

use super::SOON;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// An endpoint that answers each datagram with its name and the datagram. Its port is closed on drop.
pub struct Echo {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_closing: AtomicBool,
    hangs: AtomicBool,
    delay_ms: AtomicU64,
    seen: Mutex<Vec<SocketAddr>>,
}

impl Echo {
    pub fn new(name: &'static str) -> Echo {
        Echo::at("127.0.0.1:0".parse().expect("an address"), name)
    }

    pub fn at(addr: SocketAddr, name: &'static str) -> Echo {
        let socket = UdpSocket::bind(addr).expect("a free port");
        let (addr, shared) = (socket.local_addr().expect("it is bound"), Arc::<Shared>::default());
        let for_thread = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            loop {
                let (len, from) = socket.recv_from(&mut bytes).expect("receiving works");
                if for_thread.is_closing.load(SeqCst) {
                    return;
                }
                for_thread.seen.lock().expect("no panic").push(from);
                if !for_thread.hangs.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(for_thread.delay_ms.load(SeqCst)));
                    let answer = [name.as_bytes(), &bytes[..len]].concat();
                    // If the name makes it too long, the datagram is sent back alone.
                    let sent = socket.send_to(&answer, from).or_else(|_| socket.send_to(&bytes[..len], from));
                    sent.expect("sending works");
                }
            }
        });
        Echo { addr, shared, thread: Some(thread) }
    }

    /// Sets whether the endpoint receives datagrams without answering.
    pub fn hang(&self, hangs: bool) {
        self.shared.hangs.store(hangs, SeqCst);
    }

    /// Sets the delay of an answer.
    pub fn takes(&self, time: Duration) {
        self.shared.delay_ms.store(time.as_millis() as u64, SeqCst);
    }

    /// Source of each datagram that was received.
    pub fn seen(&self) -> Vec<SocketAddr> {
        self.shared.seen.lock().expect("no panic").clone()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, SeqCst);
        let waker = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        waker.send_to(b"", self.addr).expect("sending works");
        let failed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        assert!(!failed || std::thread::panicking(), "an endpoint failed");
    }
}

/// A client with a port of its own, connected to `to`.
pub fn client(to: SocketAddr) -> UdpSocket {
    client_at("127.0.0.1:0", to)
}

pub fn client_at(from: &str, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(from).expect("a free port");
    socket.connect(to).expect("an address");
    socket.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
    socket
}

/// Sends a datagram and returns the answer.
#[track_caller]
pub fn ask(client: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    client.send(datagram).expect("sending works");
    hear(client)
}

/// Receives the next datagram.
#[track_caller]
pub fn hear(client: &UdpSocket) -> Vec<u8> {
    let mut answer = vec![0; 65_536];
    let len = client.recv(&mut answer).expect("an answer");
    answer.truncate(len);
    answer
}

/// Sends a datagram repeatedly until an answer comes, for when the first ones may be lost.
#[track_caller]
pub fn ask_until_answered(client: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    let deadline = std::time::Instant::now() + SOON;
    client.set_read_timeout(Some(Duration::from_millis(50))).expect("sockets have timeouts");
    let mut answer = vec![0; 65_536];
    loop {
        client.send(datagram).expect("sending works");
        if let Ok(len) = client.recv(&mut answer) {
            client.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
            answer.truncate(len);
            return answer;
        }
        assert!(std::time::Instant::now() < deadline, "no answer in time");
    }
}
