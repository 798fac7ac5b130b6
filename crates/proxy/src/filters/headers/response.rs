//! Filters that change the fields of responses. The filter of the pool is the first to see responses of its endpoints.
//! The filter of the route is the last, for responses of endpoints and of this proxy: it sees a response as the client
//! would get it, except for fields that filters of the listener add.

use super::changes::{Changes, Keys, summary};
use super::conditions::{PathReading, When};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lines::each;
use crate::filters::template::lookups::{Lookups, Values};
use crate::filters::template::maps::Maps;
use crate::filters::template::parameters::{Parameters, charge};
use crate::filters::template::source::Source;
use crate::filters::template::value::{UNFIT, Value};
use crate::peer::sender::{STEPS_MAX, Sender};
use crate::upstream::pool::WorkerPool;
use evenkeel_config::plan;
use evenkeel_net::event_loop::budget;
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

struct ResponseHeaders {
    security: bool,
    /// Changes in their order, each for the responses that meet its condition.
    edits: Box<[(Option<When>, Changes)]>,
    /// Maps that conditions for requests may use; `None` without a condition.
    lookups: Option<Lookups>,
    /// Values of the request that templates use, kept when the request comes.
    kept: Box<[Value]>,
    summary: String,
}

/// Facts about the request that are kept for its response.
#[derive(Default)]
pub struct Kept {
    /// Values that templates use.
    texts: Vec<Vec<u8>>,
    /// For each change: true if the request meets its condition.
    meets: Vec<bool>,
}

/// Fields that browsers act on, and true for fields that replace the endpoint's.
const SECURITY: [(&str, &str, bool); 3] = [
    // The field has no other valid value.
    ("X-Content-Type-Options", "nosniff", true),
    ("X-Frame-Options", "SAMEORIGIN", false),
    ("Referrer-Policy", "strict-origin-when-cross-origin", false),
];

/// Fields by which servers show what they are, and fields between them and a proxy.
const HIDDEN: [&str; 5] = ["Server", "X-Powered-By", "X-AspNet-Version", "X-AspNetMvc-Version", "X-Accel-*"];

/// Changes of the pools of a route that have any.
struct OfPools(Box<[(Rc<WorkerPool>, ResponseHeaders)]>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    Some(Box::new(ResponseHeaders::new(
        &route.filters.response_headers,
        route,
        Parameters::of_route(route, from.listener.ignore_case),
        PathReading::of(from.listener, route),
        from.resources.of(),
    )?))
}

pub fn build_of_pools(from: &Build<'_>) -> Option<Step> {
    let (of_route, maps) = (from.route.as_ref()?, from.resources.of());
    let paths = PathReading::of(from.listener, of_route.plan);
    let of_pool = |pool: &Rc<WorkerPool>| {
        let path = Parameters::none(from.listener.ignore_case);
        Some((pool.clone(), ResponseHeaders::new(&pool.plan().response_headers, of_route.plan, path, paths, maps)?))
    };
    let all: Box<[_]> = of_route.target.pools().filter_map(of_pool).collect();
    (!all.is_empty()).then(|| Box::new(OfPools(all)) as _)
}

impl ResponseHeaders {
    /// Prepares the changes; `None` if there are none.
    fn new(
        headers: &plan::ResponseHeaders,
        route: &plan::Route,
        path: Parameters,
        paths: PathReading,
        maps: &Arc<Maps>,
    ) -> Option<ResponseHeaders> {
        let plan::ResponseHeaders { security, hide, remove, rename, set, add, edits } = headers;
        let hidden = HIDDEN.iter().filter(|_| *hide).map(|name| Arc::from(*name));
        let remove = &hidden.chain(remove.iter().cloned()).collect::<Vec<Arc<str>>>();
        let mut kept = Vec::new();
        let mut changes = |keys: &Keys<'_>| {
            Changes::new(keys, |template: &_| Value::of_response(template, &route.name, &mut kept, maps))
        };
        let first = (None, changes(&Keys { remove, rename, set, add }));
        let edit = |edit: &plan::ResponseEdit| {
            let plan::ResponseEdit { when, remove, rename, set, add } = edit;
            (When::new(when, paths), changes(&Keys { remove, rename, set, add }))
        };
        let all: Vec<_> = std::iter::once(first).chain(edits.iter().map(edit)).collect();
        let edits: Box<[(Option<When>, Changes)]> =
            all.into_iter().filter(|(_, changes)| !changes.is_empty()).collect();
        if edits.is_empty() && !security {
            return None;
        }
        let path = Rc::new(path);
        let kept = kept.into_iter().map(|variable| Value::of_variable(variable, &path, maps)).collect();
        let changed = summary(edits.iter().map(|(when, changes)| (when.is_some(), changes)));
        let summary = match (security, edits.is_empty()) {
            (true, true) => "security fields".to_string(),
            (true, false) => format!("security fields; {changed}"),
            (false, _) => changed,
        };
        let lookups = edits.iter().any(|(when, _)| when.is_some()).then(|| Lookups::new(maps, &path));
        Some(ResponseHeaders { security: *security, edits, lookups, kept, summary })
    }

    /// True if a condition is about the request.
    fn depends_on_request(&self) -> bool {
        self.edits.iter().any(|(when, _)| when.as_ref().is_some_and(|when| when.of_request().is_some()))
    }
}

