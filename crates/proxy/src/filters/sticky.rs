//! Sticky sessions: finds the endpoint of a client's session, and sets the cookie that names it.

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, ResponseHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::upstream::pool::WorkerPool;
use std::borrow::Cow;
use std::rc::Rc;

struct Sessions;

pub fn build(from: &Build<'_>) -> Option<Step> {
    let is_sticky = |pool: &Rc<WorkerPool>| pool.peek().compiled.sticky.is_some();
    from.route.as_ref()?.target.pools().any(is_sticky).then(|| Box::new(Sessions) as _)
}

impl Filter for Sessions {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        cx.facts.session = cx.facts.pool.and_then(|pool| pool.session(head.request, cx.core));
        Verdict::Next
    }

    /// Sets the cookie on responses of endpoints only.
    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if let (Some(session), Some(endpoint), Some(_)) = (&cx.facts.session, &cx.facts.endpoint, head.outcome)
            && let Some(cookie) = session.cookie_for(cx.core, endpoint)
        {
            head.added.extend_from_slice(cookie.as_bytes());
        }
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match (&cx.facts.session, &cx.facts.endpoint) {
            (Some(session), Some(endpoint)) if session.is_at(endpoint) => {
                "the client has a session at this endpoint".into()
            }
            (Some(_), Some(endpoint)) => format!("the client's session starts at {}", endpoint.name).into(),
            _ => "".into(),
        }
    }
}

impl Predict for Sessions {
    fn dry_run(&self, _: &mut Own<()>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        DryRun::nothing()
    }
}
