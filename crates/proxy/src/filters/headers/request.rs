//! Filters that change the fields of requests: first the filter of the route, then the filter of the pool. They run
//! last, so they see the request as the endpoint would get it.

use super::changes::{Changes, Keys, TooLong};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::maps::Maps;
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use crate::filters::template::variables::is_own;
use crate::upstream::pool::WorkerPool;
use evenkeel_config::plan;
use std::borrow::Cow;
use std::rc::Rc;

struct RequestHeaders {
    changes: Changes,
    summary: String,
}

/// Changes of the pools of a route that have any.
struct OfPools(Box<[(Rc<WorkerPool>, RequestHeaders)]>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    Some(Box::new(RequestHeaders::new(
        &route.filters.request_headers,
        Parameters::of_route(route),
        from.resources.of(),
    )?))
}

pub fn build_of_pools(from: &Build<'_>) -> Option<Step> {
    let of_pool = |pool: &Rc<WorkerPool>| {
        let path = Parameters::of(std::iter::empty());
        let headers = RequestHeaders::new(&pool.plan().request_headers, path, from.resources.of())?;
        Some((pool.clone(), headers))
    };
    let all: Box<[_]> = from.route.as_ref()?.target.pools().filter_map(of_pool).collect();
    (!all.is_empty()).then(|| Box::new(OfPools(all)) as _)
}

impl RequestHeaders {
    fn new(headers: &plan::RequestHeaders, path: Parameters, maps: &Maps) -> Option<RequestHeaders> {
        let plan::RequestHeaders { remove, rename, set, add } = headers;
        let (keys, path) = (Keys { remove, rename, set, add }, Rc::new(path));
        let changes = Changes::new(&keys, |template: &_| Value::of_request(template, &path, maps));
        let summary = changes.summary();
        (!changes.is_empty()).then_some(RequestHeaders { changes, summary })
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
        let (mut rendered, mut memory) = (cx.core.scratch(), cx.core.scratch());
        let source = Source { cx, request: Some(head.request), lines: head.edits.added(), kept: &[], status: 0 };
        let fits = self.changes.render(&source, &mut rendered);
        if fits.is_ok() {
            self.changes.apply(&mut head.request.fields, head.edits.lines(), &rendered, &mut memory);
        }
        for mut used in [rendered, memory] {
            used.clear();
            cx.core.give_back(used);
        }
        match fits {
            Ok(()) => Verdict::Next,
            Err(TooLong(name)) => {
                Verdict::Answer(Response::new(431, format!("field \"{name}\" of request_headers would be too long")))
            }
        }
    }

    fn did(&self, _: Option<&()>, _: &Exchange<'_>) -> Cow<'static, str> {
        self.summary.clone().into()
    }
}

impl Pure for RequestHeaders {}
