//! Frames and transport parameters as bytes.

use crate::support::h3_client::varint;

/// Transport parameters of RFC 9000 section 18.2.
pub mod parameter {
    pub const ORIGINAL_DESTINATION: u64 = 0;
    pub const STATELESS_RESET_TOKEN: u64 = 2;
    pub const MAX_UDP_PAYLOAD: u64 = 3;
    pub const MAX_DATA: u64 = 4;
    pub const MAX_STREAM_DATA_BIDI_LOCAL: u64 = 5;
    pub const MAX_STREAM_DATA_UNI: u64 = 7;
    pub const MAX_STREAMS_BIDI: u64 = 8;
    pub const MAX_STREAMS_UNI: u64 = 9;
    pub const ACK_DELAY_EXPONENT: u64 = 10;
    pub const MAX_ACK_DELAY: u64 = 11;
    pub const PREFERRED_ADDRESS: u64 = 13;
    pub const ACTIVE_IDS: u64 = 14;
    pub const INITIAL_SOURCE: u64 = 15;
    pub const RETRY_SOURCE: u64 = 16;
}

/// Integers of QUIC, one after another.
pub fn ints(numbers: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    numbers.iter().for_each(|n| varint(*n, &mut out));
    out
}

/// A transport parameter: its id and its value.
pub type Parameter = (u64, Vec<u8>);

/// Usual parameters of a client whose connection id is `id`.
pub fn usual(id: &[u8]) -> Vec<Parameter> {
    use parameter::{INITIAL_SOURCE, MAX_DATA, MAX_STREAM_DATA_BIDI_LOCAL, MAX_STREAM_DATA_UNI, MAX_STREAMS_UNI};
    let number = |id: u64, n: u64| (id, ints(&[n]));
    vec![
        (INITIAL_SOURCE, id.to_vec()),
        number(MAX_DATA, 1 << 20),
        number(MAX_STREAM_DATA_BIDI_LOCAL, 1 << 20),
        number(MAX_STREAM_DATA_UNI, 1 << 20),
        number(MAX_STREAMS_UNI, 10),
    ]
}

/// A CRYPTO frame at an offset.
pub fn crypto_at(offset: u64, bytes: &[u8]) -> Vec<u8> {
    [ints(&[6, offset, bytes.len() as u64]), bytes.to_vec()].concat()
}

/// A STREAM frame with an offset, and perhaps with the end.
pub fn stream_at(id: u64, offset: u64, bytes: &[u8], ends: bool) -> Vec<u8> {
    [ints(&[0xe | u64::from(ends), id, offset, bytes.len() as u64]), bytes.to_vec()].concat()
}

/// A NEW_CONNECTION_ID frame.
pub fn new_id(sequence: u64, retire: u64, id: &[u8]) -> Vec<u8> {
    [ints(&[0x18, sequence, retire]), vec![id.len() as u8], id.to_vec(), vec![sequence as u8; 16]].concat()
}
