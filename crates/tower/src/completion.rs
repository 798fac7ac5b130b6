//! End and outcome of a request. [`Completion`] decides both; [`InFlight`] is the request's count at its
//! endpoint, which ends when it is dropped.

use crate::returns::{Ended, Returns};
use evenkeel_balance::{FailureKind, LoadReport, Outcome};
use std::sync::Arc;

/// Decides how and when a request ends, by the result of its service: `Result<T, E>`.
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
    /// Response that the balancer's caller gets.
    type Output;

    /// True if [`report`](Self::report) may return reports. Otherwise algorithms that need reports are refused.
    const REPORTS: bool = false;

    /// The request's outcome. By default an error is a failure, and a response is not.
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

/// A request in flight: counted at its endpoint until this is dropped. Dropped before its service has answered, the
/// request counts as cancelled. May be dropped on any thread, also after its balancer.
#[must_use = "a request counts as ended when this is dropped"]
pub struct InFlight {
    returns: Arc<Returns>,
    node: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its service has not answered.
    Waiting,
    /// Its outcome is noted, its end is not.
    Answered,
    /// Outcome and end are noted.
    Over,
}

impl InFlight {
    #[inline]
    pub(crate) fn new(returns: Arc<Returns>, node: u32) -> InFlight {
        InFlight { returns, node, stage: Stage::Waiting }
    }

    /// Notes that the service answered just now. The latency that algorithms see ends here.
    #[inline]
    pub(crate) fn answered(&mut self, outcome: Outcome, report: Option<LoadReport>) {
        let now = self.returns.now();
        self.returns.note(self.node, &Ended { outcome, answered: Some(now), at: now, report });
        self.stage = Stage::Answered;
    }

    /// Replaces the outcome: a body that breaks off is a failure, or cancelled, whatever the head said.
    pub fn set_outcome(&mut self, outcome: Outcome) {
        self.returns.note_outcome(self.node, outcome);
    }

    /// Ends the request as of the moment its service answered. Cheaper than a drop, which reads the clock again.
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
