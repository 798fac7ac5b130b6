//! Filter that answers requests with stored responses, and stores responses of endpoints. Its place is behind all
//! filters that change requests, so that it sees requests as endpoints would get them, and before the filters that
//! change responses, so that it stores responses as endpoints sent them.
//! Long because all decisions about a request and its response are on the same facts. Requests share fetches in
//! [`collapse`](super::collapse).

use super::anew::Anew;
use super::behind::{Behind, Due, leave_out_replaced};
use super::fetch::{Asked, Fetch, Question};
use super::responses::{Responses, from_stored, growing_response};
use crate::body::response::Response;
use crate::cache::counts::CacheCounts;
use crate::cache::disk;
use crate::cache::encodings::Whole;
use crate::cache::filling::{Ending, Filling, Stay, Tally};
use crate::cache::flights::{End, Lead, Role};
use crate::cache::outcome::{Cached, Fate, Outcome, Why};
use crate::cache::{Entry, SharedCache};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lines::retain;
use evenkeel_balance::Clock;
use evenkeel_cache::decide::{self, Cause, Decision, decide, decide_by};
use evenkeel_cache::freshen::is_for;
use evenkeel_cache::invalidate;
use evenkeel_cache::key::{Key, Place};
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::{Bypass, Refusal};
use evenkeel_cache::reply::Reply;
use evenkeel_cache::status::Forward;
use evenkeel_cache::storable::storable_whole;
use evenkeel_cache::store::{Found, Hit, Restored};
use evenkeel_cache::stored::{Stored, Terms};
use evenkeel_cache::{tags, vary};
use evenkeel_config::plan::Scheme;
use evenkeel_disk::{Loaded, Read};
use evenkeel_wire::head::{Edits, Request};
use evenkeel_wire::http1::fields::Stated;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Filter of a route with `cache`.
pub(super) struct Caching(Rc<Cache>);

/// Cache of a route for a worker.
pub struct Cache {
    pub(super) responses: Rc<Responses>,
    route: Arc<str>,
    pub(super) collapse: Option<Duration>,
    is_by_user: bool,
    has_status_field: bool,
    pub(super) counts: Arc<CacheCounts>,
    behind: Behind,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let plan = route.plan.filters.cache.as_ref()?;
    let shared = from.resources.of::<SharedCache>();
    let counts = &shared.counts.of(&route.plan.name, route.prober.core().index);
    Some(Box::new(Caching(Rc::new(Cache {
        responses: Responses::new(plan, from, route.plan, shared).into(),
        route: place_of(from, &route.plan.name),
        collapse: plan.collapse,
        is_by_user: plan.by_user,
        has_status_field: plan.status_field,
        counts: counts.clone(),
        behind: Behind::new(route, plan, counts),
    }))))
}

/// Name of a route for keys. Clients of a listener that asks for certificates share nothing with clients of other
/// listeners.
fn place_of(from: &Build<'_>, route: &Arc<str>) -> Arc<str> {
    let is_guarded = from.listener.tls.as_ref().is_some_and(|tls| tls.client_auth.is_some());
    if is_guarded { format!("{}\0{route}", from.listener.name).into() } else { route.clone() }
}

/// Needs of a request, as the cache reads them from its head.
pub(super) struct Wish {
    pub lookup: Lookup,
    pub key: Key,
    /// True if the request has waited for the request of another client.
    pub is_collapsed: bool,
    /// True if that request got no response, or an error that a stale response may replace.
    pub has_erred: bool,
    /// Duty to fetch the response for others.
    pub lead: Option<Lead>,
    /// Result of a look at the disk.
    pub disk: OnDisk,
}

/// Result of a look at the disk of the cache.
pub(super) enum OnDisk {
    NotAsked,
    /// Nothing was found, or the disk was too slow.
    Nothing,
    Found(Loaded),
}

