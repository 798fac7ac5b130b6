//! SETTINGS (RFC 9114 section 7.2.4): the limits that each side sets the other, once, at the start of its control
//! stream.

use super::connection::{Config, ConnectionError};
use super::frame::{Front, kind};
use super::protocol::ErrorCode;
use super::varint;

mod id {
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    pub const QPACK_BLOCKED_STREAMS: u64 = 0x7;
    pub const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
    pub const H3_DATAGRAM: u64 = 0x33;
    /// A reserved setting, so that peers do not come to rely on known settings alone (section 7.2.4.1).
    pub const RESERVED: u64 = 0x1f * 7 + 0x21;
}

/// Type of a control stream.
pub const CONTROL_STREAM: u64 = 0x0;

/// Bytes that a field counts in addition to its name and value (section 4.2.2).
const FIELD_OVERHEAD: usize = 32;

/// Settings of the peer, or their defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    pub max_field_section: Option<u64>,
    pub connect: bool,
}

/// Appends the start of this side's control stream.
pub fn write(config: &Config, is_server: bool, out: &mut Vec<u8>) {
    let section = config.max_header_list.saturating_add(config.max_fields.saturating_mul(FIELD_OVERHEAD));
    let list = [
        // A table of 0 bytes and no blocked streams, as is the default: stated for peers that wait for it.
        Some((id::QPACK_MAX_TABLE_CAPACITY, 0)),
        Some((id::QPACK_BLOCKED_STREAMS, 0)),
        Some((id::MAX_FIELD_SECTION_SIZE, (section as u64).min(varint::MAX))),
        (is_server && config.connect).then_some((id::ENABLE_CONNECT_PROTOCOL, 1)),
        Some((id::RESERVED, 0)),
    ];
    let mut payload = Vec::with_capacity(32);
    for (id, value) in list.into_iter().flatten() {
        varint::write(id, &mut payload);
        varint::write(value, &mut payload);
    }
    varint::write(CONTROL_STREAM, out);
    Front { kind: kind::SETTINGS, len: payload.len() as u64 }.write(out);
    out.extend_from_slice(&payload);
}

/// Reads the settings of the peer.
///
/// # Errors
/// If they are malformed.
pub fn read(mut payload: &[u8]) -> Result<Peer, ConnectionError> {
    let mut peer = Peer::default();
    let mut ids = Vec::with_capacity(8);
    while !payload.is_empty() {
        let (Some(id), Some(value)) = (varint::read(&mut payload), varint::read(&mut payload)) else {
            return Err(ConnectionError::new(ErrorCode::FrameError, "SETTINGS ends inside a setting"));
        };
        ids.push(id);
        match id {
            id::MAX_FIELD_SECTION_SIZE => peer.max_field_section = Some(value),
            id::ENABLE_CONNECT_PROTOCOL | id::H3_DATAGRAM if value > 1 => {
                return Err(ConnectionError::new(ErrorCode::SettingsError, "a setting is neither 0 nor 1"));
            }
            id::ENABLE_CONNECT_PROTOCOL => peer.connect = value == 1,
            // Settings of HTTP/2 (section 7.2.4.1).
            0x0 | 0x2..=0x5 => {
                return Err(ConnectionError::new(ErrorCode::SettingsError, "a setting of HTTP/2"));
            }
            _ => {}
        }
    }
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(ConnectionError::new(ErrorCode::SettingsError, "a setting is repeated"));
    }
    Ok(peer)
}
