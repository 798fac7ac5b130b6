//! Faults that end a request early: the side at fault, and the response for the client.

use crate::body::response::Response;
use crate::observe::end::Cause;
use crate::observe::stats::{CODES, ErrorKind};
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{FailureKind, Outcome};
use evenkeel_net::tls::{TlsStream, alert_name};
use evenkeel_net::transport::Transport;
use evenkeel_wire::grpc::{self, Status};
use evenkeel_wire::h2::ErrorCode;
use evenkeel_wire::http1::{RESPONSE_FIELDS_MAX, Reject, mend};

/// Name of an HTTP/2 error code (RFC 9113 section 7).
fn code_name(code: u32) -> String {
    let known = &CODES[..CODES.len() - 1];
    known.get(code as usize).map_or_else(|| format!("code {code}"), |name| name.to_ascii_uppercase())
}

/// The gRPC status of a call whose stream was reset with this code (gRPC's doc/PROTOCOL-HTTP2.md, "Errors").
fn of_reset(code: u32) -> Status {
    let is = |known: ErrorCode| code == known as u32;
    match code {
        _ if is(ErrorCode::RefusedStream) => Status::Unavailable,
        _ if is(ErrorCode::Cancel) => Status::Cancelled,
        _ if is(ErrorCode::EnhanceYourCalm) => Status::ResourceExhausted,
        _ if is(ErrorCode::InadequateSecurity) => Status::PermissionDenied,
        _ => Status::Internal,
    }
}

/// Rejection of a body by a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Status of the response to the client, if none has begun.
    pub status: u16,
    /// Reason in a few words, for the response and the log.
    pub why: &'static str,
}

/// Reason for the early end of a request, once it was assigned to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The endpoint closed or reset the connection before the first byte of a response.
    NoResponse,
    /// The endpoint ended TLS with this alert before the first byte of a response. With TLS 1.3, a rejected client
    /// certificate shows only after the handshake.
    Alerted(u8),
    /// The endpoint closed or reset the connection within a response.
    CutShort,
    /// The endpoint's connection ended before it processed the request (GOAWAY with a lower stream id).
    Unseen,
    /// The endpoint refused the request's stream without processing it (REFUSED_STREAM).
    Declined {
        /// True if the endpoint works on other requests: it is then only at a limit.
        is_running: bool,
    },
    /// The endpoint reset the stream of the request, with this code.
    StreamReset(u32),
    /// The endpoint violated HTTP/2 on the request's stream, so this side reset it.
    Broken,
    /// The endpoint does not speak HTTP/2, which the pool requires.
    NotHttp2,
    /// The endpoint sent a malformed response.
    Response(Reject),
    /// The endpoint answered a request for a WebSocket with this status: a 2xx other than a switch, or a 101 without
    /// the right `Sec-WebSocket-Accept`.
    NoWebSocket(u16),
    /// The endpoint sent bytes on an idle connection that belong to no request.
    Stray,
    /// A tunnel was ended by this cause, and not by both sides closing.
    Tunnel(Cause),
    /// The client's body was malformed.
    Request(Reject),
    /// A filter rejected a body.
    Unfit(Unfit),
    /// The client closed or reset its connection.
    ClientGone,
    /// The endpoint did not send or receive in time.
    TimedOut(Due),
    /// Neither side sent anything for `timeouts.idle`, though both could.
    Idle,
    /// The deadline that the client of a gRPC call had set (`grpc-timeout`) passed.
    CallExpired,
    /// The client did not send or read in time.
    ClientSlow,
    /// The other copy of a hedged request was answered first.
    Overtaken,
    /// The endpoint's response was discarded for a retry.
    Refused {
        status: u16,
        /// gRPC status of the response, for gRPC calls.
        grpc: Option<Status>,
        /// Outcome for the balancer.
        outcome: Outcome,
        /// True if the connection can carry another request.
        reusable: bool,
        /// Seconds for which the endpoint keeps its connection, if it states them.
        kept_secs: Option<u32>,
    },
}

/// Timeout that an endpoint exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// `timeouts.response`: time to the response head.
    Response,
    /// `timeouts.idle`: time between two pieces of the response.
    Idle,
    /// `timeouts.request`: time of the whole request.
    Request,
}

impl From<Unfit> for Fault {
    fn from(unfit: Unfit) -> Fault {
        Fault::Unfit(unfit)
    }
}

impl From<Unfit> for Response {
    fn from(Unfit { status, why }: Unfit) -> Response {
        Response::new(status, why)
    }
}

impl Fault {
    /// Returns the fault for a connection that ended before the first byte of a response.
    #[cold]
    pub fn no_response(upstream: &Transport) -> Fault {
        upstream.as_tls().and_then(TlsStream::alert).map_or(Fault::NoResponse, Fault::Alerted)
    }

