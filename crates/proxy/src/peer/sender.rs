//! Facts about the sender of a request that are not in its head, and the work that its routing may take.

use evenkeel_config::plan::Scheme;
use evenkeel_wire::head::Request;
use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;

/// Steps that the regular expressions of all routes may take for a request: at most some milliseconds, and with usual
/// expressions, which take a step for four bytes, far more than a head can cause.
pub const STEPS_MAX: u32 = 256 << 10;

/// Steps that take as long as a unit of a turn's budget.
pub const STEPS_PER_UNIT: u32 = 256;

/// A request as matches and conditions see it.
#[derive(Clone, Copy)]
pub struct Seen<'s, 'h, 'b> {
    pub request: &'s Request<'h, 'b>,
    /// Path of the request, or another reading of it.
    pub path: &'s [u8],
    /// Lines of fields that were added to it.
    pub added: &'s [u8],
}

/// Values of maps, as routes see them.
pub trait MapValues {
    /// Calls `test` with the value of a map for a request, and returns its result; false if there is no value. Regular
    /// expressions of the map take at most the steps that are `left`.
    fn test(&self, map: &str, seen: &Seen<'_, '_, '_>, left: &Cell<u32>, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

impl fmt::Debug for dyn MapValues + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapValues")
    }
}

/// Sender of a request, as routes see it.
#[derive(Clone, Debug)]
pub struct Sender<'m> {
    /// The client. Behind trusted proxies, the client that they report.
    pub client: IpAddr,
    /// Scheme by which the client sent the request.
    pub scheme: Scheme,
    /// Steps that are left to regular expressions; 0 once they would have taken more.
    pub steps: Cell<u32>,
    /// True if the fields count in which proxies report the client.
    pub is_trusted: bool,
    /// Maps; none have a value without it.
    pub maps: Option<&'m dyn MapValues>,
}

impl<'s, 'h, 'b> Seen<'s, 'h, 'b> {
    /// A request as it was sent.
    pub fn as_sent(request: &'s Request<'h, 'b>) -> Seen<'s, 'h, 'b> {
        Seen { request, path: request.path().as_bytes(), added: b"" }
    }
}

impl<'m> Sender<'m> {
    /// Client whose fields about proxies do not count, with all steps and without maps.
    pub fn new(client: IpAddr, scheme: Scheme) -> Sender<'m> {
        Sender { client, scheme, steps: Cell::new(STEPS_MAX), is_trusted: false, maps: None }
    }

    /// Units of a turn's budget for the steps so far. `None` if they were too few, so that no result of a comparison
    /// counts.
    pub fn units(&self) -> Option<u32> {
        let left = self.steps.get();
        (left > 0).then_some((STEPS_MAX - left) / STEPS_PER_UNIT)
    }
}
