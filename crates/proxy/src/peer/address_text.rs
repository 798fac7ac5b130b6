//! IP addresses as text, written once per connection without allocating.

use std::io::Write;
use std::net::IpAddr;

/// Length of the longest text: an IPv6 address in full whose last 32 bits are in dotted decimal.
const LEN_MAX: usize = 45;

/// Each octet in decimal with a trailing dot, padded with dots to four bytes.
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

/// An IP address as text, in a buffer of 45 bytes.
#[derive(Clone, Copy, Debug)]
pub struct AddressText {
    text: [u8; LEN_MAX],
    len: u8,
}

impl AddressText {
    /// Formats `ip` as its `Display` does.
    pub fn of(ip: IpAddr) -> AddressText {
        let mut text = AddressText { text: [0; LEN_MAX], len: 0 };
        match ip {
            // Without the formatter, which takes 900 instructions: every connection pays for this.
            IpAddr::V4(ip) => text.push_octets(ip.octets()),
            IpAddr::V6(ip) => {
                let mut room = &mut text.text[..];
                // `LEN_MAX` holds the longest address, so this cannot fail.
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

    /// The formatted address, always ASCII.
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
