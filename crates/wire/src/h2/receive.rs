//! Reception of single frames. Each changes the state of its stream or of the connection, and may cause an
//! event.

use super::connection::{Block, Connection, ConnectionError, InData};
use super::event::{Event, Received};
use super::frame::{self, Front, flag, kind};
use super::settings::WINDOW;
use super::streams::End;
use super::{ErrorCode, MAX, PREFACE, StreamId};
use crate::multiplexed::body::NOT_AS_STATED;
use crate::multiplexed::flood::{Flood, LATE_FOR_RESET, LONG_LIVED_NS};
use crate::multiplexed::head::Malformed;

/// Result of a frame: an event, nothing, or the end of the connection.
pub(super) type Told = Result<Option<Event>, ConnectionError>;

/// Result while the frame is incomplete.
const MORE: Received = Received { used: 0, event: None };

impl Connection {
    /// Reads a frame from the start of `bytes`, or as much as has arrived of a DATA frame. Other frames must be
    /// complete, so `bytes` has to grow to a frame header and 16 KiB before the caller stops reading. `now`:
    /// nanoseconds.
    ///
    /// # Errors
    /// If the peer has broken the rules. The connection ends once the output is written.
    pub fn receive(&mut self, bytes: &[u8], now: u64) -> Result<Received, ConnectionError> {
        self.now = now;
        if let Some(event) = self.events.pop_front() {
            return Ok(Received { used: 0, event: Some(event) });
        }
        if self.data.is_some() {
            self.lose_rest();
            return Ok(self.receive_data(bytes));
        }
        if self.is_preface_due {
            return self.receive_preface(bytes);
        }
        let Some(front) = Front::read(bytes) else { return Ok(MORE) };
        if front.len > frame::PAYLOAD {
            return Err(self.fail(ErrorCode::FrameSizeError, "a frame is larger than allowed"));
        }
        if self.is_settings_due && (front.kind != kind::SETTINGS || front.has(flag::ACK)) {
            return Err(self.fail(ErrorCode::ProtocolError, "the first frame is not SETTINGS"));
        }
        let is_due = |block: &Block| front.kind == kind::CONTINUATION && block.stream == front.stream;
        if self.block.as_ref().is_some_and(|block| !is_due(block)) {
            return Err(self.fail(ErrorCode::ProtocolError, "another frame interrupts a head"));
        }
        if front.kind == kind::DATA {
            self.work += 1;
            return self.begin_data(front, bytes);
        }
        let used = frame::LEN + front.len;
        let Some(payload) = bytes.get(frame::LEN..used) else { return Ok(MORE) };
        self.work += 1;
        let event = match front.kind {
            kind::HEADERS => self.on_headers(front, payload),
            kind::CONTINUATION => self.on_continuation(front, payload),
            kind::RST_STREAM => self.on_reset(front, payload),
            kind::SETTINGS => self.on_settings(front, payload),
            kind::PING => self.on_ping(front, payload),
            kind::GOAWAY => self.on_go_away(front, payload),
            kind::WINDOW_UPDATE => self.on_window_update(front, payload),
            kind::PRIORITY => self.on_priority(front, payload),
            kind::PUSH_PROMISE => Err(self.fail(ErrorCode::ProtocolError, "PUSH_PROMISE is not allowed")),
            _ => self.spend(Flood::Ignored, 1).map(|()| None),
        }?;
        Ok(Received { used, event: event.or_else(|| self.events.pop_front()) })
    }

    #[cold]
    fn receive_preface(&mut self, bytes: &[u8]) -> Result<Received, ConnectionError> {
        let came = bytes.len().min(PREFACE.len());
        if bytes[..came] != PREFACE[..came] {
            return Err(self.fail(ErrorCode::ProtocolError, "the connection preface of HTTP/2 is missing"));
        }
        if came < PREFACE.len() {
            return Ok(MORE);
        }
        self.is_preface_due = false;
        Ok(Received { used: came, event: None })
    }

    /// Resets a stream for an error of the peer.
    #[cold]
    pub(super) fn lose(&mut self, stream: StreamId, code: ErrorCode, why: impl Into<Malformed>) -> Told {
        let was_open = self.streams.end(stream, End::Here);
        if !was_open && self.streams.ended(stream).is_none() {
            self.streams.remember(stream, End::Here);
        }
        self.write_reset(stream, code);
        self.budgets.earn(Flood::LateFrames, LATE_FOR_RESET);
        self.spend_stream(Flood::Resets)?;
        Ok(was_open.then(|| Event::Reset { stream, code: code as u32, broken: Some(why.into()) }))
    }

