//! What is said when it runs? Where it listens, over what it balances and how, and what to do next.

use crate::commands::check::contents;
use crate::reach::Silent;
use evenkeel_config::Plan;
use evenkeel_config::plan::{LogFormat, LogTarget, Mode, Pool};
use std::fmt::Write;
use std::net::SocketAddr;

/// Endpoints that are listed by name for one pool.
const LISTED: usize = 10;

/// Says it on standard error: as a block for people, or as log lines where the log is for machines.
pub fn say(plan: &Plan, workers: usize, silent: &[Silent], config: &str) {
    match plan.runtime.log.format {
        LogFormat::Text => eprint!("{}", block(plan, workers, silent, config)),
        LogFormat::Json => lines(plan, workers, silent),
    }
}

fn block(plan: &Plan, workers: usize, silent: &[Silent], config: &str) -> String {
    let mut out = format!("evenkeel {}: {}", env!("CARGO_PKG_VERSION"), contents(plan));
    let _ = writeln!(out, ", {workers} worker{}", if workers == 1 { "" } else { "s" });
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    for listener in &plan.listeners {
        for &addr in &listener.bind {
            match &listener.zone {
                Some(zone) => row("answering", &format!("{addr} for {} (listener {})", zone.name, listener.name)),
                None => row("listening", &format!("{} (listener {})", url(listener.mode.name(), addr), listener.name)),
            }
        }
    }
    let modes = plan.modes();
    for (index, pool) in plan.pools.iter().enumerate() {
        row("balancing", &format!("pool {} by {}: {}", pool.name, pool.balance.algorithm.name, endpoints(pool)));
        let mine: Vec<&Silent> = silent.iter().filter(|s| s.pool == index).collect();
        for s in mine.iter().take(LISTED) {
            row("warning", &format!("endpoint {} does not answer: {}", pool.endpoints[s.endpoint].name, s.why));
        }
        if mine.len() > LISTED {
            row("warning", &format!("and {} more of pool {} do not answer", mine.len() - LISTED, pool.name));
        }
        match mine.len() {
            0 => {}
            n if n == pool.endpoints.len() && !modes[index].contains(&Mode::Http) => row("", "it serves nevertheless"),
            n if n == pool.endpoints.len() => row("", "it serves nevertheless: until one answers, requests get a 502"),
            _ => row("", "it serves nevertheless: a request that cannot connect goes to another endpoint, once"),
        }
    }
    if let Some(bind) = plan.admin.as_ref().and_then(|admin| admin.bind) {
        row("metrics", &format!("{}{}, and /livez, /readyz", url("http", bind), plan.telemetry.metrics.path));
    }
    if let Some(log) = &plan.telemetry.access_log {
        let to = match &log.to {
            LogTarget::Stdout => "standard output".to_string(),
            LogTarget::File(path) => path.display().to_string(),
        };
        row("access log", &to);
    }
    row("config", config);
    row("end", &format!("Ctrl-C: finishes what runs for up to {:?}; again: at once", plan.runtime.drain_timeout));
    out
}

/// As a browser takes it, where that is what it is for.
pub fn url(scheme: &str, addr: SocketAddr) -> String {
    match addr.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{} and every other address of this machine", addr.port()),
        false => format!("{scheme}://{addr}"),
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

fn lines(plan: &Plan, workers: usize, silent: &[Silent]) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), workers, "started");
    for listener in &plan.listeners {
        for addr in &listener.bind {
            tracing::info!(listener = &*listener.name, %addr, "listening");
        }
    }
    for pool in &plan.pools {
        let balance = pool.balance.algorithm.name;
        tracing::info!(pool = &*pool.name, balance, endpoints = pool.endpoints.len(), "balancing");
    }
    for s in silent {
        let pool = &plan.pools[s.pool];
        tracing::warn!(
            pool = &*pool.name,
            endpoint = &*pool.endpoints[s.endpoint].name,
            why = s.why,
            "does not answer"
        );
    }
    if let Some(bind) = plan.admin.as_ref().and_then(|admin| admin.bind) {
        tracing::info!(addr = %bind, "admin listening");
    }
}
