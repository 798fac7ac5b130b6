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
        let mut text = AddressText { text: [0; LEN_MAX], len: 0 };
        match ip {
            // Without the formatter, which takes 900 instructions for it: every connection needs one.
            IpAddr::V4(ip) => text.push_octets(ip.octets()),
            IpAddr::V6(ip) => {
                let mut room = &mut text.text[..];
                // The longest address fits.
                let _ = write!(room, "{ip}");
                text.len = (LEN_MAX - room.len()) as u8;
            }
        }
        text
    }

    fn push_octets(&mut self, octets: [u8; 4]) {
        for octet in octets {
            if self.len > 0 {
                self.push(b'.');
            }
            let digits = [octet / 100, octet / 10 % 10, octet % 10];
            let zeros = usize::from(octet < 100) + usize::from(octet < 10);
            digits[zeros..].iter().for_each(|digit| self.push(b'0' + digit));
        }
    }

    fn push(&mut self, b: u8) {
        self.text[usize::from(self.len)] = b;
        self.len += 1;
    }

    /// The text, which is ASCII.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn every_address_is_written_as_it_is_displayed() {
        let numbers = (0..=255).map(|n| Ipv4Addr::new(n, 255 - n, 0, n / 2).into());
        let longest = Ipv6Addr::from([0xfedc_u16; 8]).into();
        for ip in numbers.chain([longest, Ipv6Addr::LOCALHOST.into()]) {
            assert_eq!(AddressText::of(ip).as_bytes(), ip.to_string().as_bytes());
        }
    }
}
