//! Common interface of HTTP, TCP, UDP and DNS: a client asks once, and learns which endpoint it got, or that it gets none.

use crate::support::DEADLINE;
use evenkeel_balance::Algorithm;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Outcome of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The endpoint at this address.
    Of(IpAddr),
    /// Nobody, as the plane says it.
    Refused,
    /// Nobody, and nobody said so.
    Silence,
}

/// A way to reach the endpoints of a pool.
pub trait Plane: Sync {
    fn name(&self) -> &'static str;

    /// The lines of its listener.
    fn listener(&self) -> &'static str;

    /// True if its clients reach endpoints through evenkeel, so that requests can be under way.
    fn forwards(&self) -> bool {
        true
    }

    /// True if it can be balanced by this algorithm.
    fn serves(&self, algorithm: &Algorithm) -> bool {
        !algorithm.needs.probes
    }

    /// Answer when there is no endpoint.
    fn refusal(&self) -> Answer {
        Answer::Refused
    }

    /// Asks once, from `from` to a listener at `to`. A datagram, which may get lost, is sent again until `patience` is over.
    fn ask(&self, from: Ipv4Addr, to: SocketAddr, patience: Duration) -> Answer;
}

pub const PLANES: [&dyn Plane; 4] = [&Http, &Tcp, &Udp, &Dns];

struct Http;
struct Tcp;
struct Udp;
struct Dns;

impl Plane for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn listener(&self) -> &'static str {
        "mode = 'http'"
    }

    fn ask(&self, from: Ipv4Addr, to: SocketAddr, patience: Duration) -> Answer {
        let question = b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
        let said = session(from, to, patience, question);
        said.rsplit_once("\r\n\r\n").filter(|(head, _)| head.contains("200 OK")).map_or(Answer::Refused, |(_, b)| of(b))
    }
}

impl Plane for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn listener(&self) -> &'static str {
        "mode = 'tcp'\npool = 'web'"
    }

    fn ask(&self, from: Ipv4Addr, to: SocketAddr, patience: Duration) -> Answer {
        of(&session(from, to, patience, b"who\n"))
    }
}

impl Plane for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn listener(&self) -> &'static str {
        "mode = 'udp'\npool = 'web'\nudp = { idle = '1s', answers = 1 }"
    }

    fn refusal(&self) -> Answer {
        Answer::Silence
    }

    fn ask(&self, from: Ipv4Addr, to: SocketAddr, patience: Duration) -> Answer {
        datagram(from, to, patience, b"who").map_or(Answer::Silence, |said| of(&String::from_utf8_lossy(&said)))
    }
}

impl Plane for Dns {
    fn name(&self) -> &'static str {
        "dns"
    }

    fn listener(&self) -> &'static str {
        "mode = 'dns'\nzone = { name = 'a.example', responses_per_subnet = 0, fail_open = false, records = { \
         www = { pool = 'web', answers = 1 } } }"
    }

    fn forwards(&self) -> bool {
        false
    }

    fn serves(&self, algorithm: &Algorithm) -> bool {
        !algorithm.needs.ends
    }

    fn ask(&self, from: Ipv4Addr, to: SocketAddr, patience: Duration) -> Answer {
        // A number, no flags, one question: www.a.example, type A, class IN.
        let question = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x01a\x07example\0\0\x01\0\x01";
        let Some(said) = datagram(from, to, patience, question) else { return Answer::Silence };
        // The answer repeats the question; a record has a pointer to its name, type, class, time to live, and a length.
        match said.get(question.len()..) {
            Some([0xc0, _, 0, 1, 0, 1, _, _, _, _, 0, 4, a, b, c, d, ..]) if said[7] == 1 => {
                Answer::Of(Ipv4Addr::new(*a, *b, *c, *d).into())
            }
            _ => Answer::Refused,
        }
    }
}

fn of(said: &str) -> Answer {
    said.parse().map_or(Answer::Refused, Answer::Of)
}

/// All that is said over a connection until its end, which may be a reset or the end of patience.
fn session(from: Ipv4Addr, to: SocketAddr, patience: Duration, question: &[u8]) -> String {
    // Without the flag, a process that is started meanwhile has it too, and it does not end when it is closed here.
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("sockets can be had");
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0)).expect("loopback is a network");
    let mut said = Vec::new();
    if rustix::net::connect(&socket, &to).is_ok() {
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(patience)).expect("sockets have timeouts");
        let _ = stream.write_all(question).and_then(|()| stream.read_to_end(&mut said));
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// Sends a question as a datagram, and returns the answer.
fn datagram(from: Ipv4Addr, to: SocketAddr, patience: Duration, question: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((from, 0)).expect("loopback is a network");
    socket.connect(to).expect("it has an address");
    socket.set_read_timeout(Some(AGAIN.min(patience))).expect("sockets have timeouts");
    let (began, mut answer) = (Instant::now(), [0; 512]);
    loop {
        let _ = socket.send(question);
        match socket.recv(&mut answer) {
            Ok(len) => return Some(answer[..len].to_vec()),
            Err(_) if began.elapsed() >= patience => return None,
            Err(_) => {}
        }
    }
}

/// After how long a client asks again by datagram.
const AGAIN: Duration = Duration::from_millis(200);

/// For who should get an answer.
pub const PATIENT: Duration = DEADLINE;
