//! Greeting of a process that serves: its addresses, its pools and algorithms, and the next steps.

use crate::commands::check::contents;
use crate::log::queue;
use crate::reach::{Silent, Tried};
use evenkeel_config::Plan;
use evenkeel_config::plan::{Address, LineSink, Listener, LogFormat, Mode, Pool};
use evenkeel_discovery::Unresolved;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Most endpoints that the greeting lists by name for each pool.
const LISTED: usize = 10;

pub struct Greeting<'a> {
    pub plan: &'a Plan,
    pub workers: usize,
    /// Results of a connection to each endpoint, if connections were tried.
    pub tried: Option<Tried>,
    /// Names of endpoints that have no address yet.
    pub unresolved: Vec<Unresolved>,
    /// Text about the origin of the plan.
    pub config: &'a str,
    /// The Unix socket on which it takes commands.
    pub socket: Option<&'a Path>,
    /// Password for changes on the dashboard, if it is of this process alone.
    pub password: Option<String>,
}

/// Prints it to standard error: as a block for people, or as log lines if the log is for machines.
pub fn say(greeting: &Greeting<'_>) {
    match greeting.plan.runtime.log.format {
        LogFormat::Text => queue::print(&block(greeting)),
        LogFormat::Json => lines(greeting),
    }
}

fn block(greeting: &Greeting<'_>) -> String {
    let Greeting { plan, workers, tried, unresolved, config, socket, password } = greeting;
    let mut out = format!("evenkeel {}: {}", env!("CARGO_PKG_VERSION"), contents(plan));
    let _ = writeln!(out, ", {workers} worker{}", if *workers == 1 { "" } else { "s" });
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    for listener in &plan.listeners {
        for &addr in &listener.bind {
            match &listener.zone {
                Some(zone) => row("answering", &format!("{addr} for {} (listener {})", zone.name, listener.name)),
                None if listener.plane.is_kernel() => {
                    let (url, plane) = (url(scheme(listener), addr, ""), listener.plane.name());
                    row("forwarding", &format!("{url} by {plane} (listener {})", listener.name));
                }
                None => row("listening", &format!("{} (listener {})", url(scheme(listener), addr, ""), listener.name)),
            }
        }
        if let (Some(addr), true) = (listener.bind.first(), is_self_signed(listener)) {
            let host = match addr.ip().is_unspecified() {
                true => format!("localhost:{}", addr.port()),
                false => addr.to_string(),
            };
            row("try", &format!("curl -k https://{host}/ (clients do not trust its certificate: -k accepts it)"));
        }
    }
    for (index, pool) in plan.pools.iter().enumerate() {
        row("balancing", &format!("pool {} by {}: {}", pool.name, pool.balance.algorithm.name, endpoints(pool)));
        let silent: Vec<&Silent> = silent(tried).filter(|s| s.pool == index).collect();
        let nameless: Vec<&Unresolved> = unresolved.iter().filter(|u| u.pool == pool.name).collect();
        let silences = silent
            .iter()
            .map(|s| format!("endpoint {} does not accept connections: {}", pool.endpoints[s.endpoint].name, s.why));
        let warnings = nameless.iter().map(|u| format!("endpoint {}: {}", u.endpoint, u.why)).chain(silences);
        let all: Vec<String> = warnings.collect();
        all.iter().take(LISTED).for_each(|warning| row("warning", warning));
        if all.len() > LISTED {
            row("warning", &format!("and {} more of pool {}", all.len() - LISTED, pool.name));
        }
        let addressed = pool.endpoints.iter().filter(|e| !matches!(e.addr, Address::Name { .. })).count();
        match (all.is_empty(), addressed - silent.len()) {
            (true, _) => {}
            (_, 0) if silent.is_empty() => row("", "evenkeel serves anyway: until a name resolves, requests get a 503"),
            (_, 0) => row("", "evenkeel serves anyway: until an endpoint responds, requests get a 502"),
            _ => row("", "evenkeel serves anyway: requests go to the endpoints that can be reached"),
        }
    }
    if let Some(tried) = tried {
        let which = if tried.count == 1 { "the endpoint".to_string() } else { format!("{} endpoints", tried.count) };
        row("tried", &format!("{which}, with one connection each; endpoints of a configuration file are not tried"));
    }
    if let Some(bind) = plan.admin.as_ref().and_then(|admin| Some(admin.http.as_ref()?.bind)) {
        let signing_in = match password {
            Some(password) => format!("; to make changes there: any name, password {password}"),
            None => String::new(),
        };
        row("dashboard", &format!("{}{signing_in}", url("http", bind, "/")));
        row("metrics", &format!("{}, and /livez, /readyz", url("http", bind, &plan.telemetry.metrics.path)));
    }
    if let Some(socket) = socket {
        row("commands", &format!("evenkeel status, top, drain and others, over unix:{}", socket.display()));
    }
    if let Some(log) = &plan.telemetry.access_log {
        let to = match &log.to {
            LineSink::Stdout => "standard output".to_string(),
            LineSink::Stderr => "standard error".to_string(),
            to => to.to_string(),
        };
        row("access log", &to);
    }
    row("config", config);
    row("end", &format!("Ctrl-C: finishes requests for up to {:?}; again: at once", plan.runtime.drain_timeout));
    out
}

