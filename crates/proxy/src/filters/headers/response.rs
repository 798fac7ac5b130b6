//! Filters that change the fields of responses. The filter of the pool is the first to see responses of its endpoints.
//! The filter of the route is the last, for responses of endpoints and of this proxy: it sees a response as the client
//! would get it, except for fields that filters of the listener add.

use super::changes::{Changes, Keys};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lines::each;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use crate::upstream::pool::WorkerPool;
use evenkeel_config::plan;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

struct ResponseHeaders {
    security: bool,
    changes: Changes,
    /// Values of the request that templates use, kept when the request comes.
    kept: Box<[Value]>,
    summary: String,
}

/// Values of the request that are kept for its response.
type Texts = Vec<Vec<u8>>;

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
    Some(Box::new(ResponseHeaders::new(&route.filters.response_headers, route, Parameters::of_route(route))?))
}

pub fn build_of_pools(from: &Build<'_>) -> Option<Step> {
    let from = from.route.as_ref()?;
    let of_pool = |pool: &Rc<WorkerPool>| {
        let path = Parameters::of(std::iter::empty());
        Some((pool.clone(), ResponseHeaders::new(&pool.plan().response_headers, from.plan, path)?))
    };
    let all: Box<[_]> = from.target.pools().filter_map(of_pool).collect();
    (!all.is_empty()).then(|| Box::new(OfPools(all)) as _)
}

impl ResponseHeaders {
    /// Prepares the changes; `None` if there are none.
    fn new(headers: &plan::ResponseHeaders, route: &plan::Route, path: Parameters) -> Option<ResponseHeaders> {
        let plan::ResponseHeaders { security, hide, remove, rename, set, add } = headers;
        let hidden = HIDDEN.iter().filter(|_| *hide).map(|name| Arc::from(*name));
        let remove = &hidden.chain(remove.iter().cloned()).collect::<Vec<Arc<str>>>();
        let (keys, mut kept) = (Keys { remove, rename, set, add }, Vec::new());
        let changes = Changes::new(&keys, |template: &_| Value::of_response(template, &route.name, &mut kept));
        if changes.is_empty() && !security {
            return None;
        }
        let path = Rc::new(path);
        let kept = kept.into_iter().map(|variable| Value::of_variable(variable, &path)).collect();
        let summary = match (security, changes.is_empty()) {
            (true, true) => "security fields".to_string(),
            (true, false) => format!("security fields; {}", changes.summary()),
            (false, _) => changes.summary(),
        };
        Some(ResponseHeaders { security: *security, changes, kept, summary })
    }
}

impl OfPools {
    fn of(&self, cx: &Exchange<'_>) -> Option<&ResponseHeaders> {
        let pool = cx.facts.pool?;
        self.0.iter().find(|(of, _)| std::ptr::eq(&**of, pool)).map(|(_, headers)| headers)
    }
}

impl Filter for OfPools {
    type State = Texts;

    fn request(&self, own: &mut Own<Texts>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        self.of(cx).map_or(Verdict::Next, |headers| headers.request(own, cx, head))
    }

    /// Changes responses of endpoints only.
    fn response(&self, own: &mut Own<Texts>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if head.is_of_endpoint(cx)
            && let Some(headers) = self.of(cx)
        {
            headers.response(own, cx, head);
        }
    }

    fn did(&self, _: Option<&Texts>, cx: &Exchange<'_>) -> Cow<'static, str> {
        self.of(cx).map_or("".into(), |headers| headers.did(None, cx))
    }
}

impl Pure for OfPools {}

impl Filter for ResponseHeaders {
    type State = Texts;

    /// Keeps the values of the request that responses need: its head may be gone by then.
    fn request(&self, own: &mut Own<Texts>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if !self.kept.is_empty() {
            let source = Source { cx, request: Some(head.request), lines: &[], kept: &[], status: 0 };
            let text = |value: &Value| {
                let mut text = Vec::new();
                // A value that does not fit makes its field unfit: the mark is a control character.
                if value.render(&source, &mut text).is_err() {
                    text.push(0);
                }
                text
            };
            *own = Some(Box::new(self.kept.iter().map(text).collect()));
        }
        Verdict::Next
    }

    fn response(&self, own: &mut Own<Texts>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let (mut rendered, mut memory) = (cx.core.scratch(), cx.core.scratch());
        if self.security && head.status != 101 {
            add_security(head, &mut memory);
        }
        let kept = own.as_deref().map(Vec::as_slice).unwrap_or_default();
        let source = Source { cx, request: None, lines: &[], kept, status: head.status };
        // The client has to get a response: the fields that fit are sent.
        let _ = self.changes.render(&source, &mut rendered);
        self.changes.apply(head.fields, head.added, &rendered, &mut memory);
        for mut used in [rendered, memory] {
            used.clear();
            cx.core.give_back(used);
        }
    }

    fn did(&self, _: Option<&Texts>, _: &Exchange<'_>) -> Cow<'static, str> {
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
