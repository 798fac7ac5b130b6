//! The control stream of the peer (RFC 9114 section 6.2.1): SETTINGS, and then frames that concern the connection.

use super::connection::{Connection, ConnectionError};
use super::event::Event;
use super::frame::{FrameReader, Front, Piece, is_of_http2, kind};
use super::protocol::{ErrorCode, is_request};
use super::{settings, varint};
use crate::multiplexed::flood::Flood;
use crate::priority::Priority;

/// Position in a control stream.
#[derive(Debug, Default)]
pub struct ControlStream {
    frames: FrameReader,
    /// Type of the current frame; `None` if its payload is discarded.
    kind: Option<u64>,
    /// Payload of a frame that was cut.
    payload: Vec<u8>,
}

/// Largest SETTINGS payload. Peers send about 30 bytes.
const SETTINGS_MAX: u64 = 1024;

/// Largest payload of a frame with nothing but an identifier.
const ID_MAX: u64 = 8;

/// Largest payload of a PRIORITY_UPDATE frame that is read. Browsers send about 10 bytes.
const PRIORITY_MAX: u64 = 256;

impl Connection {
    /// Consumes bytes up to the first event.
    pub(super) fn receive_control(
        &mut self,
        stream: &mut ControlStream,
        rest: &mut &[u8],
    ) -> Result<Option<Event>, ConnectionError> {
        loop {
            let bytes = *rest;
            match stream.frames.next(rest) {
                None => return Ok(None),
                Some(Piece::Front(front)) => {
                    self.work += 1;
                    stream.kind = self.on_control_front(front)?;
                }
                Some(Piece::Payload { len, ends }) => {
                    let Some(kind) = stream.kind else { continue };
                    let part = &bytes[..len];
                    if !ends || !stream.payload.is_empty() {
                        stream.payload.extend_from_slice(part);
                    }
                    if !ends {
                        continue;
                    }
                    let whole = std::mem::take(&mut stream.payload);
                    let payload = if whole.is_empty() { part } else { &whole };
                    if let Some(event) = self.on_control_frame(kind, payload)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Checks that a frame is allowed. Returns its type, or `None` if its payload is discarded.
    fn on_control_front(&mut self, front: Front) -> Result<Option<u64>, ConnectionError> {
        let Front { kind, len } = front;
        if self.peer.is_none() && kind != kind::SETTINGS {
            return Err(ConnectionError::new(ErrorCode::MissingSettings, "the first control frame is not SETTINGS"));
        }
        let is_unexpected = match kind {
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => true,
            kind::SETTINGS => self.peer.is_some(),
            kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE | kind::PUSH_PRIORITY_UPDATE => !self.is_server,
            other => is_of_http2(other),
        };
        if is_unexpected {
            return Err(ConnectionError::new(ErrorCode::FrameUnexpected, "a frame is not allowed on a control stream"));
        }
        match kind {
            kind::SETTINGS if len > SETTINGS_MAX => {
                return Err(ConnectionError::new(ErrorCode::ExcessiveLoad, "SETTINGS is too large"));
            }
            kind::SETTINGS => return Ok(Some(kind)),
            kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH if len > ID_MAX => {
                return Err(ConnectionError::new(ErrorCode::FrameError, NOT_AN_ID));
            }
            _ => {}
        }
        self.spend(Flood::Ignored, 1)?;
        let is_read = match kind {
            kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH => true,
            kind::PRIORITY_UPDATE | kind::PUSH_PRIORITY_UPDATE => len <= PRIORITY_MAX,
            _ => false,
        };
        Ok(is_read.then_some(kind))
    }

    fn on_control_frame(&mut self, kind: u64, mut payload: &[u8]) -> Result<Option<Event>, ConnectionError> {
        if kind == kind::SETTINGS {
            self.peer = Some(settings::read(payload)?);
            return Ok(Some(Event::Settings));
        }
        let Some(id) = varint::read(&mut payload) else {
            return Err(ConnectionError::new(ErrorCode::FrameError, NOT_AN_ID));
        };
        let invalid = |why| Err(ConnectionError::new(ErrorCode::IdError, why));
        if kind == kind::PRIORITY_UPDATE {
            if !is_request(id) {
                return invalid("PRIORITY_UPDATE for a stream that is not a request");
            }
            return Ok(Some(Event::Priority { stream: id, priority: Priority::read(payload) }));
        }
        if kind == kind::PUSH_PRIORITY_UPDATE {
            return invalid("PRIORITY_UPDATE for a push that was not promised");
        }
        if !payload.is_empty() {
            return Err(ConnectionError::new(ErrorCode::FrameError, NOT_AN_ID));
        }
        match kind {
            kind::GOAWAY => {
                if !self.is_server && !is_request(id) {
                    return invalid("GOAWAY for a stream that is not a request");
                }
                if self.peer_goes_at.is_some_and(|before| id > before) {
                    return invalid("GOAWAY for more than before");
                }
                self.peer_goes_at = Some(id);
                Ok(Some(Event::GoAway { id }))
            }
            kind::MAX_PUSH_ID => {
                if self.max_push.is_some_and(|before| id < before) {
                    return invalid("MAX_PUSH_ID is smaller than before");
                }
                self.max_push = Some(id);
                Ok(None)
            }
            _ => invalid("CANCEL_PUSH for a push that was not promised"),
        }
    }
}

const NOT_AN_ID: &str = "the payload of a frame is not an identifier";
