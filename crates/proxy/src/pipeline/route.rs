//! The way of a request from its head to a pool, for all protocols: the filters of its listener, the route, the filters
//! of the route. Then [`attempts`](crate::forward::attempts) send it.

use crate::body::chain::BodyChain;
use crate::body::response::Response;
use crate::filters::filter::{RequestHead, Resume, Verdict, Waiting};
use crate::filters::list::Filters;
use crate::filters::template::lookups::Values;
use crate::filters::template::source::Source;
use crate::listener::route::Refusal;
use crate::peer::hash_key;
use crate::peer::sender::Sender;
use crate::pipeline::trailers::Trailers;
use crate::pipeline::websocket::Accept;
use crate::record::Record;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_config::plan::{RouteTimeouts, Underscores};
use evenkeel_net::deadline::Timer;
use evenkeel_wire::head::{Fields, Request};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use std::cell::OnceCell;
use std::time::Duration;

/// A request whose head was read and routed.
pub struct Opened<'r> {
    pub route: Route<'r>,
    pub towards: Towards,
    pub asked: RequestContext,
    pub idempotent: bool,
    /// True if the endpoint's connection must not be reused after this request.
    pub close: bool,
    /// True if the client may wait for a 100 before it sends the body.
    pub expects_continue: bool,
    /// Trailers that the endpoint gets.
    pub trailers: Trailers,
    /// Answer to the key of a WebSocket that an HTTP/1 endpoint gets instead of the client.
    pub accept: Option<Accept>,
}

/// Destination of a request, and the conditions under which it is sent.
pub struct Route<'r> {
    pub pool: &'r WorkerPool,
    /// Retry settings and budget of the route.
    pub retries: &'r Retries,
    /// Hash key for the pool's algorithm; `None` if it uses none, or the request does not have it.
    pub key: Option<u64>,
    pub timeouts: RouteTimeouts,
    /// Tick at which the request ends, whatever its state; `u64::MAX` without a limit.
    pub deadline: u64,
    /// Deadline that the client of a gRPC call states (`grpc-timeout`).
    pub call_timeout: Option<Duration>,
    /// True if `call_timeout` determines `deadline`.
    pub is_deadline_of_call: bool,
    /// True if filters look at bodies, so that these are forwarded in parts and not as they arrive.
    pub wants_body: bool,
}

impl Route<'_> {
    /// Limits the request to the deadline of a gRPC call, which ends at `tick`. The response timeout is raised to the
    /// same limit: a call that sends its first message late sends its head late, too.
    pub fn limit_call(&mut self, limit: Duration, tick: u64) {
        self.call_timeout = Some(limit);
        self.is_deadline_of_call = tick < self.deadline;
        self.deadline = self.deadline.min(tick);
        self.timeouts.response = self.timeouts.response.map(|response| response.max(limit));
    }
}

/// Position of a request in the filters, kept while a filter waits.
#[derive(Default)]
pub struct Passage {
    /// Index of the next filter of the listener, or of the route once `is_routed`.
    at: usize,
    is_routed: bool,
    /// True once the request was noted for the access log, taps and traces: with the fields that the listener's filters
    /// left.
    is_noted: bool,
    /// Result of the filter that has waited.
    pub resume: Option<Resume>,
}

impl Passage {
    /// Position of a request that has a route: before the first filter of the route.
    pub fn routed() -> Passage {
        Passage { is_routed: true, is_noted: true, ..Passage::default() }
    }
}

/// Memory for the target of a request that is forwarded in normal form: from its route on, this is the request's target.
pub type Normal = OnceCell<Box<str>>;

/// Reason why a request does not proceed now.
pub enum Stop {
    /// This proxy answers the request itself.
    Answer(Response),
    /// A filter waits for something; call [`route`] again with its result in the passage.
    Wait(Waiting),
}

impl From<Response> for Stop {
    fn from(response: Response) -> Stop {
        Stop::Answer(response)
    }
}

