//! What is a connection, beside its streams? What each side allows, the tables of heads, and what is to be written.

use super::event::Event;
use super::flood::{Budgets, Flood};
use super::flow::Window;
use super::frame::{self, kind};
use super::hpack::{Decoder, Encoder, TABLE_SIZE};
use super::settings::{self, Peer, WINDOW};
use super::streams::Streams;
use super::{ErrorCode, MAX, PREFACE, StreamId};
use std::collections::VecDeque;
use std::fmt;

/// What this side allows its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Streams at a time that a client may have.
    pub max_streams: u32,
    /// Bytes that the peer may send on a stream before they are taken.
    pub stream_window: u32,
    /// The same of all streams together.
    pub connection_window: u32,
    /// Bytes of the table for heads that come.
    pub header_table: usize,
    /// Bytes of names and values of a head.
    pub max_header_list: usize,
    /// Fields of a head.
    pub max_fields: usize,
    /// Whether clients may ask for another protocol on a stream (RFC 8441).
    pub connect: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_streams: 100,
            // What a gigabit carries in 2 ms; what all together may make this side hold is bounded by the next.
            stream_window: 256 << 10,
            connection_window: 1 << 20,
            header_table: TABLE_SIZE,
            max_header_list: 16 << 10,
            max_fields: 100,
            connect: true,
        }
    }
}

/// The peer has broken the rules, or asks for too much. What it is told of that is in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// What it is told.
    pub code: ErrorCode,
    /// In words.
    pub why: &'static str,
    /// What it sent too much of, if that is it.
    pub flood: Option<Flood>,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

/// Why no request can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStream {
    /// The peer takes no more at a time.
    Full,
    /// The peer takes no more at all, or there are no more numbers.
    Ending,
}

/// A head that has begun.
#[derive(Debug)]
pub struct Block {
    pub(super) stream: StreamId,
    pub(super) ends: bool,
    pub(super) depends_on_itself: bool,
    pub(super) bytes: Vec<u8>,
}

/// A frame with data that has begun.
#[derive(Debug)]
pub struct InData {
    pub(super) stream: StreamId,
    pub(super) left: usize,
    pub(super) padding: usize,
    pub(super) ends: bool,
    /// The stream has ended here: it is told nothing.
    pub(super) is_lost: bool,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) is_server: bool,
    pub(super) config: Config,
    pub(super) out: Vec<u8>,
    pub(super) streams: Streams,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    /// A head that has begun.
    pub(super) block: Option<Block>,
    /// A frame with data that has begun.
    pub(super) data: Option<InData>,
    /// What is to be told next.
    pub(super) events: VecDeque<Event>,
    /// What the peer may send.
    pub(super) window: Window,
    /// What this side may send.
    pub(super) room: i64,
    pub(super) peer: Peer,
    pub(super) is_preface_due: bool,
    pub(super) is_settings_due: bool,
    /// The peer knows the settings of this side.
    pub(super) is_acked: bool,
    /// The last stream that the peer has begun.
    pub(super) last: StreamId,
    /// The next that this side begins.
    pub(super) next: StreamId,
    /// The last stream of the peer that is served.
    pub(super) served_to: StreamId,
    /// The peer takes no more streams.
    pub(super) is_ending: bool,
    pub(super) budgets: Budgets,
    /// True if no more streams are taken, as the peer wastes them.
    pub(super) is_flooded: bool,
    /// The cost of all that was received, in frames.
    pub(super) work: u64,
    /// Why streams were reset here.
    pub(super) resets: Vec<ErrorCode>,
    /// Of the last call.
    pub(super) now: u64,
}

impl Connection {
    /// The side that is asked.
    pub fn server(config: Config, now: u64) -> Connection {
        Connection::new(true, config, now)
    }

    /// The side that asks.
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
            // Until the peer knows that it is less, its table may have the usual size.
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

    /// What is to be written; the caller takes it from the front.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Why streams were reset by this side: by the caller, or as the peer broke the rules. The caller takes it out.
    pub fn resets(&mut self) -> &mut Vec<ErrorCode> {
        &mut self.resets
    }

    /// Whether a head has begun that is not whole.
    pub fn is_within_head(&self) -> bool {
        self.block.is_some()
    }

    /// Streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Streams at a time that this side may begin.
    pub fn peer_max_streams(&self) -> u32 {
        self.peer.max_streams
    }

    /// Whether the peer takes requests for another protocol (RFC 8441).
    pub fn peer_takes_connect(&self) -> bool {
        self.peer.connect
    }

    /// Whether this side has begun that stream, or the peer has.
    pub(super) fn has_begun(&self, id: StreamId) -> bool {
        if id % 2 == 1 && !self.is_server { id < self.next } else { id % 2 == 1 && id <= self.last }
    }

    /// Ends the connection by an error of the peer.
    #[cold]
    pub(super) fn fail(&mut self, code: ErrorCode, why: &'static str) -> ConnectionError {
        self.go_away(code);
        ConnectionError { code, why, flood: None }
    }

    /// The cost of all that was received, in frames: a head costs as much as several. The caller looks at how much it grows.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Counts what a peer sends without use.
    ///
    /// # Errors
    /// It is too much.
    #[inline]
    pub(super) fn spend(&mut self, flood: Flood, n: u32) -> Result<(), ConnectionError> {
        if self.budgets.spend(flood, n, self.now) { Ok(()) } else { Err(self.flooded(flood)) }
    }

    /// Counts a stream that a peer wastes. When it is too much, a client begins no more, and those that have begun are served: they
    /// may belong to others who share the connection.
    ///
    /// # Errors
    /// The waste is too much, and the peer is not a client.
    pub(super) fn spend_stream(&mut self, flood: Flood) -> Result<(), ConnectionError> {
        // No more streams begin, so that there are no more to be wasted than are open.
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
        // One flood each connection.
        ConnectionError { flood: (!self.is_flooded).then_some(flood), ..error }
    }
}
