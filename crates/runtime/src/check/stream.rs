//! Connection of a check, with functions to read and write it.

use super::failure::Failure;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum bytes of an answer that are searched or parsed.
pub(super) const BODY_MAX: usize = 64 * 1024;

/// Maximum bytes of a server's text in a report.
const TEXT_MAX: usize = 200;

pub(super) async fn send(stream: &mut Box<dyn Carries>, bytes: &[u8]) -> Result<(), Failure> {
    stream.write_all(bytes).await.map_err(|_| Failure::Closed)?;
    stream.flush().await.map_err(|_| Failure::Closed)
}

/// Reads exactly `len` bytes.
pub(super) async fn exactly(stream: &mut Box<dyn Carries>, len: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).await.map_err(|_| Failure::Closed)?;
    Ok(bytes)
}

/// Text of a server, truncated and escaped to fit a log line.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).escape_debug().to_string()
}

/// Connection of a check: TCP, or TLS over it.
pub(super) trait Carries: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carries for T {}
