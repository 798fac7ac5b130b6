//! Streams of requests and responses (RFC 9114 section 4): heads, data and trailers. Data is passed on in place. A head is
//! copied only if it is cut.

use super::connection::{Connection, ConnectionError};
use super::event::{Event, Received};
use super::frame::{FrameReader, Front, Piece, is_of_http2, kind};
use super::protocol::ErrorCode;
use crate::head::Table;
use crate::multiplexed::body::{Asked, NOT_AS_STATED, Rest};
use crate::multiplexed::flood::{Flood, LATE_HEAD, LONG_LIVED_NS};
use crate::multiplexed::head::{Head, HeadReader, Malformed, Reads, Refused};

/// Position in the messages that the peer sends on a stream.
#[derive(Debug)]
pub struct MessageStream {
    frames: FrameReader,
    phase: Phase,
    within: Within,
    /// Bytes of the body that are still to come.
    rest: Rest,
    asked: Asked,
    /// Bytes of a head that was cut.
    block: Vec<u8>,
    /// Time at which the stream began, nanoseconds.
    began: u64,
}

#[derive(Debug)]
enum Phase {
    /// The final head has not arrived.
    Head,
    Body,
    /// Body of a `CONNECT`, which only data may follow.
    Tunnel,
    /// Trailers that are passed on with the end of the stream: until then the peer may take the message back.
    Trailers(Table),
    /// The message is complete, or was given up.
    Over,
}

/// Use of the current frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Data,
    Block,
    /// Head that is larger than any that is allowed. Its start is decoded for the log.
    LargeBlock,
    Ignored,
}

/// Bytes that the representation of a field may have in addition to its name and value.
const FIELD_OVERHEAD: usize = 10;

/// Result of a frame: an event, nothing, or the end of the connection.
type Told = Result<Option<Event>, ConnectionError>;

impl MessageStream {
    fn new(asked: Asked, now: u64) -> MessageStream {
        MessageStream {
            frames: FrameReader::default(),
            phase: Phase::Head,
            within: Within::Ignored,
            rest: Rest::default(),
            asked,
            block: Vec::new(),
            began: now,
        }
    }

    /// Returns the stream of a request that a client has begun. `now`: nanoseconds.
    pub fn request(now: u64) -> MessageStream {
        MessageStream::new(Asked::Usual, now)
    }

    /// Returns the stream of the response to a request with these fields. `now`: nanoseconds.
    pub fn response<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, now: u64) -> MessageStream {
        let mut asked = Asked::Usual;
        fields.for_each(|field| asked.look(field));
        MessageStream::new(asked, now)
    }

    /// True once the message is complete or was given up. Further bytes are discarded.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// True while a head or trailers have begun and are incomplete.
    pub fn is_within_head(&self) -> bool {
        matches!(self.within, Within::Block | Within::LargeBlock) && !self.is_over()
    }
}

impl Connection {
    /// Reads bytes of a message's stream. Bytes that are not used are passed again. `ends`: the peer has ended the
    /// stream after these bytes. If it ends later, that is passed on with no bytes. `now`: nanoseconds.
    ///
    /// # Errors
    /// If the peer has broken the rules in a way that ends the connection.
    pub fn receive(
        &mut self,
        stream: &mut MessageStream,
        bytes: &[u8],
        ends: bool,
        now: u64,
    ) -> Result<Received, ConnectionError> {
        self.now = now;
        let mut rest = bytes;
        while !stream.is_over() {
            let Some(piece) = stream.frames.next(&mut rest) else {
                let event = if ends { self.on_end(stream)? } else { None };
                return Ok(Received { used: bytes.len(), event });
            };
            let used = bytes.len() - rest.len();
            let event = match piece {
                Piece::Front(front) => {
                    self.work += 1;
                    self.on_front(stream, front)?
                }
                Piece::Payload { len, ends: is_whole } => {
                    let range = used - len..used;
                    let ends = ends && is_whole && rest.is_empty();
                    match stream.within {
                        Within::Data if ends => self.end_data(stream, range)?,
                        Within::Data if len > 0 => Some(Event::Data { range, ends: false }),
                        Within::Data | Within::Ignored => None,
                        Within::Block => self.on_block_part(stream, &bytes[range], is_whole, ends)?,
                        Within::LargeBlock => self.on_large_part(stream, &bytes[range])?,
                    }
                }
            };
            if event.is_some() {
                return Ok(Received { used, event });
            }
        }
        Ok(Received { used: bytes.len(), event: None })
    }

