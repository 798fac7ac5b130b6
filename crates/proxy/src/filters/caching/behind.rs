//! Fetches behind requests: validations of stale responses that were served (`stale-while-revalidate`, RFC 5861), and
//! fetches of whole responses of which clients asked for a part.

use super::fetch::{Part, Question};
use super::responses::Responses;
use crate::cache::Entry;
use crate::cache::counts::{CacheCounts, WholeFetch};
use crate::cache::filling::{Ending, Filling, Place, Tally};
use crate::cache::flights::{End, Lead, Role};
use crate::cache::outcome::Why;
use crate::filters::exchange::Exchange;
use crate::filters::filter::RequestHead;
use crate::filters::row::Route;
use crate::filters::services::copied::copied;
use crate::filters::template::lines::retain;
use crate::peer::hash_key;
use crate::side::attempt::Answer;
use crate::side::fill::Rest;
use crate::side::request::SideRequest;
use crate::side::send::{Destination, begin};
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_balance::Clock;
use evenkeel_cache::decide::{is_error, validators};
use evenkeel_cache::freshen::is_for;
use evenkeel_cache::key::Key;
use evenkeel_cache::lookup::REPLACED;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::vary;
use evenkeel_config::plan::{self, RouteTimeouts};
use evenkeel_net::event_loop::spawn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for the head of a response, if the route has no limit for requests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pools of a route, for fetches behind requests.
pub struct Behind {
    pools: Box<[Rc<Destination>]>,
    counts: Arc<CacheCounts>,
    /// Most fetches of whole responses at a time, over all routes.
    whole_max: u64,
    pub timeouts: RouteTimeouts,
}

/// Stored response that is to be validated.
pub struct Due {
    pub question: Question,
    pub entry: Arc<Entry>,
    /// Duty to notify the requests that wait for the response.
    pub lead: Lead,
}

