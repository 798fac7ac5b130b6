//! End and outcome of a request. [`Completion`] decides both; [`InFlight`] counts a request at its endpoint until
//! dropped.

use crate::returns::{Ended, Returns};
use evenkeel_balance::{FailureKind, LoadReport, Outcome};
use std::sync::Arc;

/// Decides when and with which outcome a request ends, from the `Result<T, E>` of its service.
///
/// A closure `Fn(&Result<T, E>) -> Outcome` implements it for requests that end when the service has answered.
/// Implement it yourself if a response continues after that, as a stream of bytes does:
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
    /// Response that the balancer's caller gets.
    type Output;

    /// True if [`report`](Self::report) may return reports. Otherwise algorithms that need reports are rejected.
    const REPORTS: bool = false;

    /// Outcome of the request. By default, an error is a failure and any response a success.
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        if result.is_ok() { Outcome::Success } else { Outcome::failed(FailureKind::Gateway) }
    }

    /// Load report of the endpoint in this response, if any.
    fn report(&self, _response: &T) -> Option<LoadReport> {
        None
    }

    /// Attaches the request's count to the response, or ends it by [`InFlight::end_with_head`].
    fn complete(&self, in_flight: InFlight, response: T) -> Self::Output;
}

/// Ends a request when its service has answered; an error is a failure and any response a success.
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

/// Guard of a request in flight: counts it at its endpoint until dropped. If dropped before the service has answered,
/// the request counts as cancelled. May be dropped on any thread, also after its balancer.
#[must_use = "a request counts as ended when this is dropped"]
pub struct InFlight {
    returns: Arc<Returns>,
    node: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The service has not answered.
    Waiting,
    /// The service has answered; the request is still in flight.
    Answered,
    /// The request has ended, at the time of its answer.
    Over,
}

impl InFlight {
    #[inline]
    pub(crate) fn new(returns: Arc<Returns>, node: u32) -> InFlight {
        InFlight { returns, node, stage: Stage::Waiting }
    }

    /// Notes that the service answered just now, which ends the latency that algorithms see.
    #[inline]
    pub(crate) fn answered(&mut self, outcome: Outcome, report: Option<LoadReport>) {
        let now = self.returns.now();
        self.returns.note(self.node, &Ended { outcome, answered: Some(now), at: now, report });
        self.stage = Stage::Answered;
    }

    /// Replaces the outcome, for instance if a body breaks off after a head that was a success.
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.returns.note_outcome(self.node, outcome);
    }

    /// Ends the request as of the time at which its service answered. Cheaper than a drop, which reads the clock again.
    #[inline]
    pub fn end_with_head(mut self) {
        self.stage = Stage::Over;
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        match self.stage {
            Stage::Waiting => {
                let at = self.returns.now();
                self.returns.note(self.node, &Ended { outcome: Outcome::Cancelled, answered: None, at, report: None });
            }
            Stage::Answered => self.returns.note_end(self.node, self.returns.now()),
            Stage::Over => {}
        }
        self.returns.give_back(self.node);
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight").field("stage", &self.stage).finish_non_exhaustive()
    }
}