    /// Side that ended the request, as logged.
    pub fn cause(self) -> Cause {
        match self {
            Fault::NoResponse
            | Fault::Alerted(_)
            | Fault::CutShort
            | Fault::Unseen
            | Fault::Declined { .. }
            | Fault::StreamReset(_)
            | Fault::Broken
            | Fault::NotHttp2
            | Fault::Response(_)
            | Fault::NoWebSocket(_)
            | Fault::Stray
            | Fault::Refused { .. } => Cause::Endpoint,
            Fault::Idle => Cause::Idle,
            Fault::Tunnel(cause) => cause,
            Fault::Request(_) | Fault::Unfit(_) | Fault::Overtaken => Cause::Proxy,
            Fault::ClientGone => Cause::Client,
            Fault::ClientSlow => Cause::ClientSlow,
            Fault::TimedOut(_) | Fault::CallExpired => Cause::EndpointSlow,
        }
    }

    /// Kind under which the endpoint's error is counted; `None` if the endpoint is not at fault.
    pub fn error_kind(self) -> Option<ErrorKind> {
        match self {
            Fault::NoResponse | Fault::CutShort | Fault::StreamReset(_) | Fault::Tunnel(Cause::Endpoint) => {
                Some(ErrorKind::Reset)
            }
            Fault::Alerted(_) => Some(ErrorKind::Tls),
            Fault::Declined { .. } => Some(ErrorKind::Refused),
            // Only a limit of this side is in the way.
            Fault::Response(Reject::HeadTooLarge | Reject::TooManyFields | Reject::TrailersTooLarge) => None,
            Fault::Response(_) | Fault::Broken | Fault::Stray | Fault::NotHttp2 | Fault::NoWebSocket(101) => {
                Some(ErrorKind::Protocol)
            }
            Fault::TimedOut(_) => Some(ErrorKind::Timeout),
            // Closing a connection gracefully is not an error, and a client may set any deadline and ask any resource
            // for a WebSocket.
            Fault::Unseen
            | Fault::NoWebSocket(_)
            | Fault::Idle
            | Fault::CallExpired
            | Fault::Tunnel(_)
            | Fault::ClientSlow
            | Fault::Request(_)
            | Fault::Unfit(_)
            | Fault::ClientGone
            | Fault::Overtaken
            | Fault::Refused { .. } => None,
        }
    }

    /// The outcome for the balancer.
    pub fn outcome(self) -> Outcome {
        match (self, self.error_kind()) {
            (Fault::Refused { outcome, .. }, _) => outcome,
            // Being at its own limit is not a failure of the endpoint.
            (Fault::Declined { is_running: true }, _) => Outcome::Cancelled,
            // The request of a tunnel was answered before.
            (Fault::Tunnel(_), _) => Outcome::Success,
            (_, Some(_)) => Outcome::failed(FailureKind::Gateway),
            (_, None) => Outcome::Cancelled,
        }
    }

    /// Failure as retry rules classify it; `None` for faults that no retry can fix.
    pub fn failure(self) -> Option<Failure> {
        match self {
            // No part of the head was forwarded, so a truncated head counts as none.
            Fault::NoResponse | Fault::Alerted(_) | Fault::CutShort | Fault::StreamReset(_) => Some(Failure::Reset),
            // The request was not processed and is safe to send again (RFC 9113 section 8.7).
            Fault::Unseen | Fault::Declined { .. } => Some(Failure::Connect),
            Fault::TimedOut(_) => Some(Failure::Timeout),
            Fault::Refused { grpc: Some(status), .. } => Some(Failure::Grpc(status.code())),
            Fault::Refused { status, .. } => Some(Failure::Status(status)),
            Fault::NotHttp2
            | Fault::Broken
            | Fault::Response(_)
            | Fault::NoWebSocket(_)
            | Fault::Stray
            | Fault::Tunnel(_)
            | Fault::Request(_)
            | Fault::Unfit(_)
            | Fault::ClientGone
            | Fault::ClientSlow
            | Fault::Idle
            | Fault::CallExpired
            | Fault::Overtaken => None,
        }
    }

    /// True if the endpoint has not processed the request (RFC 9113 section 8.7).
    pub fn is_unprocessed(self) -> bool {
        matches!(self, Fault::Unseen | Fault::Declined { .. })
    }

