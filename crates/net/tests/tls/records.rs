//! Our record layer compared with that of rustls. The input is a script: what a peer seals, what happens to
//! its records in transit, and what we send meanwhile. The peer has its keys and follows no rules. A rustls
//! connection with the same keys gets the same records, and must read the same plaintext and refuse what we
//! refuse; another one reads what we send.

use super::pair::{Pair, SUITES, encode};
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::tls::record::{self, BODY_MAX, Fault, Key, PLAIN_MAX};
use evenkeel_net::tls::session::{End, Session};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ConnectionTrafficSecrets, Error, ProtocolVersion};

const STEPS_MAX: usize = 64;
const KEY_UPDATE: u8 = 24;
const TICKET: u8 = 4;

/// Warnings that rustls accepts. We count them with all records without data.
const WARNINGS_MAX: u8 = 4;

/// Most consecutive records without data that both accept, minus some for those that a step seals twice.
const EMPTY_MAX: u8 = 24;

/// Runs a script of three bytes per step: an operation and two numbers. The byte before them selects side and
/// suite.
pub fn run(script: &[u8]) {
    let Some((&first, steps)) = script.split_first() else { return };
    let mut model = Model::new(usize::from(first >> 1) % SUITES.len(), first & 1 == 0);
    for step in steps.chunks_exact(3).take(STEPS_MAX) {
        model.step(step[0], step[1], step[2]);
    }
    model.deliver(1000);
    model.finish();
}

/// A reading connection of rustls.
struct Theirs {
    side: Side,
    held: Vec<u8>,
    plain: Vec<u8>,
    end: TheirEnd,
}

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TheirEnd {
    Open,
    Closed,
    Failed,
    Alerted(u8),
}

macro_rules! hear {
    ($connection:expr, $theirs:expr) => {
        while $theirs.end == TheirEnd::Open {
            let UnbufferedStatus { discard, state, .. } = $connection.process_tls_records(&mut $theirs.held);
            let more = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        $theirs.plain.extend_from_slice(record.unwrap().payload);
                    }
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode!(data, Vec::new());
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    $theirs.end = TheirEnd::Closed;
                    false
                }
                Ok(_) => false,
                Err(Error::AlertReceived(alert)) => {
                    $theirs.end = TheirEnd::Alerted(alert.into());
                    false
                }
                Err(_) => {
                    $theirs.end = TheirEnd::Failed;
                    false
                }
            };
            $theirs.held.drain(..discard);
            if !more {
                break;
            }
        }
    };
}

impl Theirs {
    fn new(side: Side) -> Theirs {
        Theirs { side, held: Vec::new(), plain: Vec::new(), end: TheirEnd::Open }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        match &mut self.side {
            Side::Server(connection) => hear!(connection, self),
            Side::Client(connection) => hear!(connection, self),
        }
    }
}

/// Our session, read as a connection reads it.
struct Ours {
    session: Session,
    held: Buf,
    plain: Vec<u8>,
}

impl Ours {
    /// Receives bytes, and opens them into buffers with `room` bytes of space.
    fn hear(&mut self, mut bytes: &[u8], room: usize) {
        let taken = CAPACITY - room.clamp(1, CAPACITY);
        while !bytes.is_empty() && self.session.end == End::Open {
            let mut wire = Buf::take_whole();
            assert!(wire.extend(self.held.filled()));
            let n = wire.extend_some(bytes);
            assert!(n > 0, "a buffer full of records that are not opened");
            bytes = &bytes[n..];
            loop {
                let before = wire.len();
                let (mut out, mut rest) = (Buf::take(), Buf::none());
                assert!(out.extend(&vec![0; taken]));
                self.session.open(&mut wire, &mut out, &mut rest);
                self.plain.extend_from_slice(&out.filled()[taken..]);
                self.plain.extend_from_slice(rest.filled());
                if wire.len() == before {
                    break;
                }
            }
            self.held = Buf::holding(wire.filled());
        }
    }
}

/// The other side, which seals whatever the script says.
struct Peer {
    key: Key,
    next: Box<dyn FnMut() -> (u64, ConnectionTrafficSecrets)>,
}