/// Scheme of the URLs of a listener.
fn scheme(listener: &Listener) -> &'static str {
    match (listener.mode, &listener.tls) {
        (Mode::Http, Some(_)) => "https",
        (Mode::Tcp, Some(_)) => "tls",
        _ => listener.mode.name(),
    }
}

/// True if a listener has a self-signed certificate that browsers do not know.
fn is_self_signed(listener: &Listener) -> bool {
    listener.mode == Mode::Http && listener.tls.as_ref().is_some_and(|tls| tls.self_signed)
}

/// URL of an address, with a note if it is the wildcard address of this machine. `path`: empty, or from its slash on.
pub fn url(scheme: &str, addr: SocketAddr, path: &str) -> String {
    match addr.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}{path} and every other address of this machine", addr.port()),
        false => format!("{scheme}://{addr}{path}"),
    }
}

fn endpoints(pool: &Pool) -> String {
    if pool.endpoints.is_empty() {
        return "no endpoints found yet".into();
    }
    let names: Vec<&str> = pool.endpoints.iter().take(LISTED).map(|e| &*e.name).collect();
    let more = pool.endpoints.len() - names.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

fn silent(tried: &Option<Tried>) -> impl Iterator<Item = &Silent> {
    tried.iter().flat_map(|tried| &tried.silent)
}

fn lines(greeting: &Greeting<'_>) {
    let Greeting { plan, workers, tried, unresolved, socket, .. } = greeting;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), workers, "started");
    for listener in &plan.listeners {
        for addr in &listener.bind {
            match listener.plane.is_kernel() {
                true => tracing::info!(listener = &*listener.name, %addr, plane = listener.plane.name(), "forwarding"),
                false => tracing::info!(listener = &*listener.name, %addr, "listening"),
            }
        }
    }
    for pool in &plan.pools {
        let balance = pool.balance.algorithm.name;
        tracing::info!(pool = &*pool.name, balance, endpoints = pool.endpoints.len(), "balancing");
    }
    for u in unresolved {
        tracing::warn!(
            pool = &*u.pool,
            endpoint = &*u.endpoint,
            why = u.why,
            "endpoint has no address: its name does not resolve"
        );
    }
    for s in silent(tried) {
        let pool = &plan.pools[s.pool];
        tracing::warn!(
            pool = &*pool.name,
            endpoint = &*pool.endpoints[s.endpoint].name,
            why = s.why,
            "endpoint does not accept connections"
        );
    }
    if let Some(bind) = plan.admin.as_ref().and_then(|admin| Some(admin.http.as_ref()?.bind)) {
        tracing::info!(addr = %bind, "admin listening");
    }
    if let Some(socket) = socket {
        tracing::info!(addr = format!("unix:{}", socket.display()), "admin listening");
    }
}
