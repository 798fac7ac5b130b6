//! Filter that determines the client behind trusted proxies from `X-Forwarded-*` and `Forwarded`.

use super::exchange::Exchange;
use super::filter::{Filter, Own, Pure, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::peer::admission::Admission;
use crate::peer::forwarded;
use std::borrow::Cow;
use std::sync::Arc;

struct Trusting(Arc<Admission>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    (!from.admission.trusted().is_empty()).then(|| Box::new(Trusting(from.admission.clone())) as _)
}

impl Filter for Trusting {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if cx.peer.is_trusted {
            let said = forwarded::believe(head.request, self.0.trusted(), cx.peer.ip, cx.peer.scheme());
            cx.facts.origin = (said.client != cx.peer.ip).then_some(said.client);
            cx.stats.forwarded_malformed.add(said.malformed);
            cx.facts.said = Some(Box::new(said));
        }
        Verdict::Next
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match cx.facts.origin {
            Some(client) => format!("{client}, as reported by {}", cx.peer.ip).into(),
            None => "".into(),
        }
    }
}

impl Pure for Trusting {}