impl Peer {
    fn seal(&mut self, kind: u8, plain: &[u8]) -> Vec<u8> {
        let mut record = vec![0; plain.len() + self.key.overhead()];
        self.key.seal(kind, plain, &mut record).unwrap();
        record
    }
}

struct Model {
    is_13: bool,
    ours: Ours,
    beside: Theirs,
    /// Decrypts what our side sends.
    opposite: Theirs,
    peer: Peer,
    /// Records of the peer in transit.
    queue: Vec<Vec<u8>>,
    /// Bytes of data sealed by the peer, so that no two parts are alike.
    sealed: usize,
    warnings: u8,
    empty: u8,
    sent: Vec<u8>,
    closed: bool,
    /// Bytes that we had read when rustls refused an incomplete record.
    doomed: Option<usize>,
    /// True once we have refused what rustls does not.
    stricter: bool,
}

/// Data that differs at every offset.
fn data(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at ^ (at >> 8) ^ (at >> 13)) as u8 | 1).collect()
}

impl Model {
    fn new(suite: usize, is_server: bool) -> Model {
        let [a, b] = [Pair::new(SUITES[suite]), Pair::new(SUITES[suite])];
        let is_13 = a.server.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let server = a.server.dangerous_into_kernel_connection().unwrap();
        let client = a.client.dangerous_into_kernel_connection().unwrap();
        let [of_server, of_client] =
            [Theirs::new(Side::Server(Box::new(b.server))), Theirs::new(Side::Client(Box::new(b.client)))];
        let (session, peer, beside, opposite, queue) = if is_server {
            let (secrets, mut kernel) = client;
            let next = Box::new(move || kernel.update_tx_secret().unwrap());
            let peer = Peer { key: Key::new(is_13, secrets.tx).unwrap(), next };
            (Session::server(server, a.tickets).unwrap(), peer, of_server, of_client, Vec::new())
        } else {
            let (secrets, mut kernel) = server;
            let next = Box::new(move || kernel.update_tx_secret().unwrap());
            let peer = Peer { key: Key::new(is_13, secrets.tx).unwrap(), next };
            let queue = if a.tickets.is_empty() { Vec::new() } else { vec![a.tickets] };
            (Session::client(client, Vec::new()).unwrap(), peer, of_client, of_server, queue)
        };
        Model {
            is_13,
            ours: Ours { session, held: Buf::none(), plain: Vec::new() },
            beside,
            opposite,
            peer,
            queue,
            sealed: 0,
            warnings: 0,
            empty: 2,
            sent: Vec::new(),
            closed: false,
            doomed: None,
            stricter: false,
        }
    }

    fn step(&mut self, what: u8, a: u8, b: u8) {
        let long = usize::from(u16::from_be_bytes([a, b]));
        match what % 24 {
            0..=3 => self.seal_data(long % 700),
            4 => self.seal_data(PLAIN_MAX - 2 + usize::from(a % 5)),
            5 => self.seal_padded(usize::from(a), usize::from(b) * 70),
            6 => self.seal_alert(a, b),
            7 | 8 => self.seal_key_update(a, b),
            9 => self.seal_message(a, b),
            10 => self.seal_other(a, &data(self.sealed, usize::from(b % 8))),
            11 => self.flip(long),
            12 => self.cut(long),
            13 => drop(self.queue.pop()),
            14 => self.queue.extend(self.queue.last().cloned()),
            15 => self.swap(),
            16 => self.queue.push(vec![a; usize::from(b % 16)]),
            17 | 18 => self.deliver(long),
            19 | 20 => self.send(long),
            21 => self.send_many(a),
            22 => self.answer(),
            _ => self.close(a),
        }
    }

    fn seal_data(&mut self, len: usize) {
        if len == 0 && !self.may_be_empty() {
            return;
        }
        let plain = data(self.sealed, len);
        self.sealed += len;
        if len > 0 {
            self.empty = 0;
        }
        self.queue.push(self.peer.seal(record::DATA, &plain));
    }

    /// Only TLS 1.3 has padding.
    fn seal_padded(&mut self, len: usize, padding: usize) {
        if !self.is_13 {
            return self.seal_data(len);
        }
        if len == 0 && !self.may_be_empty() {
            return;
        }
        let mut inner = data(self.sealed, len);
        self.sealed += len;
        inner.push(record::DATA);
        inner.resize(inner.len() + padding, 0);
        // Sealing appends another zero, which is padding too.
        self.queue.push(self.peer.seal(0, &inner));
    }