    fn begin_data(&mut self, front: Front, bytes: &[u8]) -> Result<Received, ConnectionError> {
        let Front { len, stream, .. } = front;
        if stream == 0 || !self.has_begun(stream) {
            return Err(self.fail(ErrorCode::ProtocolError, "DATA for an idle stream"));
        }
        let is_padded = front.has(flag::PADDED);
        let (mut used, mut padding) = (frame::LEN, 0);
        if is_padded {
            let Some(&length) = bytes.get(frame::LEN).filter(|_| len > 0) else {
                return if len == 0 {
                    Err(self.fail(ErrorCode::FrameSizeError, "a padded frame is empty"))
                } else {
                    Ok(MORE)
                };
            };
            (used, padding) = (frame::LEN + 1, usize::from(length));
        }
        let Some(left) = len.checked_sub(padding + usize::from(is_padded)) else {
            return Err(self.fail(ErrorCode::ProtocolError, "a frame is padded beyond its length"));
        };
        if !self.window.take(len) {
            return Err(self.fail(ErrorCode::FlowControlError, "DATA exceeds the flow-control window"));
        }
        let ends = front.has(flag::END_STREAM);
        if left == 0 && !ends {
            self.spend(Flood::EmptyData, 1)?;
        }
        let event = self.admit_data(stream, len, left, ends)?;
        let is_lost = self.streams.get(stream).is_none();
        if is_lost {
            self.spend(Flood::LateFrames, 1)?;
        }
        // Padding is consumed on arrival, and so is everything for a stream that has ended.
        self.consumed(stream, if is_lost { len } else { len - left });
        self.data = Some(InData { stream, left, padding, ends, is_lost });
        if event.is_some() {
            if left + padding == 0 {
                self.data = None;
            }
            return Ok(Received { used, event });
        }
        let Received { used: more, event } = self.receive_data(&bytes[used..]);
        let event = event.map(|event| match event {
            Event::Data { stream, range, flow, ends } => {
                Event::Data { stream, range: range.start + used..range.end + used, flow, ends }
            }
            other => other,
        });
        Ok(Received { used: used + more, event })
    }

    /// Checks that a stream accepts a frame with this much data. Returns an event if that has ended the stream.
    fn admit_data(&mut self, id: StreamId, len: usize, data: usize, ends: bool) -> Told {
        let Some(stream) = self.streams.get(id) else {
            return match self.streams.ended(id) {
                Some(End::Done) => Err(self.fail(ErrorCode::StreamClosed, "DATA for a closed stream")),
                Some(End::ByPeer) => self.lose(id, ErrorCode::StreamClosed, "DATA for a closed stream"),
                // The peer may not know yet.
                Some(End::Here) | None => Ok(None),
            };
        };
        if !stream.receives {
            return self.lose(id, ErrorCode::StreamClosed, "DATA after END_STREAM");
        }
        if !stream.window.take(len) {
            return self.lose(id, ErrorCode::FlowControlError, "DATA exceeds the flow-control window");
        }
        if !stream.has_head {
            return self.lose(id, ErrorCode::ProtocolError, "DATA before the head");
        }
        if !stream.rest.take(data as u64, ends) {
            return self.lose(id, ErrorCode::ProtocolError, NOT_AS_STATED);
        }
        Ok(None)
    }

    /// Consumes the rest of a DATA frame whose stream was reset in the middle of it, as it has no reader.
    fn lose_rest(&mut self) {
        let Some(data) = &mut self.data else { return };
        let (stream, left) = (data.stream, data.left);
        if !data.is_lost && self.streams.get(stream).is_none() {
            data.is_lost = true;
            self.consumed(stream, left);
        }
    }

    /// Returns the available part of a DATA frame.
    fn receive_data(&mut self, bytes: &[u8]) -> Received {
        let Some(data) = &mut self.data else { return MORE };
        let n = data.left.min(bytes.len());
        data.left -= n;
        let padding = if data.left == 0 { data.padding.min(bytes.len() - n) } else { 0 };
        data.padding -= padding;
        let (stream, is_lost) = (data.stream, data.is_lost);
        let is_over = data.left == 0;
        // Reported once, with the last of the data.
        let ends = is_over && std::mem::take(&mut data.ends);
        if is_over && data.padding == 0 {
            self.data = None;
        }
        let used = n + padding;
        if is_lost || (n == 0 && !ends) {
            return Received { used, event: None };
        }
        if ends {
            self.received_all(stream);
        }
        Received { used, event: Some(Event::Data { stream, range: 0..n, flow: n as u32, ends }) }
    }