    /// Notes that the peer has reset the stream of its message before the end, or has stopped the stream of a response.
    ///
    /// # Errors
    /// If the peer is a server that does so too often.
    pub fn on_reset(&mut self, stream: &mut MessageStream, now: u64) -> Result<(), ConnectionError> {
        self.now = now;
        if matches!(std::mem::replace(&mut stream.phase, Phase::Over), Phase::Over) {
            return Ok(());
        }
        stream.block = Vec::new();
        if self.is_server && now.saturating_sub(stream.began) < LONG_LIVED_NS {
            self.spend_stream(Flood::Resets)?;
        }
        Ok(())
    }

    /// Gives up a message on this side, so that the rest of it is discarded.
    pub fn give_up(&mut self, stream: &mut MessageStream) {
        (stream.phase, stream.block) = (Phase::Over, Vec::new());
    }

    fn on_front(&mut self, stream: &mut MessageStream, front: Front) -> Told {
        let unexpected = |why| Err(ConnectionError::new(ErrorCode::FrameUnexpected, why));
        stream.within = match front.kind {
            kind::DATA => {
                match stream.phase {
                    Phase::Head => return unexpected("DATA before the head"),
                    Phase::Trailers(_) => return unexpected("DATA after the trailers"),
                    Phase::Body | Phase::Tunnel | Phase::Over => {}
                }
                if front.len == 0 {
                    self.spend(Flood::EmptyData, 1)?;
                }
                if !stream.rest.take(front.len, false) {
                    return self.lose(stream, ErrorCode::MessageError, NOT_AS_STATED);
                }
                Within::Data
            }
            kind::HEADERS => {
                match stream.phase {
                    Phase::Tunnel => return unexpected("HEADERS in a tunnel"),
                    Phase::Trailers(_) => return unexpected("HEADERS after the trailers"),
                    Phase::Head | Phase::Body | Phase::Over => {}
                }
                self.work += u64::from(LATE_HEAD);
                if front.len > self.block_max() as u64 { Within::LargeBlock } else { Within::Block }
            }
            kind::PUSH_PROMISE if !self.is_server => {
                return Err(ConnectionError::new(ErrorCode::IdError, "PUSH_PROMISE although no push is allowed"));
            }
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PUSH_PRIORITY_UPDATE => return unexpected("a frame that belongs to the control stream"),
            other if is_of_http2(other) => return unexpected("a frame of HTTP/2"),
            _ => {
                self.spend(Flood::Ignored, 1)?;
                Within::Ignored
            }
        };
        Ok(None)
    }

    /// Most bytes of a block that can be within the limits.
    fn block_max(&self) -> usize {
        let limits = self.limits();
        limits.bytes.saturating_add(limits.fields.saturating_mul(FIELD_OVERHEAD)).saturating_add(FIELD_OVERHEAD)
    }

    fn on_block_part(&mut self, stream: &mut MessageStream, part: &[u8], is_whole: bool, ends: bool) -> Told {
        if !is_whole || !stream.block.is_empty() {
            stream.block.extend_from_slice(part);
        }
        if !is_whole {
            return Ok(None);
        }
        stream.within = Within::Ignored;
        if stream.block.is_empty() {
            return self.on_block(stream, part, ends);
        }
        let block = std::mem::take(&mut stream.block);
        self.on_block(stream, &block, ends)
    }

    #[cold]
    fn on_large_part(&mut self, stream: &mut MessageStream, part: &[u8]) -> Told {
        let missing = self.block_max() - stream.block.len();
        stream.block.extend_from_slice(&part[..missing.min(part.len())]);
        if part.len() < missing {
            return Ok(None);
        }
        let block = std::mem::take(&mut stream.block);
        let mut reader = HeadReader::new(self.reads(stream));
        // The block is cut, so an error at its end means nothing.
        let over = self.decoder.decode(&block, self.limits(), &mut |name, value| reader.take(name, value));
        let over = over.ok().and_then(|decoded| decoded.over).unwrap_or(super::Over::Bytes);
        self.refuse_large(stream, reader.refused(over.into()))
    }

    fn reads(&self, stream: &MessageStream) -> Reads {
        match stream.phase {
            Phase::Head if self.is_server => Reads::Request,
            Phase::Head => Reads::Response,
            _ => Reads::Trailers,
        }
    }

