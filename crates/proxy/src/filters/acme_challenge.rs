//! Answers to HTTP-01 challenges of a certificate authority (RFC 8555 section 8.3).

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, RequestHead, Verdict};
use super::row::Build;
use crate::body::response::Response;
use evenkeel_tls::Challenges;
use std::sync::Arc;

struct Challenge(Arc<Challenges>);

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    Some(Box::new(Challenge(from.challenges?.clone())))
}

impl Filter for Challenge {
    fn request<'c>(&'c self, _: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match self.0.answer(head.request.path()) {
            Some(answer) => Verdict::Answer(Response::page("text/plain", answer.as_bytes().to_vec())),
            None => Verdict::Next,
        }
    }

    fn dry_run<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        self.request(cx, head).into()
    }
}
