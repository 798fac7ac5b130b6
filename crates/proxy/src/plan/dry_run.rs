//! Dry run of a described request on a worker: the filters that it would pass, up to the first that responds, or else
//! the pick of its pool. Filters predict by the code that decides about real requests; nothing is counted, drawn or
//! sent.

use super::installed::Worker;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, RequestHead};
use crate::filters::list::Filters;
use crate::filters::template::lookup::Lookup;
use crate::filters::template::lookups::Values;
use crate::filters::template::maps::Maps;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::listener::route_why;
use crate::listener::rules::Rules;
use crate::observe::stats::ListenerStats;
use crate::peer::connection_states::ConnectionStates;
use crate::peer::forwarded::Origin;
use crate::peer::{Peer, hash_key};
use evenkeel_balance::{Clock, Explanation, Request as Asked};
use evenkeel_config::{Plan, plan};
use evenkeel_net::stream::Stream;
use evenkeel_net::transport::Transport;
use evenkeel_view::described::Parts;
use evenkeel_view::picks::{FilterAnswer, FilterTrial, MapValue, Pick, WouldGo};
use evenkeel_wire::head::{Edits, Request, Table};
use evenkeel_wire::http1::Version;
use evenkeel_wire::http1::fields::{Framing, Stated};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// Most maps whose values are shown.
const MAPS_MAX: usize = 32;

/// Adds the decisions of a worker to the routing of a described request.
///
/// # Errors
/// The request cannot be tried, for the reason.
pub fn dry_run(worker: &Worker, plan: &Plan, mut would: WouldGo, described: &Parts) -> Result<WouldGo, String> {
    would.worker = Some(worker.core.index as u64);
    let mut fields: Table =
        described.fields.iter().map(|(name, value)| (name.as_bytes(), value.trim().as_bytes())).collect();
    let normal = would.routed.normal.clone();
    let mut request = Request {
        method: &described.method,
        target: normal.as_deref().unwrap_or(&described.target),
        host: described.host.as_bytes(),
        fields: fields.fields(),
    };
    let client = described.client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if let Some(rules) = rules(worker, &would.routed.listener) {
        filter(worker, (&rules, plan), (&mut request, described), client, &mut would)?;
    }
    if would.answer.is_none() {
        would.pick = would.routed.pool.as_deref().and_then(|pool| pick(worker, pool, &request, client));
    }
    Ok(would)
}

fn rules(worker: &Worker, listener: &str) -> Option<Rc<Rules>> {
    let installed = worker.installed.borrow();
    installed.listeners.iter().find(|of| *of.name == *listener).map(|listener| listener.rules())
}

/// Lets the request pass the filters of its listener and of its route, up to the first that answers.
fn filter(
    worker: &Worker,
    (rules, plan): (&Rules, &Plan),
    (request, described): (&mut Request<'_, '_>, &Parts),
    client: IpAddr,
    would: &mut WouldGo,
) -> Result<(), String> {
    // A peer needs a connection. This connection is never read.
    let (unused, _) = UnixStream::pair().map_err(|error| format!("no socket for a dry run: {error}"))?;
    let transport = Transport::from(Stream::new(OwnedFd::from(unused)));
    let states = ConnectionStates::default();
    let peer = Peer::new(SocketAddr::new(client, 0), |_| false, &transport, &states);
    // Separate from the listener's statistics: nothing is counted.
    let stats = ListenerStats::default();
    let mut exchange = Exchange::new(&worker.core, &peer, &stats);
    exchange.facts.framing = framing(request);
    exchange.facts.said = rules.plan.tls.is_some().then(|| Box::new(over_tls(client)));
    if !rules.lookups.is_empty() {
        look_up((rules, plan), (request, described), &exchange, would)?;
    }
    let name = would.routed.pool.clone();
    let pool = worker.installed.borrow().pools.iter().find(|of| name.as_deref() == Some(&*of.name)).cloned();
    exchange.facts.pool = pool.as_deref();
    let mut edits = Edits::new(Vec::new());
    let mut head = RequestHead { request, edits: &mut edits };
    // Found by name: the worker may have another plan by now, without this route.
    let is_taken = |route: &plan::Route| would.routed.route.as_ref() == Some(&route.name);
    let of_route = rules.routes.planned.iter().position(is_taken).map(|route| rules.filters_of(route));
    for filters in [Some(&rules.filters), of_route].into_iter().flatten() {
        if would.answer.is_none() {
            pass(filters, &mut exchange, &mut head, would);
        }
    }
    Ok(())
}

