//! Sending, as frames appended to the output. Nothing is sent on a stream that is not open.

use super::connection::{Connection, NoStream};
use super::flow::Window;
use super::frame::{self, Front, flag, kind};
use super::settings::WINDOW;
use super::streams::{End, Stream};
use super::{ErrorCode, MAX, StreamId};
use crate::multiplexed::body::{Asked, Rest};
use crate::multiplexed::flood::{Flood, LATE_FOR_RESET};

type Pair<'f> = (&'f [u8], &'f [u8]);

impl Connection {
    /// Begins a request with these fields, pseudo-header fields first. `ends`: nothing follows. Returns its stream.
    ///
    /// # Errors
    /// If the peer accepts no more streams, now or at all.
    pub fn open<'f>(&mut self, fields: impl Iterator<Item = Pair<'f>>, ends: bool) -> Result<StreamId, NoStream> {
        if self.is_ending || self.next > MAX {
            return Err(NoStream::Ending);
        }
        if self.streams.len() >= self.peer.max_streams as usize {
            return Err(NoStream::Full);
        }
        let id = self.next;
        self.next += 2;
        let stream = Stream { has_head: false, ..self.new_stream(id) };
        self.streams.add(stream);
        let mut asked = Asked::Usual;
        self.send_head(id, fields.inspect(|field: &Pair<'f>| asked.look(*field)), ends);
        if let Some(stream) = self.streams.get(id) {
            stream.asked = asked;
        }
        Ok(id)
    }

    /// Returns the initial state of a stream.
    pub(super) fn new_stream(&self, id: StreamId) -> Stream {
        let size = self.config.stream_window;
        // A peer that does not know the settings yet uses the default window.
        let left = if self.is_acked { size } else { size.max(WINDOW) };
        Stream {
            id,
            room: i64::from(self.peer.window),
            window: Window::new(size, left),
            receives: true,
            sends: true,
            rest: Rest::default(),
            has_head: true,
            asked: Asked::Usual,
            began: self.now,
        }
    }

    /// Sends a head. For a response, any number of interim heads may precede the final head. `ends`: nothing follows.
    pub fn send_head<'f>(&mut self, stream: StreamId, fields: impl Iterator<Item = Pair<'f>>, ends: bool) {
        if !self.streams.get(stream).is_some_and(|stream| stream.sends) {
            return;
        }
        // The length is filled in once it is known.
        let at = self.out.len();
        self.out.extend_from_slice(&[0; frame::LEN]);
        self.encoder.encode(fields, &mut self.out);
        let end_stream = if ends { flag::END_STREAM } else { 0 };
        let len = self.out.len() - at - frame::LEN;
        if len <= self.peer.max_frame {
            self.set_front(at, Front { len, kind: kind::HEADERS, flags: end_stream | flag::END_HEADERS, stream });
        } else {
            self.split_head(at, end_stream, stream);
        }
        if ends {
            self.sent_all(stream);
        }
    }

    fn set_front(&mut self, at: usize, front: Front) {
        self.out[at..at + frame::LEN].copy_from_slice(&front.bytes());
    }

    /// Splits a head that is too large for a frame into several frames.
    #[cold]
    fn split_head(&mut self, at: usize, end_stream: u8, stream: StreamId) {
        let block = self.out.split_off(at).split_off(frame::LEN);
        let mut parts = block.chunks(self.peer.max_frame).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, end_stream);
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            frame::write(kind, flags, stream, part, &mut self.out);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }

    /// True if the window of a stream is open. The connection's window may be closed.
    pub fn has_window(&self, stream: StreamId) -> bool {
        self.streams.room(stream) > 0
    }

    /// Bytes that may be sent in a frame now, by both windows and the peer's largest frame.
    #[inline]
    pub fn capacity(&self, stream: StreamId) -> usize {
        let room = self.streams.room(stream).min(self.room);
        usize::try_from(room).unwrap_or(0).min(self.peer.max_frame)
    }

    /// Sends data, no more than [`capacity`](Self::capacity). `ends`: nothing follows.
    pub fn send_data(&mut self, stream: StreamId, payload: &[u8], ends: bool) {
        if self.send_data_front(stream, payload.len(), ends) {
            self.out.extend_from_slice(payload);
        }
    }

    /// Sends the front of a frame of data, whose payload of this length the caller writes behind it. False if the
    /// stream sends nothing, so that nothing is to be written.
    pub fn send_data_front(&mut self, stream: StreamId, len: usize, ends: bool) -> bool {
        let Some(state) = self.streams.get(stream).filter(|state| state.sends) else { return false };
        state.room -= len as i64;
        self.room -= len as i64;
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::Front { len, kind: kind::DATA, flags, stream }.write(&mut self.out);
        // A peer that receives data has reason to open its windows, and to ping.
        self.budgets.earn(Flood::WindowUpdates, 1);
        self.budgets.earn(Flood::Pings, 1);
        if ends {
            self.sent_all(stream);
        }
        true
    }

    /// Sends trailers, which end this side of the stream.
    pub fn send_trailers<'f>(&mut self, stream: StreamId, fields: impl Iterator<Item = Pair<'f>>) {
        self.send_head(stream, fields, true);
    }

    fn sent_all(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id) else { return };
        stream.sends = false;
        if !stream.receives {
            self.streams.end(id, End::Done);
        }
        // The stream was served. A reset for it may be on its way.
        self.budgets.earn(Flood::Resets, 1);
        self.budgets.earn(Flood::LateFrames, 1);
    }

    /// Resets a stream that has not ended.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.streams.end(stream, End::Here) {
            self.budgets.earn(Flood::LateFrames, LATE_FOR_RESET);
            self.write_reset(stream, code);
        }
    }

    pub(super) fn write_reset(&mut self, stream: StreamId, code: ErrorCode) {
        self.resets.push(code);
        frame::write(kind::RST_STREAM, 0, stream, &(code as u32).to_be_bytes(), &mut self.out);
    }

    /// Reports `n` bytes of a stream as consumed, so that the peer may send as many more.
    pub fn consumed(&mut self, stream: StreamId, n: usize) {
        if let Some(opens) = self.window.free(n) {
            frame::write(kind::WINDOW_UPDATE, 0, 0, &opens.to_be_bytes(), &mut self.out);
        }
        let state = self.streams.get(stream).filter(|state| state.receives);
        if let Some(opens) = state.and_then(|state| state.window.free(n)) {
            frame::write(kind::WINDOW_UPDATE, 0, stream, &opens.to_be_bytes(), &mut self.out);
        }
    }

    /// Sends a ping, to be answered with the same payload ([`Event::Pong`](super::Event::Pong)).
    pub fn ping(&mut self, payload: u64) {
        self.budgets.earn(Flood::Pings, 1);
        frame::write(kind::PING, 0, 0, &payload.to_be_bytes(), &mut self.out);
    }

    /// Asks the peer to begin no more streams. Those that it begins before it reads this are served.
    pub fn go_away_soon(&mut self) {
        self.write_go_away(MAX, ErrorCode::NoError);
    }

    /// Ends the connection for new streams: only those that the peer has begun so far are served.
    pub fn go_away(&mut self, code: ErrorCode) {
        self.served_to = self.served_to.min(self.last);
        self.write_go_away(self.served_to, code);
    }

    fn write_go_away(&mut self, last: StreamId, code: ErrorCode) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        frame::write(kind::GOAWAY, 0, 0, &payload, &mut self.out);
    }
}