impl OfPools {
    fn of(&self, cx: &Exchange<'_>) -> Option<&ResponseHeaders> {
        let pool = cx.facts.pool?;
        self.0.iter().find(|(of, _)| std::ptr::eq(&**of, pool)).map(|(_, headers)| headers)
    }
}

impl Filter for OfPools {
    type State = Kept;

    fn request(&self, own: &mut Own<Kept>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        self.of(cx).map_or(Verdict::Next, |headers| headers.request(own, cx, head))
    }

    /// Changes responses of endpoints only.
    fn response(&self, own: &mut Own<Kept>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if head.is_of_endpoint(cx)
            && let Some(headers) = self.of(cx)
        {
            headers.response(own, cx, head);
        }
    }

    fn did(&self, _: Option<&Kept>, cx: &Exchange<'_>) -> Cow<'static, str> {
        self.of(cx).map_or("".into(), |headers| headers.did(None, cx))
    }
}

impl Pure for OfPools {}

impl Filter for ResponseHeaders {
    type State = Kept;

    /// Keeps what responses need of the request: its head may be gone by then.
    fn request(&self, own: &mut Own<Kept>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if self.kept.is_empty() && !self.depends_on_request() {
            return Verdict::Next;
        }
        let source = Source::of_request(cx, head.request, &[]);
        let text = |value: &Value| {
            let mut text = Vec::new();
            // A value that does not fit makes its field unfit.
            if value.render(&source, &mut text).is_err() {
                text.extend_from_slice(UNFIT);
            }
            text
        };
        let texts = self.kept.iter().map(text).collect();
        let values = self.lookups.as_ref().map(|lookups| Values { lookups, cx });
        let sender = Sender { maps: values.as_ref().map(|all| all as _), ..cx.sender() };
        let meets = |(when, _): &(Option<When>, Changes)| {
            let of_request = when.as_ref().and_then(When::of_request);
            of_request.is_none_or(|of_request| of_request.meets(head.request, &[], &sender))
        };
        let meets = self.edits.iter().map(meets).collect();
        *own = Some(Box::new(Kept { texts, meets }));
        match sender.units() {
            Some(units) => budget::charge(units),
            // A change may have been left out.
            None => {
                cx.stats.regex_refused.add(1);
                let why = "regular expressions of response_headers take too long for this request";
                return Verdict::Answer(Response::new(400, why));
            }
        }
        Verdict::Next
    }

    fn response(&self, own: &mut Own<Kept>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let (mut rendered, mut memory) = (cx.core.scratch(), cx.core.scratch());
        if self.security && head.status != 101 {
            add_security(head, &mut memory);
        }
        let kept = own.as_deref();
        let texts = kept.map(|kept| &kept.texts[..]).unwrap_or_default();
        let steps = Cell::new(STEPS_MAX);
        for (at, (when, changes)) in self.edits.iter().enumerate() {
            let is_met = |when: &When| {
                let of_request = kept.and_then(|kept| kept.meets.get(at)).copied();
                of_request.unwrap_or(when.of_request().is_none())
                    && when.meets(head.status, head.fields, head.added, &steps)
            };
            if when.as_ref().is_some_and(|when| !is_met(when)) {
                continue;
            }
            // The client has to get a response: the fields that fit are sent.
            let _ = changes.render(&Source::of_response(cx, head.status, texts), &mut rendered);
            changes.apply(head.fields, head.added, &rendered, &mut memory);
            rendered.clear();
        }
        charge(&steps);
        for mut used in [rendered, memory] {
            used.clear();
            cx.core.give_back(used);
        }
    }

    fn did(&self, _: Option<&Kept>, _: &Exchange<'_>) -> Cow<'static, str> {
        self.summary.clone().into()
    }
}

impl Pure for ResponseHeaders {}

/// Adds the fields of [`SECURITY`]. `memory` is empty before and after.
fn add_security(head: &mut ResponseHead<'_, '_, '_>, memory: &mut Vec<u8>) {
    for (name, value, replaces) in SECURITY {
        if replaces {
            head.fields.leave_out(name);
        } else {
            let is_it = |(known, _): (&[u8], &[u8])| known.eq_ignore_ascii_case(name.as_bytes());
            if head.fields.kept().any(is_it) || each(head.added).any(is_it) {
                continue;
            }
        }
        evenkeel_wire::http1::fields::append(&[name.as_bytes(), b": ", value.as_bytes(), b"\r\n"], memory);
    }
    head.added.append(memory);
}