/// State of a request at the cache of its route, until its response has passed.
pub enum Stage {
    /// Passes the cache by. A request with an unsafe method is kept, as its response invalidates stored responses.
    Bypassed(Bypass, Option<Asked>),
    /// Waits for the response of an endpoint, which may be stored.
    Fetching(Box<Fetch>),
}

impl Filter for Caching {
    type State = Stage;

    fn request(&self, own: &mut Own<Stage>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let cache = &self.0;
        match cache.wish(cx, head) {
            Ok(wish) => cache.look(own, cx, head, wish, cache.collapse),
            Err(bypass) => {
                let is_unsafe = invalidate::is_unsafe(head.request.method);
                let asked = is_unsafe.then(|| Asked::of(head.request, head.edits));
                *own = Some(Box::new(Stage::Bypassed(bypass, asked)));
                Verdict::Next
            }
        }
    }

    fn response(&self, own: &mut Own<Stage>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let cache = &self.0;
        let cached = match own.take().map(|stage| *stage) {
            Some(Stage::Bypassed(bypass, asked)) => {
                if let (Some(mut asked), Some(_)) = (asked, head.outcome) {
                    let (is_https, now) = (cx.sender().scheme == Scheme::Https, cache.responses.moment(cx.core));
                    cache.responses.invalidate(&asked.request(), is_https, head.status, head.fields, now);
                }
                let why = Some(Why::Bypass(bypass));
                Cached::known(Outcome { forward: Some(bypass.into()), why, ..Outcome::default() }).into()
            }
            Some(Stage::Fetching(fetch)) => cache.fetched(cx, *fetch, head).into(),
            // A stored response, or a response that passes anew.
            None => match cx.facts.cached.take() {
                Some(cached) => cached,
                None => return,
            },
        };
        // A response that replaces this response passes here in its turn.
        if head.instead.is_none() {
            cache.answered(&cached, head);
        }
        cx.facts.cached.set(Some(cached));
    }

