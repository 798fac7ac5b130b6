//! Reader of the planes of services: cost and place of their balancers, and whatever a plane cannot keep.

use crate::planes::{self, PlaneCost};
use crate::scenario::{Deployment, Hop, Policy, Service};
use evenkeel_config::Code;
use evenkeel_config::planes::{Fidelity, policies};
use evenkeel_config::tables::{Findings, Section};

/// Keys of a service, and the settings of the table of planes that they stand for.
const SETTINGS: &[(&str, &str)] = &[
    ("probes", "load reports"),
    ("reports", "load reports"),
    ("board", "load reports"),
    ("timeout", "timeouts"),
    ("queue", "queue"),
    ("retry", "retries, hedging"),
    ("outlier", "ejection by outcomes"),
    ("concurrency", "limits of endpoints"),
];

/// Key of a group of servers that stands for a setting as well.
const LIMIT: (&str, &str) = ("in_flight_max", "limits of endpoints");

/// Plane of a service, place of its balancers, and their costs.
pub(super) struct Placed {
    pub plane: Option<&'static PlaneCost>,
    pub deployment: Deployment,
    pub hop: Option<Hop>,
    /// Work of a balancer beside its caller per attempt, in nanoseconds.
    pub beside_ns: u64,
}

/// Reads the keys of a service about planes, and reports those that its plane cannot keep.
pub(super) fn placed(name: &str, section: &Section, findings: &mut Findings) -> Placed {
    let callers = section.word("balancers") == "callers";
    let plane = planes::find(section.word("plane"));
    let work_ns = section.has("balancer_work").then(|| section.ns("balancer_work"));
    if section.has("balancer_cores") && (callers || plane.is_none()) {
        let message = "\"balancer_cores\" are those of balancers that have a \"plane\" and machines of their own";
        findings.add(Code::Contradiction, section.span_of("balancer_cores"), message).help(match plane {
            Some(_) => "leave it out, or let \"balancers\" be a number",
            None => "leave it out, or set plane = \"http\"",
        });
    }
    let central = Deployment::Central { balancers: section.number("balancers") };
    let Some(plane) = plane else {
        let deployment = if callers { Deployment::Sidecar } else { central };
        return Placed { plane: None, deployment, hop: None, beside_ns: work_ns.unwrap_or(0) };
    };
    check(plane, name, section, findings);
    if !callers {
        let workers = if section.has("balancer_cores") { "balancer_cores" } else { "workers" };
        let hop = Hop::new(work_ns.unwrap_or(plane.apart_ns), section.number(workers));
        return Placed { plane: Some(plane), deployment: central, hop: Some(hop), beside_ns: 0 };
    }
    if work_ns.is_none() && plane.beside_ns.is_none() {
        let message =
            format!("the cost of plane = \"{}\" beside callers was not measured, and is not given", plane.name);
        findings
            .add(Code::Missing, section.span_of("balancers"), message)
            .help("set \"balancer_work\", as measured on a machine of yours");
    }
    let deployment = if plane.is_kernel() { Deployment::Kernel } else { Deployment::Sidecar };
    let beside_ns = work_ns.or(plane.beside_ns).unwrap_or(0);
    Placed { plane: Some(plane), deployment, hop: None, beside_ns }
}

/// Reason for which a plane refuses a setting.
fn refused(plane: &PlaneCost, setting: &str) -> Option<&'static str> {
    let row = policies::ROWS.iter().find(|row| row.setting == setting)?;
    match row.keeps[plane.forwarding as usize] {
        Fidelity::Refused(why) => Some(why),
        Fidelity::Exact | Fidelity::Approximated(_) => None,
    }
}

fn check(plane: &PlaneCost, name: &str, section: &Section, findings: &mut Findings) {
    let servers = section.sections("server");
    let limits = servers.iter().map(|server| (*server, LIMIT));
    for (table, (key, setting)) in SETTINGS.iter().map(|row| (section, *row)).chain(limits) {
        let Some(why) = refused(plane, setting).filter(|_| table.has(key) && !is_off(table, key)) else { continue };
        let message = format!("plane = \"{}\" of service \"{name}\" cannot keep \"{key}\": {why}", plane.name);
        findings.add(Code::PlaneLacks, table.span_of(key), message).help("leave it out, or set plane = \"http\"");
    }
    if plane.is_kernel() && section.number::<u32>("workers") > 1 {
        let message = format!(
            "plane = \"{}\" of service \"{name}\" has no workers: a kernel counts once for the whole machine",
            plane.name
        );
        findings
            .add(Code::PlaneLacks, section.span_of("workers"), message)
            .help("leave it out, and set \"balancer_cores\" to the processors of the machine");
    }
}

/// True if a key is set to the value that stands for its absence.
fn is_off(table: &Section, key: &str) -> bool {
    match key {
        "probes" | "reports" => !table.flag(key),
        "board" | "timeout" => table.duration(key).is_none(),
        "in_flight_max" => table.int(key) == 0,
        "outlier" => table.word(key) == "off",
        _ => false,
    }
}

/// Returns the policies of a file; if it leaves them open, those that all planes keep.
pub(super) fn kept(root: &Section, mut policies: Vec<Policy>, services: &[Service]) -> Vec<Policy> {
    if !root.has("algorithms") {
        let under_test = || services.iter().filter(|service| service.balancing.policy.is_none());
        policies.retain(|policy| under_test().all(|service| policy.refused_by(service).is_none()));
    }
    policies
}

/// Reports algorithms that planes cannot keep: of a service at its `balance`, of tried algorithms at their places
/// in `algorithms`, and of a pool at `plane`.
pub(super) fn check_policies(root: &Section, tried: &[Policy], services: &[Service], findings: &mut Findings) {
    for (service, named) in services.iter().zip(root.named("service")) {
        let own = service.balancing.policy.as_ref();
        for policy in own.map_or(tried, std::slice::from_ref) {
            let Some(refused) = policy.refused_by(service) else { continue };
            let listed = || root.balances("algorithms").into_iter().find(|(b, _)| b.to_string() == policy.label);
            let span = match own {
                Some(_) => named.section.span_of("balance"),
                None => listed().map_or(named.section.span_of("plane"), |(_, span)| span),
            };
            findings.add(Code::PlaneLacks, span, refused.to_string()).help(refused.help());
        }
    }
}
