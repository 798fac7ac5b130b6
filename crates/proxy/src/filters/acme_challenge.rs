//! Responses to HTTP-01 challenges of a certificate authority (RFC 8555 section 8.3).

use super::exchange::Exchange;
use super::filter::{Filter, Own, Pure, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use evenkeel_tls::Challenges;
use std::sync::Arc;

struct Challenge(Arc<Challenges>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    Some(Box::new(Challenge(from.challenges?.clone())))
}

impl Filter for Challenge {
    type State = ();

    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match self.0.answer(head.request.path()) {
            Some(answer) => Verdict::Answer(Response::page("text/plain", answer.as_bytes().to_vec())),
            None => Verdict::Next,
        }
    }
}

impl Pure for Challenge {}
