//! Response future: the future of the picked service, with the guard that counts the request.

use crate::completion::{Completion, InFlight};
use crate::error::Unready;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tower::BoxError;

pin_project! {
    /// Response future of [`Balance`](crate::Balance). If it is dropped before the response, the request counts as
    /// cancelled.
    #[derive(Debug)]
    pub struct ResponseFuture<F, C> {
        // `None` if no endpoint was ready.
        #[pin]
        future: Option<F>,
        in_flight: Option<InFlight>,
        completion: C,
    }
}

impl<F, C> ResponseFuture<F, C> {
    #[inline]
    pub(crate) fn new(future: F, in_flight: InFlight, completion: C) -> ResponseFuture<F, C> {
        ResponseFuture { future: Some(future), in_flight: Some(in_flight), completion }
    }

    pub(crate) fn unready(completion: C) -> ResponseFuture<F, C> {
        ResponseFuture { future: None, in_flight: None, completion }
    }
}

impl<F, C, T, E> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    C: Completion<T, E>,
{
    type Output = Result<C::Output, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else { return Poll::Ready(Err(Unready.into())) };
        let result = ready!(future.poll(cx));
        let mut in_flight = this.in_flight.take().expect("a future is not polled after it has finished");
        let report = result.as_ref().ok().and_then(|response| this.completion.report(response));
        in_flight.answered(this.completion.outcome(&result), report);
        Poll::Ready(match result {
            Ok(response) => Ok(this.completion.complete(in_flight, response)),
            Err(error) => {
                in_flight.end_with_head();
                Err(error.into())
            }
        })
    }
}
