//! The way of a request from its head to a pool, whatever protocol brought it: past the filters of its listener to its route, and past
//! those of the route. Then [`attempts`](crate::forward::attempts) send it.

use crate::body::chain::BodyChain;
use crate::body::response::Response;
use crate::filters::filter::{RequestHead, Resume, Verdict, Waiting};
use crate::peer::hash_key;
use crate::record::Record;
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_config::plan::RouteTimeouts;
use evenkeel_net::deadline::Timer;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::Body;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use std::time::Duration;

/// A request that was read and routed.
pub struct Opened<'r> {
    pub route: Route<'r>,
    pub towards: Towards,
    pub asked: RequestContext,
    pub idempotent: bool,
    /// Whether the endpoint's connection must not carry another request.
    pub close: bool,
    /// What of the body is still to come.
    pub body: Body,
    /// The filters that the body passes, if there are some.
    pub body_chain: Option<Box<BodyChain>>,
}

impl Opened<'_> {
    /// True if all of the body is here, and has passed its filters.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.body.is_done() && self.body_chain.as_ref().is_none_or(|chain| chain.is_done())
    }

    /// True if the endpoint is told of no length of the body, so that HTTP/1 sends it in chunks.
    pub fn is_length_open(&self) -> bool {
        !matches!(self.body, Body::Length(_)) || self.body_chain.as_ref().is_some_and(|chain| !chain.keeps_length())
    }
}

/// Where a request goes, and under which conditions.
pub struct Route<'r> {
    pub pool: &'r WorkerPool,
    /// What its route may try again.
    pub retries: &'r Retries,
    /// What the pool's algorithm is keyed by, if it is.
    pub key: Option<u64>,
    pub timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    pub deadline: u64,
    /// Time that the client of a gRPC call waits, if it states one.
    pub call_timeout: Option<Duration>,
    /// The rest of it at the begin of the try at hand.
    pub call_left: Option<Duration>,
    /// True if `call_timeout` makes the deadline.
    pub is_deadline_of_call: bool,
    /// The content of bodies is looked at on the way, so that they pass in parts.
    pub wants_body: bool,
}

impl Route<'_> {
    /// Limits the request to the time that the client of a gRPC call waits, which ends at `tick`. An endpoint may take as long for
    /// the head of its response: a call that sends its first message late sends its head late, too.
    pub fn limit_call(&mut self, limit: Duration, tick: u64) {
        self.call_timeout = Some(limit);
        self.is_deadline_of_call = tick < self.deadline;
        self.deadline = self.deadline.min(tick);
        self.timeouts.response = self.timeouts.response.map(|response| response.max(limit));
    }
}

/// How far a request has come on its way past filters.
#[derive(Default)]
pub struct Passage {
    /// The number of the next filter of its listener, or of its route.
    at: usize,
    is_routed: bool,
    /// What the log and those who watch keep of it was noted.
    is_noted: bool,
}

/// A request that goes no further now.
pub enum Stop {
    /// It is answered by this side.
    Answer(Response),
    /// A filter waits for something. The way continues with what that gives.
    Wait(Waiting),
}

impl From<Response> for Stop {
    fn from(response: Response) -> Stop {
        Stop::Answer(response)
    }
}

/// Finds out who sent a request, whether it may, and where it goes. `resume`: what a filter has waited for, if one has.
///
/// # Errors
/// It goes no further now.
pub fn route<'r>(
    record: &mut Record<'r>,
    head: &mut RequestHead<'_, '_, '_>,
    passage: &mut Passage,
    resume: Option<Resume>,
    timer: &Timer,
) -> Result<Route<'r>, Stop> {
    let rules = record.rules;
    if let Some(resume) = resume {
        verdict(resume(record, head))?;
    }
    if !passage.is_routed {
        let passed = rules.filters.request(&mut passage.at, record, head);
        if !std::mem::replace(&mut passage.is_noted, true) {
            record.note_asked(head.request);
        }
        verdict(passed)?;
        let request = &mut *head.request;
        let route = rules.compiled.router.find(request.host, || request.path());
        let route = route.ok_or_else(|| no_route(request))?;
        let pool = rules.pool(route);
        record.note_routed(request, route, pool);
        (passage.at, passage.is_routed) = (0, true);
    }
    let id = record.route;
    verdict(rules.filters_of(id).request(&mut passage.at, record, head))?;
    let pool = rules.pool(id);
    let timeouts = rules.routes.planned[id].timeouts;
    Ok(Route {
        pool,
        retries: rules.retries(id, record.core),
        key: pool.plan().key().and_then(|key| hash_key::hash(key, head.request, record.client())),
        timeouts,
        deadline: timeouts.request.map_or(u64::MAX, |limit| timer.tick_after(limit)),
        call_timeout: None,
        call_left: None,
        is_deadline_of_call: false,
        wants_body: rules.filters.look_at_bodies() || rules.filters_of(id).look_at_bodies(),
    })
}

/// The filters that the body of a request passes. If they change its length, the endpoint is told of none.
pub fn body_chain(record: &Record<'_>, head: &mut RequestHead<'_, '_, '_>) -> Option<Box<BodyChain>> {
    let (of_listener, of_route) = (&record.rules.filters, record.rules.filters_of(record.route));
    let filters = of_listener.request_body(record, head.request).chain(of_route.request_body(record, head.request));
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
fn no_route(request: &Request<'_, '_>) -> Response {
    let (host, path) = (String::from_utf8_lossy(request.host), request.path());
    Response::new(404, format!("no route for host \"{host}\" and path \"{path}\""))
}