/// Runs the filters and finds the route and pool of a request. `normal`: empty memory for another target.
///
/// # Errors
/// A filter or the lack of a route ends the request, or a filter has to wait.
pub fn route<'r, 'b>(
    record: &mut Record<'r>,
    head: &mut RequestHead<'_, '_, 'b>,
    normal: &'b Normal,
    passage: &mut Passage,
    timer: &Timer,
) -> Result<Route<'r>, Stop> {
    let rules = record.rules;
    if let Err(refusal) = apply(rules.plan.underscores, &mut head.request.fields) {
        record.note_asked(head.request);
        return Err(refusal.into());
    }
    if let Some(resume) = passage.resume.take() {
        let waited = if passage.is_routed { rules.filters_of(record.route) } else { &rules.filters };
        verdict(waited.resume(passage.at, resume, &mut record.exchange, head))?;
    }
    if !passage.is_routed {
        let passed = rules.filters.request(&mut passage.at, &mut record.exchange, head);
        if !std::mem::replace(&mut passage.is_noted, true) {
            record.note_asked(head.request);
        }
        verdict(passed)?;
        let request = &mut *head.request;
        let maps = Values { lookups: &rules.lookups, cx: &record.exchange };
        let choice = rules.compiled.router.find(request, || Sender { maps: Some(&maps), ..record.exchange.sender() });
        let choice = choice.map_err(|refusal| refused(record, refusal))?;
        if let Some(path) = choice.path {
            request.target = normal.get_or_init(|| (path + &request.target[request.path().len()..]).into());
        }
        let route = choice.route.ok_or_else(|| no_route(request))?;
        let (cx, lines) = (&record.exchange, head.edits.added());
        let source = || Source::of_request(cx, request, lines);
        let choice = |name: &mut Vec<u8>| rules.write_choice(route, &source(), name);
        let pool = rules.target(route).pool(record.client.core, request, || cx.client(), choice);
        record.note_routed(request, route, pool);
        (passage.at, passage.is_routed) = (0, true);
    }
    let id = record.route;
    verdict(rules.filters_of(id).request(&mut passage.at, &mut record.exchange, head))?;
    // Without a pool, a filter of the route has already responded.
    let pool = record.exchange.facts.pool.ok_or_else(|| Response::new(503, "the route has no pool"))?;
    let timeouts = rules.routes.planned[id].timeouts;
    let is_open = record.exchange.facts.framing == Stated::Chunked;
    let looks = |filters: &Filters| filters.look_at_bodies() || is_open && filters.look_at_open_bodies();
    Ok(Route {
        pool,
        retries: rules.retries(id, record.client.core),
        key: pool.plan().key().and_then(|key| hash_key::hash(key, head.request, record.exchange.client())),
        timeouts,
        deadline: timeouts.request.map_or(u64::MAX, |limit| timer.tick_after(limit)),
        call_timeout: None,
        is_deadline_of_call: false,
        wants_body: looks(&rules.filters)
            || looks(rules.filters_of(id))
            || record.exchange.facts.wants_body
            || is_open && !rules.routes.planned[id].filters.request_trailers.is_empty(),
    })
}

/// Applies the setting of a listener for fields with `_` in their names.
#[inline]
fn apply(setting: Underscores, fields: &mut Fields<'_, '_>) -> Result<(), Response> {
    match setting {
        Underscores::Keep => {}
        Underscores::Drop => fields.hide_with(b'_'),
        Underscores::Refuse => {
            if let Some(field) = fields.rows.iter().find(|field| field.name(fields.bytes).contains(&b'_')) {
                let name = String::from_utf8_lossy(field.name(fields.bytes));
                return Err(Response::new(400, format!("the name of the field \"{name}\" has an underscore")));
            }
        }
    }
    Ok(())
}

/// The filters for the body of a request. Removes the fields that state its length if they may change it.
pub fn body_chain(record: &Record<'_>, head: &mut RequestHead<'_, '_, '_>) -> Option<Box<BodyChain>> {
    let (of_listener, of_route) = (&record.rules.filters, record.rules.filters_of(record.route));
    let (cx, request) = (&record.exchange, &*head.request);
    let filters = of_listener.request_body(cx, request).chain(of_route.request_body(cx, request));
    let chain = BodyChain::new(filters)?;
    if !chain.keeps_length() {
        head.request.fields.leave_out("content-length");
        head.request.fields.leave_out("transfer-encoding");
        head.edits.open_length();
    }
    Some(chain)
}

#[inline]
fn verdict(verdict: Verdict) -> Result<(), Stop> {
    match verdict {
        Verdict::Next => Ok(()),
        Verdict::Answer(response) => Err(Stop::Answer(response)),
        Verdict::Wait(waiting) => Err(Stop::Wait(waiting)),
    }
}

#[cold]
fn refused(record: &Record<'_>, refusal: Refusal) -> Response {
    let stats = record.exchange.stats;
    match refusal {
        Refusal::TooCostly => stats.regex_refused.add(1),
        Refusal::Ambiguous(_) => stats.paths_refused.add(1),
    }
    let planned = &record.rules.routes.planned;
    Response::new(400, refusal.text(|id| planned.get(id).map_or("", |route| &*route.name)))
}

#[cold]
fn no_route(request: &Request<'_, '_>) -> Response {
    let (host, path) = (String::from_utf8_lossy(request.host), request.path());
    Response::new(404, format!("no route for host \"{host}\" and path \"{path}\""))
}
