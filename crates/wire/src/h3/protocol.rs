//! Stream identifiers and error codes (RFC 9114, RFC 9204).

/// Identifier of a QUIC stream. The last two bits name its initiator and direction (RFC 9000 section 2.1).
pub type StreamId = u64;

/// Largest identifier of a request: the last bidirectional stream that a client can begin.
pub const LAST_REQUEST: StreamId = (1 << 62) - 4;

/// True if a stream is of the kind that carries requests.
pub fn is_request(id: StreamId) -> bool {
    id.is_multiple_of(4)
}

/// Reason for which a stream or a connection ends (RFC 9114 section 8.1, RFC 9204 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    NoError = 0x100,
    GeneralProtocolError = 0x101,
    InternalError = 0x102,
    StreamCreationError = 0x103,
    ClosedCriticalStream = 0x104,
    FrameUnexpected = 0x105,
    FrameError = 0x106,
    ExcessiveLoad = 0x107,
    IdError = 0x108,
    SettingsError = 0x109,
    MissingSettings = 0x10a,
    RequestRejected = 0x10b,
    RequestCancelled = 0x10c,
    RequestIncomplete = 0x10d,
    MessageError = 0x10e,
    ConnectError = 0x10f,
    VersionFallback = 0x110,
    QpackDecompressionFailed = 0x200,
    QpackEncoderStreamError = 0x201,
    QpackDecoderStreamError = 0x202,
}

impl ErrorCode {
    /// Names of all codes. The index is that of [`index`](ErrorCode::index).
    pub const NAMES: [&'static str; 20] = [
        "no_error",
        "general_protocol_error",
        "internal_error",
        "stream_creation_error",
        "closed_critical_stream",
        "frame_unexpected",
        "frame_error",
        "excessive_load",
        "id_error",
        "settings_error",
        "missing_settings",
        "request_rejected",
        "request_cancelled",
        "request_incomplete",
        "message_error",
        "connect_error",
        "version_fallback",
        "qpack_decompression_failed",
        "qpack_encoder_stream_error",
        "qpack_decoder_stream_error",
    ];

    /// Index of a code in [`NAMES`](ErrorCode::NAMES); `None` for an unknown code, which a peer may send.
    pub fn index(code: u64) -> Option<usize> {
        match code {
            0x100..=0x110 => Some(code as usize - 0x100),
            0x200..=0x202 => Some(code as usize - 0x200 + 17),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_names() {
        for (code, name) in [
            (ErrorCode::NoError, "no_error"),
            (ErrorCode::MessageError, "message_error"),
            (ErrorCode::VersionFallback, "version_fallback"),
            (ErrorCode::QpackDecoderStreamError, "qpack_decoder_stream_error"),
        ] {
            assert_eq!(ErrorCode::index(code as u64).map(|at| ErrorCode::NAMES[at]), Some(name));
        }
        assert_eq!((ErrorCode::index(0), ErrorCode::index(0x111), ErrorCode::index(0x203)), (None, None, None));
    }
}
