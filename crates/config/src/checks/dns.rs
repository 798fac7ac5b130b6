//! Checks of pools that DNS records name.

use super::leads::Leads;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::HashKey;
use crate::nearest::Names;
use crate::sections::listener::Mode;
use crate::sections::pool::Pool;
use crate::source::Span;
use crate::table::Section;
use evenkeel_balance::algorithms;
use std::collections::HashMap;
use std::sync::Arc;

/// Reports records without a pool, and pools that need more than answers to balance.
pub(super) fn check(root: &Section, pools: &[Arc<Pool>], findings: &mut Findings) {
    let by_name: HashMap<&str, &Arc<Pool>> = pools.iter().map(|p| (&*p.name, p)).collect();
    let names = Names::new(pools.iter().map(|p| &*p.name));
    for listener in root.named("listener").iter().filter(|l| l.section.word("mode") == Mode::Dns.name()) {
        let zone = listener.section.section("zone");
        let apex = zone.set("apex").map(|_| zone.section("apex"));
        for record in apex.iter().chain(zone.named("records").iter().map(|named| &named.section)) {
            let Some(name) = record.text("pool") else { continue };
            let span = record.span_of("pool");
            match by_name.get(&*name) {
                None => {
                    let help = names.suggest(&name, "add the pool");
                    findings.add(Code::UnknownPool, span, format!("unknown pool \"{name}\"")).help(help);
                }
                Some(pool) => check_pool(pool, span, findings),
            }
        }
    }
}

/// Reports limits and exploration of endpoints that only DNS answers lead to, where nothing counts requests.
pub(super) fn check_limits(root: &Section, leads: &Leads<'_>, pools: &[Arc<Pool>], findings: &mut Findings) {
    let is_alone = |pool: &Pool| leads.routes(&pool.name).is_empty() && leads.is_answered(&pool.name);
    for (named, pool) in root.named("pool").iter().zip(pools).filter(|(_, pool)| is_alone(pool)) {
        if let Some(set) = named.section.set("explore").filter(|_| pool.explore > 0.0) {
            let message = format!(
                "pool \"{}\" is used by DNS only, which does not see where clients go: nothing is explored",
                pool.name
            );
            findings.add(Code::AtOdds, set.span, message).help("leave it out");
        }
        let limits = named.section.section("limits");
        for set in ["requests_per_endpoint", "concurrency"].into_iter().filter_map(|key| limits.set(key)) {
            let message = format!(
                "pool \"{}\" is used by DNS only, which cannot count requests: no endpoint ever reaches its limit",
                pool.name
            );
            findings
                .add(Code::AtOdds, set.span, message)
                .help("leave it out, and limit requests at the endpoints themselves");
        }
    }
}

fn check_pool(pool: &Pool, span: Span, findings: &mut Findings) {
    let (name, algorithm) = (&pool.name, pool.balance.algorithm);
    if algorithm.needs.ends {
        let fit: Vec<_> = algorithms::ALL.iter().filter(|a| !a.needs.ends).map(|a| a.name).collect();
        let message = format!(
            "pool \"{name}\" is balanced by \"{}\", which needs to know when requests end; DNS never learns that",
            algorithm.name
        );
        findings
            .add(Code::PlaneLacks, span, message)
            .help(format!("set balance to one of {} there, or make a pool for DNS that does", fit.join(", ")));
    }
    if let Some(key) = pool.balance.key().filter(|key| **key != HashKey::ClientIp) {
        findings
            .add(
                Code::PlaneLacks,
                span,
                format!("pool \"{name}\" is balanced by \"{key}\", which a DNS query does not have"),
            )
            .help("set its key to \"client-ip\": the network of the resolver, or of its client");
    }
}
