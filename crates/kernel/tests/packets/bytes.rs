//! Packets made by hand, and what they hold.

use std::net::{IpAddr, SocketAddr};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Hardware address of the interface that packets come in at.
pub const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Hardware address of their sender.
pub const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Sum of 16-bit words, folded: 0xffff for bytes with a right checksum.
pub fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn raw(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

/// Sum of the pseudo header and a payload.
pub fn sum_of(source: IpAddr, target: IpAddr, protocol: u8, payload: &[u8]) -> u16 {
    let length = (payload.len() as u32).to_be_bytes();
    sum(&[&raw(source), &raw(target), &length, &[0, protocol], payload])
}

pub fn ethernet(ipv6: bool) -> Vec<u8> {
    [&HERE[..], &THERE, if ipv6 { &[0x86, 0xdd] } else { &[8, 0] }].concat()
}

/// Header of IP with a payload. `fragment` is the field of IPv4 with flags and offset.
pub fn ip(source: IpAddr, target: IpAddr, protocol: u8, fragment: u16, id: u16, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (raw(source), raw(target));
    if source.is_ipv6() {
        let length = (payload.len() as u16).to_be_bytes();
        return [&[0x60, 0, 0, 0, length[0], length[1], protocol, 64][..], &from, &to, payload].concat();
    }
    let length = (20 + payload.len() as u16).to_be_bytes();
    let [f0, f1] = fragment.to_be_bytes();
    let [i0, i1] = id.to_be_bytes();
    let mut head = [&[0x45, 0, length[0], length[1], i0, i1, f0, f1, 64, protocol, 0, 0][..], &from, &to].concat();
    let checksum = (!sum(&[&head])).to_be_bytes();
    head[10..12].copy_from_slice(&checksum);
    [head, payload.to_vec()].concat()
}

/// Segment of TCP, with a right checksum.
pub fn segment(
    source: SocketAddr,
    target: SocketAddr,
    flags: u8,
    numbers: (u32, u32),
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let mut segment = [
        &source.port().to_be_bytes()[..],
        &target.port().to_be_bytes(),
        &numbers.0.to_be_bytes(),
        &numbers.1.to_be_bytes(),
        &[((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0],
        options,
        data,
    ]
    .concat();
    let checksum = (!sum_of(source.ip(), target.ip(), TCP, &segment)).to_be_bytes();
    segment[16..18].copy_from_slice(&checksum);
    segment
}

/// Datagram of UDP, with a right checksum.
pub fn datagram(source: SocketAddr, target: SocketAddr, data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len() as u16).to_be_bytes();
    let mut datagram =
        [&source.port().to_be_bytes()[..], &target.port().to_be_bytes(), &length, &[0, 0], data].concat();
    let checksum = !sum_of(source.ip(), target.ip(), UDP, &datagram);
    datagram[6..8].copy_from_slice(&if checksum == 0 { 0xffff_u16 } else { checksum }.to_be_bytes());
    datagram
}

pub fn tcp(
    source: SocketAddr,
    target: SocketAddr,
    flags: u8,
    numbers: (u32, u32),
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let segment = segment(source, target, flags, numbers, options, data);
    [ethernet(source.is_ipv6()), ip(source.ip(), target.ip(), TCP, 0x4000, 7, &segment)].concat()
}

pub fn udp(source: SocketAddr, target: SocketAddr, data: &[u8]) -> Vec<u8> {
    let datagram = datagram(source, target, data);
    [ethernet(source.is_ipv6()), ip(source.ip(), target.ip(), UDP, 0, 7, &datagram)].concat()
}

/// Packet of IP that was read.
#[derive(Clone, Debug)]
pub struct Read {
    pub source: IpAddr,
    pub target: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    pub payload: Vec<u8>,
}

impl Read {
    /// Reads a packet from the header of IP on. Checks the checksum of IPv4.
    pub fn ip(bytes: &[u8]) -> Read {
        if bytes[0] >> 4 == 6 {
            let addr = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap());
            let end = bytes.len().min(40 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]])));
            return Read {
                source: addr(8),
                target: addr(24),
                protocol: bytes[6],
                ttl: bytes[7],
                payload: bytes[40..end].to_vec(),
            };
        }
        assert_eq!(sum(&[&bytes[..20]]), 0xffff, "checksum of IPv4: {:02x?}", &bytes[..20]);
        let addr = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap());
        let end = bytes.len().min(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])));
        Read { source: addr(12), target: addr(16), protocol: bytes[9], ttl: bytes[8], payload: bytes[20..end].to_vec() }
    }

    /// Reads a frame, and checks all checksums.
    pub fn frame(bytes: &[u8]) -> Read {
        let read = Read::ip(&bytes[14..]);
        if read.protocol != UDP || read.payload[6..8] != [0, 0] {
            assert_eq!(read.sum(), 0xffff, "checksum of protocol {}: {:02x?}", read.protocol, bytes);
        }
        read
    }

    pub fn sum(&self) -> u16 {
        if self.protocol == 1 {
            sum(&[&self.payload])
        } else {
            sum_of(self.source, self.target, self.protocol, &self.payload)
        }
    }

    pub fn from(&self) -> SocketAddr {
        (self.source, u16::from_be_bytes([self.payload[0], self.payload[1]])).into()
    }

    pub fn to(&self) -> SocketAddr {
        (self.target, u16::from_be_bytes([self.payload[2], self.payload[3]])).into()
    }

    pub fn flags(&self) -> u8 {
        self.payload[13]
    }
}

/// Error of ICMP about a packet.
pub fn icmp(source: IpAddr, target: IpAddr, kind: u8, code: u8, quoted: &[u8]) -> Vec<u8> {
    let protocol = if source.is_ipv6() { 58 } else { 1 };
    let mut message = [&[kind, code, 0, 0, 0, 0, 0, 0][..], quoted].concat();
    let total = if source.is_ipv6() { sum_of(source, target, 58, &message) } else { sum(&[&message]) };
    message[2..4].copy_from_slice(&(!total).to_be_bytes());
    [ethernet(source.is_ipv6()), ip(source, target, protocol, 0, 9, &message)].concat()
}

/// Header of a fragment of IPv6.
pub fn fragment_header(protocol: u8, offset: u16, more: bool, id: u32) -> Vec<u8> {
    [&[protocol, 0][..], &(offset | u16::from(more)).to_be_bytes(), &id.to_be_bytes()].concat()
}
