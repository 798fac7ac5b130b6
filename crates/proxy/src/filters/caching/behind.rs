//! Fetches behind requests: validations of stale responses that were served (`stale-while-revalidate`, RFC 5861), and
//! fetches of whole responses of which clients asked for a part.

use super::fetch::{Asked, Fetch, Part};
use super::responses::Responses;
use crate::cache::counts::{CacheCounts, WholeFetch};
use crate::cache::flights::{End, Lead, Role};
use crate::cache::outcome::Why;
use crate::cache::{Entry, SharedCache};
use crate::core::Core;
use crate::filters::exchange::Exchange;
use crate::filters::filter::RequestHead;
use crate::filters::row::Route;
use crate::filters::services::copied::copied;
use crate::filters::template::lines::retain;
use crate::peer::hash_key;
use crate::side::attempt::Answer;
use crate::side::request::SideRequest;
use crate::side::send::{Destination, send};
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_balance::Clock;
use evenkeel_cache::decide::{is_error, validators};
use evenkeel_cache::freshen::is_for;
use evenkeel_cache::key::Key;
use evenkeel_cache::lookup::{Lookup, REPLACED};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::Sequence;
use evenkeel_cache::vary;
use evenkeel_config::plan;
use evenkeel_net::event_loop::spawn;
use evenkeel_net::pages;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time limit of a fetch, if the route has no limit for requests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pools of a route, for fetches behind requests.
pub struct Behind {
    pools: Box<[Rc<Destination>]>,
    counts: Arc<CacheCounts>,
    /// Most fetches of whole responses at a time, over all routes.
    whole_max: u64,
}

/// Stored response that is to be validated.
pub struct Due {
    pub asked: Asked,
    pub key: Key,
    pub lookup: Lookup,
    pub entry: Arc<Entry>,
    /// Point in the order of purges at which the request is sent.
    pub began: Sequence,
    /// Duty to notify the requests that wait for the response.
    pub lead: Lead,
}

impl Behind {
    pub fn new(route: &Route<'_>, shared: &SharedCache, plan: &plan::Cache, counts: &Arc<CacheCounts>) -> Behind {
        let answer_max = shared.plan.object_max;
        let core = route.prober.core();
        let to = |pool: &Rc<WorkerPool>| {
            Rc::new(Destination {
                pool: pool.clone(),
                prober: route.prober.clone(),
                retries: Retries::new(route.plan, core.index, route.workers, core.clock.now()),
                timeout: route.plan.timeouts.request.unwrap_or(TIMEOUT),
                answer_max,
            })
        };
        let pools = route.target.pools().map(to).collect();
        Behind { pools, counts: counts.clone(), whole_max: plan.whole_fetches_max as u64 }
    }

    /// Pool of a request, for further requests.
    pub fn pool_of(&self, cx: &Exchange<'_>) -> Option<Rc<Destination>> {
        let is_of = |to: &&Rc<Destination>| cx.facts.pool.is_some_and(|pool| std::ptr::eq(&*to.pool, pool));
        self.pools.iter().find(is_of).cloned()
    }

    /// Copies from a request the values that another request for the whole response needs.
    pub fn part(&self, cx: &Exchange<'_>, head: &RequestHead<'_, '_, '_>) -> Part {
        let host = head.edits.host().unwrap_or(head.request.host);
        Part {
            target: head.edits.target().unwrap_or(head.request.target).into(),
            host: (!cx.facts.sends_host_of_endpoint && !host.is_empty()).then(|| host.into()),
            hash: cx.facts.pool.and_then(|pool| hash_key::hash(pool.plan().key()?, head.request, cx.client())),
        }
    }

    /// Fetches the whole response, of which a client gets a part, in a separate task, and stores it. Returns false if
    /// it does not: another request fetches it, too many fetches are under way, or `size`, the size of the stored
    /// response, is too large.
    pub fn whole(&self, responses: &Rc<Responses>, cx: &Exchange<'_>, part: &Part, fetch: &Fetch, size: u64) -> bool {
        let Some(to) = self.pool_of(cx).filter(|_| self.whole_max > 0) else { return false };
        let shared = &responses.shared;
        let (mut asked, now) = (fetch.asked.without(&REPLACED), cx.core.clock.now());
        let Role::Leads(lead) =
            shared.flights.join(&fetch.key, |vary| vary::write(&asked.request(), vary), now, |_| true)
        else {
            return false;
        };
        let (running, mut room) = (Running::whole(shared), shared.room());
        let is_over = shared.behind_parts.load(Ordering::Relaxed) > self.whole_max;
        if is_over || room.take(size + fetch.key.bytes().len() as u64 + OVERHEAD).is_err() {
            self.counts.whole[WholeFetch::Skipped as usize].add(1);
            lead.end(End::Failed, cx.core.clock.now());
            return false;
        }
        let mut request = SideRequest::get(&part.target);
        (request.host, request.fields) = (part.host.clone(), asked.fields().clone());
        let (began, sent) = (shared.store.begin(), responses.moment(cx.core));
        let mut due = Whole { asked, lookup: fetch.lookup.clone(), key: fetch.key.clone(), began, sent };
        let (responses, counts, hash) = (responses.clone(), self.counts.clone(), part.hash);
        spawn(async move {
            let refused = match send(&to, &mut request, hash).await {
                Ok(answer) => due.store(&responses, to.prober.core(), answer),
                Err(_) => Some(Refusal::CutOff),
            };
            let end = if refused.is_none() { WholeFetch::Stored } else { WholeFetch::NotStored };
            counts.whole[end as usize].add(1);
            lead.end(End::of(refused), to.prober.core().clock.now());
            drop((room, running));
        });
        true
    }

