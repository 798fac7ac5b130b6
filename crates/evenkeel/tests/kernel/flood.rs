//! Beginnings of connections from clients that do not exist.

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

/// Sends `count` SYNs to an IPv4 address, each from an address and port of its own.
pub fn syns(to: SocketAddr, count: u32) {
    let IpAddr::V4(target) = to.ip() else { panic!("{to} is not of IPv4") };
    let raw = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW));
    let raw = raw.expect("tests of the kernel run as root");
    for n in 0..count {
        let [a, b, ..] = target.octets();
        // Neighbours of the real client, so that answers leave by the same cable.
        let from = [a, b, 0, 50 + (n % 200) as u8];
        let port = 10_000 + (n / 200) as u16;
        let mut tcp = [0; 20];
        tcp[0..2].copy_from_slice(&port.to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&n.to_be_bytes());
        (tcp[12], tcp[13]) = (5 << 4, 2);
        tcp[14..16].copy_from_slice(&1024u16.to_be_bytes());
        let pseudo = [&from[..], &target.octets(), &[0, 6, 0, 20], &tcp].concat();
        tcp[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());
        // The kernel fills in lengths and the checksum of the head.
        let head = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0], &from[..], &target.octets()].concat();
        let packet = [&head[..], &tcp].concat();
        sendto(&raw, &packet, SendFlags::empty(), &SocketAddrV4::new(target, 0)).expect("there is a route");
    }
}

/// Checksum of the internet (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
