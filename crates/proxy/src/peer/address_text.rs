//! How is an address written? Once for each connection, without allocating.

use std::io::Write;
use std::net::IpAddr;

/// The longest: an IPv6 address that ends in an IPv4 one.
const LEN_MAX: usize = 45;

/// Each octet in digits, and a dot behind them.
const DOTTED: [[u8; 4]; 256] = {
    let (mut dotted, mut i) = ([[b'.'; 4]; 256], 0);
    while i < 256 {
        let n = i as u8;
        let [hundreds, tens, ones] = [b'0' + n / 100, b'0' + n / 10 % 10, b'0' + n % 10];
        dotted[i] = match n {
            100.. => [hundreds, tens, ones, b'.'],
            10.. => [tens, ones, b'.', b'.'],
            _ => [ones, b'.', b'.', b'.'],
        };
        i += 1;
    }
    dotted
};

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
        let mut len = 0;
        for octet in octets {
            self.text[len..len + 4].copy_from_slice(&DOTTED[usize::from(octet)]);
            len += 2 + usize::from(octet > 9) + usize::from(octet > 99);
        }
        self.len = len as u8 - 1;
    }

    /// The text, which is ASCII.
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
