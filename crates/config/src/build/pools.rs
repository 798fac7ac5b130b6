//! `[pool.NAME]`.

use super::{always, check_name, check_order, contradiction, discover, health, reports, retry, sticky};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::plan::{
    Address, Balance, Endpoint, LoadReports, Pool, PoolLimits, PoolTimeouts, Probe, ProxyVersion, Resolve, Resolver,
    SpeakAs, Subset,
};
use crate::quantity::duration_text;
use crate::read::{Located, Named, Section};
use crate::source::Place;
use evenkeel_balance::{algorithms, concurrency, queue};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) fn pools(root: &Section, defaults: &Section, resolver: &Resolver, findings: &mut Findings) -> Vec<Pool> {
    let named = root.named("pool");
    if named.is_empty() && root.set("pool").is_none_or(|p| !p.is_broken()) {
        findings
            .add(Code::NothingToDo, root.place, "there is no pool: no request could be answered")
            .help("add [pool.web] with endpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\"]");
    }
    named.iter().map(|pool| one(pool, defaults, resolver, findings)).collect()
}

fn one(
    Named { name, place, section }: &Named,
    defaults: &Section,
    resolver: &Resolver,
    findings: &mut Findings,
) -> Pool {
    let endpoints = endpoints(section, findings);
    let discover = discover::discover(section, resolver, findings);
    if section.set("endpoints").is_none() && section.set("discover").is_none() {
        findings
            .add(Code::Missing, *place, format!("[pool.{name}] has no \"endpoints\""))
            .help("add endpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\"], or \"discover\" to find them");
    }
    let usable = |e: &Endpoint| e.weight > 0 && !e.drain;
    if discover.is_none() && !endpoints.is_empty() && !endpoints.iter().any(usable) {
        findings
            .add(
                Code::NoTraffic,
                *place,
                format!("no endpoint of pool \"{name}\" may get traffic: all have weight 0 or drain"),
            )
            .help("give at least one of them a weight above 0, and do not drain it");
    }
    let limits = section.section("limits");
    let timeouts = section.section("timeouts");
    check_order(&timeouts, findings);
    let from_defaults = defaults.section("timeouts");
    let chain = [&timeouts, &from_defaults];
    let request = Section::inherited(&chain, "request");
    let (own_retry, default_retry) = (section.section("retry"), defaults.section("retry"));
    let retry = retry::retry(&[&own_retry], &default_retry);
    retry::check(&own_retry, &timeouts, &retry, request, findings);
    let load_reports = reports::load_reports(section);
    let balance = balance(section, load_reports.as_ref(), findings);
    let (zone, locality) = health::locality(section, &endpoints, discover.is_some(), findings).unzip();
    Pool {
        name: name.as_str().into(),
        health: health::health(section, name, findings),
        outlier: health::outlier(section, findings),
        slow_start: health::slow_start(section, balance.algorithm, findings),
        panic: health::panic(section),
        locality,
        zone,
        subset: section.set("subset").map(|_| {
            let subset = section.section("subset");
            Subset { size: subset.number("size"), instance: subset.text("instance").map(Into::into) }
        }),
        queue: queue(section, request, findings),
        retry,
        sticky: sticky::sticky(section, name, balance.algorithm, findings),
        load_reports,
        proxy_protocol: match section.word("proxy_protocol") {
            "v1" => Some(ProxyVersion::V1),
            "v2" => Some(ProxyVersion::V2),
            _ => None,
        },
        source: if section.word("source") == "client" { SpeakAs::Client } else { SpeakAs::Own },
        keepalive: section.section("tcp").duration("keepalive"),
        balance,
        endpoints,
        discover,
        limits: PoolLimits {
            requests_per_endpoint: limits.number("requests_per_endpoint"),
            idle_per_endpoint: limits.number("idle_per_endpoint"),
            concurrency: limits.set("concurrency").map(|_| concurrency(&limits.section("concurrency"), findings)),
        },
        timeouts: PoolTimeouts {
            connect: always(&chain, "connect"),
            response: Section::inherited(&chain, "response"),
            request,
            idle: always(&chain, "idle"),
            upstream_idle: always(&chain, "upstream_idle"),
        },
    }
}

