//! WebSocket between HTTP/1 and HTTP/2, whose tunnels have no keys (RFC 8441). The answer to the key of an HTTP/1 client
//! (RFC 6455) is made here, and so is the key for an HTTP/1 endpoint, whose answer is checked.

use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::Version;
use sha1::{Digest, Sha1};

/// Value of `Upgrade` and of `:protocol`.
pub const PROTOCOL: &str = "websocket";

/// Field with the client's key.
pub const KEY: &str = "sec-websocket-key";

/// Suffix that is hashed with the key (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Length of a key: 16 bytes in base64.
pub const KEY_LEN: usize = 24;

/// Value of `Sec-WebSocket-Accept`: 20 bytes of SHA-1 in base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept([u8; 28]);

impl Accept {
    /// Returns the answer to a key.
    pub fn of(key: &[u8]) -> Accept {
        let hash = Sha1::new().chain_update(key).chain_update(GUID).finalize();
        let mut text = [b'='; 28];
        for (three, four) in hash.chunks(3).zip(text.chunks_mut(4)) {
            let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            for (at, digit) in four.iter_mut().enumerate().take(three.len() + 1) {
                *digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            }
        }
        Accept(text)
    }

    /// True if the response with these fields has this answer.
    pub fn is_in(self, fields: &Table) -> bool {
        fields.iter().any(|(name, value)| name.eq_ignore_ascii_case(b"sec-websocket-accept") && *value == self.0)
    }

    /// Adds the fields of the response that switches an HTTP/1 connection to WebSocket.
    pub fn push(self, fields: &mut Table) {
        fields.push(b"upgrade", PROTOCOL.as_bytes());
        fields.push(b"sec-websocket-accept", &self.0);
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the accept value for a WebSocket request. `None` if the request does not ask for a WebSocket correctly: it
/// is then served as a normal request, as RFC 9110 section 7.8 allows for any upgrade.
pub fn asked(request: &Request<'_, '_>, upgrade: bool, version: Version) -> Option<Accept> {
    if !upgrade || version != Version::V11 || request.method != "GET" {
        return None;
    }
    let is_named = request.field("upgrade")?.eq_ignore_ascii_case(PROTOCOL.as_bytes());
    let key = request.field(KEY).filter(|key| is_named && key.len() == KEY_LEN)?;
    Some(Accept::of(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_rfc() {
        assert_eq!(&Accept::of(b"dGhlIHNhbXBsZSBub25jZQ==").0, b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