    pub(super) fn received_all(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id) else { return };
        stream.receives = false;
        if !stream.sends {
            self.streams.end(id, End::Done);
        }
    }

    fn on_reset(&mut self, front: Front, payload: &[u8]) -> Told {
        let Some(code) = frame::number(payload).filter(|_| payload.len() == 4) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "RST_STREAM is not four bytes long"));
        };
        let stream = front.stream;
        if stream == 0 || !self.has_begun(stream) {
            return Err(self.fail(ErrorCode::ProtocolError, "RST_STREAM for an idle stream"));
        }
        let age = self.streams.get(stream).map(|stream| self.now.saturating_sub(stream.began));
        self.streams.end_by_peer(stream);
        match age {
            None => self.spend(Flood::LateFrames, 1)?,
            Some(age) if self.is_server && age < LONG_LIVED_NS => self.spend_stream(Flood::Resets)?,
            Some(_) => {}
        }
        Ok(age.map(|_| Event::Reset { stream, code, broken: None }))
    }

    fn on_settings(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream != 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "SETTINGS on a stream other than 0"));
        }
        let is_ack = front.has(flag::ACK);
        if !payload.len().is_multiple_of(6) || (is_ack && !payload.is_empty()) {
            return Err(self.fail(ErrorCode::FrameSizeError, "the length of SETTINGS is not a multiple of six"));
        }
        if is_ack {
            if std::mem::replace(&mut self.is_acked, true) {
                // The settings of this side are sent once.
                self.spend(Flood::Settings, 1)?;
            } else {
                self.decoder.set_table_size_max(self.config.header_table);
                self.streams.shrink_windows(WINDOW.saturating_sub(self.config.stream_window));
            }
            return Ok(None);
        }
        self.spend(Flood::Settings, 1)?;
        self.is_settings_due = false;
        self.take_settings(payload)?;
        frame::write(kind::SETTINGS, flag::ACK, 0, &[], &mut self.out);
        // Windows may have opened.
        self.events.push_back(Event::Room { stream: None });
        self.events.extend(self.streams.with_room().map(|id| Event::Room { stream: Some(id) }));
        Ok(Some(Event::Settings))
    }

    fn on_ping(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream != 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "PING on a stream other than 0"));
        }
        let Ok(bytes) = <[u8; 8]>::try_from(payload) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "PING is not eight bytes long"));
        };
        self.spend(Flood::Pings, 1)?;
        if front.has(flag::ACK) {
            return Ok(Some(Event::Pong(u64::from_be_bytes(bytes))));
        }
        frame::write(kind::PING, flag::ACK, 0, payload, &mut self.out);
        Ok(None)
    }

    fn on_go_away(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream != 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "GOAWAY on a stream other than 0"));
        }
        let (Some(last), Some(code)) = (frame::number(payload), payload.get(4..).and_then(frame::number)) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "GOAWAY is shorter than eight bytes"));
        };
        // A peer announces its end twice at most; more announcements are of no use.
        self.spend(Flood::Ignored, 1)?;
        let last = last & MAX;
        self.is_ending = true;
        if !self.is_server {
            self.streams.end_above(last);
        }
        // A client names streams of this side, which begins none.
        let last = if self.is_server { MAX } else { last };
        Ok(Some(Event::GoAway { last, code }))
    }

    fn on_window_update(&mut self, front: Front, payload: &[u8]) -> Told {
        let Some(by) = frame::number(payload).filter(|_| payload.len() == 4) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "WINDOW_UPDATE is not four bytes long"));
        };
        let (by, id) = (i64::from(by & MAX), front.stream);
        self.spend(Flood::WindowUpdates, 1)?;
        if id == 0 {
            self.room += by;
            if by == 0 {
                return Err(self.fail(ErrorCode::ProtocolError, "WINDOW_UPDATE with an increment of 0"));
            }
            if self.room > i64::from(MAX) {
                return Err(self.fail(ErrorCode::FlowControlError, "WINDOW_UPDATE overflows the connection window"));
            }
            return Ok(Some(Event::Room { stream: None }));
        }
        if !self.has_begun(id) {
            return Err(self.fail(ErrorCode::ProtocolError, "WINDOW_UPDATE for an idle stream"));
        }
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        stream.room += by;
        if by == 0 {
            return self.lose(id, ErrorCode::ProtocolError, "WINDOW_UPDATE with an increment of 0");
        }
        if stream.room > i64::from(MAX) {
            return self.lose(id, ErrorCode::FlowControlError, "WINDOW_UPDATE overflows a stream window");
        }
        Ok(Some(Event::Room { stream: Some(id) }))
    }

    /// Ignores priorities (RFC 7540), which no longer mean anything, after a check of their form.
    fn on_priority(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream == 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "PRIORITY on stream 0"));
        }
        self.spend(Flood::Ignored, 1)?;
        let code = match frame::number(payload) {
            _ if payload.len() != 5 => ErrorCode::FrameSizeError,
            Some(on) if on & MAX == front.stream => ErrorCode::ProtocolError,
            _ => return Ok(None),
        };
        if self.has_begun(front.stream) {
            return self.lose(front.stream, code, "PRIORITY is malformed");
        }
        Err(self.fail(code, "PRIORITY is malformed"))
    }
}
