//! Reader of a system: load, links and services.

use super::pool::FromPool;
use super::service::{self, Groups};
use super::work::work;
use crate::engine;
use crate::scenario::{Load, Scenario};
use evenkeel_config::Code;
use evenkeel_config::tables::{Findings, Section};

/// Scenario of a point, and the groups of its first service. `None` after an error, which has been reported.
pub(super) fn scenario(
    root: &Section,
    pool: Option<&FromPool<'_>>,
    findings: &mut Findings,
) -> Option<(Scenario, Groups)> {
    let (mut services, mut groups) = service::services(root, findings);
    // Before the load, which may be a share of the servers' capacity.
    if let (Some(pool), Some(first)) = (pool, services.as_mut().and_then(|services| services.first_mut())) {
        let has_cores = root.named("service").first().is_some_and(|named| named.section.has("balancer_cores"));
        groups = pool.apply(first, has_cores);
    }
    let link_ns = root.ns("link");
    let requests = if root.has("requests") { root.int("requests") } else { u64::MAX };
    let until_ns = if root.has("until") { root.ns("until") } else { u64::MAX };
    if requests == u64::MAX && until_ns == u64::MAX {
        findings
            .add(Code::Missing, root.span, "nothing ends a run: there is neither \"requests\" nor \"until\"")
            .help("add requests = 100000");
    }
    // `warm_up` is a share of `requests`.
    let warm_up = if requests == u64::MAX { 0 } else { (requests as f64 * root.float("warm_up")) as u64 };
    let machines = root.named("machine").iter().map(|m| m.section.float("cores")).collect();
    let load = Load::Poisson { per_second: 1.0 };
    let mut scenario = Scenario { services: services?, machines, load, link_ns, requests, warm_up, until_ns };
    scenario.load = self::load(root, &scenario, findings)?;
    if let Some(pool) = pool {
        pool.load(&mut scenario);
    }
    Some((scenario, groups))
}

/// Load of a scenario. `once` is the scenario at a request per second, to convert `share` into a rate.
fn load(root: &Section, once: &Scenario, findings: &mut Findings) -> Option<Load> {
    let table = &root.section("load");
    if table.is_broken() {
        return None;
    }
    const KINDS: [&str; 5] = ["share", "rate", "users", "phases", "moments"];
    let set: Vec<&str> = KINDS.into_iter().filter(|kind| table.has(kind)).collect();
    let [kind] = set[..] else {
        let message = format!("[load] needs exactly one of {}", KINDS.join(", "));
        findings.add(Code::Contradiction, table.span, message).help("write share = 0.9, or users = 50");
        return None;
    };
    if table.has("think") && kind != "users" {
        findings.add(Code::Contradiction, table.span_of("think"), "\"think\" goes with \"users\"").help("leave it out");
    }
    Some(match kind {
        "rate" => Load::Poisson { per_second: table.float("rate") },
        "users" => Load::Closed { users: table.number("users"), think: work(&table.section("think"), findings) },
        "phases" => {
            let states = table.sections("phases").iter().map(|p| (p.float("rate"), p.ns("mean"))).collect::<Vec<_>>();
            if states.iter().all(|(rate, _)| *rate <= 0.0) {
                findings
                    .add(Code::OutOfRange, table.span_of("phases"), "no phase has a rate above 0")
                    .help("raise one");
                return None;
            }
            Load::Mmpp { states }
        }
        "moments" => {
            let at_ns = table.durations("moments");
            if !at_ns.is_sorted() {
                findings.add(Code::OutOfRange, table.span_of("moments"), "moments must ascend").help("sort them");
            }
            Load::Trace { at_ns: at_ns.into() }
        }
        _ => match engine::offered_to_servers(once) {
            offered if offered > 0.0 => Load::Poisson { per_second: table.float("share") / offered },
            // The cause has been reported.
            _ if root.is_broken() => return None,
            _ => {
                let message = "\"share\" needs servers that have a limit, and work that is not 0";
                findings
                    .add(Code::Contradiction, table.span_of("share"), message)
                    .help("give servers \"fifo\" or \"sharing\", or write rate = 1000");
                return None;
            }
        },
    })
}
