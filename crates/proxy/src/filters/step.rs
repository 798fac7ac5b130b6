//! A filter without the type of its state, as the table builds it.

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, ResponseHead, Resume, Verdict};
use super::states::Place;
use crate::body::filter::{BodyFilter, Direction};
use evenkeel_wire::head::{Fields, Request};
use std::borrow::Cow;

/// A filter without the type of its state: `Box::new` of any filter that predicts.
pub type Step = Box<dyn AnyFilter>;

/// The hooks of a [`Filter`], by its place among the states of a request.
pub trait AnyFilter {
    fn request(&self, at: Place, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict;
    fn resume(&self, at: Place, resume: Resume, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict;
    fn dry_run(&self, at: Place, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun;
    fn response(&self, at: Place, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>);
    fn interim(&self, at: Place, cx: &Exchange<'_>, fields: &mut Fields<'_, '_>, added: &mut Vec<u8>);
    fn request_body(&self, at: Place, cx: &Exchange<'_>, request: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>>;
    fn response_body(
        &self,
        at: Place,
        cx: &Exchange<'_>,
        head: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>>;
    fn tunnel(&self, at: Place, cx: &Exchange<'_>, direction: Direction) -> Option<Box<dyn BodyFilter>>;
    fn did(&self, at: Place, cx: &Exchange<'_>) -> Cow<'static, str>;
}

impl<F: Predict> AnyFilter for F {
    #[inline]
    fn request(&self, at: Place, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let mut own = cx.states.take(at);
        let verdict = Filter::request(self, &mut own, cx, head);
        cx.states.put(at, own);
        verdict
    }

    fn resume(&self, at: Place, resume: Resume, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let mut own: Own<F::State> = cx.states.take(at);
        let verdict = resume(&mut own, cx, head);
        cx.states.put(at, own);
        verdict
    }

    fn dry_run(&self, at: Place, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let mut own = cx.states.take(at);
        let would = Predict::dry_run(self, &mut own, cx, head);
        cx.states.put(at, own);
        would
    }

    #[inline]
    fn response(&self, at: Place, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        cx.states.with(at, |own| Filter::response(self, own, cx, head));
    }

    fn interim(&self, at: Place, cx: &Exchange<'_>, fields: &mut Fields<'_, '_>, added: &mut Vec<u8>) {
        cx.states.with(at, |own| Filter::interim(self, own, cx, fields, added));
    }

    fn request_body(&self, at: Place, cx: &Exchange<'_>, request: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>> {
        cx.states.with(at, |own| Filter::request_body(self, own, cx, request))
    }

    fn response_body(
        &self,
        at: Place,
        cx: &Exchange<'_>,
        head: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        cx.states.with(at, |own| Filter::response_body(self, own, cx, head))
    }

    fn tunnel(&self, at: Place, cx: &Exchange<'_>, direction: Direction) -> Option<Box<dyn BodyFilter>> {
        cx.states.with(at, |own| Filter::tunnel(self, own, cx, direction))
    }

    fn did(&self, at: Place, cx: &Exchange<'_>) -> Cow<'static, str> {
        cx.states.with(at, |own| Filter::did(self, own.as_deref(), cx))
    }
}
