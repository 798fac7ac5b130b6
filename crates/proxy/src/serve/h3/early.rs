//! Requests that a client sends before its handshake is complete (early data, 0-RTT). An attacker may have copied them:
//! this process answers the first copy alone, and others may have got it as well (RFC 8470).

use evenkeel_net::quic::StreamId;
use evenkeel_wire::h3::Head;
use std::cell::{OnceCell, RefCell};

/// Field by which an endpoint learns of it.
pub(super) const EARLY_DATA: (&str, &[u8]) = ("early-data", b"1");

/// Early data of a connection.
#[derive(Default)]
pub(super) struct EarlyData {
    /// True if requests are answered before the handshake is complete. Set at the first stream.
    pub(super) is_answered: OnceCell<bool>,
    /// Requests that wait for the end of the handshake, no more than there are streams.
    pub(super) waiting: RefCell<Vec<(StreamId, Head)>>,
}

/// Adds the field for endpoints.
pub(super) fn mark(head: &mut Head) {
    let (name, value) = EARLY_DATA;
    head.fields.fields().leave_out(name);
    head.fields.push(name.as_bytes(), value);
}

/// True if the request is harmless to repeat: a safe method (RFC 9110 section 9.2.1).
pub(super) fn is_safe(head: &Head) -> bool {
    head.protocol.is_none() && matches!(&*head.method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}
