//! Families of addresses, as rules tell them apart.

use std::net::SocketAddr;

/// Families of addresses, each with the suffix of its maps.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(addr: SocketAddr) -> Family {
        if addr.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    pub fn digit(self) -> u8 {
        match self {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }

    /// Number of the protocol family, `NFPROTO_*`.
    pub fn protocol(self) -> u8 {
        match self {
            Family::V4 => 2,
            Family::V6 => 10,
        }
    }

    /// Length of an address in bytes.
    pub fn address_len(self) -> u32 {
        match self {
            Family::V4 => 4,
            Family::V6 => 16,
        }
    }
}
