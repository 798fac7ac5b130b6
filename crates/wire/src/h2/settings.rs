//! SETTINGS (RFC 9113 section 6.5): the limits that each side sets the other.

use super::connection::{Config, Connection, ConnectionError};
use super::frame::{self, kind};
use super::{ErrorCode, MAX};

mod id {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Default window of a stream and of a connection, in bytes.
pub const WINDOW: u32 = 65_535;

/// Settings of the peer, or their defaults.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub max_streams: u32,
    pub window: u32,
    pub max_frame: usize,
    pub connect: bool,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { max_streams: u32::MAX, window: WINDOW, max_frame: frame::PAYLOAD, connect: false }
    }
}

/// Appends the SETTINGS frame of this side.
pub fn write(config: &Config, is_server: bool, out: &mut Vec<u8>) {
    let list = [
        Some((id::HEADER_TABLE_SIZE, config.header_table as u32)),
        is_server.then_some((id::MAX_CONCURRENT_STREAMS, config.max_streams)),
        Some((id::INITIAL_WINDOW_SIZE, config.stream_window)),
        Some((id::MAX_HEADER_LIST_SIZE, config.max_header_list as u32)),
        (is_server && config.connect).then_some((id::ENABLE_CONNECT_PROTOCOL, 1)),
        // RFC 9218: this side uses the field, not the frames.
        is_server.then_some((id::NO_RFC7540_PRIORITIES, 1)),
        (!is_server).then_some((id::ENABLE_PUSH, 0)),
    ];
    let mut payload = Vec::with_capacity(6 * list.len());
    for (id, value) in list.into_iter().flatten() {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame::write(kind::SETTINGS, 0, 0, &payload, out);
}

impl Connection {
    /// Applies the settings of the peer.
    pub(super) fn take_settings(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        for setting in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match id {
                id::HEADER_TABLE_SIZE => self.encoder.set_table_size_max(value as usize),
                id::ENABLE_PUSH if value > 1 || (value == 1 && !self.is_server) => {
                    return Err(self.fail(ErrorCode::ProtocolError, "ENABLE_PUSH is invalid"));
                }
                id::MAX_CONCURRENT_STREAMS => self.peer.max_streams = value,
                id::INITIAL_WINDOW_SIZE => {
                    if value > MAX {
                        return Err(self.fail(ErrorCode::FlowControlError, "INITIAL_WINDOW_SIZE is too large"));
                    }
                    let change = i64::from(value) - i64::from(self.peer.window);
                    self.peer.window = value;
                    if !self.streams.change_windows(change) {
                        return Err(
                            self.fail(ErrorCode::FlowControlError, "INITIAL_WINDOW_SIZE overflows a stream window")
                        );
                    }
                }
                id::MAX_FRAME_SIZE => {
                    if !(frame::PAYLOAD as u32..1 << 24).contains(&value) {
                        return Err(self.fail(ErrorCode::ProtocolError, "MAX_FRAME_SIZE is out of range"));
                    }
                    self.peer.max_frame = value as usize;
                }
                id::ENABLE_CONNECT_PROTOCOL => {
                    if value > 1 {
                        return Err(self.fail(ErrorCode::ProtocolError, "ENABLE_CONNECT_PROTOCOL is invalid"));
                    }
                    self.peer.connect = value == 1;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
