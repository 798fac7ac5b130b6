//! Asynchronous reading and writing of messages, for clients and endpoints, over a connection that buffers bytes read
//! ahead.

use crate::http::{self, Head};
use std::io::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Maximum length of a head; the lab sends no longer ones.
const HEAD_MAX: usize = 64 * 1024;

/// Side of a connection, with the bytes read ahead.
pub struct Wire {
    stream: Stream,
    early: Vec<u8>,
}

enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Wraps a connected socket, with TCP_NODELAY.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn new(stream: TcpStream) -> std::io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire { stream: Stream::Clear(stream), early: Vec::new() })
    }

    /// Wraps a connected TLS stream.
    pub fn over_tls(stream: TlsStream<TcpStream>) -> Wire {
        Wire { stream: Stream::Tls(Box::new(stream)), early: Vec::new() }
    }

    /// Reads the next head; `None` if the peer closed before its first byte.
    ///
    /// # Errors
    /// If the connection breaks, or ends within the head.
    pub async fn head(&mut self) -> std::io::Result<Option<Head>> {
        loop {
            if let Some((head, rest)) = http::split(&self.early) {
                let (head, rest) = (Head::new(head), rest.to_vec());
                self.early = rest;
                return Ok(Some(head));
            }
            if self.early.len() > HEAD_MAX {
                return Err(Error::new(ErrorKind::InvalidData, "a head without an end"));
            }
            if self.more().await? == 0 {
                let within = !self.early.is_empty();
                return if within { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
            }
        }
    }

    /// Reads exactly `length` bytes.
    ///
    /// # Errors
    /// If the connection breaks or ends before.
    pub async fn exactly(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        while self.early.len() < length {
            if self.more().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.early.split_off(length);
        Ok(std::mem::replace(&mut self.early, rest))
    }

    /// Reads and discards until the peer closes.
    pub async fn drain(&mut self) {
        while matches!(self.more().await, Ok(1..)) {
            self.early.clear();
        }
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.stream {
            Stream::Clear(stream) => stream.write_all(bytes).await,
            Stream::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Ends the connection with an RST instead of a FIN.
    pub fn reset(self) {
        // An error means that the connection is already gone.
        let _ = match &self.stream {
            Stream::Clear(stream) => stream.set_zero_linger(),
            Stream::Tls(stream) => stream.get_ref().0.set_zero_linger(),
        };
    }

    async fn more(&mut self) -> std::io::Result<usize> {
        self.early.reserve(16 * 1024);
        match &mut self.stream {
            Stream::Clear(stream) => stream.read_buf(&mut self.early).await,
            Stream::Tls(stream) => stream.read_buf(&mut self.early).await,
        }
    }
}
