//! What becomes of a request, as far as its head says? Trusted, limited and routed, whatever protocol brought it; then
//! [`attempts`](super::attempts) send it.

use super::record::Record;
use super::reply::{Page, Reply};
use super::why::Why;
use crate::listener::client::Client;
use crate::listener::mark::Mark;
use crate::listener::route::RouteId;
use crate::listener::rules::Rules;
use crate::load::load_report::{self, Reporter};
use crate::peer::{forwarded, hash_key};
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use crate::upstream::session::Session;
use evenkeel_balance::Clock;
use evenkeel_config::plan::RouteTimeouts;
use evenkeel_net::deadline::Timer;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::max_forwards::{self, Hops};
use evenkeel_wire::http1::request::Forward;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::{Body, Reject};
use forwarded::Origin;
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
}

/// Where a request goes, and under which conditions.
pub struct Route<'r> {
    pub pool: &'r WorkerPool,
    /// What its route may try again.
    pub retries: &'r Retries,
    /// What the pool's algorithm is keyed by, if it is.
    pub key: Option<u64>,
    /// Where its client was before, if it has to go there again.
    pub session: Option<Session>,
    pub timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    pub deadline: u64,
    /// Time that the client of a gRPC call waits, if it states one.
    pub call_timeout: Option<Duration>,
    /// True if `call_timeout` makes the deadline.
    pub is_deadline_of_call: bool,
    /// For its `Max-Forwards`, if that means something.
    pub max_forwards: Option<u32>,
    /// What it is known by, should it come back: a field.
    pub mark: &'r [u8],
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

/// A request that goes no further.
pub enum Refused {
    /// With this answer to its client.
    Answered(Reply),
    /// It is for this side, which knows the answer.
    Served(Page),
    /// For what its head says.
    Malformed(Reject),
}

/// Finds out who sent a request, whether it may, and where it goes. All of the head's bytes are needed here, and none
/// afterwards but for what [`forward`] says of them. `has_passed_proxies`: it may have been here before.
///
/// # Errors
/// It goes no further.
pub fn route<'r, 'b>(
    client: &Client<'_>,
    record: &mut Record<'r>,
    request: &mut Request<'_, 'b>,
    has_passed_proxies: bool,
    timer: &Timer,
) -> Result<(Route<'r>, Option<Origin<'b>>), Refused> {
    let (core, rules) = (client.core, record.rules);
    record.take_id(request);
    record.take_trace(request);
    record.note_asked(request);
    let mut ip = client.peer.ip;
    let origin = client
        .peer
        .is_trusted
        .then(|| forwarded::believe(request, rules.compiled.admission.trusted(), ip, client.peer.scheme()));
    if let Some(origin) = &origin {
        ip = origin.client;
        record.origin = (ip != client.peer.ip).then_some(ip);
        client.listener.stats.forwarded_malformed.add(origin.malformed);
    }
    let admission = &rules.compiled.admission;
    admission.request(ip, || core.clock.now()).map_err(|seconds| Refused::Answered(too_many(client, seconds)))?;
    let max_forwards = match max_forwards::take(request).map_err(Refused::Malformed)? {
        Hops::Left(left) => left,
        Hops::None => return Err(Refused::Served(last_hop(request))),
    };
    let (host, path) = (request.host, request.path());
    // Who asks for the load needs no route, but may not ask more often than others.
    if let Some(reporter) = rules.reporter.as_ref().filter(|reporter| reporter.plan.path == path) {
        return Err(Refused::Served(load(client, reporter)));
    }
    if let Some(answer) = rules.compiled.challenges.as_ref().and_then(|challenges| challenges.answer(path)) {
        return Err(Refused::Served(Page { fields: Vec::new(), kind: "text/plain", body: answer.as_bytes().to_vec() }));
    }
    let no_route = || {
        let host = String::from_utf8_lossy(host);
        Refused::Answered(Reply::new(404, format!("no route for host \"{host}\" and path \"{path}\"")))
    };
    if rules.plan.redirect_https && client.peer.tls().is_none() {
        return Err(redirect(host, request.target));
    }
    let route = rules.compiled.router.find(host, path).ok_or_else(no_route)?;
    let pool = rules.pool(route);
    record.route = route;
    record.pool = Some(pool);
    record.why = core.explaining.asks(request, &pool.name).map(|asked| Why::begin(asked, request, core.clock.now()));
    let mark = rules.mark(route);
    if has_passed_proxies && mark.is_some_and(|mark| mark.is_on(request)) {
        return Err(came_back(client, rules, route));
    }
    record.working = rules.reporter.as_ref().map(Reporter::begin);
    let timeouts = rules.routes.planned[route].timeouts;
    let deadline = timeouts.request.map_or(u64::MAX, |limit| timer.tick_after(limit));
    let key = pool.plan().key().and_then(|key| hash_key::hash(key, request, ip));
    let session = pool.session(request, core);
    let mark = mark.map_or(&b""[..], Mark::line);
    let retries = rules.retries(route, core);
    let (call_timeout, is_deadline_of_call) = (None, false);
    let route = Route {
        pool,
        retries,
        key,
        session,
        timeouts,
        deadline,
        call_timeout,
        is_deadline_of_call,
        max_forwards,
        mark,
    };
    Ok((route, origin))
}