    fn did(&self, _: Option<&Stage>, cx: &Exchange<'_>) -> Cow<'static, str> {
        cx.cached().map(|outcome| outcome.text()).unwrap_or_default().into()
    }
}

impl Predict for Caching {
    fn dry_run(&self, _: &mut Own<Stage>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        self.0.trial(cx, head)
    }
}

impl Cache {
    /// Reads the needs of a request, and removes the fields from it that the key lacks and endpoints are known to read.
    ///
    /// # Errors
    /// The reason why it passes the cache by.
    pub(super) fn wish(&self, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Result<Wish, Bypass> {
        if cx.facts.switches {
            return Err(Bypass::Upgrade);
        }
        let has_body = !matches!(cx.facts.framing, Stated::Nothing | Stated::Length(0));
        let lookup = Lookup::of(head.request, has_body, &self.responses.policy)?;
        let user = if self.is_by_user { Some(user(cx).ok_or(Bypass::User)?) } else { None };
        self.drop_unkeyed(cx, head);
        let sent = head.edits.target().map(|target| self.responses.target(target));
        let values = self.responses.of_maps(cx, head);
        let place = Place {
            is_https: cx.sender().scheme == Scheme::Https,
            route: &self.route,
            pool: cx.facts.pool.map_or("", |pool| &pool.name),
            user: user.as_deref(),
            sent: sent.as_deref(),
            reported_host: cx.facts.said.as_deref().and_then(|said| said.host.as_deref()),
            values: &values,
        };
        let key = match self.responses.keys.fields.is_empty() {
            true => self.responses.keys.key(head.request, &place)?,
            // Filters may have changed them.
            false => self.responses.keys.key(&Asked::of(head.request, head.edits).request(), &place)?,
        };
        Ok(Wish { lookup, key, is_collapsed: false, has_erred: false, lead: None, disk: OnDisk::NotAsked })
    }

    /// Removes fields by which a single client could choose the responses that others get.
    fn drop_unkeyed(&self, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) {
        let (fields, keys) = (&mut head.request.fields, &self.responses.keys);
        for row in &mut *fields.rows {
            row.dropped |= keys.drops(row.name(fields.bytes));
        }
        // The list that trusted proxies continue begins with the client's own value, hosts included.
        if cx.facts.said.as_deref().is_some_and(|said| said.forwarded.is_some()) && keys.drops(b"forwarded") {
            retain(head.edits.lines(), |name, _| !name.eq_ignore_ascii_case(b"forwarded"));
        }
    }

    /// Answers a request with a stored response, lets it wait for the response that another request fetches, or
    /// prepares it for the endpoint. `wait`: the longest time that it may still wait.
    pub(super) fn look(
        self: &Rc<Cache>,
        own: &mut Own<Stage>,
        cx: &mut Exchange<'_>,
        head: &mut RequestHead<'_, '_, '_>,
        mut wish: Wish,
        wait: Option<Duration>,
    ) -> Verdict {
        let now = self.responses.moment(cx.core);
        let began = self.responses.shared.store.begin();
        // Copied only if it is needed: most hits are not chosen by fields.
        let mut copy = None;
        let found = {
            let (request, edits) = (&*head.request, &*head.edits);
            self.responses.shared.store.lookup((&wish.key).into(), |stored| {
                let copied = || Asked::of(request, edits);
                let serves = stored.varying().is_empty()
                    || vary::serves(stored, &copy.get_or_insert_with(copied).request(), &self.responses.policy);
                serves.then_some(stored.terms.date.0)
            })
        };
        let is_known = !matches!(found, Found::Nothing);
        let (entry, stale_from) = match found {
            Found::Hit(Hit { object, stale_from, .. }) => (Some(object), stale_from),
            Found::OtherVariants | Found::Nothing => match (&wish.disk, &self.responses.shared.disk) {
                (_, None) | (OnDisk::Nothing, _) => (None, None),
                (OnDisk::NotAsked, Some(disk)) if disk.has((&wish.key).into()) => {
                    if let Some(loaded) = disk.read_at_once((&wish.key).into(), began) {
                        let disk = self.read(cx, &wish, Some(loaded));
                        return self.look(own, cx, head, Wish { disk, ..wish }, wait);
                    }
                    match disk.read((&wish.key).into(), began) {
                        Some(read) => return self.wait_for(wish, read, wait),
                        None => (None, None),
                    }
                }
                (OnDisk::NotAsked, Some(_)) => (None, None),
                (OnDisk::Found(loaded), _) => {
                    // Memory did not take it, as other responses are used more.
                    let asked = copy.get_or_insert_with(|| Asked::of(head.request, head.edits));
                    self.of_disk(&wish.key, loaded, asked).map_or((None, None), |(object, at)| (Some(object), at))
                }
            },
        };
        let decision = entry.as_ref().map(|entry| match stale_from {
            None => decide(entry.head(), &wish.lookup, now),
            Some(at) => decide_by(&entry.head().terms.ended_at(at), &wish.lookup, now),
        });
        let forward = match (&entry, decision) {
            (Some(entry), Some(Decision::Fresh | Decision::StaleAccepted)) => {
                if let Some(lead) = wish.lead.take() {
                    lead.end(End::Stored, cx.core.clock.now());
                }
                let mut response = answer(cx, head, copy, &wish, entry, now);
                offer_whole(cx, &mut response, entry, now, || wish.key);
                return Verdict::Answer(response);
            }
            (Some(entry), Some(Decision::StaleWhileRevalidate)) => {
                let mut response = answer(cx, head, copy.take(), &wish, entry, now);
                offer_whole(cx, &mut response, entry, now, || wish.key.clone());
                let role = match wish.lead.take() {
                    Some(lead) => Role::Leads(lead),
                    None => self.join(cx, &wish, head, &mut copy),
                };
                if let Role::Leads(lead) = role {
                    let asked = copy.unwrap_or_else(|| Asked::of(head.request, head.edits));
                    let Wish { key, lookup, .. } = wish;
                    let lookup = Lookup { is_head: false, ..lookup };
                    let question = Question { asked, key, lookup, sent: now, began };
                    self.behind.validate(&self.responses, cx, head, Due { question, entry: entry.clone(), lead });
                }
                return Verdict::Answer(response);
            }
            (_, Some(Decision::OnlyIfCached)) => return only_if_cached(cx),
            (None, _) if decide::is_only_if_cached(&wish.lookup) => return only_if_cached(cx),
            (Some(entry), Some(Decision::Validate(_)))
                if wish.has_erred && decide::on_error_by(&terms_of(entry, stale_from), now) =>
            {
                let outcome = Outcome { forward: Some(Forward::Stale), why: Some(Why::Stale), ..Outcome::default() };
                return Verdict::Answer(answer_by(cx, head, copy, &wish, entry, (now, outcome)));
            }
            (_, Some(Decision::Validate(Cause::Request))) => Forward::Request,
            (_, Some(Decision::Validate(_))) => Forward::Stale,
            _ if is_known => Forward::VaryMiss,
            _ => Forward::UriMiss,
        };
        let is_part = head.request.field("range").is_some() && !wish.lookup.is_head;
        let fills = !wish.lookup.is_head && (entry.is_some() || !is_part);
        if let (None, Some(wait)) = (&wish.lead, wait) {
            let role =
                if fills { self.join(cx, &wish, head, &mut copy) } else { self.other(cx, &wish, head, &mut copy) };
            match role {
                Role::Leads(lead) => {
                    // The response may have been stored since the first look.
                    wish.lead = Some(lead);
                    return self.look(own, cx, head, wish, Some(wait));
                }
                Role::Follows(follow) if !wait.is_zero() => return self.follow(cx, wish, follow, wait),
                Role::Follows(_) => {}
                Role::Reads(growing) => {
                    let asked = copy.get_or_insert_with(|| Asked::of(head.request, head.edits));
                    if let Some(verdict) = self.read_growing(cx, asked, &wish, &growing, fills) {
                        return verdict;
                    }
                }
                Role::Alone(lead) => wish.lead = lead,
            }
        }
        let asked = copy.unwrap_or_else(|| Asked::of(head.request, head.edits));
        if fills {
            leave_out_replaced(head);
            let validators = entry.iter().flat_map(|entry| decide::validators(entry.head()));
            validators.for_each(|(name, value)| head.edits.add(name, &value));
        }
        let target = head.edits.target().unwrap_or(head.request.target);
        let counting = self.responses.target(target);
        if counting != target {
            // Through parameters that the key lacks, a single client could choose the responses that others get.
            let counting = counting.into_owned();
            head.edits.set_target(&counting);
        }
        let Wish { lookup, key, is_collapsed, lead, .. } = wish;
        let lead = lead.filter(|_| fills);
        if lead.as_ref().is_some_and(|lead| !lead.is_alone()) {
            let stay = Stay { shared: self.responses.shared.clone(), place: None };
            cx.facts.stay.set(Some(stay.into()));
        }
        let part = (is_part && !fills).then(|| self.behind.part(cx, head).into());
        let again = entry.is_some().then(|| self.behind.part(cx, head).into());
        let question = Question { asked, lookup, key, sent: now, began };
        let fetch = Fetch { question, entry, stale_from, forward, lead, is_collapsed, part, again };
        *own = Some(Box::new(Stage::Fetching(fetch.into())));
        Verdict::Next
    }

    /// Waits for the disk, on which the key may be. Requests for the same key wait for the same read.
    fn wait_for(self: &Rc<Cache>, wish: Wish, read: Read, wait: Option<Duration>) -> Verdict {
        let cache = self.clone();
        Caching::wait(disk::loaded(read), move |loaded, own, cx, head| {
            let disk = cache.read(cx, &wish, loaded);
            cache.look(own, cx, head, Wish { disk, ..wish }, wait)
        })
    }

    /// Stores responses that were read in memory.
    fn read(&self, cx: &Exchange<'_>, wish: &Wish, loaded: Option<Loaded>) -> OnDisk {
        match loaded {
            Some(loaded) if !loaded.responses.is_empty() => {
                self.responses.shared.promote(&wish.key, &loaded, self.responses.moment(cx.core));
                OnDisk::Found(loaded)
            }
            _ => OnDisk::Nothing,
        }
    }

    /// Response of the disk that serves a request, unless it was purged since it was read.
    fn of_disk(&self, key: &Key, loaded: &Loaded, asked: &mut Asked) -> Option<(Arc<Entry>, Option<Moment>)> {
        let (request, store) = (asked.request(), &self.responses.shared.store);
        let serves = |known: &&Restored<Stored>| {
            vary::serves(known.object.head(), &request, &self.responses.policy)
                && !store.is_purged_since(key.into(), known.object.head(), loaded.began)
        };
        let found = loaded.responses.iter().filter(serves).max_by_key(|known| known.object.head().terms.date)?;
        Some((found.object.clone(), found.stale_from))
    }

    /// Counts a response that the client gets, and changes its fields.
    fn answered(&self, cached: &Cached, head: &mut ResponseHead<'_, '_, '_>) {
        cached.count(&self.counts);
        if !self.responses.policy.sends_tags {
            tags::FIELDS.iter().for_each(|field| head.fields.leave_out(field));
        }
        if self.has_status_field {
            cached.outcome().write(head.added);
        }
    }

    /// End of a response to a client's request, which has this outcome if it is stored.
    fn ending(&self, cx: &Exchange<'_>, lead: Option<Lead>, outcome: Outcome, fate: &Fate) -> Ending {
        let tally = Tally::Request { outcome, fate: fate.clone(), counts: self.counts.clone() };
        Ending { lead, now: cx.core.clock.now(), tally: Some(tally) }
    }

    /// Decides on the response to a request of this cache.
    fn fetched(&self, cx: &Exchange<'_>, mut fetch: Fetch, head: &mut ResponseHead<'_, '_, '_>) -> Cached {
        let now = self.responses.moment(cx.core);
        let place = cx.facts.stay.take().and_then(|stay| stay.place);
        let (status, forward) = (head.status, Some(fetch.forward));
        let asked = Outcome { forward, is_collapsed: fetch.is_collapsed, ..Outcome::default() };
        let has_failed = head.outcome.is_none() || decide::is_error(status);
        let terms = |entry: &Entry| terms_of(entry, fetch.stale_from);
        let serves = |entry: &&Arc<Entry>| has_failed && decide::on_error_by(&terms(entry), now);
        let is_replaced = fetch.entry.as_ref().is_some_and(|entry| serves(&entry));
        if let Some(lead) = fetch.lead.take_if(|_| is_replaced || head.outcome.is_none()) {
            lead.end(End::Erred, cx.core.clock.now());
        }
        if let Some(entry) = fetch.entry.as_ref().filter(|_| is_replaced) {
            let forward_status = head.outcome.map(|_| status);
            let ttl = Some(terms(entry).ttl(now));
            let mut response = stored_response(cx, entry, &fetch.question.asked.request(), now);
            offer_whole(cx, &mut response, entry, now, || fetch.question.key.clone());
            let bytes = response.page_len();
            head.instead = Some(response.into());
            return Cached::known(Outcome { forward_status, ttl, bytes, why: Some(Why::Stale), ..asked });
        }
        if head.outcome.is_none() {
            return Cached::known(asked);
        }
        if status == 304
            && !fetch.question.lookup.is_head
            && let Some(again) = fetch.again.take()
            && let Some(entry) = fetch.entry.clone().filter(|entry| !is_for(entry.head(), head.fields))
            && let Some(to) = self.behind.pool_of(cx)
        {
            self.responses.drop_variant(&fetch.question.key, &entry);
            cx.facts.serves_stored.set(true);
            let (outcome, fate) = (Outcome { is_stored: true, ..asked }, Fate::default());
            let ending = self.ending(cx, fetch.lead.take(), outcome, &fate);
            let (responses, timeouts) = (self.responses.clone(), self.behind.timeouts);
            let anew = Anew { to, responses, entry, ending, timeouts, is_http10: cx.facts.is_http10 };
            head.instead = Some(anew.response(&again, fetch.question).into());
            return Cached::storing(outcome, fate);
        }
        let question = &mut fetch.question;
        let arrived = self.responses.date(cx.core);
        let reply = Reply { status, fields: head.fields, sent: question.sent, received: now, arrived };
        // A HEAD has the conditions of its client: a 304 is about the client's response, not about the stored response.
        if let Some(entry) = fetch.entry.as_ref().filter(|_| status == 304 && !question.lookup.is_head) {
            let request = question.asked.request();
            let (renewed, why) = self.responses.renewed(entry, &question.key, &request, &reply, question.began);
            if let Some(lead) = fetch.lead {
                let refused = if let Some(Why::Refusal(refusal)) = why { Some(refusal) } else { None };
                let end = if why == Some(Why::Mismatch) { End::Apart } else { End::of(refused) };
                lead.end(end, cx.core.clock.now());
            }
            let ttl = Some(renewed.head().terms.ttl(now));
            let mut response = stored_response(cx, &renewed, &request, now);
            let bytes = response.page_len();
            if why.is_none() {
                offer_whole(cx, &mut response, &renewed, now, || fetch.question.key);
            }
            head.instead = Some(response.into());
            let is_stored = why.is_none();
            return Cached::known(Outcome { forward_status: Some(304), ttl, bytes, is_stored, why, ..asked });
        }
        if question.lookup.is_head {
            if let Some(entry) = &fetch.entry {
                let request = question.asked.request();
                self.responses.compare(entry, &question.key, &request, &reply, question.began);
            }
            let why = Some(Why::Refusal(Refusal::Method));
            return Cached::known(Outcome { why, ..asked });
        }
        if let Some(part) = &fetch.part
            && let Some((stored, length)) =
                storable_whole(&question.asked.request(), &question.lookup, &reply, &self.responses.policy)
        {
            let is_begun = self.behind.whole(&self.responses, cx, part, question, length + stored.size() as u64);
            return Cached::known(Outcome { why: Some(if is_begun { Why::Whole } else { Why::Part }), ..asked });
        }
        let length = if head.ends { Some(0) } else { length_of(head) };
        match self.responses.arriving(question, &reply, length, cx.core.clock.now()) {
            Ok((growing, room)) => {
                let outcome = Outcome { ttl: Some(growing.head.terms.ttl(now)), is_stored: true, ..asked };
                // The client's conditions and range were removed from the request, so that there is a response to store.
                let instead = growing_response(&growing, &question.asked.request(), now, None);
                head.instead = instead.filter(|instead| instead.status != status).map(Box::new);
                cx.facts.serves_stored.set(head.instead.is_some());
                let fate = Fate::default();
                let ending = self.ending(cx, fetch.lead, outcome, &fate);
                let (shared, key) = (&self.responses.shared, fetch.question.key);
                let mut filling = Filling::new(shared, key, growing, now, room, ending);
                filling.keep_place(place);
                if head.ends {
                    filling.end();
                } else {
                    head.filling = Some(filling.into());
                }
                Cached::storing(outcome, fate)
            }
            Err(refusal) => {
                let is_over = !refusal.is_of_request() && !decide::is_error(status);
                if let Some(entry) = fetch.entry.as_ref().filter(|_| is_over && fetch.part.is_none()) {
                    self.responses.drop_variant(&question.key, entry);
                }
                if let Some(lead) = fetch.lead {
                    lead.end(End::of(Some(refusal)), cx.core.clock.now());
                }
                let why = Some(if fetch.part.is_some() { Why::Part } else { Why::Refusal(refusal) });
                Cached::known(Outcome { why, ..asked })
            }
        }
    }
}

/// Answers a request with a stored response. `copy`: the request with its changes, if it was copied before.
fn answer(
    cx: &mut Exchange<'_>,
    head: &RequestHead<'_, '_, '_>,
    copy: Option<Asked>,
    wish: &Wish,
    entry: &Entry,
    now: Moment,
) -> Response {
    answer_by(cx, head, copy, wish, entry, (now, Outcome::default()))
}

/// Answers a request with a stored response for the reason of an outcome.
fn answer_by(
    cx: &mut Exchange<'_>,
    head: &RequestHead<'_, '_, '_>,
    copy: Option<Asked>,
    wish: &Wish,
    entry: &Entry,
    (now, outcome): (Moment, Outcome),
) -> Response {
    let response = match has_conditions(head.edits) {
        true => {
            let mut asked = copy.unwrap_or_else(|| Asked::of(head.request, head.edits));
            stored_response(cx, entry, &asked.request(), now)
        }
        false => stored_response(cx, entry, head.request, now),
    };
    let ttl = Some(entry.head().terms.ttl(now));
    let bytes = if head.request.is_head() { 0 } else { response.page_len() };
    let outcome = Outcome { ttl, bytes, is_collapsed: wish.is_collapsed, ..outcome };
    cx.facts.cached.set(Some(Cached::known(outcome).into()));
    response
}

/// Lets `compress` of the route send the body of a stored response in its coding, if the response has the whole body.
fn offer_whole(cx: &Exchange<'_>, to: &mut Response, entry: &Arc<Entry>, now: Moment, key: impl FnOnce() -> Key) {
    if cx.facts.takes_coding && to.status == entry.head().status {
        to.whole = Some(Whole { entry: entry.clone(), key: key(), now }.into());
    }
}

/// Terms of a stored response that a soft purge may have ended.
fn terms_of(entry: &Entry, stale_from: Option<Moment>) -> Terms {
    let terms = entry.head().terms;
    stale_from.map_or(terms, |at| terms.ended_at(at))
}

/// Length of the body as the head of a response states it.
fn length_of(head: &ResponseHead<'_, '_, '_>) -> Option<u64> {
    std::str::from_utf8(head.fields.first("content-length")?).ok()?.parse().ok()
}

/// True if filters have changed the conditions of a request, as `compress` does with the tags of its codings.
fn has_conditions(edits: &Edits) -> bool {
    let mut lines = edits.added().split(|byte| *byte == b'\n');
    lines.any(|line| line.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-")))
}

/// Stored response, turned into the response to a request: the whole, a part of it, or a 304.
pub(super) fn stored_response(cx: &Exchange<'_>, entry: &Entry, request: &Request<'_, '_>, now: Moment) -> Response {
    cx.facts.serves_stored.set(true);
    from_stored(entry, request, now)
}

#[cold]
fn only_if_cached(cx: &mut Exchange<'_>) -> Verdict {
    let outcome = Outcome { why: Some(Why::OnlyIfCached), ..Outcome::default() };
    cx.facts.cached.set(Some(Cached::known(outcome).into()));
    Verdict::Answer(Response::new(504, "the request wants a stored response, and none is stored"))
}

/// User names of the request's password and token. `None` if it has neither, or a token without a name.
fn user<'c>(cx: &'c Exchange<'_>) -> Option<Cow<'c, [u8]>> {
    let name = cx.facts.user.as_deref();
    let Some(checked) = &cx.facts.token else { return name.map(Cow::Borrowed) };
    let of_token = checked.token.user()?;
    let Some(name) = name else { return Some(Cow::Borrowed(of_token)) };
    Some([&(name.len() as u64).to_le_bytes(), name, of_token].concat().into())
}
