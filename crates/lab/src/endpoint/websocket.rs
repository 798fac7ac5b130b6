//! Subset of the WebSocket protocol for an echo: the opening handshake and short text frames (RFC 6455).

use crate::wire::Wire;
use std::io::{Error, ErrorKind, Result};

/// Nonce of the RFC's example (1.3): a fixed nonce avoids SHA-1 here, and proxies relay any.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// First byte of a text message in a single frame.
const TEXT: u8 = 0x81;
const MASKED: u8 = 0x80;

/// Longest payload whose length fits into the second byte of a frame.
pub const PAYLOAD_MAX: usize = 125;

/// Opening request of a client.
pub fn request(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: lab.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    )
}

/// Opening response of an endpoint.
pub fn response() -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
    )
}

/// True if a response accepts the opening request.
pub fn opens(head: &crate::http::Head) -> bool {
    head.status() == Some(101) && head.field("sec-websocket-accept") == Some(ACCEPT)
}

/// Text frame: masked from a client, as required (5.3), unmasked from an endpoint. The payload is truncated to
/// `PAYLOAD_MAX` bytes.
pub fn frame(payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let payload = &payload[..payload.len().min(PAYLOAD_MAX)];
    let mut bytes = vec![TEXT, payload.len() as u8];
    match mask {
        Some(mask) => {
            bytes[1] |= MASKED;
            bytes.extend(mask);
            bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        }
        None => bytes.extend(payload),
    }
    bytes
}

/// Reads the payload of the next frame.
///
/// # Errors
/// If the stream ends, or holds anything but short text frames.
pub async fn read(wire: &mut Wire) -> Result<Vec<u8>> {
    let head = wire.exactly(2).await?;
    let length = usize::from(head[1] & !MASKED);
    if head[0] != TEXT || length > PAYLOAD_MAX {
        return Err(Error::new(ErrorKind::InvalidData, "not a short text frame"));
    }
    let mask = if head[1] & MASKED == 0 { vec![0; 4] } else { wire.exactly(4).await? };
    let payload = wire.exactly(length).await?;
    Ok(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_frame_is_that_of_the_rfc() {
        // RFC 6455 5.7: "Hello", masked and unmasked.
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(frame(b"Hello", Some([0x37, 0xfa, 0x21, 0x3d])), masked);
        assert_eq!(frame(b"Hello", None), [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
    }
}
