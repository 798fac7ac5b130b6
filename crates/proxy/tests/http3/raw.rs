//! A client of QUIC that writes and reads packets frame by frame, valid or not: rustls has the handshake and the keys, and
//! the rest is here. It sends only what a test wants, and acknowledges what it receives.

use super::raw_frames::{Parameter, crypto_at, ints, usual};
use crate::support::h3_client::{any_server, read_varint};
use crate::support::{SOON, noise};
use quinn::rustls::crypto::aws_lc_rs::{default_provider, kx_group::X25519};
use quinn::rustls::pki_types::ServerName;
use quinn::rustls::quic::{self, ClientConnection, DirectionalKeys, KeyChange, Keys};
use quinn::rustls::{CipherSuite, ClientConfig};
use std::collections::{BTreeSet, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Packet number spaces, with their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Initial,
    Handshake,
    Data,
}

use Space::{Data, Handshake, Initial};

/// Version of QUIC. Types of long headers differ, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

impl Version {
    pub const ALL: [Version; 2] = [Version::V1, Version::V2];

    /// Its bytes on the wire.
    pub fn number(self) -> [u8; 4] {
        if self == Version::V2 { [0x6b, 0x33, 0x43, 0xcf] } else { [0, 0, 0, 1] }
    }

    fn of_rustls(self) -> quic::Version {
        if self == Version::V2 { quic::Version::V2 } else { quic::Version::V1 }
    }
}

/// Bytes of an authentication tag.
const TAG: usize = 16;

/// Bits of the first byte of a packet that must be 0.
pub const RESERVED: [u8; 3] = [0x0c, 0x0c, 0x18];

/// Fewest bytes of a datagram with an Initial packet (RFC 9000 section 14.1).
pub const INITIAL_MIN: usize = 1200;

/// Part of a packet of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// CONNECTION_CLOSE with a code of QUIC, or with a code of the application.
    Closed(u64),
    ApplicationClosed(u64),
    /// HANDSHAKE_DONE: the proxy has confirmed the handshake.
    Done,
    /// Bytes of the stream with this id.
    Stream(u64),
    /// Any other frame, by its type.
    Frame(u64),
    /// A packet that the keys do not fit.
    Unreadable,
}

/// A connection of the client.
pub struct RawQuic {
    pub version: Version,
    pub socket: UdpSocket,
    /// Id that the server has, and the id of this side.
    pub to: Vec<u8>,
    pub id: Vec<u8>,
    tls: ClientConnection,
    keys: [Option<Keys>; 3],
    next: [u64; 3],
    received: [BTreeSet<u64>; 3],
    /// Bytes of the handshake that were sent and received.
    sent: [u64; 3],
    taken: [u64; 3],
    level: Space,
    heard: VecDeque<Heard>,
    /// True if the client does not end its handshake.
    pub mute: bool,
    /// Bits that are added to the first byte of packets.
    pub bits: u8,
    /// Datagrams and bytes that were received.
    pub came: (usize, usize),
}

fn settings(protocol: &[u8]) -> Arc<ClientConfig> {
    let mut provider = default_provider();
    // A hello that fits into a datagram.
    provider.kx_groups = vec![X25519];
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&quinn::rustls::version::TLS13])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(any_server())
        .with_no_client_auth();
    config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
    Arc::new(config)
}

impl RawQuic {
    /// A client that has sent nothing yet.
    pub fn new(to: SocketAddr) -> RawQuic {
        RawQuic::speaking(Version::V1, to)
    }

    pub fn speaking(version: Version, to: SocketAddr) -> RawQuic {
        RawQuic::with(version, to, b"h3", &usual(b"raw-quic"))
    }

    /// A client with another protocol, none if it is empty, and with these transport parameters.
    pub fn with(version: Version, to: SocketAddr, protocol: &[u8], parameters: &[Parameter]) -> RawQuic {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.connect(to).expect("an address");
        let mut bytes = Vec::new();
        for (id, value) in parameters {
            bytes.extend(ints(&[*id, value.len() as u64]));
            bytes.extend(value);
        }
        let name = ServerName::try_from("a").expect("a name");
        let tls = ClientConnection::new(settings(protocol), version.of_rustls(), name, bytes).expect("good settings");
        // Differs from those of other clients, also of those that had the port before, whose connections the proxy may know.
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let number = CLIENTS.fetch_add(1, SeqCst).to_be_bytes();
        let to: Vec<u8> = noise(8).iter().zip(number).map(|(a, b)| a ^ b).collect();
        let mut client = RawQuic {
            version,
            socket,
            to,
            id: b"raw-quic".to_vec(),
            tls,
            keys: [None, None, None],
            next: [0; 3],
            received: Default::default(),
            sent: [0; 3],
            taken: [0; 3],
            level: Initial,
            heard: VecDeque::new(),
            mute: false,
            bits: 0,
            came: (0, 0),
        };
        client.keys[0] = Some(client.initial_keys());
        client
    }

