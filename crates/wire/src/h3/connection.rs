//! The state of a connection apart from its streams: settings of both sides, the requests that are served, and budgets.

use super::protocol::{ErrorCode, LAST_REQUEST, StreamId, is_request};
use super::qpack::{Decoder, Encoder, HeaderLimits};
use super::settings::{self, Peer};
use crate::multiplexed::flood::{Budgets, Flood};
use std::fmt;

/// Limits that this side sets its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Most bytes in the names and values of a head.
    pub max_header_list: usize,
    /// Most fields in the head of a message.
    pub max_fields: usize,
    /// True if clients may ask for another protocol on a stream (RFC 9220).
    pub connect: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { max_header_list: 16 << 10, max_fields: 100, connect: true }
    }
}

/// A violation of the protocol by the peer, or a flood. The caller closes the connection with the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// Error code that the peer is sent.
    pub code: ErrorCode,
    /// Description of the error, for logs.
    pub why: &'static str,
    /// Kind of the flood; `None` for other errors.
    pub flood: Option<Flood>,
}

impl ConnectionError {
    #[cold]
    pub(super) fn new(code: ErrorCode, why: &'static str) -> ConnectionError {
        ConnectionError { code, why, flood: None }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

/// Streams of the peer that exist only once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Critical {
    pub control: bool,
    pub encoder: bool,
    pub decoder: bool,
}

/// State of a connection at this side.
#[derive(Debug)]
pub struct Connection {
    pub(super) is_server: bool,
    pub(super) config: Config,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    /// Bytes to be written to the control stream.
    pub(super) control: Vec<u8>,
    pub(super) critical: Critical,
    /// Settings of the peer; `None` until they have arrived.
    pub(super) peer: Option<Peer>,
    /// Identifier in the latest GOAWAY of the peer.
    pub(super) peer_goes_at: Option<u64>,
    /// Latest MAX_PUSH_ID of a client.
    pub(super) max_push: Option<u64>,
    /// First request that has not begun.
    pub(super) next: StreamId,
    /// First request that is not served.
    pub(super) served_to: StreamId,
    pub(super) budgets: Budgets,
    /// True if no more requests are accepted, as the peer wastes them.
    pub(super) is_flooded: bool,
    /// Flood that the driver has yet to be informed of.
    pub(super) flooded: Option<Flood>,
    /// Cost of everything received, in frames.
    pub(super) work: u64,
    /// Time of the latest call, nanoseconds.
    pub(super) now: u64,
}

impl Connection {
    /// Returns the server's side of a new connection.
    pub fn server(config: Config, now: u64) -> Connection {
        Connection::new(true, config, now)
    }

    /// Returns the client's side of a new connection.
    pub fn client(config: Config, now: u64) -> Connection {
        Connection::new(false, config, now)
    }

    fn new(is_server: bool, config: Config, now: u64) -> Connection {
        let mut control = Vec::with_capacity(64);
        settings::write(&config, is_server, &mut control);
        Connection {
            is_server,
            config,
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            control,
            critical: Critical::default(),
            peer: None,
            peer_goes_at: None,
            max_push: None,
            next: 0,
            served_to: LAST_REQUEST + 4,
            budgets: Budgets::new(now),
            is_flooded: false,
            flooded: None,
            work: 0,
            now,
        }
    }

    /// Bytes to be written to the control stream, a unidirectional stream that this side opens first and never ends. The
    /// caller removes them from the front.
    pub fn control(&mut self) -> &mut Vec<u8> {
        &mut self.control
    }

    /// Flood for which no more requests are accepted, the first time that it is asked for.
    pub fn take_flooded(&mut self) -> Option<Flood> {
        self.flooded.take()
    }

    /// True if the peer accepts requests for another protocol (RFC 9220).
    pub fn peer_takes_connect(&self) -> bool {
        self.peer.is_some_and(|peer| peer.connect)
    }

    /// Most bytes of a head that the peer accepts, with 32 more for each field; `None` if it has not stated a limit.
    pub fn peer_max_field_section(&self) -> Option<u64> {
        self.peer.and_then(|peer| peer.max_field_section)
    }

    /// True once the peer has announced the end of the connection: no more requests may begin.
    pub fn is_ending(&self) -> bool {
        self.peer_goes_at.is_some()
    }

    /// Cost of everything received, in frames; a head costs as much as several. Callers look at the increase.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Returns true if a request that the client has begun is served. The caller resets and stops others with
    /// REQUEST_REJECTED, so that the client may send them again elsewhere.
    ///
    /// # Errors
    /// If the stream is not a request. The connection ends.
    pub fn admit(&mut self, stream: StreamId) -> Result<bool, ConnectionError> {
        if !self.is_server || !is_request(stream) {
            return Err(ConnectionError::new(ErrorCode::StreamCreationError, "a server began a bidirectional stream"));
        }
        let is_served = stream < self.served_to && !self.is_flooded;
        if is_served {
            self.next = self.next.max(stream + 4);
        }
        Ok(is_served)
    }

    pub(super) fn limits(&self) -> HeaderLimits {
        HeaderLimits { bytes: self.config.max_header_list, fields: self.config.max_fields }
    }

    /// Counts useless frames of a peer.
    ///
    /// # Errors
    /// If there are too many.
    #[inline]
    pub(super) fn spend(&mut self, flood: Flood, n: u32) -> Result<(), ConnectionError> {
        if self.budgets.spend(flood, n, self.now) { Ok(()) } else { Err(self.ended_by(flood)) }
    }

    /// Counts a stream that the peer wastes. A client that wastes too many may begin no more, but those already begun
    /// are served, as they may belong to other users who share the connection.
    ///
    /// # Errors
    /// If there are too many, and the peer is a server.
    pub(super) fn spend_stream(&mut self, flood: Flood) -> Result<(), ConnectionError> {
        if self.is_flooded || self.budgets.spend(flood, 1, self.now) {
            return Ok(());
        }
        if !self.is_server {
            return Err(self.ended_by(flood));
        }
        (self.is_flooded, self.flooded) = (true, Some(flood));
        self.go_away();
        Ok(())
    }

    #[cold]
    fn ended_by(&mut self, flood: Flood) -> ConnectionError {
        // Each connection counts at most once as a flood.
        let flood = (!self.is_flooded).then_some(flood);
        ConnectionError { code: ErrorCode::ExcessiveLoad, why: "the peer sends too many useless frames", flood }
    }
}
