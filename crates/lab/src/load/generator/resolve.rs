//! DNS lookup of a client that caches nothing: a datagram from a new socket for each name.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::UdpSocket;

/// Maximum length of an answer without EDNS (RFC 1035).
const ANSWER_MAX: usize = 512;

/// Looks up the first address of a name. `id` is the id of the query.
///
/// # Errors
/// The answer has no address.
pub async fn resolve(server: SocketAddr, name: &str, id: u16) -> Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question(name, id)).await?;
    let mut answer = [0; ANSWER_MAX];
    let length = socket.recv(&mut answer).await?;
    address(&answer[..length], id).ok_or_else(|| Error::new(ErrorKind::InvalidData, "an answer without an address"))
}

/// Query for A records (RFC 1035, 4.1), recursion desired.
fn question(name: &str, id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// Address in the first A record of an answer to the query `id`.
fn address(answer: &[u8], id: u16) -> Option<Ipv4Addr> {
    let number = |at: usize| Some(u16::from_be_bytes([*answer.get(at)?, *answer.get(at + 1)?]));
    if number(0)? != id || number(4)? != 1 {
        return None;
    }
    let mut at = after_name(answer, 12)? + 4;
    for _ in 0..number(6)? {
        at = after_name(answer, at)?;
        let (kind, length) = (number(at)?, usize::from(number(at + 8)?));
        let data = answer.get(at + 10..at + 10 + length)?;
        if let (1, [a, b, c, d]) = (kind, data) {
            return Some(Ipv4Addr::new(*a, *b, *c, *d));
        }
        at += 10 + length;
    }
    None
}

/// Offset of the end of the name that starts at `at`: after its last label, or after a pointer.
fn after_name(answer: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *answer.get(at)? {
            0 => return Some(at + 1),
            pointer if pointer >= 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_is_read_past_other_records() {
        let mut answer = question("www.lab.test", 7);
        answer[7] = 2;
        // A CNAME of two bytes, then an A record; both names are pointers.
        answer.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 5, 0, 2, 0xc0, 16]);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 127, 0, 0, 2]);
        assert_eq!(address(&answer, 7), Some(Ipv4Addr::new(127, 0, 0, 2)));
        assert_eq!(address(&answer, 8), None, "the answer to another question");
        for length in 0..answer.len() {
            assert_eq!(address(&answer[..length], 7), None, "cut after {length}");
        }
    }
}
