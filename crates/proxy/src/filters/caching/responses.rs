//! Responses of a route under its rules: arriving, stored, renewed, dropped, invalidated.

use super::fetch::Question;
use super::rules;
use crate::body::response::Response;
use crate::cache::counts::CacheCounts;
use crate::cache::growing::Growing;
use crate::cache::keys::keys;
use crate::cache::outcome::Why;
use crate::cache::{Entry, Room, SharedCache};
use crate::core::Core;
use crate::filters::exchange::Exchange;
use crate::filters::filter::RequestHead;
use crate::filters::row::Build;
use crate::filters::template::lookup::Lookup;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use evenkeel_balance::{Clock, Instant};
use evenkeel_cache::answer::Answer;
use evenkeel_cache::freshen::{Freshened, OfHead, by_head, freshen};
use evenkeel_cache::invalidate::invalidated;
use evenkeel_cache::key::{Key, KeyRules};
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::record::{PurgeRecord, Scope};
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::{Fate, Sequence};
use evenkeel_cache::stored::Stored;
use evenkeel_config::plan;
use evenkeel_wire::head::{Fields, Request};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Stored responses of a route, and the rules for them.
pub struct Responses {
    pub shared: Arc<SharedCache>,
    pub policy: Policy,
    pub keys: KeyRules,
    /// Maps whose values keys have.
    maps: Box<[Lookup]>,
}

impl Responses {
    /// Responses of a route with `cache`.
    pub fn new(plan: &plan::Cache, from: &Build<'_>, route: &plan::Route, shared: &Arc<SharedCache>) -> Responses {
        Responses {
            shared: shared.clone(),
            policy: rules::policy(plan, from, route, shared.plan.object_max),
            keys: keys(plan),
            maps: {
                let path = Rc::new(Parameters::of_route(route, from.listener.ignore_case));
                plan.maps.iter().filter_map(|map| Lookup::new(map, &path, from.resources.of())).collect()
            },
        }
    }

    /// Values of the maps that keys have, for a request.
    pub fn of_maps(&self, cx: &Exchange<'_>, head: &RequestHead<'_, '_, '_>) -> Vec<(Box<str>, Vec<u8>)> {
        let source = Source::of_request(cx, head.request, head.edits.added());
        let value = |map: &Lookup| {
            let mut value = Vec::new();
            map.write(&source, &mut value);
            (format!("map:{}", map.name()).into(), value)
        };
        self.maps.iter().map(value).collect()
    }

    /// The present time, for lifetimes and ages.
    pub fn moment(&self, core: &Core) -> Moment {
        self.shared.clock.moment_at(&core.clock, core.clock.now())
    }

    /// The present time by the wall clock, which dates of responses are compared with.
    pub fn date(&self, core: &Core) -> Date {
        self.shared.clock.wall_at(&core.clock, core.clock.now())
    }

    /// Stored response as a 304 renews it, and the reason why it is not stored, if it is not.
    pub fn renewed(
        &self,
        entry: &Arc<Entry>,
        key: &Key,
        request: &Request<'_, '_>,
        reply: &Reply<'_, '_, '_>,
        began: Sequence,
    ) -> (Arc<Entry>, Option<Why>) {
        match freshen(entry.head(), request, reply, &self.policy) {
            Freshened::Kept(stored) => {
                let renewed = Arc::new(entry.with_head(stored));
                let refused = self.shared.put(key, renewed.clone(), began, reply.received);
                (renewed, refused.map(Why::Refusal))
            }
            Freshened::Once(stored, refusal) => {
                if !refusal.is_of_request() {
                    self.drop_variant(key, entry);
                }
                (Arc::new(entry.with_head(stored)), Some(Why::Refusal(refusal)))
            }
            // The endpoint confirms the validators of this response, but names others: the response serves this
            // request, and no other request.
            Freshened::Mismatch => {
                self.drop_variant(key, entry);
                (entry.clone(), Some(Why::Mismatch))
            }
        }
    }

