//! When is a request over, and did it go well? [`Completion`] decides; [`InFlight`] is the request's count at its endpoint,
//! which ends when it is dropped.

use crate::returns::{Ended, Returns};
use evenkeel_balance::{FailureKind, Instant, LoadReport, Outcome};
use std::sync::Arc;

/// Decides how and when a request ends, by what its service gave: `Result<T, E>`.
///
/// A closure `Fn(&Result<T, E>) -> Outcome` is one, for requests that are over when the service has answered. Write an
/// implementation where the response goes on after that, as a stream of bytes does:
///
/// ```
/// use evenkeel_tower::{Completion, InFlight, Outcome};
///
/// /// A body that is in flight until it is dropped.
/// struct Counted<B> {
///     body: B,
///     in_flight: InFlight,
/// }
///
/// #[derive(Clone)]
/// struct AtLastByte;
///
/// impl<B, E> Completion<B, E> for AtLastByte {
///     type Output = Counted<B>;
///
///     fn complete(&self, in_flight: InFlight, body: B) -> Counted<B> {
///         Counted { body, in_flight }
///     }
/// }
/// ```
pub trait Completion<T, E>: Clone {
    /// What the balancer's caller gets.
    type Output;

    /// Whether [`report`](Self::report) may give something. Algorithms that need reports are refused without.
    const REPORTS: bool = false;

    /// How it went. By default an error is a failure, and a response is not.
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        if result.is_ok() { Outcome::Success } else { Outcome::failed(FailureKind::Gateway) }
    }

    /// What the response says of its endpoint's load.
    fn report(&self, _response: &T) -> Option<LoadReport> {
        None
    }

    /// Attaches the request's count to the response, or ends it by [`InFlight::end_with_head`].
    fn complete(&self, in_flight: InFlight, response: T) -> Self::Output;
}

/// A request is over when its service has answered; an error is a failure, and a response is not.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtHead;

impl<T, E> Completion<T, E> for AtHead {
    type Output = T;

    #[inline]
    fn complete(&self, in_flight: InFlight, response: T) -> T {
        in_flight.end_with_head();
        response
    }
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome + Clone> Completion<T, E> for F {
    type Output = T;

    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }

    fn complete(&self, in_flight: InFlight, response: T) -> T {
        in_flight.end_with_head();
        response
    }
}

/// A request in flight: counted at its endpoint until this is dropped. Before its service has answered that counts as
/// cancelled. May be dropped on any thread, also after its balancer.
#[must_use = "a request counts as ended when this is dropped"]
pub struct InFlight {
    returns: Arc<Returns>,
    place: u32,
    ended: Ended,
    /// Whether `ended.at` is known already.
    is_over: bool,
}

impl InFlight {
    pub(crate) fn new(returns: Arc<Returns>, place: u32) -> InFlight {
        let ended = Ended { outcome: Outcome::Cancelled, answered: None, at: Instant(0), report: None };
        InFlight { returns, place, ended, is_over: false }
    }

    /// Notes that the service answered just now. The latency that algorithms see ends here.
    pub(crate) fn answered(&mut self, outcome: Outcome, report: Option<LoadReport>) {
        let now = self.returns.now();
        self.ended = Ended { outcome, answered: Some(now), at: now, report };
    }

    /// Replaces how it went: a body that breaks off is a failure, or cancelled, whatever the head said.
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.ended.outcome = outcome;
    }

    /// Ends the request as of when its service answered. Cheaper than a drop, which asks the clock again.
    #[inline]
    pub fn end_with_head(mut self) {
        self.is_over = self.ended.answered.is_some();
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        if !self.is_over {
            self.ended.at = self.returns.now();
        }
        self.returns.give_back(self.place, &self.ended);
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight").field("outcome", &self.ended.outcome).finish_non_exhaustive()
    }
}
