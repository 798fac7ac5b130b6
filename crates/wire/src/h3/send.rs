//! Sending, as frames appended to the bytes of a stream or to the control stream.

use super::connection::Connection;
use super::frame::{Front, kind};
use super::protocol::{LAST_REQUEST, StreamId};
use super::varint;
use crate::multiplexed::flood::Flood;

/// Most bytes of the front of a DATA frame.
pub const DATA_FRONT_MAX: usize = 9;

/// Length that is written before a head is encoded, as its final length is not known: two bytes.
const UNKNOWN: [u8; 2] = [0x40, 0];

/// First length that does not fit into two bytes.
const LONG: usize = 1 << 14;

impl Connection {
    /// Appends a head or trailers to the bytes of a stream. For a response, any number of interim heads may precede the
    /// final head.
    pub fn write_head<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
        varint::write(kind::HEADERS, out);
        let at = out.len();
        out.extend_from_slice(&UNKNOWN);
        self.encoder.encode(fields, out);
        let len = out.len() - at - UNKNOWN.len();
        if len < LONG {
            out[at..at + 2].copy_from_slice(&(len as u16 | 1 << 14).to_be_bytes());
        } else {
            let mut number = Vec::with_capacity(8);
            varint::write(len as u64, &mut number);
            out.splice(at..at + UNKNOWN.len(), number);
        }
    }

    /// Appends the front of a DATA frame, whose payload of this length the caller writes behind it.
    pub fn write_data_front(&mut self, len: usize, out: &mut Vec<u8>) {
        Front { kind: kind::DATA, len: len as u64 }.write(out);
    }

    /// Notes that this side has sent a whole message on a stream. Served requests pay for resets.
    pub fn on_sent(&mut self) {
        self.budgets.earn(Flood::Resets, 1);
        self.budgets.earn(Flood::Ignored, 1);
        self.budgets.earn(Flood::LateFrames, 1);
    }

    /// Asks the peer to begin no more requests. Those that it begins before it reads this are served.
    pub fn go_away_soon(&mut self) {
        self.write_go_away(if self.is_server { LAST_REQUEST } else { varint::MAX });
    }

    /// Ends the connection for new requests: only those that the peer has begun so far are served.
    pub fn go_away(&mut self) {
        self.served_to = self.served_to.min(self.next);
        self.write_go_away(if self.is_server { self.served_to } else { 0 });
    }

    fn write_go_away(&mut self, id: StreamId) {
        let mut payload = Vec::with_capacity(8);
        varint::write(id, &mut payload);
        Front { kind: kind::GOAWAY, len: payload.len() as u64 }.write(&mut self.control);
        self.control.extend_from_slice(&payload);
    }
}