impl Behind {
    pub fn new(route: &Route<'_>, plan: &plan::Cache, counts: &Arc<CacheCounts>) -> Behind {
        let core = route.prober.core();
        let to = |pool: &Rc<WorkerPool>| {
            Rc::new(Destination {
                pool: pool.clone(),
                prober: route.prober.clone(),
                retries: Retries::new(route.plan, core.index, route.workers, core.clock.now()),
                timeout: route.plan.timeouts.request.unwrap_or(TIMEOUT),
            })
        };
        let pools = route.target.pools().map(to).collect();
        let whole_max = plan.whole_fetches_max as u64;
        Behind { pools, counts: counts.clone(), whole_max, timeouts: route.plan.timeouts }
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
    pub fn whole(
        &self,
        responses: &Rc<Responses>,
        cx: &Exchange<'_>,
        part: &Part,
        of_part: &Question,
        size: u64,
    ) -> bool {
        let Some(to) = self.pool_of(cx).filter(|_| self.whole_max > 0) else { return false };
        let shared = &responses.shared;
        let (mut asked, now) = (of_part.asked.without(&REPLACED), cx.core.clock.now());
        let Role::Leads(lead) =
            shared.flights.join(&of_part.key, |vary| vary::write(&asked.request(), vary), now, |_| true)
        else {
            return false;
        };
        let (place, mut room) = (Place::whole(shared, self.whole_max), shared.room());
        let Some(place) = place.filter(|_| room.take(size + of_part.key.bytes().len() as u64 + OVERHEAD).is_ok())
        else {
            self.counts.whole[WholeFetch::Skipped as usize].add(1);
            lead.end(End::Failed, now);
            return false;
        };
        let mut request = SideRequest::get(&part.target);
        (request.host, request.fields) = (part.host.clone(), asked.fields().clone());
        let (began, sent) = (shared.store.begin(), responses.moment(cx.core));
        let question = Question { asked, lookup: of_part.lookup.clone(), key: of_part.key.clone(), began, sent };
        let ending = Ending { lead: Some(lead), now, tally: Some(Tally::Whole(self.counts.clone())) };
        let fetch = Apart { to, responses: responses.clone(), ending, place, timeouts: self.timeouts };
        let hash = part.hash;
        spawn(async move {
            // Dropped, it ends as cut off.
            if let Ok((answer, rest)) = begin(&fetch.to, &mut request, hash).await {
                drop(room);
                fetch.store(question, answer, rest).await;
            }
        });
        true
    }

    /// Sends a client's request with the validators of a stored response, in a separate task, and stores the result.
    pub fn validate(&self, responses: &Rc<Responses>, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>, due: Due) {
        let place = Place::validation(&responses.shared);
        let (Some(to), Some(place)) = (self.pool_of(cx), place) else { return };
        leave_out_replaced(head);
        let mut request = copied(cx, head);
        (request.method, request.has_body) = ("GET".into(), false);
        let target = responses.target(&request.target).into_owned();
        request.target = target.into();
        for (name, value) in validators(due.entry.head()) {
            request.fields.push(name.as_bytes(), &value);
        }
        let hash = to.pool.plan().key().and_then(|key| hash_key::hash(key, head.request, cx.client()));
        let Due { question, entry, lead } = due;
        let ending = Ending { lead: Some(lead), now: cx.core.clock.now(), tally: Some(Tally::Validation) };
        let fetch = Apart { to, responses: responses.clone(), ending, place, timeouts: self.timeouts };
        spawn(async move {
            let mut read = begin(&fetch.to, &mut request, hash).await;
            // For other content: fetched anew at once.
            if let Ok((other, _)) = &mut read
                && other.status == 304
                && !is_for(entry.head(), &other.fields.fields())
            {
                if let Ok((_, rest)) = read {
                    rest.end();
                }
                let is_replaced =
                    |name: &[u8]| REPLACED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
                request.fields = request.fields.iter().filter(|(name, _)| !is_replaced(name)).collect();
                read = begin(&fetch.to, &mut request, hash).await;
            }
            // Otherwise the stored response stays as it is.
            if let Ok((answer, rest)) = read {
                fetch.renew(question, &entry, answer, rest).await;
            }
        });
    }
}

/// Fetch in a separate task.
struct Apart {
    to: Rc<Destination>,
    responses: Rc<Responses>,
    ending: Ending,
    place: Place,
    timeouts: RouteTimeouts,
}

impl Apart {
    /// Begins to store a response, whose body others read as it arrives. Returns the key and the reason if the response
    /// may not be stored.
    async fn store(mut self, mut question: Question, mut answer: Answer, rest: Rest) -> Option<(Key, Refusal)> {
        let (core, length) = (&rest.core, answer.length());
        self.ending.now = core.clock.now();
        let (received, arrived) = (self.responses.moment(core), self.responses.date(core));
        let fields = answer.fields.fields();
        let reply = Reply { status: answer.status, fields: &fields, sent: question.sent, received, arrived };
        match self.responses.arriving(&mut question, &reply, length, self.ending.now) {
            Ok((growing, room)) => {
                let shared = &self.responses.shared;
                let mut filling = Filling::new(shared, question.key, growing, received, room, self.ending);
                filling.keep_place(Some(self.place));
                rest.fill_within(filling.into(), &self.timeouts).await;
                None
            }
            Err(refusal) => {
                rest.end();
                self.ending.settle(Some(refusal));
                Some((question.key, refusal))
            }
        }
    }

    /// Stores the response to a validation.
    async fn renew(mut self, mut question: Question, entry: &Arc<Entry>, mut answer: Answer, rest: Rest) {
        let (core, responses) = (rest.core.clone(), self.responses.clone());
        if answer.status == 304 {
            let (received, arrived) = (responses.moment(&core), responses.date(&core));
            let fields = answer.fields.fields();
            let reply = Reply { status: 304, fields: &fields, sent: question.sent, received, arrived };
            let request = question.asked.request();
            let (_, why) = responses.renewed(entry, &question.key, &request, &reply, question.began);
            rest.end();
            self.ending.now = core.clock.now();
            self.ending.settle(if let Some(Why::Refusal(refusal)) = why { Some(refusal) } else { None });
        } else if is_error(answer.status) {
            rest.end();
            self.ending.settle_by(Some(Refusal::Error), End::Erred);
        } else if let Some((key, refusal)) = self.store(question, answer, rest).await
            // A single client must not drop the response that other clients get.
            && !refusal.is_of_request()
        {
            responses.drop_variant(&key, entry);
        }
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