    fn seal_alert(&mut self, a: u8, b: u8) {
        let level = a % 3;
        let alert = [0, 90, 10, 20, 100, b][usize::from(a / 4) % 6];
        if level == 1 {
            self.warnings += 1;
        }
        if self.warnings > WARNINGS_MAX || !self.may_be_empty() {
            return;
        }
        let alert = [level, alert, 0];
        let len = if a >= 240 { usize::from(b % 4) } else { 2 };
        self.queue.push(self.peer.seal(record::ALERT, &alert[..len]));
    }

    fn seal_key_update(&mut self, a: u8, b: u8) {
        if !self.may_be_empty() {
            return;
        }
        let mut message = vec![KEY_UPDATE, 0, 0, 1, [0, 1, 0, 1, 0, 1, 2, a][usize::from(a) % 8]];
        if b % 16 == 1 {
            message.extend([KEY_UPDATE, 0, 0, 1, 0]);
        }
        let at = if b % 16 < 4 { usize::from(b) % message.len() } else { message.len() };
        for part in [&message[..at], &message[at..]] {
            if !part.is_empty() {
                self.queue.push(self.peer.seal(record::HANDSHAKE, part));
            }
        }
        if self.is_13 && b % 8 != 7 {
            self.peer.key = Key::new(true, (self.peer.next)()).unwrap();
        }
    }

    fn seal_message(&mut self, a: u8, b: u8) {
        if !self.may_be_empty() {
            return;
        }
        let kind = [TICKET, TICKET, 0, 1, 11, a][usize::from(a) % 6];
        let body = if kind == TICKET && !b.is_multiple_of(4) {
            let ticket = vec![b; usize::from(b) * usize::from(a) + 1];
            let mut body = vec![0, 0, 1, 0, 1, 2, 3, 4, 1, b];
            body.extend((ticket.len() as u16).to_be_bytes());
            body.extend(ticket);
            body.extend([0, 0]);
            body
        } else {
            vec![b; usize::from(b)]
        };
        let mut message = vec![kind];
        message.extend(&(body.len() as u32).to_be_bytes()[1..]);
        message.extend(body);
        message.truncate(2 * PLAIN_MAX - 10);
        let at = (usize::from(b) * 97).min(message.len());
        for part in [&message[..at], &message[at..]] {
            for part in part.chunks(PLAIN_MAX) {
                self.queue.push(self.peer.seal(record::HANDSHAKE, part));
            }
        }
    }

    /// Seals a record of another type. Empty handshake records are left out: rustls accepts them, against RFC
    /// 8446 section 5.4.
    fn seal_other(&mut self, kind: u8, plain: &[u8]) {
        if (kind != record::HANDSHAKE || !plain.is_empty()) && self.may_be_empty() {
            self.queue.push(self.peer.seal(kind, plain));
        }
    }

    /// True if more consecutive records without data are allowed.
    fn may_be_empty(&mut self) -> bool {
        let may = self.empty + 3 <= EMPTY_MAX;
        if may {
            self.empty += 3;
        }
        may
    }

    /// Flips a bit of the last record. In a TLS 1.3 header only the length is changed, because rustls ignores
    /// the rest.
    fn flip(&mut self, at: usize) {
        if let Some(last) = self.queue.last_mut()
            && !last.is_empty()
        {
            let byte = at / 8 % last.len();
            if !self.is_13 || byte > 2 {
                last[byte] ^= 1 << (at % 8);
            }
        }
    }

    fn cut(&mut self, at: usize) {
        if let Some(last) = self.queue.last_mut()
            && !last.is_empty()
        {
            last.truncate(at % last.len());
        }
    }

    fn swap(&mut self) {
        if let [.., one, other] = &mut self.queue[..] {
            std::mem::swap(one, other);
        }
    }