/// Routes the request anew with the values of maps, and adds these.
fn look_up(
    (rules, plan): (&Rules, &Plan),
    (request, described): (&Request<'_, '_>, &Parts),
    exchange: &Exchange<'_>,
    would: &mut WouldGo,
) -> Result<(), String> {
    would.routed = route_why::explain(plan, described, Some(&Values { lookups: &rules.lookups, cx: exchange }))?;
    let route = rules.routes.planned.iter().position(|route| would.routed.route.as_ref() == Some(&route.name));
    let path = Rc::new(route.map_or_else(Parameters::default, |route| {
        Parameters::of_route(&rules.routes.planned[route], rules.plan.ignore_case)
    }));
    let source = Source::of_request(exchange, request, &[]);
    let text = |lookup: &Lookup| {
        let mut value = Vec::new();
        lookup.write(&source, &mut value);
        String::from_utf8_lossy(&value).into_owned()
    };
    let maps = rules.compiled.resources.of::<Maps>();
    let shown = maps.all().iter().filter_map(|map| Lookup::new(&map.plan.name, &path, maps)).take(MAPS_MAX);
    would.maps = shown.map(|lookup| MapValue { map: lookup.name().clone(), value: text(&lookup) }).collect();
    if let Some(plan::Action::Choice(choice)) = route.map(|route| &rules.routes.planned[route].action) {
        let chosen = Lookup::new(&choice.map, &path, maps).map(|lookup| text(&lookup));
        would.routed.pool = chosen.and_then(|name| choice.pools.iter().find(|pool| ***pool == *name).cloned());
    }
    Ok(())
}

fn pass(filters: &Filters, exchange: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>, would: &mut WouldGo) {
    for (name, prediction) in filters.dry_run(exchange, head) {
        match prediction {
            DryRun::Next(text) if text.is_empty() => {}
            DryRun::Next(text) => would.filters.push(FilterTrial { name: name.into(), would: text }),
            DryRun::Answer(response, why) => {
                let location = response.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"location"));
                let location = location.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
                would.answer = Some(FilterAnswer { filter: name.into(), status: response.status, why, location });
                return;
            }
        }
    }
}

/// Framing of the body by the fields; nothing if they are malformed, as the proxy would have refused such a request
/// before.
fn framing(request: &Request<'_, '_>) -> Stated {
    let mut framing = Framing::default();
    let lengths = request.values("content-length").try_for_each(|value| framing.length(value));
    request.values("transfer-encoding").for_each(|value| framing.transfer_encoding(value));
    lengths.and_then(|()| framing.stated(Version::V11)).unwrap_or(Stated::Nothing)
}

/// Origin of a request over TLS, which the connection of a dry run is not.
fn over_tls(client: IpAddr) -> Origin {
    let list = client.to_string();
    Origin { client, list, forwarded: None, scheme: Some("https"), host: None, malformed: 0 }
}

fn pick(worker: &Worker, pool: &str, request: &Request<'_, '_>, client: IpAddr) -> Option<Pick> {
    let installed = worker.installed.borrow();
    let pool = installed.pools.iter().find(|of| *of.name == *pool)?;
    let key = pool.plan().key().and_then(|key| hash_key::hash(key, request, client));
    let mut why = Explanation::default();
    let asked = Asked { key, tried: &[], beyond: false };
    let picked = pool.balancer.borrow_mut().would_pick(&asked, worker.core.clock.now(), &mut why);
    Some(Pick::new(&why, picked.err(), |slot| pool.endpoints.name_of(slot)))
}
