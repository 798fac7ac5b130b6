//! Unidirectional streams of the peer (RFC 9114 section 6.2), which begin with their type.

use super::connection::{Connection, ConnectionError};
use super::control::ControlStream;
use super::event::{Event, Received};
use super::protocol::ErrorCode;
use super::qpack::{DecoderInstructions, are_encoder_instructions};
use super::settings::CONTROL_STREAM;
use super::varint::Partial;
use crate::multiplexed::flood::Flood;

/// Types of streams. A control stream is the first.
mod kind {
    pub const PUSH: u64 = 0x1;
    pub const ENCODER: u64 = 0x2;
    pub const DECODER: u64 = 0x3;
}

/// Position in a unidirectional stream of the peer.
#[derive(Debug)]
pub struct UnidirectionalStream(Kind);

#[derive(Debug)]
enum Kind {
    /// The type has not arrived.
    New(Partial),
    Control(ControlStream),
    /// Instructions of the peer's encoder.
    Encoder,
    /// Instructions of the peer's decoder.
    Decoder(DecoderInstructions),
    /// A stream with an unknown purpose, which is discarded.
    Unknown,
}

impl Default for UnidirectionalStream {
    fn default() -> UnidirectionalStream {
        UnidirectionalStream(Kind::New(Partial::default()))
    }
}

impl Connection {
    /// Reads bytes of a unidirectional stream. Bytes that are not used are passed again. `ends`: the peer has ended the
    /// stream after these bytes. `now`: nanoseconds.
    ///
    /// # Errors
    /// If the peer has broken the rules. The connection ends.
    pub fn receive_unidirectional(
        &mut self,
        stream: &mut UnidirectionalStream,
        bytes: &[u8],
        ends: bool,
        now: u64,
    ) -> Result<Received, ConnectionError> {
        self.now = now;
        let mut rest = bytes;
        if let Kind::New(number) = &mut stream.0
            && let Some(kind) = number.read(&mut rest)
        {
            stream.0 = self.begin(kind)?;
            if matches!(stream.0, Kind::Unknown) {
                let code = ErrorCode::StreamCreationError;
                return Ok(Received { used: bytes.len(), event: Some(Event::Unwanted { code }) });
            }
        }
        match &mut stream.0 {
            Kind::New(_) | Kind::Unknown => {}
            Kind::Control(control) => {
                if let Some(event) = self.receive_control(control, &mut rest)? {
                    return Ok(Received { used: bytes.len() - rest.len(), event: Some(event) });
                }
            }
            Kind::Encoder => {
                if !are_encoder_instructions(rest) {
                    return Err(ConnectionError::new(
                        ErrorCode::QpackEncoderStreamError,
                        "an instruction needs a dynamic table",
                    ));
                }
                self.spend(Flood::Ignored, rest.len() as u32)?;
            }
            Kind::Decoder(instructions) => {
                let Some(ended) = instructions.read(rest) else {
                    return Err(ConnectionError::new(
                        ErrorCode::QpackDecoderStreamError,
                        "an instruction acknowledges entries that were never inserted",
                    ));
                };
                // Clients cancel streams that they reset.
                self.spend(Flood::LateFrames, ended)?;
            }
        }
        if ends {
            self.on_unidirectional_end(stream)?;
        }
        Ok(Received { used: bytes.len(), event: None })
    }

    /// Notes the end or the reset of a unidirectional stream of the peer.
    ///
    /// # Errors
    /// If the connection cannot do without the stream.
    pub fn on_unidirectional_end(&mut self, stream: &UnidirectionalStream) -> Result<(), ConnectionError> {
        match stream.0 {
            Kind::New(_) | Kind::Unknown => Ok(()),
            Kind::Control(_) | Kind::Encoder | Kind::Decoder(_) => Err(self.on_control_stopped()),
        }
    }

    /// Returns the error of a peer that stops this side's control stream.
    pub fn on_control_stopped(&self) -> ConnectionError {
        ConnectionError::new(ErrorCode::ClosedCriticalStream, "a critical stream is closed")
    }

    fn begin(&mut self, kind: u64) -> Result<Kind, ConnectionError> {
        let critical = &mut self.critical;
        let (has, begun) = match kind {
            CONTROL_STREAM => (&mut critical.control, Kind::Control(ControlStream::default())),
            kind::ENCODER => (&mut critical.encoder, Kind::Encoder),
            kind::DECODER => (&mut critical.decoder, Kind::Decoder(DecoderInstructions::default())),
            kind::PUSH if self.is_server => {
                return Err(ConnectionError::new(ErrorCode::StreamCreationError, "a client began a push"));
            }
            kind::PUSH => {
                return Err(ConnectionError::new(ErrorCode::IdError, "a push although no push is allowed"));
            }
            _ => {
                self.spend(Flood::Ignored, 1)?;
                return Ok(Kind::Unknown);
            }
        };
        if std::mem::replace(has, true) {
            return Err(ConnectionError::new(ErrorCode::StreamCreationError, "a second critical stream of a kind"));
        }
        Ok(begun)
    }
}
