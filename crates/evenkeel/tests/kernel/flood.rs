//! Segments of TCP as an attacker makes them: beginnings of connections from clients that do not exist, and segments that
//! pretend to belong to a connection.

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// Flags in the head of a segment.
const SYN: u8 = 2;
pub const ACK: u8 = 16;

/// Segment of TCP over IPv4.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
}

impl Segment {
    /// Sends it with this data from the namespace of the thread.
    pub fn send(&self, data: &[u8]) {
        self.send_by(&raw(), data);
    }

    fn send_by(&self, raw: &OwnedFd, data: &[u8]) {
        let mut tcp = [0; 20];
        tcp[0..2].copy_from_slice(&self.from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        (tcp[12], tcp[13]) = (5 << 4, self.flags);
        tcp[14..16].copy_from_slice(&1024u16.to_be_bytes());
        let (from, to) = (self.from.ip().octets(), self.to.ip().octets());
        let len = (tcp.len() + data.len()) as u8;
        let pseudo = [&from[..], &to, &[0, 6, 0, len], &tcp, data].concat();
        tcp[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());
        // The kernel fills in lengths and the checksum of the head.
        let head = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0], &from[..], &to].concat();
        let packet = [&head[..], &tcp, data].concat();
        sendto(raw, &packet, SendFlags::empty(), &SocketAddrV4::new(*self.to.ip(), 0)).expect("there is a route");
    }
}

fn raw() -> OwnedFd {
    let raw = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW));
    raw.expect("tests of the kernel run as root")
}

/// Sends `count` SYNs to an IPv4 address, each from an address and port of its own.
pub fn syns(to: SocketAddr, count: u32) {
    let IpAddr::V4(target) = to.ip() else { panic!("{to} is not of IPv4") };
    let raw = raw();
    let [a, b, ..] = target.octets();
    for n in 0..count {
        // Neighbours of the real client, so that answers leave by the same cable.
        let from = SocketAddrV4::new([a, b, 0, 50 + (n % 200) as u8].into(), 10_000 + (n / 200) as u16);
        let to = SocketAddrV4::new(target, to.port());
        Segment { from, to, sequence: n, acknowledged: 0, flags: SYN }.send_by(&raw, &[]);
    }
}

/// Checksum of the internet (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
