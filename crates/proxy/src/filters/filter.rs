//! The [`Filter`] trait: a step that requests and responses pass, and its possible decisions.

pub use super::states::Own;

use super::exchange::Exchange;
use crate::body::filter::{BodyFilter, Direction};
use crate::body::response::Response;
use crate::cache::encodings::Whole;
use crate::cache::filling::Filling;
use bytes::Bytes;
use evenkeel_balance::Outcome;
use evenkeel_wire::head::{Edits, Fields, Request};
use std::any::Any;
use std::borrow::Cow;
use std::pin::Pin;

/// A step that requests and responses pass. Its prediction for described requests is in [`Predict`].
pub trait Filter: 'static {
    /// State that the filter keeps for a request, from hook to hook. `()` keeps nothing, and costs nothing.
    type State: 'static;

    /// Inspects a request; may change its head or answer it.
    fn request(&self, _own: &mut Own<Self::State>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        Verdict::Next
    }

    /// Inspects the head of a final response, from an endpoint or from the proxy itself. May change or replace the
    /// response.
    fn response(&self, _own: &mut Own<Self::State>, _: &Exchange<'_>, _: &mut ResponseHead<'_, '_, '_>) {}

    /// Inspects the head of an interim response of an endpoint. May drop fields, and add lines to `added`, each ending
    /// in CRLF. Only called for filters that inspect responses.
    fn interim(&self, _own: &mut Own<Self::State>, _: &Exchange<'_>, _: &mut Fields<'_, '_>, _added: &mut Vec<u8>) {}

    /// Returns a filter for the request body. Called once the route is known, and only if a body follows the head.
    fn request_body(
        &self,
        _own: &mut Own<Self::State>,
        _: &Exchange<'_>,
        _: &Request<'_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        None
    }

    /// Returns a filter for the body of a final response. Called after [`Filter::response`], also if no body follows
    /// (`HEAD`), as the stated length may no longer hold.
    fn response_body(
        &self,
        _own: &mut Own<Self::State>,
        _: &Exchange<'_>,
        _: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        None
    }

    /// Returns a filter for a direction of a tunnel, such as a WebSocket. Only of filters that inspect bodies.
    fn tunnel(&self, _own: &mut Own<Self::State>, _: &Exchange<'_>, _: Direction) -> Option<Box<dyn BodyFilter>> {
        None
    }

    /// Effect on a finished request in a few words, for explanations; empty if it had none.
    fn did(&self, _own: Option<&Self::State>, _: &Exchange<'_>) -> Cow<'static, str> {
        "".into()
    }

    /// Returns the verdict of a filter that waits for `future`, and continues with `then`. Meanwhile nothing of the
    /// request is borrowed, and no buffer is held for it.
    fn wait<T: 'static>(
        future: impl Future<Output = T> + 'static,
        then: impl FnOnce(T, &mut Own<Self::State>, &mut Exchange<'_>, &mut RequestHead<'_, '_, '_>) -> Verdict + 'static,
    ) -> Verdict
    where
        Self: Sized,
    {
        Verdict::Wait(Box::pin(async move {
            let result = future.await;
            let resume: Resume = Box::new(move |own, cx, head| {
                let own = own.downcast_mut().expect("a filter gets its own state");
                then(result, own, cx, head)
            });
            resume
        }))
    }
}

/// Prediction of a filter for requests that are only described.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not predict what it does with a described request",
    note = "implement `Predict`, or `Pure` if it changes nothing but the request and the exchange"
)]
pub trait Predict: Filter {
    /// Predicts [`request`](Filter::request) for a request that is only described: nothing is counted, sent or awaited.
    /// The statistics of the exchange are separate from the listener's.
    fn dry_run(&self, own: &mut Own<Self::State>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun;
}

/// A filter that changes nothing but the request and the exchange: its dry run is its [`request`](Filter::request).
pub trait Pure: Filter {}

impl<F: Pure> Predict for F {
    fn dry_run(&self, own: &mut Own<Self::State>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        self.request(own, cx, head).into()
    }
}

/// Decision of a filter about a request.
pub enum Verdict {
    /// Continues with the next filter.
    Next,
    /// Answers the request; no further filter and no endpoint sees it.
    Answer(Response),
    /// Waits, as [`Filter::wait`] describes.
    Wait(Waiting),
}

/// Predicted decision of a filter about a request.
pub enum DryRun {
    /// Continues. The text describes the effect of the filter in a few words; empty for no effect.
    Next(Cow<'static, str>),
    /// Answers the request, for the reason.
    Answer(Response, Cow<'static, str>),
}

impl DryRun {
    /// Continues, with nothing to predict.
    pub fn nothing() -> DryRun {
        DryRun::Next("".into())
    }
}

impl From<Response> for DryRun {
    fn from(response: Response) -> DryRun {
        let why = response.why().into_owned();
        DryRun::Answer(response, why.into())
    }
}

impl From<Verdict> for DryRun {
    fn from(verdict: Verdict) -> DryRun {
        match verdict {
            Verdict::Answer(response) => response.into(),
            Verdict::Next | Verdict::Wait(_) => DryRun::nothing(),
        }
    }
}

/// Future that a filter waits for. Its output continues the filter.
pub type Waiting = Pin<Box<dyn Future<Output = Resume>>>;

/// Continuation of a filter after waiting. Its first argument is the filter's [`Own`].
pub type Resume = Box<dyn FnOnce(&mut dyn Any, &mut Exchange<'_>, &mut RequestHead<'_, '_, '_>) -> Verdict>;

/// The head of a request, and the changes to it.
pub struct RequestHead<'a, 'h, 'b> {
    /// The head as received. Fields that are dropped here are not forwarded.
    pub request: &'a mut Request<'h, 'b>,
    /// Fields to add, and replacements of others.
    pub edits: &'a mut Edits,
}

/// The head of a final response, and the changes to it.
pub struct ResponseHead<'a, 'h, 'b> {
    pub status: u16,
    /// Fields as received. Fields that are dropped here are not forwarded.
    pub fields: &'a mut Fields<'h, 'b>,
    /// True if no body follows the head, as in a 304 or with a length of 0.
    pub ends: bool,
    /// Length in bytes of the body of a response of the proxy itself, even in response to HEAD; `None` for others.
    pub length: Option<u64>,
    /// Field lines to add, each ending in CRLF.
    pub added: &'a mut Vec<u8>,
    /// Outcome for the balancer; `None` for responses of the proxy itself.
    pub outcome: Option<Outcome>,
    /// True if the body is the line of text with which the proxy itself answers a request that no endpoint answers.
    pub is_line: bool,
    /// Response of the proxy that the client gets instead, once a filter has set it. It passes the filters anew.
    pub instead: Option<Box<Response>>,
    /// Stored response with the same body, for the filter that sends it in another coding.
    pub(crate) whole: Option<Box<Whole>>,
    /// Fetch of the cache that takes the body from the endpoint, once a filter has set it. The client reads it from there.
    pub(crate) filling: Option<Box<Filling>>,
    /// Body that replaces the body of a response of the proxy itself, once a filter has set it.
    pub(crate) body: Option<Bytes>,
}

impl ResponseHead<'_, '_, '_> {
    /// True if an endpoint made this response, now or before it was stored; false for responses of the proxy itself.
    pub(super) fn is_of_endpoint(&self, cx: &Exchange<'_>) -> bool {
        self.outcome.is_some() || cx.facts.serves_stored.get()
    }
}