    /// Response to be stored, with the room for a body of this length, as the head of the response has arrived.
    ///
    /// # Errors
    /// The reason why it may not be stored.
    pub fn arriving(
        &self,
        question: &mut Question,
        reply: &Reply<'_, '_, '_>,
        length: Option<u64>,
        now: Instant,
    ) -> Result<(Arc<Growing>, Room), Refusal> {
        let (shared, known) = (&self.shared, length.unwrap_or(0));
        let stored = storable(&question.asked.request(), &question.lookup, reply, &self.policy)?;
        if let Some(refusal) = shared.refusal(&question.key, &stored, known, question.began) {
            return Err(refusal);
        }
        let mut room = shared.room();
        room.take(known)?;
        Ok((Growing::new(stored, length, question.began, now), room))
    }

    /// Renews or drops a stored response by the response to a HEAD.
    pub fn compare(
        &self,
        entry: &Arc<Entry>,
        key: &Key,
        request: &Request<'_, '_>,
        reply: &Reply<'_, '_, '_>,
        began: Sequence,
    ) {
        match by_head(entry.head(), entry.body().len() as u64, request, reply, &self.policy) {
            OfHead::Kept(stored) => {
                self.shared.put(key, entry.with_head(stored).into(), began, reply.received);
            }
            OfHead::Changed => self.drop_variant(key, entry),
            OfHead::Untouched => {}
        }
    }

    /// Drops a stored response of a key.
    pub fn drop_variant(&self, key: &Key, entry: &Arc<Entry>) {
        self.shared.disk.iter().for_each(|disk| disk.forget(key.into(), entry.head().varying()));
        self.shared.store.drop_object(key.into(), entry);
    }

    /// Target with the parameters that count.
    pub fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        self.keys.target(target)
    }

    /// Drops the stored responses that a request with an unsafe method has changed, by the status and the fields of its
    /// response.
    pub fn invalidate(
        &self,
        request: &Request<'_, '_>,
        is_https: bool,
        status: u16,
        fields: &Fields<'_, '_>,
        now: Moment,
    ) {
        for target in invalidated(request, is_https, status, fields) {
            if let Ok(url) = self.keys.url(is_https, request.host, &target) {
                let scope = Scope::Url(url.into());
                self.shared.purge(&PurgeRecord { scope, fate: Fate::Removed, at: now });
            }
        }
    }
}

/// Response to a request, made of a stored response, or of a response in the same form.
pub fn from_stored(entry: &Entry, request: &Request<'_, '_>, now: Moment) -> Response {
    let answer = Answer::new(entry.head(), request, entry.body().len() as u64);
    let body = match (&answer.body, answer.status) {
        (Some(part), _) => entry.body().slice(part.start as usize..part.end as usize),
        // For a HEAD, only the length of the body counts.
        (None, status) if request.is_head() && !matches!(status, 304 | 416) => entry.body().clone(),
        (None, _) => bytes::Bytes::new(),
    };
    with_fields(Response::page("", body), &answer, entry.head(), now)
}

/// Response that is arriving, turned into the response to a request: the whole, a part of it, or a 304. `None` if its
/// beginning is gone.
pub fn growing_response(
    growing: &Arc<Growing>,
    request: &Request<'_, '_>,
    now: Moment,
    counts: Option<&Arc<CacheCounts>>,
) -> Option<Response> {
    // Without a length there are no parts, as for an empty body.
    let answer = Answer::new(&growing.head, request, growing.length.unwrap_or(0));
    let bytes = match (&answer.body, answer.status) {
        (_, 304 | 416) => None,
        (Some(part), 206) => Some(part.clone()),
        _ => Some(0..growing.length.unwrap_or(u64::MAX)),
    };
    let response = match bytes {
        Some(bytes) => {
            let reader = growing.reader(bytes)?;
            Response::growing(match counts {
                Some(counts) => reader.counted(counts),
                None => reader,
            })
        }
        None => Response::page("", bytes::Bytes::new()),
    };
    Some(with_fields(response, &answer, &growing.head, now))
}

/// The response with the status of an answer, and with its fields from a stored response.
fn with_fields(response: Response, answer: &Answer, stored: &Stored, now: Moment) -> Response {
    let mut response = response.status(answer.status);
    answer.fields(stored, now, |name, value| {
        if !name.eq_ignore_ascii_case(b"content-length") {
            response.fields.push(name, value);
        }
    });
    response
}
