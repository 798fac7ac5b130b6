//! What has come? One frame at a time: it changes the state of its stream or of the connection, and may be something to tell.

use super::connection::{Block, Connection, ConnectionError, InData};
use super::event::{Event, Received};
use super::flood::Flood;
use super::frame::{self, Front, flag, kind};
use super::head::{Head, HeadReader, Reads};
use super::hpack::{self, HeaderLimits};
use super::settings::WINDOW;
use super::streams::{Asked, End};
use super::{ErrorCode, MAX, PREFACE, StreamId};
use crate::head::Table;

type Told = Result<Option<Event>, ConnectionError>;

/// Nothing yet.
const MORE: Received = Received { used: 0, event: None };

impl Connection {
    /// Takes a frame from the front of `bytes`, which hold at least one of 16 KiB and its front when the caller waits no more for
    /// others; of one with data, as much as is there. `now`: nanoseconds.
    ///
    /// # Errors
    /// The peer has broken the rules: the connection ends when the output is written.
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
            return Err(self.fail(ErrorCode::ProtocolError, "a head is not whole, and something else follows"));
        }
        if front.kind == kind::DATA {
            return self.begin_data(front, bytes);
        }
        let used = frame::LEN + front.len;
        let Some(payload) = bytes.get(frame::LEN..used) else { return Ok(MORE) };
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
            _ => self.spend(Flood::Ignored).map(|()| None),
        }?;
        Ok(Received { used, event: event.or_else(|| self.events.pop_front()) })
    }

    #[cold]
    fn receive_preface(&mut self, bytes: &[u8]) -> Result<Received, ConnectionError> {
        let came = bytes.len().min(PREFACE.len());
        if bytes[..came] != PREFACE[..came] {
            return Err(self.fail(ErrorCode::ProtocolError, "the connection does not begin as one of HTTP/2"));
        }
        if came < PREFACE.len() {
            return Ok(MORE);
        }
        self.is_preface_due = false;
        Ok(Received { used: came, event: None })
    }

    /// A stream has ended by an error of the peer, who is told.
    #[cold]
    fn lose(&mut self, stream: StreamId, code: ErrorCode) -> Told {
        let was_open = self.streams.end(stream, End::Here);
        self.write_reset(stream, code);
        self.spend(Flood::Resets)?;
        Ok(was_open.then_some(Event::Reset { stream, code: code as u32, by_peer: false }))
    }

    fn begin_data(&mut self, front: Front, bytes: &[u8]) -> Result<Received, ConnectionError> {
        let Front { len, stream, .. } = front;
        if stream == 0 || !self.has_begun(stream) {
            return Err(self.fail(ErrorCode::ProtocolError, "data comes for a stream that has not begun"));
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
            return Err(self.fail(ErrorCode::ProtocolError, "there is more padding than its frame has"));
        };
        if !self.window.take(len) {
            return Err(self.fail(ErrorCode::FlowControlError, "more data comes than the window allows"));
        }
        let ends = front.has(flag::END_STREAM);
        if left == 0 && !ends {
            self.spend(Flood::EmptyData)?;
        }
        let event = self.admit_data(stream, len, left, ends)?;
        let is_lost = self.streams.get(stream).is_none();
        // What is not data was taken when it came; so is what comes for a stream that has ended.
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

    /// Whether a stream takes a frame with so much data; an event if that has ended it.
    fn admit_data(&mut self, id: StreamId, len: usize, data: usize, ends: bool) -> Told {
        let Some(stream) = self.streams.get(id) else {
            return match self.streams.ended(id) {
                Some(End::Done) => Err(self.fail(ErrorCode::StreamClosed, "data comes for a stream that has ended")),
                Some(End::ByPeer) => self.lose(id, ErrorCode::StreamClosed),
                // The peer may not know yet.
                Some(End::Here) | None => Ok(None),
            };
        };
        if !stream.receives {
            return self.lose(id, ErrorCode::StreamClosed);
        }
        if !stream.window.take(len) {
            return self.lose(id, ErrorCode::FlowControlError);
        }
        if !stream.has_head {
            return self.lose(id, ErrorCode::ProtocolError);
        }
        if let Some(left) = &mut stream.left {
            match left.checked_sub(data as u64) {
                Some(less) if less == 0 || !ends => *left = less,
                // More or less than was stated.
                _ => return self.lose(id, ErrorCode::ProtocolError),
            }
        }
        Ok(None)
    }

    /// The rest of a frame whose stream was reset within it has no reader, and is taken here.
    fn lose_rest(&mut self) {
        let Some(data) = &mut self.data else { return };
        let (stream, left) = (data.stream, data.left);
        if !data.is_lost && self.streams.get(stream).is_none() {
            data.is_lost = true;
            self.consumed(stream, left);
        }
    }

    /// Takes what is there of a frame with data.
    fn receive_data(&mut self, bytes: &[u8]) -> Received {
        let Some(data) = &mut self.data else { return MORE };
        let n = data.left.min(bytes.len());
        data.left -= n;
        let padding = if data.left == 0 { data.padding.min(bytes.len() - n) } else { 0 };
        data.padding -= padding;
        let (stream, is_lost) = (data.stream, data.is_lost);
        let is_over = data.left == 0;
        // Told once, with the last of the data.
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

    fn received_all(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id) else { return };
        stream.receives = false;
        if !stream.sends {
            self.streams.end(id, End::Done);
        }
    }

    fn on_headers(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream == 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "a head comes for no stream"));
        }
        let mut block = payload;
        if front.has(flag::PADDED) {
            let Some((&padding, rest)) = block.split_first() else {
                return Err(self.fail(ErrorCode::FrameSizeError, "a padded frame is empty"));
            };
            let Some(end) = rest.len().checked_sub(usize::from(padding)) else {
                return Err(self.fail(ErrorCode::ProtocolError, "there is more padding than its frame has"));
            };
            block = &rest[..end];
        }
        let mut depends_on_itself = false;
        if front.has(flag::PRIORITY) {
            let Some((priority, rest)) = block.split_at_checked(5) else {
                return Err(self.fail(ErrorCode::FrameSizeError, "a frame with a priority is too short"));
            };
            depends_on_itself = frame::number(priority).is_some_and(|on| on & MAX == front.stream);
            block = rest;
        }
        let ends = front.has(flag::END_STREAM);
        let begun = Block { stream: front.stream, ends, depends_on_itself, bytes: Vec::new() };
        if front.has(flag::END_HEADERS) {
            return self.on_block(&begun, block);
        }
        self.block = Some(Block { bytes: block.to_vec(), ..begun });
        Ok(None)
    }

    fn on_continuation(&mut self, front: Front, payload: &[u8]) -> Told {
        let Some(mut block) = self.block.take() else {
            return Err(self.fail(ErrorCode::ProtocolError, "a head goes on that has not begun"));
        };
        self.spend(Flood::Continuations)?;
        block.bytes.extend_from_slice(payload);
        // Whatever its fields are: a block of that size is over the limit, and the tables of both sides are of no more use.
        if block.bytes.len() > self.config.max_header_list.max(frame::PAYLOAD) * 2 {
            return Err(self.head_far_too_large());
        }
        if front.has(flag::END_HEADERS) {
            let bytes = std::mem::take(&mut block.bytes);
            return self.on_block(&block, &bytes);
        }
        self.block = Some(block);
        Ok(None)
    }

    #[cold]
    fn head_far_too_large(&mut self) -> ConnectionError {
        let error = self.fail(ErrorCode::EnhanceYourCalm, "a head is far larger than allowed");
        ConnectionError { flood: Some(Flood::LargeHeads), ..error }
    }

    /// A whole block of fields has come.
    fn on_block(&mut self, block: &Block, bytes: &[u8]) -> Told {
        let Block { stream: id, ends, depends_on_itself, .. } = *block;
        let state = self.streams.get(id).map(|stream| (stream.receives, stream.has_head));
        let (reads, is_new) = match state {
            Some((_, true)) => (Reads::Trailers, false),
            Some((_, false)) => (Reads::Response, false),
            None => (Reads::Request, true),
        };
        let mut reader = HeadReader::new(reads);
        let limits = HeaderLimits { bytes: self.config.max_header_list, fields: self.config.max_fields };
        let decoded = self.decoder.decode(bytes, limits, &mut |name, value| reader.take(name, value));
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(hpack::Error::TooLarge) => return Err(self.head_far_too_large()),
            Err(_) => return Err(self.fail(ErrorCode::CompressionError, "a head cannot be decoded")),
        };
        if is_new && !self.admit_stream(id)? {
            return Ok(None);
        }
        if depends_on_itself {
            return self.lose(id, ErrorCode::ProtocolError);
        }
        if let Some((false, _)) = state {
            return self.lose(id, ErrorCode::StreamClosed);
        }
        if decoded.over_limit {
            return self.refuse_large(id, is_new, ends);
        }
        let Ok(head) = reader.end(ends, self.config.connect) else { return self.lose(id, ErrorCode::ProtocolError) };
        match reads {
            Reads::Request => self.begin_request(id, head),
            Reads::Response => self.on_response(id, head),
            Reads::Trailers => self.on_trailers(id, head.fields, ends),
        }
    }

    /// Whether a stream may begin that is not open.
    fn admit_stream(&mut self, id: StreamId) -> Result<bool, ConnectionError> {
        if !self.is_server {
            return match self.streams.ended(id) {
                Some(End::Here | End::ByPeer) => Ok(false),
                Some(End::Done) => Err(self.fail(ErrorCode::StreamClosed, "a head comes for a stream that has ended")),
                None if self.has_begun(id) => Ok(false),
                None => Err(self.fail(ErrorCode::ProtocolError, "a head comes for a stream that has not begun")),
            };
        }
        if id.is_multiple_of(2) {
            return Err(self.fail(ErrorCode::ProtocolError, "the number of a client's stream is even"));
        }
        if id <= self.last {
            return match self.streams.ended(id) {
                Some(End::Done) => Err(self.fail(ErrorCode::StreamClosed, "a head comes for a stream that has ended")),
                Some(End::ByPeer) => self.lose(id, ErrorCode::StreamClosed).map(|_| false),
                Some(End::Here) => Ok(false),
                None => Err(self.fail(ErrorCode::ProtocolError, "the number of a stream is lower than one before")),
            };
        }
        if id > self.served_to {
            // It was told that none of these is served, and may not know yet.
            self.last = id;
            self.streams.remember(id, End::Here);
            return Ok(false);
        }
        self.last = id;
        if self.streams.len() >= self.config.max_streams as usize {
            // What follows the head is on its way.
            self.streams.remember(id, End::Here);
            self.write_reset(id, ErrorCode::RefusedStream);
            self.spend(Flood::Resets)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn begin_request(&mut self, id: StreamId, head: Head) -> Told {
        if head.ends && head.content_length.is_some_and(|length| length > 0) {
            return self.lose(id, ErrorCode::ProtocolError);
        }
        let mut stream = self.new_stream(id);
        stream.receives = !head.ends;
        stream.left = head.content_length;
        self.streams.add(stream);
        Ok(Some(Event::Head { stream: id, head }))
    }

    fn on_response(&mut self, id: StreamId, head: Head) -> Told {
        if let Some(stream) = self.streams.get(id)
            && head.status >= 200
        {
            stream.has_head = true;
            stream.left = match (stream.asked, head.status) {
                (Asked::Head, _) | (_, 204 | 304) => Some(0),
                (Asked::Connect, 200..300) => None,
                _ => head.content_length,
            };
            if head.ends && stream.left.is_some_and(|left| left > 0) {
                return self.lose(id, ErrorCode::ProtocolError);
            }
        }
        if head.ends {
            self.received_all(id);
        }
        Ok(Some(Event::Head { stream: id, head }))
    }

    fn on_trailers(&mut self, id: StreamId, table: Table, ends: bool) -> Told {
        let is_short = self.streams.get(id).is_some_and(|stream| stream.left.is_some_and(|left| left > 0));
        if !ends || is_short {
            return self.lose(id, ErrorCode::ProtocolError);
        }
        self.received_all(id);
        Ok(Some(Event::Trailers { stream: id, table }))
    }

    /// A head is over the limit: a client is told so, in its own terms.
    #[cold]
    fn refuse_large(&mut self, id: StreamId, is_new: bool, ends: bool) -> Told {
        self.spend(Flood::LargeHeads)?;
        if !is_new || !self.is_server {
            return self.lose(id, ErrorCode::ProtocolError);
        }
        let mut stream = self.new_stream(id);
        stream.receives = !ends;
        self.streams.add(stream);
        self.send_head(id, [(&b":status"[..], &b"431"[..]), (b"content-length", b"0")].into_iter(), true);
        self.reset(id, ErrorCode::NoError);
        Ok(None)
    }

    fn on_reset(&mut self, front: Front, payload: &[u8]) -> Told {
        let Some(code) = frame::number(payload).filter(|_| payload.len() == 4) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "RST_STREAM has not four bytes"));
        };
        let stream = front.stream;
        if stream == 0 || !self.has_begun(stream) {
            return Err(self.fail(ErrorCode::ProtocolError, "a stream is reset that has not begun"));
        }
        let was_open = self.streams.end_by_peer(stream);
        if self.is_server {
            self.spend(Flood::Resets)?;
        }
        Ok(was_open.then_some(Event::Reset { stream, code, by_peer: true }))
    }

    fn on_settings(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream != 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "SETTINGS come for a stream"));
        }
        let is_ack = front.has(flag::ACK);
        if !payload.len().is_multiple_of(6) || (is_ack && !payload.is_empty()) {
            return Err(self.fail(ErrorCode::FrameSizeError, "SETTINGS are cut short"));
        }
        if is_ack {
            if std::mem::replace(&mut self.is_acked, true) {
                // The settings of this side are sent once.
                self.spend(Flood::Settings)?;
            } else {
                self.decoder.set_table_size_max(self.config.header_table);
                self.streams.shrink_windows(WINDOW.saturating_sub(self.config.stream_window));
            }
            return Ok(None);
        }
        self.spend(Flood::Settings)?;
        self.is_settings_due = false;
        self.take_settings(payload)?;
        frame::write(kind::SETTINGS, flag::ACK, 0, &[], &mut self.out);
        // Windows may have opened.
        self.events.push_back(Event::Room { stream: None });
        Ok(Some(Event::Settings))
    }

    fn on_ping(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream != 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "PING comes for a stream"));
        }
        let Ok(bytes) = <[u8; 8]>::try_from(payload) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "PING has not eight bytes"));
        };
        self.spend(Flood::Pings)?;
        if front.has(flag::ACK) {
            return Ok(Some(Event::Pong(u64::from_be_bytes(bytes))));
        }
        frame::write(kind::PING, flag::ACK, 0, payload, &mut self.out);
        Ok(None)
    }

    fn on_go_away(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream != 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "GOAWAY comes for a stream"));
        }
        let (Some(last), Some(code)) = (frame::number(payload), payload.get(4..).and_then(frame::number)) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "GOAWAY is cut short"));
        };
        // One that goes says so twice; more often is of no use.
        self.spend(Flood::Ignored)?;
        let last = last & MAX;
        self.is_ending = true;
        if !self.is_server {
            self.streams.end_above(last);
        }
        // A client speaks of streams of this side, which begins none.
        let last = if self.is_server { MAX } else { last };
        Ok(Some(Event::GoAway { last, code }))
    }

    fn on_window_update(&mut self, front: Front, payload: &[u8]) -> Told {
        let Some(by) = frame::number(payload).filter(|_| payload.len() == 4) else {
            return Err(self.fail(ErrorCode::FrameSizeError, "WINDOW_UPDATE has not four bytes"));
        };
        let (by, id) = (i64::from(by & MAX), front.stream);
        self.spend(Flood::WindowUpdates)?;
        if id == 0 {
            self.room += by;
            if by == 0 {
                return Err(self.fail(ErrorCode::ProtocolError, "a window opens by nothing"));
            }
            if self.room > i64::from(MAX) {
                return Err(self.fail(ErrorCode::FlowControlError, "the window of the connection opens too far"));
            }
            return Ok(Some(Event::Room { stream: None }));
        }
        if !self.has_begun(id) {
            return Err(self.fail(ErrorCode::ProtocolError, "a window opens of a stream that has not begun"));
        }
        let Some(stream) = self.streams.get(id) else { return Ok(None) };
        stream.room += by;
        if by == 0 {
            return self.lose(id, ErrorCode::ProtocolError);
        }
        if stream.room > i64::from(MAX) {
            return self.lose(id, ErrorCode::FlowControlError);
        }
        Ok(Some(Event::Room { stream: Some(id) }))
    }

    /// Priorities of RFC 7540 mean nothing any more, but for their form.
    fn on_priority(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream == 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "PRIORITY comes for no stream"));
        }
        self.spend(Flood::Ignored)?;
        let code = match frame::number(payload) {
            _ if payload.len() != 5 => ErrorCode::FrameSizeError,
            Some(on) if on & MAX == front.stream => ErrorCode::ProtocolError,
            _ => return Ok(None),
        };
        if self.has_begun(front.stream) {
            return self.lose(front.stream, code);
        }
        Err(self.fail(code, "PRIORITY is malformed"))
    }
}
