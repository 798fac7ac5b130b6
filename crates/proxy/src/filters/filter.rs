//! A filter: a step that requests and responses pass, and what may become of them there.

use super::exchange::Exchange;
use crate::body::filter::BodyFilter;
use crate::body::response::Response;
use evenkeel_balance::Outcome;
use evenkeel_wire::head::{Edits, Fields, Request};
use std::borrow::Cow;
use std::pin::Pin;

/// A step that requests and responses pass.
pub trait Filter {
    /// Looks at a request, and may change its head or answer it.
    fn request<'c>(&'c self, _: &mut Exchange<'c>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        Verdict::Next
    }

    /// Looks at the head of a final response, wherever it comes from, and may change it.
    fn response(&self, _: &Exchange<'_>, _: &mut ResponseHead<'_, '_, '_>) {}

    /// Returns the filter for the body of a request. Asked once its route is known, and only where a body follows the head.
    fn request_body(&self, _: &Exchange<'_>, _: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>> {
        None
    }

    /// Returns the filter for the body of a final response. Asked behind [`Filter::response`], and also where no body follows the
    /// head (`HEAD`), as its length would be another one.
    fn response_body(&self, _: &Exchange<'_>, _: &ResponseHead<'_, '_, '_>) -> Option<Box<dyn BodyFilter>> {
        None
    }

    /// Its effect on a request that is over, in a few words; empty if it had none.
    fn did(&self, _: &Exchange<'_>) -> Cow<'static, str> {
        "".into()
    }
}

/// Decision of a filter about a request.
pub enum Verdict {
    /// The next filter looks at it.
    Next,
    /// Answers the request; no further filter and no endpoint sees it.
    Answer(Response),
    /// Something has to be asked for first. Nothing of the request is borrowed meanwhile, and no buffer is held for it.
    Wait(Waiting),
}

/// Future that a filter waits for. Its result is passed to the filter's second look at the request.
pub type Waiting = Pin<Box<dyn Future<Output = Resume>>>;

/// The rest of a filter's look at a request.
pub type Resume = Box<dyn FnOnce(&mut Exchange<'_>, &mut RequestHead<'_, '_, '_>) -> Verdict>;

/// The head of a request, and the changes to it.
pub struct RequestHead<'a, 'h, 'b> {
    /// The head as it came. Fields that are left out of it go no further.
    pub request: &'a mut Request<'h, 'b>,
    /// Fields that are added, and what is put in the place of others.
    pub edits: &'a mut Edits,
}

/// The head of a final response, and the changes to it.
pub struct ResponseHead<'a, 'h, 'b> {
    pub status: u16,
    /// Fields as received. Those left out are not forwarded.
    pub fields: &'a mut Fields<'h, 'b>,
    /// Lines that are added, each with its end.
    pub added: &'a mut Vec<u8>,
    /// The outcome for the balancer, if it is an endpoint's.
    pub outcome: Option<Outcome>,
}