    /// gRPC status for the client if the response had begun; `None` if the client gets none.
    pub fn call_status(self) -> Option<Status> {
        match self {
            Fault::TimedOut(Due::Request) | Fault::CallExpired => Some(Status::DeadlineExceeded),
            Fault::NoResponse | Fault::Alerted(_) | Fault::CutShort | Fault::TimedOut(_) | Fault::Idle => {
                Some(Status::Unavailable)
            }
            Fault::Unseen | Fault::Declined { .. } => Some(Status::Unavailable),
            Fault::StreamReset(code) => Some(of_reset(code)),
            Fault::Broken | Fault::Stray | Fault::NotHttp2 | Fault::Response(_) | Fault::Unfit(_) => {
                Some(Status::Internal)
            }
            Fault::Request(_)
            | Fault::ClientGone
            | Fault::ClientSlow
            | Fault::Overtaken
            | Fault::Tunnel(_)
            | Fault::NoWebSocket(_)
            | Fault::Refused { .. } => None,
        }
    }

    /// Status of the discarded response; 0 for all other faults.
    pub fn status(self) -> u16 {
        if let Fault::Refused { status, .. } = self { status } else { 0 }
    }

    /// True if the endpoint is at fault, so that messages name it.
    pub fn is_of_endpoint(self) -> bool {
        matches!(self.cause(), Cause::Endpoint | Cause::EndpointSlow)
    }

    /// Status and text if the response had begun: for the log, and for the client of a gRPC call. `None` if there is
    /// nothing to report.
    pub fn reply_within(self) -> Option<(u16, String)> {
        match self {
            Fault::CutShort => Some((502, "closed the connection in the middle of its response".into())),
            Fault::ClientSlow => Some((408, "the client read nothing of the response for `timeouts.idle`".into())),
            Fault::Tunnel(Cause::Idle) => Fault::Idle.reply(),
            Fault::Tunnel(Cause::ClientSlow) => {
                Some((408, "the client sent nothing through its tunnel for too long".into()))
            }
            Fault::Tunnel(Cause::EndpointSlow) => Some((504, "sent nothing through the tunnel for too long".into())),
            _ => self.reply(),
        }
    }

    /// Status and text for the client if no response has begun; `None` if the client gets none.
    pub fn reply(self) -> Option<(u16, String)> {
        match self {
            Fault::NoResponse => Some((502, "closed the connection without a response".into())),
            Fault::Alerted(alert) => Some((502, format!("closed TLS with an alert: {}", alert_name(alert)))),
            Fault::CutShort => Some((502, "closed the connection in the middle of the response head".into())),
            Fault::Unseen => Some((502, "closed the connection before it read the request".into())),
            Fault::Declined { .. } => Some((502, "refused the stream".into())),
            Fault::StreamReset(code) => Some((502, format!("reset the stream: {}", code_name(code)))),
            Fault::Broken => Some((502, "sent a malformed response".into())),
            Fault::NotHttp2 => Some((502, "does not support HTTP/2, which `protocol` of the pool requires".into())),
            Fault::Response(reject @ Reject::HeadTooLarge) => {
                Some((502, format!("sent a head larger than `limits.response_headers` of its pool allows: {reject}")))
            }
            Fault::Response(reject @ Reject::TooManyFields) => {
                Some((502, format!("sent a head of more than {RESPONSE_FIELDS_MAX} fields: {reject}")))
            }
            Fault::Response(reject @ Reject::TrailersTooLarge) => {
                Some((502, format!("sent more behind its response than is read: {reject}")))
            }
            Fault::Response(reject) => {
                let switch = mend::switch(reject).map(|fault| format!("; tolerate = [\"{}\"] allows it", fault.name()));
                Some((502, format!("sent a malformed response: {reject}{}", switch.unwrap_or_default())))
            }
            Fault::Request(reject) => Some((reject.status(), reject.to_string())),
            Fault::Unfit(Unfit { status, why }) => Some((status, why.into())),
            Fault::ClientSlow => Some((408, "the request body did not arrive in time".into())),
            Fault::TimedOut(Due::Response) => Some((504, "did not answer in time".into())),
            Fault::TimedOut(Due::Idle) => Some((504, "sent nothing more for `timeouts.idle`".into())),
            Fault::TimedOut(Due::Request) => Some((504, "did not answer within `timeouts.request`".into())),
            Fault::Idle => Some((504, "neither side sent anything for `timeouts.idle`".into())),
            Fault::CallExpired => Some((504, "did not answer before the client's deadline (`grpc-timeout`)".into())),
            Fault::Refused { grpc: Some(status), .. } => {
                Some((grpc::to_http(status), format!("ended the call with {}", status.name())))
            }
            Fault::Refused { status, .. } => Some((status, format!("answered {status}"))),
            Fault::NoWebSocket(101) => {
                Some((502, "switched to WebSocket without the right Sec-WebSocket-Accept".into()))
            }
            Fault::NoWebSocket(status) => Some((502, format!("answered {status} instead of switching to WebSocket"))),
            Fault::Stray => Some((502, "sent unexpected bytes on an idle connection".into())),
            Fault::ClientGone | Fault::Overtaken | Fault::Tunnel(_) => None,
        }
    }
}
