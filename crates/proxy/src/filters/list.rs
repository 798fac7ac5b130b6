//! Chain of the filters that were built for a listener or a route.

use super::exchange::Exchange;
use super::filter::{Filter, RequestHead, ResponseHead, Verdict};
use super::row::{LooksAt, Row};
use crate::body::filter::BodyFilter;
use evenkeel_wire::head::{Fields, Request};
use std::borrow::Cow;

/// Filters of a listener or of a route, in the order of the table.
#[derive(Default)]
pub struct Filters {
    all: Box<[(&'static Row, Box<dyn Filter>)]>,
    /// Indices of the filters that inspect responses, last one first.
    of_responses: Box<[usize]>,
    /// Indices of the filters that inspect bodies.
    of_bodies: Box<[usize]>,
    /// Indices of the filters that inspect request bodies: all, those of unknown length, or those of some requests.
    of_request_bodies: Box<[usize]>,
    /// True if one of these inspects all bodies, or those of unknown length.
    look_at_open_bodies: bool,
}

impl Filters {
    pub(super) fn new(all: Box<[(&'static Row, Box<dyn Filter>)]>) -> Filters {
        let of_responses = (0..all.len()).rev().filter(|&at| all[at].0.looks_at.responses).collect();
        let of_bodies = (0..all.len()).filter(|&at| all[at].0.looks_at.bodies).collect();
        let of_requests = |looks: LooksAt| looks.bodies || looks.open_bodies || looks.copied_bodies;
        let look_at_open_bodies = all.iter().any(|(row, _)| row.looks_at.bodies || row.looks_at.open_bodies);
        let of_request_bodies = (0..all.len()).filter(|&at| of_requests(all[at].0.looks_at)).collect();
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

    /// Passes the request through the filters from index `at` on. If one stops it, `at` becomes the index of the filter
    /// after that one.
    #[inline]
    pub fn request<'c>(&'c self, at: &mut usize, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let left = self.all.get(*at..).unwrap_or_default();
        for (passed, (_, filter)) in left.iter().enumerate() {
            let stopped = match filter.request(cx, head) {
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

    /// Name of each filter and the filter, in order.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &dyn Filter)> {
        self.all.iter().map(|(row, filter)| (row.name, &**filter))
    }

    /// Passes the head of a response through the filters, last one first, until one replaces the response.
    #[inline]
    pub fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        for &at in &self.of_responses {
            if head.instead.is_some() {
                return;
            }
            self.all[at].1.response(cx, head);
        }
    }

    /// Passes the head of an interim response through the filters, last one first.
    pub fn interim(&self, cx: &Exchange<'_>, fields: &mut Fields<'_, '_>, added: &mut Vec<u8>) {
        for &at in &self.of_responses {
            self.all[at].1.interim(cx, fields, added);
        }
    }

    /// Returns the filters for the body of a request, in order.
    pub fn request_body(
        &self,
        cx: &Exchange<'_>,
        request: &Request<'_, '_>,
    ) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        self.of_request_bodies.iter().filter_map(move |&at| self.all[at].1.request_body(cx, request))
    }

    /// Returns the filters for the body of a response, last one first.
    pub fn response_body(
        &self,
        cx: &Exchange<'_>,
        head: &ResponseHead<'_, '_, '_>,
    ) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        self.of_bodies.iter().rev().filter_map(move |&at| self.all[at].1.response_body(cx, head))
    }

    /// Name and effect of each filter that had an effect.
    pub fn steps(&self, cx: &Exchange<'_>) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        let steps = self.all.iter().map(|(row, filter)| (row.name, filter.did(cx)));
        steps.filter(|(_, did)| !did.is_empty())
    }
}
