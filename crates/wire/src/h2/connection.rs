//! The state of a connection apart from its streams: settings of both sides, header tables, and the output.

use super::event::Event;
use super::flow::Window;
use super::frame::{self, kind};
use super::hpack::{Decoder, Encoder, TABLE_SIZE};
use super::settings::{self, Peer, WINDOW};
use super::streams::Streams;
use super::{ErrorCode, MAX, PREFACE, StreamId};
use crate::multiplexed::flood::{Budgets, Flood};
use std::collections::VecDeque;
use std::fmt;

/// Limits that this side sets its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Most streams that a client may have open.
    pub max_streams: u32,
    /// Bytes that the peer may send on a stream before they are consumed.
    pub stream_window: u32,
    /// Bytes that the peer may send on all streams together before they are consumed.
    pub connection_window: u32,
    /// Size of the HPACK table for received heads, in bytes.
    pub header_table: usize,
    /// Most bytes in the names and values of a head.
    pub max_header_list: usize,
    /// Most fields in the head of a message.
    pub max_fields: usize,
    /// True if clients may ask for another protocol on a stream (RFC 8441).
    pub connect: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_streams: 100,
            // One gigabit per second carries this in 2 ms. The connection window bounds what all streams may make this
            // side hold.
            stream_window: 256 << 10,
            connection_window: 1 << 20,
            header_table: TABLE_SIZE,
            max_header_list: 16 << 10,
            max_fields: 100,
            connect: true,
        }
    }
}

/// A violation of the protocol by the peer, or a flood. The GOAWAY for the peer is in the output already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// Error code that the peer is sent.
    pub code: ErrorCode,
    /// Description of the error, for logs.
    pub why: &'static str,
    /// Kind of the flood; `None` for other errors.
    pub flood: Option<Flood>,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

/// Reason why no request can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStream {
    /// The peer accepts no more concurrent streams.
    Full,
    /// The peer accepts no more streams at all, or the stream numbers are used up.
    Ending,
}

/// A field block of which frames are missing.
#[derive(Debug)]
pub struct Block {
    pub(super) stream: StreamId,
    pub(super) ends: bool,
    pub(super) depends_on_itself: bool,
    pub(super) bytes: Vec<u8>,
}

/// A DATA frame whose payload is incomplete.
#[derive(Debug)]
pub struct InData {
    pub(super) stream: StreamId,
    pub(super) left: usize,
    pub(super) padding: usize,
    pub(super) ends: bool,
    /// True if the stream has ended here, so that its data is discarded.
    pub(super) is_lost: bool,
}

