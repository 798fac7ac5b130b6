//! Chain of the filters that were built for a listener or a route.

use super::exchange::Exchange;
use super::filter::{DryRun, RequestHead, ResponseHead, Resume, Verdict};
use super::row::{LooksAt, Row};
use super::states::Place;
use super::step::Step;
use crate::body::filter::{BodyFilter, Direction};
use evenkeel_wire::head::{Fields, Request};
use std::borrow::Cow;

/// A filter that was built, with its row and its place among the states of a request.
pub(super) struct Placed {
    pub row: &'static Row,
    pub at: Place,
    pub filter: Step,
}

/// Filters of a listener or of a route, in the order of the table.
#[derive(Default)]
pub struct Filters {
    all: Box<[Placed]>,
    /// Indices of the filters that inspect responses, in reverse order.
    of_responses: Box<[usize]>,
    /// Indices of the filters that inspect bodies.
    of_bodies: Box<[usize]>,
    /// Indices of the filters that inspect request bodies: all bodies, bodies of unknown length, or bodies of some
    /// requests.
    of_request_bodies: Box<[usize]>,
    /// True if any filter inspects all bodies, or bodies of unknown length.
    look_at_open_bodies: bool,
}

impl Filters {
    pub(super) fn new(all: Box<[Placed]>) -> Filters {
        let of_responses = (0..all.len()).rev().filter(|&at| all[at].row.looks_at.responses).collect();
        let of_bodies = (0..all.len()).filter(|&at| all[at].row.looks_at.bodies).collect();
        let of_requests = |looks: LooksAt| looks.bodies || looks.open_bodies || looks.copied_bodies;
        let look_at_open_bodies = all.iter().any(|step| step.row.looks_at.bodies || step.row.looks_at.open_bodies);
        let of_request_bodies = (0..all.len()).filter(|&at| of_requests(all[at].row.looks_at)).collect();
        Filters { all, of_responses, of_bodies, of_request_bodies, look_at_open_bodies }
    }

    /// True if some filter inspects bodies, which then pass in parts.
    #[inline]
    pub fn look_at_bodies(&self) -> bool {
        !self.of_bodies.is_empty()
    }

    /// True if some filter inspects request bodies whose length is not stated, which then pass in parts.
    #[inline]
    pub fn look_at_open_bodies(&self) -> bool {
        self.look_at_open_bodies
    }

    /// True if some filter inspects responses.
    #[inline]
    pub fn look_at_responses(&self) -> bool {
        !self.of_responses.is_empty()
    }

    /// Passes the request through the filters from index `at` on. If a filter stops the request, `at` becomes the index
    /// of the next filter.
    #[inline]
    pub fn request(&self, at: &mut usize, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let left = self.all.get(*at..).unwrap_or_default();
        for (passed, Placed { at: place, filter, .. }) in left.iter().enumerate() {
            let stopped = match filter.request(*place, cx, head) {
                Verdict::Next => continue,
                // Moved out variant by variant, so that no drop code is needed for `Next`.
                Verdict::Answer(response) => Verdict::Answer(response),
                Verdict::Wait(waiting) => Verdict::Wait(waiting),
            };
            *at += passed + 1;
            return stopped;
        }
        Verdict::Next
    }

    /// Continues the filter before index `at`, which has waited.
    pub fn resume(
        &self,
        at: usize,
        resume: Resume,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
    ) -> Verdict {
        let waited = at.checked_sub(1).and_then(|at| self.all.get(at));
        waited.map_or(Verdict::Next, |step| step.filter.resume(step.at, resume, cx, head))
    }

    /// Passes a described request through the filters, up to the first that answers. Returns the name of each filter
    /// and its prediction.
    pub fn dry_run(
        &self,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
    ) -> impl Iterator<Item = (&'static str, DryRun)> {
        self.all.iter().map(|step| (step.row.name, step.filter.dry_run(step.at, cx, head)))
    }

    /// Passes the head of a response through the filters in reverse order, until a filter replaces the response.
    #[inline]
    pub fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        for &at in &self.of_responses {
            if head.instead.is_some() {
                return;
            }
            let step = &self.all[at];
            step.filter.response(step.at, cx, head);
        }
    }

    /// Passes the head of an interim response through the filters, in reverse order.
    pub fn interim(&self, cx: &Exchange<'_>, fields: &mut Fields<'_, '_>, added: &mut Vec<u8>) {
        for &at in &self.of_responses {
            let step = &self.all[at];
            step.filter.interim(step.at, cx, fields, added);
        }
    }

    /// Returns the filters for the body of a request, in order.
    pub fn request_body(
        &self,
        cx: &Exchange<'_>,
        request: &Request<'_, '_>,
    ) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        let looking = self.of_request_bodies.iter().map(|&at| &self.all[at]);
        looking.filter_map(move |step| step.filter.request_body(step.at, cx, request))
    }

    /// Returns the filters for the body of a response, in reverse order.
    pub fn response_body(
        &self,
        cx: &Exchange<'_>,
        head: &ResponseHead<'_, '_, '_>,
    ) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        let looking = self.of_bodies.iter().rev().map(|&at| &self.all[at]);
        looking.filter_map(move |step| step.filter.response_body(step.at, cx, head))
    }

    /// Returns the filters for a direction of a tunnel, in order.
    pub fn tunnel(&self, cx: &Exchange<'_>, direction: Direction) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        let looking = self.of_bodies.iter().map(|&at| &self.all[at]);
        looking.filter_map(move |step| step.filter.tunnel(step.at, cx, direction))
    }

    /// Name and effect of each filter that had an effect.
    pub fn steps(&self, cx: &Exchange<'_>) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        let steps = self.all.iter().map(|step| (step.row.name, step.filter.did(step.at, cx)));
        steps.filter(|(_, did)| !did.is_empty())
    }
}
