//! The filters of requests and responses: a file and a row of [`table::FILTERS`] each. Those of a listener look at every request,
//! before it has a route, and at every response; those of a route at its requests, and at their responses.
//!
//! A filter that is not configured is not built. What one of them keeps of a request is in the [`Exchange`].

mod acme_challenge;
mod client;
pub mod exchange;
mod forwarded;
mod hsts;
mod https_redirect;
mod load_field;
mod load_report;
mod loop_mark;
mod max_forwards;
mod rate_limit;
mod request_id;
mod sticky;
pub mod table;
mod trace;

pub use exchange::Exchange;

use crate::body::response::Response;
use evenkeel_balance::Outcome;
use evenkeel_wire::head::{Edits, Fields, Request};
use std::borrow::Cow;
use std::pin::Pin;
use table::Row;

/// A step that requests and responses pass.
pub trait Filter {
    /// Looks at a request, and may change its head or answer it.
    fn request<'c>(&'c self, _: &mut Exchange<'c>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        Verdict::Next
    }

    /// Looks at the head of a final response, wherever it comes from, and may change it.
    fn response(&self, _: &Exchange<'_>, _: &mut ResponseHead<'_, '_, '_>) {}

    /// Its effect on a request that is over, in a few words; empty if it had none.
    fn did(&self, _: &Exchange<'_>) -> Cow<'static, str> {
        "".into()
    }
}

/// What becomes of a request.
pub enum Verdict {
    /// The next filter looks at it.
    Next,
    /// It goes no further.
    Answer(Response),
    /// Somebody has to be asked first. Nothing of the request is borrowed meanwhile, and no buffer is held for it.
    Wait(Waiting),
}

/// What a filter waits for. Once it is there, the filter looks at the request again by what it gave.
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
    /// The status.
    pub status: u16,
    /// The fields as they came. Those that are left out go no further.
    pub fields: &'a mut Fields<'h, 'b>,
    /// Lines that are added, each with its end.
    pub added: &'a mut Vec<u8>,
    /// The outcome for the balancer, if it is an endpoint's.
    pub outcome: Option<Outcome>,
}

/// The filters of a listener, or those of a route, in the order of the table.
#[derive(Default)]
pub struct Filters {
    all: Box<[(&'static Row, Box<dyn Filter>)]>,
    /// The numbers of those that look at responses, the last one first.
    of_responses: Box<[usize]>,
    look_at_bodies: bool,
}

impl Filters {
    fn new(all: Box<[(&'static Row, Box<dyn Filter>)]>) -> Filters {
        let of_responses = (0..all.len()).rev().filter(|&at| all[at].0.looks_at.responses).collect();
        let look_at_bodies = all.iter().any(|(row, _)| row.looks_at.bodies);
        Filters { all, of_responses, look_at_bodies }
    }

    /// True if some of them look at the content of bodies, which therefore passes in parts.
    #[inline]
    pub fn look_at_bodies(&self) -> bool {
        self.look_at_bodies
    }

    /// True if some of them look at responses.
    #[inline]
    pub fn look_at_responses(&self) -> bool {
        !self.of_responses.is_empty()
    }

    /// Has the request pass the filters from number `at` on, which is that of the next one then.
    #[inline]
    pub fn request<'c>(&'c self, at: &mut usize, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        while let Some((_, filter)) = self.all.get(*at) {
            *at += 1;
            match filter.request(cx, head) {
                Verdict::Next => {}
                other => return other,
            }
        }
        Verdict::Next
    }

    /// Has the head of a response pass them, the last one first.
    #[inline]
    pub fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        self.of_responses.iter().for_each(|&at| self.all[at].1.response(cx, head));
    }

    /// The name and the effect of each filter that had one.
    pub fn steps(&self, cx: &Exchange<'_>) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        let steps = self.all.iter().map(|(row, filter)| (row.name, filter.did(cx)));
        steps.filter(|(_, did)| !did.is_empty())
    }
}