/// State of a connection at this side.
#[derive(Debug)]
pub struct Connection {
    pub(super) is_server: bool,
    pub(super) config: Config,
    pub(super) out: Vec<u8>,
    pub(super) streams: Streams,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    /// Field block whose frames are incomplete.
    pub(super) block: Option<Block>,
    /// DATA frame whose payload is incomplete.
    pub(super) data: Option<InData>,
    /// Events to be reported next.
    pub(super) events: VecDeque<Event>,
    /// Window for data from the peer.
    pub(super) window: Window,
    /// Bytes that this side may send on all streams together.
    pub(super) room: i64,
    pub(super) peer: Peer,
    pub(super) is_preface_due: bool,
    pub(super) is_settings_due: bool,
    /// True once the peer has acknowledged the settings of this side.
    pub(super) is_acked: bool,
    /// Latest stream that the peer has begun.
    pub(super) last: StreamId,
    /// Number of the next stream that this side begins.
    pub(super) next: StreamId,
    /// Highest stream of the peer that is served.
    pub(super) served_to: StreamId,
    /// True if the peer accepts no more streams.
    pub(super) is_ending: bool,
    pub(super) budgets: Budgets,
    /// True if no more streams are accepted, as the peer wastes them.
    pub(super) is_flooded: bool,
    /// Cost of everything received, in frames.
    pub(super) work: u64,
    /// Error codes of the streams reset by this side.
    pub(super) resets: Vec<ErrorCode>,
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
        let mut out = Vec::with_capacity(128);
        if !is_server {
            out.extend_from_slice(PREFACE);
        }
        settings::write(&config, is_server, &mut out);
        let size = config.connection_window.clamp(WINDOW, MAX);
        if size > WINDOW {
            frame::write(kind::WINDOW_UPDATE, 0, 0, &(size - WINDOW).to_be_bytes(), &mut out);
        }
        Connection {
            is_server,
            // The peer may use the default size until it knows that it is smaller.
            decoder: Decoder::new(config.header_table.max(TABLE_SIZE)),
            config,
            out,
            streams: Streams::default(),
            encoder: Encoder::new(),
            block: None,
            data: None,
            events: VecDeque::new(),
            window: Window::new(size, size),
            room: i64::from(WINDOW),
            peer: Peer::default(),
            is_preface_due: is_server,
            is_settings_due: true,
            is_acked: false,
            last: 0,
            next: 1,
            served_to: MAX,
            is_ending: false,
            budgets: Budgets::new(now),
            is_flooded: false,
            work: 0,
            resets: Vec::new(),
            now,
        }
    }

    /// Bytes to be written, which the caller removes from the front.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Error codes of the streams that this side has reset, on the caller's behalf or as the peer broke the rules. The
    /// caller removes them.
    pub fn resets(&mut self) -> &mut Vec<ErrorCode> {
        &mut self.resets
    }

    /// True while a head is incomplete.
    pub fn is_within_head(&self) -> bool {
        self.block.is_some()
    }

    /// Number of open streams, of either side.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Most concurrent streams that this side may begin.
    pub fn peer_max_streams(&self) -> u32 {
        self.peer.max_streams
    }

    /// True if the peer accepts requests for another protocol (RFC 8441).
    pub fn peer_takes_connect(&self) -> bool {
        self.peer.connect
    }

    /// True if the peer or this side has begun that stream.
    pub(super) fn has_begun(&self, id: StreamId) -> bool {
        if id % 2 == 1 && !self.is_server { id < self.next } else { id % 2 == 1 && id <= self.last }
    }

    /// Ends the connection after an error of the peer.
    #[cold]
    pub(super) fn fail(&mut self, code: ErrorCode, why: &'static str) -> ConnectionError {
        self.go_away(code);
        ConnectionError { code, why, flood: None }
    }

    /// Cost of everything received, in frames; a head costs as much as several. Callers look at the increase.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Counts useless frames of a peer.
    ///
    /// # Errors
    /// If there are too many.
    #[inline]
    pub(super) fn spend(&mut self, flood: Flood, n: u32) -> Result<(), ConnectionError> {
        if self.budgets.spend(flood, n, self.now) { Ok(()) } else { Err(self.flooded(flood)) }
    }

    /// Counts a stream that the peer wastes. A client that wastes too many may begin no more, but those already begun
    /// are served, as they may belong to other users who share the connection.
    ///
    /// # Errors
    /// If there are too many, and the peer is a server.
    pub(super) fn spend_stream(&mut self, flood: Flood) -> Result<(), ConnectionError> {
        // Once flooded no more streams begin, so only those that are open can be wasted.
        if self.is_flooded || self.budgets.spend(flood, 1, self.now) {
            return Ok(());
        }
        if !self.is_server {
            return Err(self.flooded(flood));
        }
        self.is_flooded = true;
        self.go_away(ErrorCode::EnhanceYourCalm);
        self.events.push_back(Event::Flooded(flood));
        Ok(())
    }

    #[cold]
    fn flooded(&mut self, flood: Flood) -> ConnectionError {
        let error = self.fail(ErrorCode::EnhanceYourCalm, "the peer sends too many useless frames");
        // Each connection counts at most once as a flood.
        ConnectionError { flood: (!self.is_flooded).then_some(flood), ..error }
    }
}