/// What the head for the endpoint says of the client. `here`: the authority of a request that names none. `names`: fields,
/// or nothing. `close`: the endpoint's connection must not carry another request.
pub fn forward<'f>(
    client: &'f Client<'_>,
    origin: Option<&'f Origin<'_>>,
    route: &Route<'f>,
    here: &'f str,
    names: &'f [u8],
    close: bool,
) -> Forward<'f> {
    Forward {
        client: origin.map_or(client.peer.ip_text(), |origin| origin.list.as_bytes()),
        scheme: origin.and_then(|origin| origin.scheme).unwrap_or(client.peer.scheme()),
        host: origin.and_then(|origin| origin.host),
        forwarded: origin.and_then(|origin| origin.forwarded.as_deref()),
        host_if_none: here.as_bytes(),
        max_forwards: route.max_forwards,
        certificate: client.peer.tls().map_or(b"", |info| &info.note().fields),
        mark: route.mark,
        names,
        close,
    }
}

/// How busy we are.
#[cold]
fn load(client: &Client<'_>, reporter: &Reporter) -> Page {
    client.listener.stats.reports_given[2].add(1);
    let load = reporter.load(client.core.clock.now());
    let mut fields = b"Cache-Control: no-store\r\n".to_vec();
    load_report::write_field(&load, &mut fields);
    Page { fields, kind: "application/json", body: load_report::json(&load).into_bytes() }
}

/// The answer to a request that may not be forwarded once more: to TRACE what came, to OPTIONS nothing.
#[cold]
fn last_hop(request: &Request<'_, '_>) -> Page {
    let body = if request.method == "TRACE" { max_forwards::reflection(request) } else { Vec::new() };
    Page { fields: Vec::new(), kind: "message/http", body }
}

/// Sends the client to the same place over TLS, at the port that is usual for it.
#[cold]
fn redirect(host: &[u8], target: &str) -> Refused {
    let host = String::from_utf8_lossy(host);
    // Of an IPv6 address the brackets stay.
    let name = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(&*host, |(name, _)| name);
    if name.is_empty() || !target.starts_with('/') {
        return Refused::Answered(Reply::new(400, "it is answered over TLS, and names no host".to_string()));
    }
    Refused::Answered(Reply::moved(format!("https://{name}{target}")))
}

#[cold]
fn came_back(client: &Client<'_>, rules: &Rules, route: RouteId) -> Refused {
    client.listener.stats.loops.add(1);
    let (route, pool) = (&rules.routes.planned[route].name, &rules.pool(route).name);
    let why = format!("the request came by route \"{route}\" before: an endpoint of pool \"{pool}\" leads back here");
    Refused::Answered(Reply::new(508, why))
}

#[cold]
fn too_many(client: &Client<'_>, seconds: u64) -> Reply {
    client.listener.stats.rate_limited.add(1);
    let why = "more requests than one address may send; try again later".to_string();
    Reply { retry_after: Some(seconds), ..Reply::new(429, why) }
}
