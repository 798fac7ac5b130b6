//! Values of maps, as `bpf/common.h` declares them; their sense is said there.

use aya::Pod;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Address and port with a protocol.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key {
    pub addr: [u8; 16],
    pub port: [u8; 2],
    pub protocol: u8,
    pub spare: u8,
}

impl Key {
    pub fn new(addr: SocketAddr, protocol: u8) -> Key {
        Key { addr: octets(addr.ip()), port: addr.port().to_be_bytes(), protocol, spare: 0 }
    }

    /// Check in the upper half of the value.
    pub fn check(&self) -> u32 {
        let mut sum = 0u32;
        for word in self.addr.chunks_exact(4) {
            sum = sum.rotate_left(7) ^ u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        }
        sum.rotate_left(7) ^ (u32::from(u16::from_ne_bytes(self.port)) << 16 | u32::from(self.protocol))
    }

    pub fn addr(&self) -> SocketAddr {
        address(self.addr, self.port)
    }
}

/// Bytes of an address, IPv4 as IPv6.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn address(addr: [u8; 16], port: [u8; 2]) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(addr).to_canonical(), u16::from_be_bytes(port))
}

pub const POLICY_RANDOM: u8 = 0;
pub const POLICY_LEAST: u8 = 1;
pub const POLICY_TURN: u8 = 2;
pub const POLICY_MAGLEV: u8 = 3;

pub const RECORD_EQUAL: u8 = 1;
pub const RECORD_CLIENT: u8 = 2;
pub const RECORD_AFFINITY: u8 = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    pub service: u64,
    pub idle_ns: u64,
    pub affinity_ns: u64,
    pub turn: u64,
    pub base: u32,
    pub n: u32,
    pub slots_base: u32,
    pub slots_n: u32,
    pub policy: u8,
    pub draws: u8,
    pub flags: u8,
    pub protocol: u8,
    pub zero: u32,
    pub spare: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub endpoint: u32,
    pub weight: u32,
    pub threshold: u32,
    pub alias: u32,
}

/// Slots in a value of the map.
pub const SLOTS: u32 = 16;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Slots {
    pub place: [u32; SLOTS as usize],
}

pub const ENDPOINT_USED: u8 = 1;
pub const ENDPOINT_SERVING: u8 = 2;
pub const ENDPOINT_DOWN: u8 = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoint {
    pub addr: [u8; 16],
    pub port: [u8; 2],
    pub flags: u8,
    pub spare: u8,
    pub epoch: u32,
    pub spare_word: u64,
}

impl Endpoint {
    pub fn new(addr: SocketAddr, epoch: u32) -> Endpoint {
        Endpoint { addr: octets(addr.ip()), port: addr.port().to_be_bytes(), epoch, ..Endpoint::default() }
    }

    pub fn addr(&self) -> SocketAddr {
        address(self.addr, self.port)
    }

    pub fn is_used(&self) -> bool {
        self.flags & ENDPOINT_USED != 0
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub active: i64,
    pub started: u64,
    pub failed: u64,
    pub penalty: u64,
    pub spare: [u64; 4],
}

impl Load {
    /// Open flows; a count that is below 0 for a moment is 0.
    pub fn open(&self) -> u32 {
        u32::try_from(self.active.max(0)).unwrap_or(u32::MAX)
    }

    /// Adds to the open flows, while programs count.
    pub fn correct(at: *mut Load, difference: i64) {
        // SAFETY: `at` is of a mapped array, aligned to a cache line; the field is the first, and others change it
        // by atomic additions only. Relaxed: the count orders nothing.
        unsafe { AtomicI64::from_ptr(at.cast()) }.fetch_add(difference, Ordering::Relaxed);
    }

    /// Sets the penalty to 0.
    pub fn clear_penalty(at: *mut Load) {
        // SAFETY: as above; the fourth word of the value.
        unsafe { AtomicU64::from_ptr(at.cast::<u64>().add(3)) }.store(0, Ordering::Relaxed);
    }
}

// SAFETY: bytes.
unsafe impl Pod for Key {}
// SAFETY: numbers whose sizes add up to 64.
unsafe impl Pod for Record {}
// SAFETY: numbers of 32 bits.
unsafe impl Pod for Place {}
// SAFETY: numbers of 32 bits.
unsafe impl Pod for Slots {}
// SAFETY: bytes and numbers whose sizes add up to 32.
unsafe impl Pod for Endpoint {}
// SAFETY: numbers of 64 bits.
unsafe impl Pod for Load {}

const _: () = assert!(size_of::<Key>() == 20 && size_of::<Record>() == 64 && size_of::<Place>() == 16);
const _: () = assert!(size_of::<Slots>() == 64 && size_of::<Endpoint>() == 32 && size_of::<Load>() == 64);
