//! Causes of failed handshakes of QUIC, as those over TCP are counted.

use evenkeel_net::quic::ConnectionError;
use evenkeel_net::tls::Cause;

/// Cause of a handshake that failed.
pub(super) fn cause(why: &ConnectionError) -> Cause {
    /// First code of an alert of TLS (RFC 9001 section 4.8).
    const ALERTS: u64 = 0x100;
    match why {
        ConnectionError::TimedOut => Cause::Timeout,
        ConnectionError::TransportError(error) => match u64::from(error.code).checked_sub(ALERTS) {
            Some(70) => Cause::Version,
            Some(40) => Cause::Cipher,
            Some(120) => Cause::Protocol,
            Some(112) => Cause::NoCertificate,
            Some(116) => Cause::CertificateRequired,
            Some(48) => Cause::UnknownCa,
            Some(45) => Cause::Expired,
            Some(44) => Cause::Revoked,
            Some(42) => Cause::BadCertificate,
            _ => Cause::Malformed,
        },
        ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => Cause::Refused,
        ConnectionError::Reset => Cause::Closed,
        _ => Cause::Internal,
    }
}
