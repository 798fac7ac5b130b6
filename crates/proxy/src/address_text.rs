//! How is an address written? Once for each connection, without allocating.

use std::io::Write;
use std::net::IpAddr;

/// The longest: an IPv6 address that ends in an IPv4 one.
const LEN_MAX: usize = 45;

/// An IP address as text.
#[derive(Clone, Copy, Debug)]
pub struct AddressText {
    text: [u8; LEN_MAX],
    len: u8,
}

impl AddressText {
    /// Writes an address.
    pub fn of(ip: IpAddr) -> AddressText {
        let mut text = [0; LEN_MAX];
        let mut room = &mut text[..];
        // The longest address fits.
        let _ = write!(room, "{ip}");
        let len = (LEN_MAX - room.len()) as u8;
        AddressText { text, len }
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.len)]).unwrap_or("")
    }
}
