//! HTTP/1.1 requests of a client and their answers: complete, cut or missing.

// Order: connector, http2, tls
pub mod connector;
pub mod http2;
pub mod tls;

use crate::wire::Wire;
use std::io::{ErrorKind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Whole {
        status: u16,
        body: Vec<u8>,
        /// True if the connection can carry another request.
        reusable: bool,
    },
    /// A head, then fewer bytes than its length.
    Cut,
}

/// Bytes of a GET. `last` adds `Connection: close`.
pub fn get(path: &str, last: bool) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: lab.test\r\n{}\r\n", closing(last)).into_bytes()
}

pub fn post(path: &str, body: &[u8], last: bool) -> Vec<u8> {
    let mut bytes = post_head(path, body.len(), last).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Head of a POST whose body follows.
pub fn post_head(path: &str, length: usize, last: bool) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: lab.test\r\nContent-Length: {length}\r\n{}\r\n", closing(last))
}

fn closing(last: bool) -> &'static str {
    if last { "Connection: close\r\n" } else { "" }
}

/// Sends a request and reads the answer. Sets `begun` once the head has arrived, for callers that do not wait for the
/// end.
///
/// # Errors
/// If the head of the answer is incomplete or malformed.
pub async fn exchange(wire: &mut Wire, request: &[u8], begun: &mut bool) -> Result<Answer> {
    wire.send(request).await?;
    answer(wire, begun).await
}

/// Reads the answer to a request that was sent.
///
/// # Errors
/// If the head of the answer is incomplete or malformed.
pub async fn answer(wire: &mut Wire, begun: &mut bool) -> Result<Answer> {
    let head = wire.head().await?.ok_or(ErrorKind::UnexpectedEof)?;
    *begun = true;
    let status = head.status().ok_or(ErrorKind::InvalidData)?;
    // The lab's endpoints and the balancers' error pages always have a length.
    let length = head.length().ok_or(ErrorKind::InvalidData)?;
    Ok(match wire.exactly(length).await {
        Ok(body) => Answer::Whole { status, body, reusable: !head.closes() },
        Err(_) => Answer::Cut,
    })
}
