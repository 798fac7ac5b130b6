//! Field blocks received, in a frame or several: heads and trailers. Each begins a stream, belongs to a stream, or is
//! decoded and discarded.

use super::connection::{Block, Connection, ConnectionError};
use super::event::Event;
use super::frame::{self, Front, flag};
use super::hpack::{self, Decoded, HeaderLimits};
use super::receive::Told;
use super::streams::End;
use super::{ErrorCode, MAX, StreamId};
use crate::head::Table;
use crate::multiplexed::body::{NOT_AS_STATED, Rest};
use crate::multiplexed::flood::{Flood, LATE_FOR_RESET, LATE_HEAD};
use crate::multiplexed::head::{Head, HeadReader, Reads, Refused};

impl Connection {
    pub(super) fn on_headers(&mut self, front: Front, payload: &[u8]) -> Told {
        if front.stream == 0 {
            return Err(self.fail(ErrorCode::ProtocolError, "HEADERS on stream 0"));
        }
        let mut block = payload;
        if front.has(flag::PADDED) {
            let Some((&padding, rest)) = block.split_first() else {
                return Err(self.fail(ErrorCode::FrameSizeError, "a padded frame is empty"));
            };
            let Some(end) = rest.len().checked_sub(usize::from(padding)) else {
                return Err(self.fail(ErrorCode::ProtocolError, "a frame is padded beyond its length"));
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

    pub(super) fn on_continuation(&mut self, front: Front, payload: &[u8]) -> Told {
        let Some(mut block) = self.block.take() else {
            return Err(self.fail(ErrorCode::ProtocolError, "CONTINUATION without a head before it"));
        };
        self.spend(Flood::Continuations, 1)?;
        block.bytes.extend_from_slice(payload);
        // A block of that size is over the limit whatever its fields are. After it the compression state is of no more
        // use.
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
        let error = self.fail(ErrorCode::EnhanceYourCalm, "a head is far over the size limit");
        ConnectionError { flood: Some(Flood::LargeHeads), ..error }
    }

    /// Handles a complete field block.
    fn on_block(&mut self, block: &Block, bytes: &[u8]) -> Told {
        let Block { stream: id, ends, depends_on_itself, .. } = *block;
        self.work += u64::from(LATE_HEAD);
        let state = self.streams.get(id).map(|stream| (stream.receives, stream.has_head));
        let (reads, is_new) = match state {
            Some((_, true)) => (Reads::Trailers, false),
            Some((_, false)) => (Reads::Response, false),
            None => (Reads::Request, true),
        };
        let limits = HeaderLimits { bytes: self.config.max_header_list, fields: self.config.max_fields };
        if is_new && self.is_late(id) {
            // Decoded even so, as both sides' tables have to stay in step. The cost shortens the current turn.
            self.work += 4 * u64::from(LATE_HEAD);
            let decoded = self.decoder.decode(bytes, limits, &mut |_, _| {});
            self.check_decoded(decoded)?;
            self.last = self.last.max(id);
            self.spend(Flood::LateFrames, LATE_HEAD)?;
            return Ok(None);
        }
        let mut reader = HeadReader::new(reads);
        let decoded = self.decoder.decode(bytes, limits, &mut |name, value| reader.take(name, value));
        let decoded = self.check_decoded(decoded)?;
        if is_new && !self.admit_stream(id)? {
            return Ok(None);
        }
        if depends_on_itself {
            return self.lose(id, ErrorCode::ProtocolError, "a stream depends on itself");
        }
        if let Some((false, _)) = state {
            return self.lose(id, ErrorCode::StreamClosed, "a head follows the end of its message");
        }
        if let Some(over) = decoded.over {
            return self.refuse_large(id, is_new && self.is_server, ends, reader.refused(over.into()));
        }
        let head = match reader.end(ends, self.config.connect) {
            Ok(head) => head,
            Err(refused) if reads == Reads::Request => return self.refuse(id, refused),
            Err(refused) => return self.lose(id, ErrorCode::ProtocolError, refused.why),
        };
        match reads {
            Reads::Request => self.begin_request(id, head),
            Reads::Response => self.on_response(id, head),
            Reads::Trailers => self.on_trailers(id, head.fields, ends),
        }
    }

    /// Returns the decoded block, or the error that ends the connection.
    fn check_decoded(&mut self, decoded: Result<Decoded, hpack::Error>) -> Result<Decoded, ConnectionError> {
        match decoded {
            Ok(decoded) => Ok(decoded),
            Err(hpack::Error::TooLarge) => Err(self.head_far_too_large()),
            Err(_) => Err(self.fail(ErrorCode::CompressionError, "a head cannot be decoded")),
        }
    }

    /// True if the peer may not know yet that a head for this stream, which is not open, is discarded.
    fn is_late(&self, id: StreamId) -> bool {
        if self.is_server {
            if id > self.served_to || id > self.last {
                return id > self.served_to && !id.is_multiple_of(2);
            }
            return match self.streams.ended(id) {
                Some(end) => end == End::Here,
                None => self.streams.has_forgotten(),
            };
        }
        match self.streams.ended(id) {
            Some(end) => end != End::Done,
            None => self.has_begun(id),
        }
    }

    /// Returns true if a stream that is not open may begin.
    fn admit_stream(&mut self, id: StreamId) -> Result<bool, ConnectionError> {
        if !self.is_server {
            let why = match self.streams.ended(id) {
                Some(_) => return Err(self.fail(ErrorCode::StreamClosed, "a head for a closed stream")),
                None => "a head for an idle stream",
            };
            return Err(self.fail(ErrorCode::ProtocolError, why));
        }
        if id.is_multiple_of(2) {
            return Err(self.fail(ErrorCode::ProtocolError, "a client's stream id is even"));
        }
        if id <= self.last {
            const ENDED: &str = "a head for a closed stream";
            return match self.streams.ended(id) {
                Some(End::Done) => Err(self.fail(ErrorCode::StreamClosed, ENDED)),
                Some(_) => self.lose(id, ErrorCode::StreamClosed, ENDED).map(|_| false),
                None => Err(self.fail(ErrorCode::ProtocolError, "a stream id is lower than an earlier one")),
            };
        }
        self.last = id;
        if self.streams.len() >= self.config.max_streams as usize {
            // The rest of the request is on its way. A client may begin many streams before it knows the limit.
            self.streams.remember(id, End::Here);
            self.write_reset(id, ErrorCode::RefusedStream);
            self.budgets.earn(Flood::LateFrames, LATE_FOR_RESET);
            self.spend_stream(Flood::Resets)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Refuses a malformed request by a reset of its stream, as RFC 9113 section 8.1.1 requires.
    #[cold]
    fn refuse(&mut self, id: StreamId, refused: Box<Refused>) -> Told {
        self.lose(id, ErrorCode::ProtocolError, "")?;
        Ok(Some(Event::Refused(refused)))
    }

    fn begin_request(&mut self, id: StreamId, head: Head) -> Told {
        let rest = Rest::of_request(&head);
        if head.ends && !rest.may_end() {
            return self.refuse(id, Box::new(Refused { head, why: NOT_AS_STATED.into(), status: None }));
        }
        let mut stream = self.new_stream(id);
        stream.receives = !head.ends;
        stream.rest = rest;
        self.streams.add(stream);
        Ok(Some(Event::Head { stream: id, head }))
    }

    fn on_response(&mut self, id: StreamId, head: Head) -> Told {
        if let Some(stream) = self.streams.get(id)
            && head.status >= 200
        {
            stream.has_head = true;
            stream.rest = Rest::of_response(stream.asked, &head);
            if head.ends && !stream.rest.may_end() {
                return self.lose(id, ErrorCode::ProtocolError, NOT_AS_STATED);
            }
        }
        if head.ends {
            self.received_all(id);
        }
        Ok(Some(Event::Head { stream: id, head }))
    }

    fn on_trailers(&mut self, id: StreamId, table: Table, ends: bool) -> Told {
        if !ends {
            return self.lose(id, ErrorCode::ProtocolError, "HEADERS without END_STREAM in the middle of a body");
        }
        if self.streams.get(id).is_some_and(|stream| !stream.rest.may_end()) {
            return self.lose(id, ErrorCode::ProtocolError, NOT_AS_STATED);
        }
        self.received_all(id);
        Ok(Some(Event::Trailers { stream: id, table }))
    }

    /// Refuses a head over the limit. The client of a new request gets a 431 response.
    #[cold]
    fn refuse_large(&mut self, id: StreamId, is_request: bool, ends: bool, mut refused: Box<Refused>) -> Told {
        self.spend_stream(Flood::LargeHeads)?;
        if !is_request {
            return self.lose(id, ErrorCode::ProtocolError, refused.why);
        }
        let mut stream = self.new_stream(id);
        stream.receives = !ends;
        self.streams.add(stream);
        self.send_head(id, [(&b":status"[..], &b"431"[..]), (b"content-length", b"0")].into_iter(), true);
        self.reset(id, ErrorCode::NoError);
        refused.status = Some(431);
        Ok(Some(Event::Refused(refused)))
    }
}