    /// Delivers the peer's records in pieces, into buffers of varying room.
    fn deliver(&mut self, how: usize) {
        let bytes = std::mem::take(&mut self.queue).concat();
        let piece = [1, 7, 100, 5000, usize::MAX][how % 5];
        // Single bytes take too long.
        let piece = if bytes.len() > 2000 { piece.max(50) } else { piece };
        let room = [1, 10, 300, CAPACITY][how / 5 % 4];
        for piece in bytes.chunks(piece) {
            self.ours.hear(piece, room);
            self.beside.hear(piece);
            self.compare();
        }
        if let End::Failed(_) = self.ours.session.end {
            self.answer();
        }
    }

    fn compare(&mut self) {
        if self.stricter {
            return;
        }
        let (ours, theirs) = (&self.ours.plain, &self.beside.plain);
        let ends = (self.ours.session.end, self.beside.end);
        self.stricter = match ends {
            // rustls sends a warning and continues.
            (End::Failed(Fault::Renegotiation), _) => true,
            // We refuse a misplaced message by its first bytes, rustls once it is complete.
            (End::Failed(Fault::Unexpected), TheirEnd::Open) => !self.beside.held.is_empty(),
            _ => false,
        };
        if self.stricter {
            return assert!(theirs.starts_with(ours));
        }
        assert!(ours == theirs, "{} bytes are read, but by rustls {}: {ends:?}", ours.len(), theirs.len());
        if let Some(read) = self.doomed {
            assert_eq!(ours.len(), read, "data behind a record that rustls refused");
        }
        match ends {
            (End::Open, TheirEnd::Open)
            | (End::Closed, TheirEnd::Closed)
            // rustls accepts an alert with an undefined level.
            | (End::Closed, TheirEnd::Alerted(0))
            | (End::Failed(_), TheirEnd::Failed) => {}
            (End::Alerted(ours), TheirEnd::Alerted(theirs)) if ours == theirs => {}
            // rustls checks a header before its record is complete.
            (End::Open, TheirEnd::Failed) if !self.ours.held.is_empty() => self.doomed = Some(ours.len()),
            (ours, theirs) => panic!("{ours:?}, but rustls {theirs:?}"),
        }
    }

    /// Sends data from our side.
    fn send(&mut self, len: usize) {
        if self.closed || matches!(self.ours.session.end, End::Failed(_) | End::Alerted(_)) {
            return;
        }
        let plain = data(self.sent.len() + 77, len);
        let mut left = &plain[..];
        while !left.is_empty() {
            let mut out = Buf::take_whole();
            let n = self.ours.session.seal(left, &mut out).unwrap();
            self.opposite.hear(out.filled());
            left = &left[n..];
        }
        self.sent.extend(plain);
        self.check_sent();
    }

    fn send_many(&mut self, count: u8) {
        for n in 0..count {
            self.send(usize::from(n % 5));
        }
    }

    /// Sends pending records without data.
    fn answer(&mut self) {
        self.send_all(Session::seal_nothing);
    }

    fn send_all(&mut self, seal: fn(&mut Session, &mut Buf) -> bool) {
        let mut is_all = false;
        while !is_all {
            let mut out = Buf::take_whole();
            is_all = seal(&mut self.ours.session, &mut out);
            self.opposite.hear(out.filled());
        }
        self.check_sent();
    }

    fn close(&mut self, a: u8) {
        // Rarely, because nothing can be sent afterwards.
        if !a.is_multiple_of(4) || self.closed || matches!(self.ours.session.end, End::Failed(_) | End::Alerted(_)) {
            return;
        }
        self.closed = true;
        self.send_all(Session::seal_end);
    }

    fn check_sent(&self) {
        assert!(self.opposite.plain == self.sent, "rustls has not read what was sent");
        let expected = match (self.closed, self.ours.session.end) {
            (true, _) => TheirEnd::Closed,
            // Sent as soon as the fault is known.
            (false, End::Failed(fault)) => TheirEnd::Alerted(fault.alert()),
            (false, _) => TheirEnd::Open,
        };
        assert_eq!(self.opposite.end, expected);
    }

    /// A record that rustls has refused must be refused at the latest when it is complete.
    fn finish(&mut self) {
        if self.doomed.is_some() {
            for _ in 0..4 {
                self.ours.hear(&[0; record::HEADER + BODY_MAX], CAPACITY);
            }
            assert!(matches!(self.ours.session.end, End::Failed(_)), "{:?}", self.ours.session.end);
            self.compare();
        }
    }
}
