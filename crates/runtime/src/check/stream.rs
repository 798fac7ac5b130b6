//! The connection of a check, and how it is read and written.

use super::failure::Failure;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of a body that are searched for the expected text.
pub(super) const BODY_MAX: usize = 64 * 1024;

/// Bytes of a server's text that are reported.
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

/// The text of a server, fit for a line of a log.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).escape_debug().to_string()
}

/// The connection of a check.
pub(super) trait Carries: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carries for T {}
