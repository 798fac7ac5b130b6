//! `[pool.NAME]`.

use super::{always, check_name, check_order};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Formed;
use crate::plan::{Balance, Endpoint, Pool, PoolLimits, PoolTimeouts};
use crate::read::{Named, Section};
use crate::source::Place;
use evenkeel_balance::algorithms;
use std::collections::BTreeMap;

pub(super) fn pools(root: &Section, defaults: &Section, findings: &mut Findings) -> Vec<Pool> {
    let named = root.named("pool");
    if named.is_empty() && root.set("pool").is_none_or(|p| !p.is_broken()) {
        findings
            .add(Code::NothingToDo, root.place, "there is no pool: no request could be answered")
            .help("add [pool.web] with endpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\"]");
    }
    named.iter().map(|pool| one(pool, defaults, findings)).collect()
}

fn one(Named { name, place, section }: &Named, defaults: &Section, findings: &mut Findings) -> Pool {
    let endpoints = endpoints(section, findings);
    let usable = |e: &Endpoint| e.weight > 0 && !e.drain;
    if !endpoints.is_empty() && !endpoints.iter().any(usable) {
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
    let chain = [&timeouts, defaults];
    Pool {
        name: name.as_str().into(),
        balance: balance(section, findings),
        endpoints,
        limits: PoolLimits {
            requests_per_endpoint: limits.number("requests_per_endpoint"),
            idle_per_endpoint: limits.number("idle_per_endpoint"),
        },
        timeouts: PoolTimeouts {
            connect: always(&chain, "connect"),
            response: Section::inherited(&chain, "response"),
            request: Section::inherited(&chain, "request"),
            idle: always(&chain, "idle"),
            upstream_idle: always(&chain, "upstream_idle"),
        },
    }
}

fn balance(section: &Section, findings: &mut Findings) -> Balance {
    let Some((balance, place)) = section.balance("balance") else {
        return Balance::of(algorithms::default());
    };
    let name = balance.algorithm.name;
    if balance.algorithm.needs.probes {
        let fit: Vec<_> = algorithms::ALL.iter().filter(|a| !a.needs.probes).map(|a| a.name).collect();
        findings
            .add(Code::PlaneLacks, place, format!("\"{name}\" needs probes, which the HTTP plane does not provide"))
            .help(format!("allowed: {}", fit.join(", ")));
    }
    balance
}

fn endpoints(section: &Section, findings: &mut Findings) -> Vec<Endpoint> {
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
        let name = endpoint.text("name").unwrap_or(text);
        check_name(&name, endpoint.place_of("name"), "endpoints of a pool", &mut names, findings);
        endpoints.push(Endpoint {
            name: name.into(),
            addr,
            weight: endpoint.number("weight"),
            priority: endpoint.number("priority"),
            drain: endpoint.flag("drain"),
        });
    }
    endpoints
}
