//! Stream identifiers and error codes (RFC 9113).

/// Identifier of a stream. Clients use rising odd numbers.
pub type StreamId = u32;

/// Largest stream identifier, and largest window.
pub const MAX: u32 = 0x7fff_ffff;

/// Bytes with which clients begin a connection (section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reason for which a stream or a connection ends (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    NoError = 0,
    ProtocolError = 1,
    InternalError = 2,
    FlowControlError = 3,
    SettingsTimeout = 4,
    StreamClosed = 5,
    FrameSizeError = 6,
    RefusedStream = 7,
    Cancel = 8,
    CompressionError = 9,
    ConnectError = 10,
    EnhanceYourCalm = 11,
    InadequateSecurity = 12,
    Http11Required = 13,
}

impl ErrorCode {
    /// Names of all codes. The index is the code.
    pub const NAMES: [&'static str; 14] = [
        "no_error",
        "protocol_error",
        "internal_error",
        "flow_control_error",
        "settings_timeout",
        "stream_closed",
        "frame_size_error",
        "refused_stream",
        "cancel",
        "compression_error",
        "connect_error",
        "enhance_your_calm",
        "inadequate_security",
        "http_1_1_required",
    ];
}