    fn initial_keys(&self) -> Keys {
        let provider = default_provider();
        let suite = provider.cipher_suites.iter().find(|s| s.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
        let tls13 = suite.and_then(|suite| suite.tls13()).expect("the suite of Initial packets");
        let suite = tls13.quic_suite().expect("it is for QUIC");
        suite.keys(&self.to, quinn::rustls::Side::Client, self.version.of_rustls())
    }

    /// The ClientHello; to be taken once.
    pub fn hello(&mut self) -> Vec<u8> {
        let mut hello = Vec::new();
        assert!(self.tls.write_hs(&mut hello).is_none(), "no keys yet");
        hello
    }

    /// A CRYPTO frame behind those that were sent.
    pub fn crypto(&mut self, space: Space, bytes: &[u8]) -> Vec<u8> {
        let frame = crypto_at(self.sent[space as usize], bytes);
        self.sent[space as usize] += bytes.len() as u64;
        frame
    }

    /// A datagram with a packet that has these frames.
    pub fn packet(&mut self, space: Space, frames: &[u8]) -> Vec<u8> {
        let number = self.next[space as usize];
        self.next[space as usize] += 1;
        let kind = match self.version {
            Version::V1 => [0xc3, 0xe3, 0x43],
            Version::V2 => [0xd3, 0xf3, 0x43],
        };
        let kind = kind[space as usize] | self.bits;
        let mut header = vec![kind];
        // The number has 4 bytes, and the sample begins behind it: any payload is long enough.
        let mut payload = frames.to_vec();
        if space != Data {
            header.extend(self.version.number());
            header.push(self.to.len() as u8);
        }
        header.extend(&self.to);
        if space != Data {
            header.push(self.id.len() as u8);
            header.extend(&self.id);
            if space == Initial {
                header.push(0);
                let rest = header.len() + 2 + 4 + payload.len() + TAG;
                payload.resize(payload.len() + INITIAL_MIN.saturating_sub(rest), 0);
            }
            header.extend(((4 + payload.len() + TAG) as u16 | 1 << 14).to_be_bytes());
        }
        let at = header.len();
        header.extend((number as u32).to_be_bytes());
        let keys = &self.keys[space as usize].as_ref().expect("keys").local;
        let tag = keys.packet.encrypt_in_place(number, &header, &mut payload).expect("a short packet");
        let mut packet = [header, payload, tag.as_ref().to_vec()].concat();
        let (front, rest) = packet.split_at_mut(at + 4);
        let (first, number) = front.split_first_mut().map(|(first, rest)| (first, &mut rest[at - 1..])).expect("bytes");
        keys.header.encrypt_in_place(&rest[..16], first, number).expect("a sample");
        packet
    }

    pub fn send(&mut self, space: Space, frames: &[u8]) {
        let packet = self.packet(space, frames);
        // Refused by the kernel if the proxy has closed its socket.
        let _ = self.socket.send(&packet);
    }

    /// Begins the handshake with an Initial packet.
    pub fn begin(&mut self) {
        let hello = self.hello();
        let frame = self.crypto(Initial, &hello);
        self.send(Initial, &frame);
    }

    /// Waits for keys. Returns false if the connection was closed.
    pub fn reach(&mut self, space: Space) -> bool {
        let until = Instant::now() + SOON;
        while self.keys[space as usize].is_none() {
            if self.is_closed() {
                return false;
            }
            assert!(Instant::now() < until, "no keys for {space:?}: {:?}", self.heard);
            self.receive(Duration::from_millis(100));
        }
        true
    }

    /// A client whose handshake is complete.
    pub fn connect(version: Version, to: SocketAddr) -> RawQuic {
        let mut client = RawQuic::speaking(version, to);
        client.begin();
        assert!(client.reach(Data), "{:?}", client.heard);
        assert_eq!(client.wait(|heard| *heard == Heard::Done), Some(Heard::Done));
        client
    }

    /// Waits for something, and discards what comes before it. `None` if it does not come soon.
    pub fn wait(&mut self, is_it: impl Fn(&Heard) -> bool) -> Option<Heard> {
        let until = Instant::now() + SOON;
        loop {
            while let Some(heard) = self.heard.pop_front() {
                if is_it(&heard) {
                    return Some(heard);
                }
            }
            if Instant::now() > until {
                return None;
            }
            self.receive(Duration::from_millis(100));
        }
    }

    /// True if the proxy has closed the connection, as far as was read.
    pub fn is_closed(&self) -> bool {
        self.heard.iter().any(|heard| matches!(heard, Heard::Closed(_) | Heard::ApplicationClosed(_)))
    }

    /// Code with which the proxy closes the connection.
    pub fn closed(&mut self) -> Option<Heard> {
        self.wait(|heard| matches!(heard, Heard::Closed(_) | Heard::ApplicationClosed(_)))
    }

    /// True once the proxy answers a PING.
    pub fn is_alive(&mut self) -> bool {
        self.heard.clear();
        self.send(Data, &[1]);
        self.wait(|heard| matches!(heard, Heard::Frame(2 | 3) | Heard::Closed(_) | Heard::ApplicationClosed(_)))
            .is_some_and(|heard| matches!(heard, Heard::Frame(_)))
    }

    /// Reads all datagrams that have come.
    pub fn receive_all(&mut self) {
        self.socket.set_nonblocking(true).expect("sockets have that");
        while self.receive_next() {}
        self.socket.set_nonblocking(false).expect("sockets have that");
    }

    /// Reads a datagram, if one comes in this time. Returns true if one came.
    pub fn receive(&mut self, within: Duration) -> bool {
        self.socket.set_read_timeout(Some(within)).expect("sockets have timeouts");
        self.receive_next()
    }

    fn receive_next(&mut self) -> bool {
        let mut bytes = vec![0; 65_536];
        let Ok(len) = self.socket.recv(&mut bytes) else { return false };
        bytes.truncate(len);
        self.came = (self.came.0 + 1, self.came.1 + len);
        let mut rest = &mut bytes[..];
        while !rest.is_empty() {
            let Some(end) = self.read_packet(rest) else { break };
            rest = &mut rest[end..];
        }
        true
    }

    /// Reads the first packet. Returns its length, if it has one.
    fn read_packet(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let (space, at, end) = if bytes[0] & 0x80 == 0 {
            (Data, 1 + self.id.len(), bytes.len())
        } else {
            assert_eq!(bytes.get(1..5), Some(&self.version.number()[..]), "the version of the client");
            let types = match self.version {
                Version::V1 => [Initial, Data, Handshake, Data],
                Version::V2 => [Data, Initial, Data, Handshake],
            };
            let space = types[usize::from(bytes[0] >> 4 & 3)];
            let to = 6 + usize::from(*bytes.get(5)?);
            let len = usize::from(*bytes.get(to)?);
            // The server chooses its id with its first packet.
            self.to = bytes.get(to + 1..to + 1 + len)?.to_vec();
            let mut at = to + 1 + len;
            if space == Initial {
                let (token, used) = read_varint(bytes.get(at..)?)?;
                at += used + token as usize;
            }
            let (len, used) = read_varint(bytes.get(at..)?)?;
            (space, at + used, at + used + len as usize)
        };
        let Some(DirectionalKeys { header, packet }) = self.keys[space as usize].as_ref().map(|keys| &keys.remote)
        else {
            self.heard.push_back(Heard::Unreadable);
            return Some(end);
        };
        let whole = bytes.get_mut(..end)?;
        let sample: [u8; 16] = whole.get(at + 4..at + 20)?.try_into().ok()?;
        let (first, rest) = whole.split_first_mut()?;
        header.decrypt_in_place(&sample, first, &mut rest[at - 1..at + 3]).ok()?;
        let len = usize::from(*first & 3) + 1;
        let cut = whole[at..at + len].iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let number = nearest(self.received[space as usize].last().map_or(0, |last| last + 1), cut, 8 * len as u32);
        let (front, payload) = whole.split_at_mut(at + len);
        let Ok(payload) = packet.decrypt_in_place(number, front, payload) else {
            self.heard.push_back(Heard::Unreadable);
            return Some(end);
        };
        let payload = payload.to_vec();
        self.received[space as usize].insert(number);
        if self.read_frames(space, &payload).expect("frames of the proxy are whole") {
            self.acknowledge(space);
        }
        Some(end)
    }

    /// Acknowledges every packet of a space that was received.
    fn acknowledge(&mut self, space: Space) {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in self.received[space as usize].iter().rev() {
            match ranges.last_mut() {
                Some((low, _)) if *low == number + 1 => *low = *number,
                _ => ranges.push((*number, *number)),
            }
        }
        ranges.truncate(100);
        let Some((low, high)) = ranges.first().copied() else { return };
        let mut frame = ints(&[2, high, 0, ranges.len() as u64 - 1, high - low]);
        for pair in ranges.windows(2) {
            frame.extend(ints(&[pair[0].0 - pair[1].1 - 2, pair[1].1 - pair[1].0]));
        }
        self.send(space, &frame);
    }

    /// Reads frames. Returns true if they are to be acknowledged.
    fn read_frames(&mut self, space: Space, mut bytes: &[u8]) -> Option<bool> {
        let mut counts = false;
        while let Some((kind, used)) = read_varint(bytes) {
            bytes = &bytes[used..];
            let mut int = || -> Option<u64> {
                let (n, used) = read_varint(bytes)?;
                bytes = &bytes[used..];
                Some(n)
            };
            counts |= !matches!(kind, 0 | 2 | 3 | 0x1c | 0x1d);
            // Bytes of a field that has no use here.
            let mut skip = 0;
            match kind {
                0 => continue,
                2 | 3 => {
                    let (_, _, ranges, _) = (int()?, int()?, int()?, int()?);
                    let counters = if kind == 3 { 3 } else { 0 };
                    for _ in 0..2 * ranges + counters {
                        int()?;
                    }
                }
                4 => (_, _, _) = (int()?, int()?, int()?),
                5 | 0x11 | 0x15 => (_, _) = (int()?, int()?),
                0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => _ = int()?,
                6 => {
                    let (offset, len) = (int()?, int()? as usize);
                    let data = bytes.get(..len)?.to_vec();
                    bytes = &bytes[len..];
                    self.take_crypto(space, offset, &data);
                    continue;
                }
                7 => skip = int()? as usize,
                8..=0xf => {
                    let id = int()?;
                    if kind & 4 != 0 {
                        int()?;
                    }
                    let len = if kind & 2 != 0 { int()? as usize } else { bytes.len() };
                    bytes = bytes.get(len..)?;
                    self.heard.push_back(Heard::Stream(id));
                    continue;
                }
                0x18 => {
                    let (_, _) = (int()?, int()?);
                    skip = usize::from(*bytes.first()?) + 1 + 16;
                }
                0x1a | 0x1b => skip = 8,
                0x1c | 0x1d => {
                    let code = int()?;
                    if kind == 0x1c {
                        int()?;
                    }
                    skip = int()? as usize;
                    self.heard.push_back(if kind == 0x1c {
                        Heard::Closed(code)
                    } else {
                        Heard::ApplicationClosed(code)
                    });
                }
                0x1e => self.heard.push_back(Heard::Done),
                _ => {}
            }
            bytes = bytes.get(skip..)?;
            self.heard.push_back(Heard::Frame(kind));
        }
        Some(counts)
    }

    fn take_crypto(&mut self, space: Space, offset: u64, data: &[u8]) {
        let taken = &mut self.taken[space as usize];
        // On loopback everything comes in order, and again at most.
        let Some(new) = taken.checked_sub(offset).and_then(|known| data.get(known as usize..)) else { return };
        *taken += new.len() as u64;
        if self.tls.read_hs(new).is_err() {
            return;
        }
        loop {
            let (mut out, level) = (Vec::new(), self.level);
            let change = self.tls.write_hs(&mut out);
            if !out.is_empty() && !self.mute {
                let frame = self.crypto(level, &out);
                self.send(level, &frame);
            }
            match change {
                Some(KeyChange::Handshake { keys }) => (self.keys[1], self.level) = (Some(keys), Handshake),
                Some(KeyChange::OneRtt { keys, .. }) => (self.keys[2], self.level) = (Some(keys), Data),
                None if out.is_empty() => return,
                None => {}
            }
        }
    }
}

/// Packet number whose last `bits` bits are `cut`, as near to `expected` as can be (RFC 9000 appendix A.3).
fn nearest(expected: u64, cut: u64, bits: u32) -> u64 {
    let window = 1u64 << bits;
    let number = expected & !(window - 1) | cut;
    match number {
        low if low + window / 2 <= expected => low + window,
        high if high > expected + window / 2 && high >= window => high - window,
        near => near,
    }
}
