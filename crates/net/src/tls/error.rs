//! Causes of failed handshakes, a row for each: the label in metrics and the text for people.

use super::record::Fault;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use std::{fmt, io};

macro_rules! causes {
    ($($name:ident $label:literal $text:literal,)*) => {
        /// Cause of a failed handshake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause { $(#[doc = $text] $name,)* }

        impl Cause {
            /// Labels of the metrics, in the order of the causes.
            pub const LABELS: [&str; [$($label,)*].len()] = [$($label,)*];

            /// Sentence for logs and error messages.
            pub fn text(self) -> &'static str {
                match self { $(Cause::$name => $text,)* }
            }
        }
    };
}

causes! {
    PlainHttp "plain_http" "plain HTTP request on a TLS port",
    NotTls "not_tls" "the bytes received are not TLS",
    Closed "closed" "the peer closed the connection during the handshake",
    Timeout "timeout" "the handshake timed out",
    TooMany "too_many" "too many handshakes were in progress",
    Displaced "displaced" "the handshake stalled and was evicted for another client",
    Version "version" "no TLS version in common",
    Cipher "cipher" "no cipher suite, key exchange or signature in common",
    Protocol "alpn" "no application protocol in common",
    NoCertificate "no_certificate" "no certificate for this name",
    CertificateRequired "certificate_required" "a client certificate is required, and none was sent",
    UnknownCa "unknown_ca" "the certificate was issued by an untrusted CA",
    Expired "expired" "the certificate has expired",
    NotYetValid "not_yet_valid" "the certificate is not valid yet",
    WrongName "wrong_name" "the certificate is for another name",
    Revoked "revoked" "the certificate was revoked",
    BadCertificate "bad_certificate" "the certificate is invalid",
    Distrusted "distrusted" "the peer does not trust the certificate it was sent",
    Refused "refused" "the peer aborted the handshake",
    TooLarge "too_large" "a handshake message is too large",
    Malformed "malformed" "the peer violated the TLS protocol",
    Internal "internal" "internal error in the handshake",
}

/// Error of a failed handshake.
#[derive(Debug)]
pub struct HandshakeError {
    pub cause: Cause,
    /// Server name in the ClientHello, if that was read.
    pub server_name: Option<Box<str>>,
    /// True if the peer had sent anything.
    pub heard: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl HandshakeError {
    /// A failure for this cause, from a peer that had sent something.
    pub fn new(cause: Cause) -> HandshakeError {
        HandshakeError { cause, server_name: None, heard: true, source: None }
    }

    /// True if the peer was sent an alert or gets an answer, which it reads only if all that it sends is
    /// read.
    pub fn is_told(&self) -> bool {
        !matches!(self.cause, Cause::Closed | Cause::Timeout | Cause::TooMany | Cause::Displaced | Cause::NotTls)
    }

    pub(super) fn of_tls(error: Error) -> HandshakeError {
        let cause = cause_of(&error);
        HandshakeError { source: Some(Box::new(error)), ..HandshakeError::new(cause) }
    }

    pub(super) fn of_record(fault: Fault) -> HandshakeError {
        HandshakeError { source: Some(fault.text().into()), ..HandshakeError::new(Cause::Internal) }
    }

    pub(super) fn of_client(mut self, name: Option<&str>, heard: bool) -> HandshakeError {
        (self.server_name, self.heard) = (name.map(Into::into), heard);
        self
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        HandshakeError { source: Some(Box::new(error)), ..HandshakeError::new(Cause::Closed) }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TLS: ")?;
        f.write_str(self.cause.text())?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Name of an alert by its code; `unknown` if not registered.
pub fn alert_name(alert: u8) -> &'static str {
    AlertDescription::from(alert).as_str().unwrap_or("unknown")
}

fn cause_of(error: &Error) -> Cause {
    match error {
        Error::NoCertificatesPresented => Cause::CertificateRequired,
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => Cause::UnknownCa,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Cause::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Cause::NotYetValid,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Cause::WrongName,
            CertificateError::Revoked => Cause::Revoked,
            _ => Cause::BadCertificate,
        },
        Error::PeerIncompatible(why) => match why {
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => Cause::Version,
            _ => Cause::Cipher,
        },
        Error::NoApplicationProtocol => Cause::Protocol,
        Error::AlertReceived(alert) => match *alert {
            AlertDescription::ProtocolVersion => Cause::Version,
            AlertDescription::NoApplicationProtocol => Cause::Protocol,
            AlertDescription::CertificateRequired => Cause::CertificateRequired,
            AlertDescription::UnrecognisedName => Cause::NoCertificate,
            // Alerts of clients that do not trust the certificate.
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate => Cause::Distrusted,
            AlertDescription::CloseNotify | AlertDescription::UserCanceled => Cause::Closed,
            _ => Cause::Refused,
        },
        Error::InvalidMessage(
            InvalidMessage::MessageTooLarge
            | InvalidMessage::HandshakePayloadTooLarge
            | InvalidMessage::CertificatePayloadTooLarge,
        )
        | Error::PeerSentOversizedRecord => Cause::TooLarge,
        // The error that rustls returns if no certificate matches the name.
        Error::General(why) if why.starts_with("no server certificate") => Cause::NoCertificate,
        Error::General(_) | Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes | Error::Other(_) => {
            Cause::Internal
        }
        _ => Cause::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_label_is_one_cause() {
        assert_eq!(Cause::LABELS.iter().collect::<HashSet<_>>().len(), Cause::LABELS.len());
    }

    #[test]
    fn what_people_read_names_cause_and_detail() {
        let error = HandshakeError::of_tls(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert_eq!(error.cause, Cause::UnknownCa);
        assert!(error.to_string().starts_with("TLS: the certificate was issued by an untrusted CA ("));
    }
}