    /// Handles a complete field block.
    fn on_block(&mut self, stream: &mut MessageStream, block: &[u8], ends: bool) -> Told {
        let reads = self.reads(stream);
        let mut reader = HeadReader::new(reads);
        let decoded = self.decoder.decode(block, self.limits(), &mut |name, value| reader.take(name, value));
        let Ok(decoded) = decoded else {
            return Err(ConnectionError::new(ErrorCode::QpackDecompressionFailed, "a head cannot be decoded"));
        };
        if let Some(over) = decoded.over {
            return self.refuse_large(stream, reader.refused(over.into()));
        }
        let head = match reader.end(ends, self.config.connect) {
            Ok(head) => head,
            Err(refused) if reads == Reads::Request => return self.refuse(stream, refused),
            Err(refused) => return self.lose(stream, ErrorCode::MessageError, refused.why),
        };
        match reads {
            Reads::Request => self.on_request(stream, head),
            Reads::Response => self.on_response(stream, head),
            Reads::Trailers => self.on_trailers(stream, head.fields, ends),
        }
    }

    fn on_request(&mut self, stream: &mut MessageStream, head: Head) -> Told {
        let why = if head.authority.is_empty() {
            // Both known schemes need an authority (section 4.3.1).
            Some(":authority and Host are missing")
        } else {
            stream.rest = Rest::of_request(&head);
            (head.ends && !stream.rest.may_end()).then_some(NOT_AS_STATED)
        };
        if let Some(why) = why {
            return self.refuse(stream, Box::new(Refused { head, why: why.into(), status: None }));
        }
        stream.phase = match &*head.method {
            _ if head.ends => Phase::Over,
            "CONNECT" => Phase::Tunnel,
            _ => Phase::Body,
        };
        Ok(Some(Event::Head(head)))
    }

    fn on_response(&mut self, stream: &mut MessageStream, head: Head) -> Told {
        if head.status >= 200 {
            stream.rest = Rest::of_response(stream.asked, &head);
            if head.ends && !stream.rest.may_end() {
                return self.lose(stream, ErrorCode::MessageError, NOT_AS_STATED);
            }
            stream.phase = match stream.asked {
                _ if head.ends => Phase::Over,
                Asked::Connect if head.status < 300 => Phase::Tunnel,
                _ => Phase::Body,
            };
        }
        Ok(Some(Event::Head(head)))
    }

    fn on_trailers(&mut self, stream: &mut MessageStream, table: Table, ends: bool) -> Told {
        if !stream.rest.may_end() {
            return self.lose(stream, ErrorCode::MessageError, NOT_AS_STATED);
        }
        stream.phase = Phase::Trailers(table);
        if ends { self.on_end(stream) } else { Ok(None) }
    }

    fn end_data(&mut self, stream: &mut MessageStream, range: std::ops::Range<usize>) -> Told {
        if !stream.rest.may_end() {
            return self.lose(stream, ErrorCode::MessageError, NOT_AS_STATED);
        }
        stream.phase = Phase::Over;
        Ok(Some(Event::Data { range, ends: true }))
    }

    /// Handles the end of a stream behind its last frame.
    fn on_end(&mut self, stream: &mut MessageStream) -> Told {
        if !stream.frames.is_between() {
            return Err(ConnectionError::new(ErrorCode::FrameError, "a stream ends inside a frame"));
        }
        match std::mem::replace(&mut stream.phase, Phase::Over) {
            Phase::Head if self.is_server => {
                self.lose(stream, ErrorCode::RequestIncomplete, "a stream ends without a request")
            }
            Phase::Head => self.lose(stream, ErrorCode::MessageError, "a stream ends without a final response"),
            Phase::Body | Phase::Tunnel => self.end_data(stream, 0..0),
            Phase::Trailers(table) => Ok(Some(Event::Trailers(table))),
            Phase::Over => Ok(None),
        }
    }

    /// Gives up a message for an error of the peer.
    #[cold]
    fn lose(&mut self, stream: &mut MessageStream, code: ErrorCode, why: impl Into<Malformed>) -> Told {
        self.give_up(stream);
        self.spend_stream(Flood::Resets)?;
        Ok(Some(Event::Reset { code, broken: why.into() }))
    }

    /// Refuses a malformed request by a reset of its stream, as RFC 9114 section 4.1.2 requires.
    #[cold]
    fn refuse(&mut self, stream: &mut MessageStream, refused: Box<Refused>) -> Told {
        self.lose(stream, ErrorCode::MessageError, "")?;
        Ok(Some(Event::Refused(refused)))
    }

    /// Refuses a head over the limit. The client of a request gets a 431 response.
    #[cold]
    fn refuse_large(&mut self, stream: &mut MessageStream, mut refused: Box<Refused>) -> Told {
        let reads = self.reads(stream);
        self.spend_stream(Flood::LargeHeads)?;
        if reads != Reads::Request {
            return self.lose(stream, ErrorCode::ExcessiveLoad, refused.why);
        }
        self.give_up(stream);
        refused.status = Some(431);
        Ok(Some(Event::Refused(refused)))
    }
}
