//! Requests for the same response share a fetch: a request leads, the others wait for the head of its response and then
//! read the body as it arrives.

use super::cache::{Cache, Caching, OnDisk, Wish};
use super::fetch::Asked;
use super::responses::growing_response;
use crate::body::response::Content;
use crate::cache::flights::{End, Follow, Followed, Role};
use crate::cache::growing::Growing;
use crate::cache::outcome::{Cached, Outcome};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, RequestHead, Verdict};
use evenkeel_balance::{Clock, Instant};
use evenkeel_cache::decide::{Decision, decide};
use evenkeel_cache::key::Key;
use evenkeel_cache::vary;
use evenkeel_net::event_loop::alarm::timeout;
use evenkeel_wire::head::Fields;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

impl Cache {
    /// Role of a request in the fetch of its response. `copy`: the request with its changes, once it is needed.
    pub(super) fn join(
        &self,
        cx: &Exchange<'_>,
        wish: &Wish,
        head: &RequestHead<'_, '_, '_>,
        copy: &mut Option<Asked>,
    ) -> Role {
        let (flights, now) = (&self.responses.shared.flights, cx.core.clock.now());
        let is_current = |growing: &Growing| self.is_current(&wish.key, growing, now);
        flights.join(&wish.key, |vary| varying(head, copy, vary), now, is_current)
    }

    /// Role of a request that does not fetch the whole response.
    pub(super) fn other(
        &self,
        cx: &Exchange<'_>,
        wish: &Wish,
        head: &RequestHead<'_, '_, '_>,
        copy: &mut Option<Asked>,
    ) -> Role {
        let (flights, now) = (&self.responses.shared.flights, cx.core.clock.now());
        let growing = flights.growing(&wish.key, |vary| varying(head, copy, vary));
        growing.filter(|growing| self.is_current(&wish.key, growing, now)).map_or(Role::Alone(None), Role::Reads)
    }

    /// True if later requests may have a response that is arriving: it was not purged, and its endpoint continues.
    fn is_current(&self, key: &Key, growing: &Growing, now: Instant) -> bool {
        let is_silent = self.collapse.is_some_and(|wait| growing.silence_ns(now) > wait.as_nanos() as u64);
        !is_silent && !self.responses.shared.store.is_purged_since(key.into(), &growing.head, growing.began)
    }

    /// Waits for the response that another request fetches.
    pub(super) fn follow(self: &Rc<Cache>, cx: &Exchange<'_>, wish: Wish, follow: Follow, wait: Duration) -> Verdict {
        let (cache, began) = (self.clone(), cx.core.clock.now());
        Caching::wait(timeout(wait, follow), move |followed, own, cx, head| {
            // The disk had nothing before, and a response fetched since is in memory, unless others are used more.
            let mut wish = Wish { is_collapsed: true, disk: OnDisk::Nothing, ..wish };
            let left = wait.saturating_sub(Duration::from_nanos(cx.core.clock.now().since(began)));
            // It begins with another look, as responses that were stored before may serve it.
            match followed {
                Some(Followed::Reads(_)) => cache.look(own, cx, head, wish, Some(left)),
                Some(Followed::Leads(lead)) => {
                    wish.lead = Some(lead);
                    cache.look(own, cx, head, wish, Some(left))
                }
                // A request that has waited in vain does not wait again.
                Some(Followed::Ended(end)) => {
                    wish.has_erred = end == End::Erred;
                    cache.look(own, cx, head, wish, Some(Duration::ZERO))
                }
                None => cache.look(own, cx, head, wish, Some(Duration::ZERO)),
            }
        })
    }

    /// Answers a request with a response that is arriving; `None` if that does not serve it. `waits` is false if the
    /// endpoint would send a part sooner: then the part must not begin far behind the last byte.
    pub(super) fn read_growing(
        self: &Rc<Cache>,
        cx: &mut Exchange<'_>,
        asked: &mut Asked,
        wish: &Wish,
        growing: &Arc<Growing>,
        waits: bool,
    ) -> Option<Verdict> {
        let (request, now) = (asked.request(), self.responses.moment(cx.core));
        let is_served = vary::serves(&growing.head, &request, &self.responses.policy)
            && matches!(decide(&growing.head, &wish.lookup, now), Decision::Fresh | Decision::StaleAccepted);
        if !is_served || cx.facts.is_http10 && growing.length.is_none() {
            return None;
        }
        let response = growing_response(growing, &request, now, Some(&self.counts))?;
        if let Content::Growing(reader) = &response.content
            && !waits
            && !reader.is_near()
        {
            return None;
        }
        cx.facts.serves_stored.set(true);
        let ttl = Some(growing.head.terms.ttl(now));
        let outcome = Outcome { ttl, is_collapsed: true, ..Outcome::default() };
        cx.facts.cached.set(Some(Cached::known(outcome).into()));
        Some(Verdict::Answer(response))
    }
}

/// Values of the fields in `Vary` that a request has. `copy`: the request with its changes, once it is needed.
fn varying(head: &RequestHead<'_, '_, '_>, copy: &mut Option<Asked>, vary: &Fields<'_, '_>) -> Option<Vec<u8>> {
    vary::write(&copy.get_or_insert_with(|| Asked::of(head.request, head.edits)).request(), vary)
}
