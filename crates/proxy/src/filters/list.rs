//! The filters that were built for a listener or for a route, one after the other.

use super::exchange::Exchange;
use super::filter::{Filter, RequestHead, ResponseHead, Verdict};
use super::row::Row;
use crate::body::filter::BodyFilter;
use evenkeel_wire::head::Request;
use std::borrow::Cow;

/// The filters of a listener, or those of a route, in the order of the table.
#[derive(Default)]
pub struct Filters {
    all: Box<[(&'static Row, Box<dyn Filter>)]>,
    /// The numbers of those that look at responses, the last one first.
    of_responses: Box<[usize]>,
    /// The numbers of those that look at bodies.
    of_bodies: Box<[usize]>,
}

impl Filters {
    pub(super) fn new(all: Box<[(&'static Row, Box<dyn Filter>)]>) -> Filters {
        let of_responses = (0..all.len()).rev().filter(|&at| all[at].0.looks_at.responses).collect();
        let of_bodies = (0..all.len()).filter(|&at| all[at].0.looks_at.bodies).collect();
        Filters { all, of_responses, of_bodies }
    }

    /// True if some of them look at the content of bodies, which therefore passes in parts.
    #[inline]
    pub fn look_at_bodies(&self) -> bool {
        !self.of_bodies.is_empty()
    }

    /// True if some of them look at responses.
    #[inline]
    pub fn look_at_responses(&self) -> bool {
        !self.of_responses.is_empty()
    }

    /// Has the request pass the filters from number `at` on, which is that of the next one then.
    #[inline]
    pub fn request<'c>(&'c self, at: &mut usize, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let left = self.all.get(*at..).unwrap_or_default();
        for (passed, (_, filter)) in left.iter().enumerate() {
            let stopped = match filter.request(cx, head) {
                Verdict::Next => continue,
                // Taken apart, so that nothing is left of a verdict that would have to be dropped.
                Verdict::Answer(response) => Verdict::Answer(response),
                Verdict::Wait(waiting) => Verdict::Wait(waiting),
            };
            *at += passed + 1;
            return stopped;
        }
        Verdict::Next
    }

    /// Has the head of a response pass them, the last one first.
    #[inline]
    pub fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        self.of_responses.iter().for_each(|&at| self.all[at].1.response(cx, head));
    }

    /// Filters for the body of a request, in order.
    pub fn request_body(
        &self,
        cx: &Exchange<'_>,
        request: &Request<'_, '_>,
    ) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        self.of_bodies.iter().filter_map(move |&at| self.all[at].1.request_body(cx, request))
    }

    /// Filters for the body of a response: the last one comes first.
    pub fn response_body(
        &self,
        cx: &Exchange<'_>,
        head: &ResponseHead<'_, '_, '_>,
    ) -> impl Iterator<Item = Box<dyn BodyFilter>> {
        self.of_bodies.iter().rev().filter_map(move |&at| self.all[at].1.response_body(cx, head))
    }

    /// The name and the effect of each filter that had one.
    pub fn steps(&self, cx: &Exchange<'_>) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        let steps = self.all.iter().map(|(row, filter)| (row.name, filter.did(cx)));
        steps.filter(|(_, did)| !did.is_empty())
    }
}