    /// Sends a client's request with the validators of a stored response, in a separate task, and stores the result.
    pub fn validate(&self, responses: &Rc<Responses>, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>, due: Due) {
        let Some(to) = self.pool_of(cx) else { return };
        leave_out_replaced(head);
        let mut request = copied(cx, head);
        (request.method, request.has_body) = ("GET".into(), false);
        let target = responses.target(&request.target).into_owned();
        request.target = target.into();
        for (name, value) in validators(due.entry.head()) {
            request.fields.push(name.as_bytes(), &value);
        }
        let key = to.pool.plan().key().and_then(|key| hash_key::hash(key, head.request, cx.client()));
        let responses = responses.clone();
        let sent = responses.moment(cx.core);
        let running = Running::new(&responses.shared);
        spawn(async move {
            let mut answer = send(&to, &mut request, key).await;
            // For other content: fetched anew at once.
            if let Ok(other) = &mut answer
                && other.status == 304
                && !is_for(due.entry.head(), &other.fields.fields())
            {
                let is_replaced =
                    |name: &[u8]| REPLACED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
                request.fields = request.fields.iter().filter(|(name, _)| !is_replaced(name)).collect();
                answer = send(&to, &mut request, key).await;
            }
            if let Ok(answer) = answer {
                end(&responses, to.prober.core(), due, answer, sent);
            }
            // Otherwise the stored response stays as it is.
            drop(running);
        });
    }
}

/// Most bytes of a stored response in addition to its body, its fields and its key.
const OVERHEAD: u64 = 1 << 10;

/// Removes the client's conditions and range, and the fields that filters made of them, from a request whose response
/// is to be stored.
pub fn leave_out_replaced(head: &mut RequestHead<'_, '_, '_>) {
    for field in REPLACED {
        head.request.fields.leave_out(field);
    }
    if !head.edits.added().is_empty() {
        let is_replaced = |name: &[u8]| REPLACED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        retain(head.edits.lines(), |name, _| !is_replaced(name));
    }
}

/// Whole response that is fetched.
struct Whole {
    asked: Asked,
    key: Key,
    lookup: Lookup,
    /// Point in the order of purges at which the request is sent.
    began: Sequence,
    sent: Moment,
}

impl Whole {
    /// Stores the response. Returns the reason if it may not be stored or is not whole.
    fn store(&mut self, responses: &Responses, core: &Core, mut answer: Answer) -> Option<Refusal> {
        let received = responses.moment(core);
        let fields = answer.fields.fields();
        let reply =
            Reply { status: answer.status, fields: &fields, sent: self.sent, received, arrived: responses.date(core) };
        if !answer.is_whole {
            return Some(Refusal::BodyTooLarge);
        }
        match storable(&self.asked.request(), &self.lookup, &reply, &responses.policy) {
            Ok(stored) => {
                let entry = Entry::new(stored, pages::shared(answer.body));
                responses.shared.put(&self.key, entry.into(), self.began, received)
            }
            Err(refusal) => Some(refusal),
        }
    }
}

/// A fetch that is counted as running, until this is dropped.
struct Running {
    shared: Arc<SharedCache>,
    is_whole: bool,
}

impl Running {
    fn new(shared: &Arc<SharedCache>) -> Running {
        shared.behind.fetch_add(1, Ordering::Relaxed);
        Running { shared: shared.clone(), is_whole: false }
    }

    /// Counts a fetch of a whole response.
    fn whole(shared: &Arc<SharedCache>) -> Running {
        shared.behind.fetch_add(1, Ordering::Relaxed);
        shared.behind_parts.fetch_add(1, Ordering::Relaxed);
        Running { shared: shared.clone(), is_whole: true }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.behind.fetch_sub(1, Ordering::Relaxed);
        if self.is_whole {
            self.shared.behind_parts.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Stores the response to a validation.
fn end(responses: &Responses, core: &Core, mut due: Due, mut answer: Answer, sent: Moment) {
    let received = responses.moment(core);
    let request = due.asked.request();
    let fields = answer.fields.fields();
    let reply = Reply { status: answer.status, fields: &fields, sent, received, arrived: responses.date(core) };
    let refused = if answer.status == 304 {
        let (_, why) = responses.renewed(&due.entry, &due.key, &request, &reply, due.began);
        if let Some(Why::Refusal(refusal)) = why { Some(refusal) } else { None }
    } else if is_error(answer.status) || !answer.is_whole {
        return;
    } else {
        match storable(&request, &due.lookup, &reply, &responses.policy) {
            Ok(stored) => {
                let entry = Entry::new(stored, pages::shared(answer.body));
                responses.shared.put(&due.key, entry.into(), due.began, received)
            }
            // A single client must not drop the response that other clients get.
            Err(refusal) if refusal.is_of_request() => return,
            Err(refusal) => {
                responses.drop_variant(&due.key, &due.entry);
                Some(refusal)
            }
        }
    };
    due.lead.end(End::of(refused), core.clock.now());
}