pub(crate) fn concurrency(limit: &Section, findings: &mut Findings) -> concurrency::Settings {
    let (min, max): (u32, u32) = (limit.number("min"), limit.number("max"));
    let start = match limit.set("start") {
        Some(_) => limit.number("start"),
        // Not `clamp`, which panics if `max` is below `min`: that is said below.
        None => concurrency::Settings::default().start.min(max).max(min),
    };
    if !limit.is_broken() && !(min..=max).contains(&start) {
        let message = format!("\"concurrency\" must have min <= start <= max, but they are {min}, {start} and {max}");
        // They start as they should, so at least one of them is set.
        let mut set = ["start", "max", "min"].into_iter().filter(|key| limit.set(key).is_some());
        let (one, other) = (set.next().unwrap_or("start"), set.next().unwrap_or("start"));
        contradiction(limit, limit.place_of(one), message, other, findings)
            .help("raise \"max\", lower \"min\", or leave \"start\" out");
    }
    concurrency::Settings { min, max, start, tolerance: limit.float("tolerance"), interval_ns: limit.ns("interval") }
}

fn queue(section: &Section, request: Option<Duration>, findings: &mut Findings) -> queue::Settings {
    let queue = section.section("queue");
    let timeout = queue.duration("timeout").unwrap_or_default();
    if let (Some(set), Some(request)) = (queue.set("timeout"), request.filter(|request| timeout > *request)) {
        let whole = duration_text(request);
        findings
            .add(
                Code::TimeoutOrder,
                set.place,
                format!("\"timeout\" of the queue is longer than \"request\" ({whole}), so it never ends a wait"),
            )
            .help("make it shorter: what it leaves is the time to answer");
    }
    queue::Settings { max: queue.number("max"), timeout_ns: queue.ns("timeout") }
}

fn balance(section: &Section, reports: Option<&LoadReports>, findings: &mut Findings) -> Balance {
    let Some((balance, place)) = section.balance("balance") else {
        return Balance::of(algorithms::default());
    };
    let name = balance.algorithm.name;
    let is_broken = section.set("load_reports").is_some_and(Located::is_broken);
    if balance.algorithm.needs.probes && !is_broken && reports.is_none_or(|reports| reports.probe == Probe::Off) {
        let fit: Vec<_> = algorithms::ALL.iter().filter(|a| !a.needs.probes).map(|a| a.name).collect();
        let finding =
            findings.add(Code::PlaneLacks, place, format!("\"{name}\" needs probes, and the pool sends none"));
        if let Some(set) = section.set("load_reports") {
            finding.see("what it does about reports is here", set.place);
        }
        finding.help(format!(
            "add load_reports = {{ probe = \"udp\" }} if its endpoints answer probes; without probes: {}",
            fit.join(", ")
        ));
    }
    balance
}

/// Those of a pool, or of a file that lists some.
pub(crate) fn endpoints(section: &Section, findings: &mut Findings) -> Vec<Endpoint> {
    let mut names: BTreeMap<String, Place> = BTreeMap::new();
    let mut seen: BTreeMap<String, Place> = BTreeMap::new();
    let mut endpoints = Vec::new();
    for endpoint in section.sections("endpoints") {
        let Some(Formed::Address(addr)) = endpoint.formed("addr") else { continue };
        let text = addr.to_string();
        let place = endpoint.place_of("addr");
        if let Some(first) = seen.get(&text) {
            findings
                .add(Code::SameEndpoint, place, format!("endpoint {text} is in its pool twice"))
                .see("it is here first", *first)
                .help("list it once; for a bigger share, raise its weight");
            continue;
        }
        seen.insert(text.clone(), place);
        let resolve = if endpoint.word("resolve") == "all" { Resolve::All } else { Resolve::First };
        if let (Some(set), Address::Ip(_)) = (endpoint.set("resolve"), &addr) {
            let message = format!("\"resolve\" is for names, and {text} is an address");
            contradiction(&endpoint, set.place, message, "addr", findings).help("leave \"resolve\" out");
        }
        let name = endpoint.text("name").unwrap_or(text);
        check_name(&name, endpoint.place_of("name"), "endpoints of a pool", &mut names, findings);
        endpoints.push(Endpoint {
            name: name.into(),
            addr,
            resolve,
            weight: endpoint.number("weight"),
            priority: endpoint.number("priority"),
            drain: endpoint.flag("drain"),
            zone: endpoint.text("zone").map(Into::into),
        });
    }
    endpoints
}
