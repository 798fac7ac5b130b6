//! Filters that change the fields of requests: first the filter of the route, then the filter of the pool. They run
//! last, so they see the request as the endpoint would get it.

use super::changes::{Changes, Keys, TooLong, summary};
use super::conditions::{PathReading, RequestWhen};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lookups::{Lookups, Values};
use crate::filters::template::maps::Maps;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use crate::filters::template::variables::is_own;
use crate::peer::sender::Sender;
use crate::upstream::pool::WorkerPool;
use evenkeel_config::plan;
use evenkeel_net::event_loop::budget;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

struct RequestHeaders {
    /// Changes in their order, each for the requests that meet its condition.
    edits: Box<[(Option<RequestWhen>, Changes)]>,
    /// Maps that conditions may use; `None` without a condition.
    lookups: Option<Lookups>,
    summary: String,
}

/// Changes of the pools of a route that have any.
struct OfPools(Box<[(Rc<WorkerPool>, RequestHeaders)]>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    Some(Box::new(RequestHeaders::new(
        &route.filters.request_headers,
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
        Some((pool.clone(), RequestHeaders::new(&pool.plan().request_headers, path, paths, maps)?))
    };
    let all: Box<[_]> = of_route.target.pools().filter_map(of_pool).collect();
    (!all.is_empty()).then(|| Box::new(OfPools(all)) as _)
}

impl RequestHeaders {
    fn new(
        headers: &plan::RequestHeaders,
        path: Parameters,
        paths: PathReading,
        maps: &Arc<Maps>,
    ) -> Option<RequestHeaders> {
        let plan::RequestHeaders { remove, rename, set, add, edits } = headers;
        let path = Rc::new(path);
        let changes = |keys: &Keys<'_>| Changes::new(keys, |template: &_| Value::of_request(template, &path, maps));
        let edit = |edit: &plan::RequestEdit| {
            let plan::RequestEdit { when, remove, rename, set, add } = edit;
            (RequestWhen::new(when, paths), changes(&Keys { remove, rename, set, add }))
        };
        let first = (None, changes(&Keys { remove, rename, set, add }));
        let all = std::iter::once(first).chain(edits.iter().map(edit));
        let edits: Box<[_]> = all.filter(|(_, changes)| !changes.is_empty()).collect();
        let summary = summary(edits.iter().map(|(when, changes)| (when.is_some(), changes)));
        let lookups = edits.iter().any(|(when, _)| when.is_some()).then(|| Lookups::new(maps, &path));
        (!edits.is_empty()).then_some(RequestHeaders { edits, lookups, summary })
    }

    /// Applies the changes whose conditions the request meets.
    ///
    /// # Errors
    /// The response to a request that cannot be changed.
    fn apply(&self, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Result<(), Response> {
        let values = self.lookups.as_ref().map(|lookups| Values { lookups, cx });
        let mut sender = None;
        let (mut rendered, mut memory) = (cx.core.scratch(), cx.core.scratch());
        let mut applied = Ok(());
        for (when, changes) in &self.edits {
            if let Some(when) = when {
                let sender =
                    sender.get_or_insert_with(|| Sender { maps: values.as_ref().map(|all| all as _), ..cx.sender() });
                if !when.meets(head.request, head.edits.added(), sender) {
                    continue;
                }
            }
            let source = Source::of_request(cx, head.request, head.edits.added());
            if let Err(TooLong(name)) = changes.render(&source, &mut rendered) {
                applied = Err(Response::new(431, format!("field \"{name}\" of request_headers would be too long")));
                break;
            }
            changes.apply(&mut head.request.fields, head.edits.lines(), &rendered, &mut memory);
            rendered.clear();
        }
        for mut used in [rendered, memory] {
            used.clear();
            cx.core.give_back(used);
        }
        match sender.map(|sender| sender.units()) {
            // A change may have been left out.
            Some(None) => {
                cx.stats.regex_refused.add(1);
                Err(Response::new(400, "regular expressions of request_headers take too long for this request"))
            }
            Some(Some(units)) => {
                budget::charge(units);
                applied
            }
            None => applied,
        }
    }
}

impl OfPools {
    fn of(&self, cx: &Exchange<'_>) -> Option<&RequestHeaders> {
        let pool = cx.facts.pool?;
        self.0.iter().find(|(of, _)| std::ptr::eq(&**of, pool)).map(|(_, headers)| headers)
    }
}

impl Filter for OfPools {
    type State = ();

    fn request(&self, own: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        self.of(cx).map_or(Verdict::Next, |headers| headers.request(own, cx, head))
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        self.of(cx).map_or("".into(), |headers| headers.did(None, cx))
    }
}

impl Pure for OfPools {}

impl Filter for RequestHeaders {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        // The client's own would be renamed and then pass for others.
        let bytes = head.request.fields.bytes;
        head.request.fields.rows.iter_mut().for_each(|row| row.dropped |= is_own(row.name(bytes)));
        match self.apply(cx, head) {
            Ok(()) => Verdict::Next,
            Err(response) => Verdict::Answer(response),
        }
    }

    fn did(&self, _: Option<&()>, _: &Exchange<'_>) -> Cow<'static, str> {
        self.summary.clone().into()
    }
}

impl Pure for RequestHeaders {}
