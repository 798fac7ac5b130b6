//! Reader of services, their servers, and the balancers in front of them.

use super::planes::{self, Placed};
use super::work::work;
use crate::scenario::{Balancing, Capacity, Cold, Fault, Information, Mode, Policy, Server, Service, Serving, Step};
use evenkeel_balance::{control, health};
use evenkeel_config::Code;
use evenkeel_config::tables::{self, Findings, Named, Section};
use std::ops::Range;

/// Groups of equal servers, by name: ranges of indices in their service.
pub(super) type Groups = Vec<(String, Range<usize>)>;

/// Limits of a call graph; a client request causes at most this many executions, each with events.
const SERVICES_MAX: usize = 100;
const EXECUTIONS_MAX: u64 = 1000;

/// All services, and the groups of the first. `None` if they cannot be simulated, which has been reported.
pub(super) fn services(root: &Section, findings: &mut Findings) -> (Option<Vec<Service>>, Groups) {
    let named = root.named("service");
    let machines = root.named("machine");
    let machines: Vec<&str> = machines.iter().map(|n| n.name.as_str()).collect();
    let names: Vec<&str> = named.iter().map(|n| n.name.as_str()).collect();
    let mut first = None;
    let services = named.iter().map(|service| {
        let (service, groups) = one(service, &names, &machines, findings);
        first.get_or_insert(groups);
        service
    });
    let services: Vec<Service> = services.collect();
    if services.is_empty() {
        // Otherwise the missing key has been reported.
        if !root.is_broken() && root.has("service") {
            findings.add(Code::NothingToDo, root.span_of("service"), "there is no service").help("add [service.web]");
        }
        return (None, Groups::new());
    }
    let problem = match executions(&services) {
        _ if services.len() > SERVICES_MAX => format!("there are more than {SERVICES_MAX} services"),
        None => "a service calls itself, directly or over others: a request would never end".to_string(),
        Some(all) if all > EXECUTIONS_MAX => {
            format!("one request leads to {all} executions, which is more than {EXECUTIONS_MAX}")
        }
        Some(_) => return (Some(services), first.unwrap_or_default()),
    };
    findings
        .add(Code::Contradiction, root.span_of("service"), problem)
        .help("let services call fewer others, and none that calls them");
    (None, first.unwrap_or_default())
}

fn one(
    Named { name, section, .. }: &Named,
    names: &[&str],
    machines: &[&str],
    findings: &mut Findings,
) -> (Service, Groups) {
    let (mut servers, mut groups) = (Vec::new(), Groups::new());
    for (index, table) in section.sections("server").iter().enumerate() {
        let group = table.text("name").unwrap_or_else(|| format!("s{index}"));
        if groups.iter().any(|(name, _)| *name == group) {
            findings
                .add(Code::SameName, table.span_of("name"), format!("two groups of servers are named \"{group}\""))
                .help("give each a name of its own");
        }
        let count: usize = table.number("count");
        let server = Server { machine: machine(table, machines, findings), ..server(table, &group, findings) };
        let from = servers.len();
        servers.extend((1..=count).map(|i| match count {
            1 => server.clone(),
            _ => Server { name: format!("{group}-{i}"), ..server.clone() },
        }));
        groups.push((group, from..servers.len()));
    }
    let service = Service {
        name: name.clone(),
        servers,
        steps: steps(section, names, findings),
        work: work(&section.section("work"), findings),
        response_bytes: section.int("response"),
        balancing: balancing(name, section, findings),
    };
    (service, groups)
}

fn steps(section: &Section, names: &[&str], findings: &mut Findings) -> Vec<Step> {
    let step = |(name, span): (String, tables::Span)| {
        if name == "work" {
            return Some(Step::Work);
        }
        let found = names.iter().position(|known| *known == name);
        if found.is_none() {
            let known: Vec<&str> = ["work"].into_iter().chain(names.iter().copied()).collect();
            findings
                .add(Code::NotAllowed, span, format!("\"{name}\" is neither \"work\" nor a service"))
                .help(tables::suggest(&name, &known));
        }
        found.map(Step::Call)
    };
    section.texts("steps").into_iter().filter_map(step).collect()
}

/// Returns the number of service executions that a client request causes; `None` if the graph has a cycle.
fn executions(services: &[Service]) -> Option<u64> {
    let mut counts = vec![1u64; services.len()];
    // Without a cycle, counts are final after as many rounds as there are services.
    for _ in 0..=services.len() {
        let count = |step: &Step| if let Step::Call(to) = step { counts[*to] } else { 0 };
        let next: Vec<u64> = services.iter().map(|s| s.steps.iter().map(count).fold(1, u64::saturating_add)).collect();
        if next == counts {
            return Some(counts.first().copied().unwrap_or(0));
        }
        counts = next;
    }
    // A cycle is an error even if the first service does not reach it.
    None
}

fn balancing(name: &str, section: &Section, findings: &mut Findings) -> Balancing {
    let Placed { plane, deployment, hop, beside_ns } = planes::placed(name, section, findings);
    let (queue, health) = (section.section("queue"), section.section("health"));
    let timeout = |name: &str| section.duration(name).map(|_| section.ns(name));
    Balancing {
        policy: section.balance("balance").map(|(balance, _)| Policy::algorithm(balance)),
        deployment,
        plane,
        hop,
        workers: section.number("workers"),
        information: Information {
            probes: section.flag("probes"),
            probe_loss: section.float("probe_loss"),
            probe_work_ns: section.ns("probe_work"),
            balancer_work_ns: beside_ns,
            balancer_probe_work_ns: section.ns("balancer_probe_work"),
            with_answers: section.flag("reports"),
            board_ns: timeout("board").unwrap_or(0),
        },
        lag_ns: section.ns("lag"),
        check_every_ns: if section.has("health") { health.ns("interval") } else { 0 },
        control: control::Settings {
            health: section.has("health").then(|| health::Settings {
                fall: health.number("fall"),
                rise: health.number("rise"),
                ..health::Settings::default()
            }),
            outlier: section.has("outlier").then(|| tables::outlier(section, findings)).flatten(),
            slow_start: section.has("slow_start").then(|| tables::slow_start(&section.section("slow_start"))),
            panic: tables::panic(section),
            concurrency: section
                .has("concurrency")
                .then(|| tables::concurrency(&section.section("concurrency"), findings)),
            ..control::Settings::default()
        },
        queue: (queue.number("max"), queue.ns("timeout")),
        retry: section.has("retry").then(|| tables::tries(&section.section("retry"))),
        explore: 0.0,
        timeout_ns: timeout("timeout").unwrap_or(u64::MAX),
    }
}

fn server(table: &Section, name: &str, findings: &mut Findings) -> Server {
    let serving = match (table.has("fifo"), table.has("sharing")) {
        (false, false) => Serving::Unlimited,
        (true, false) => Serving::Fifo { cores: table.number("fifo") },
        (false, true) => Serving::Sharing { cores: table.float("sharing") },
        (true, true) => {
            findings
                .add(Code::Contradiction, table.span_of("sharing"), "\"fifo\" and \"sharing\" exclude each other")
                .help("leave one of the two out");
            Serving::Unlimited
        }
    };
    let ns_or = |name: &str, absent: u64| if table.has(name) { table.ns(name) } else { absent };
    let (joins_ns, leaves_ns) = (table.ns("joins"), ns_or("leaves", u64::MAX));
    if leaves_ns <= joins_ns {
        findings
            .add(Code::Contradiction, table.span_of("leaves"), "it leaves before it joins")
            .help("make \"leaves\" later than \"joins\"");
    }
    let cold = table.section("cold");
    Server {
        name: name.to_string(),
        weight: table.number("weight"),
        in_flight_max: table.number("in_flight_max"),
        serving,
        machine: None,
        work: table.has("work").then(|| work(&table.section("work"), findings)),
        threads: table.number("threads"),
        backlog: table.number("backlog"),
        capacity: capacity(table, findings),
        bandwidth: table.int("bandwidth") as f64,
        faults: table.sections("faults").iter().map(|fault| self::fault(fault, findings)).collect(),
        joins_ns,
        leaves_ns,
        cold: table.has("cold").then(|| Cold { speed: cold.float("speed"), window_ns: cold.ns("window") }),
    }
}

/// Index of the machine of a group of servers.
fn machine(table: &Section, machines: &[&str], findings: &mut Findings) -> Option<usize> {
    let name = table.text("machine")?;
    let found = machines.iter().position(|machine| *machine == name);
    if found.is_none() {
        findings.add(Code::NotAllowed, table.span_of("machine"), format!("no machine is named \"{name}\"")).help(
            match machines {
                [] => format!("add [machine.{name}]"),
                _ => tables::suggest(&name, machines),
            },
        );
    }
    found
}

fn capacity(table: &Section, findings: &mut Findings) -> Vec<Capacity> {
    let mut all = Vec::new();
    for one in table.sections("antagonists") {
        let states: Vec<(f64, f64)> =
            one.sections("states").iter().map(|state| (state.float("speed"), state.float("share"))).collect();
        let sum: f64 = states.iter().map(|(_, share)| share).sum();
        if (sum - 1.0).abs() > 1e-6 && !one.is_broken() {
            findings
                .add(Code::OutOfRange, one.span_of("states"), format!("the shares sum to {sum}, but must sum to 1"))
                .help("each is the probability of its speed");
        }
        all.push(Capacity::Antagonist { states, mean_ns: one.ns("mean") });
    }
    for one in table.sections("neighbours") {
        let threads = u32::try_from(one.int("threads")).unwrap_or(u32::MAX);
        all.push(Capacity::Neighbour { threads, busy_ns: one.ns("busy"), idle_ns: one.ns("idle") });
    }
    for one in table.sections("stalls") {
        let (every, length) = (work(&one.section("every"), findings), work(&one.section("length"), findings));
        if every.mean_ns() <= 0.0 && !one.is_broken() {
            findings
                .add(Code::OutOfRange, one.span_of("every"), "\"every\" is 0: it would always stall")
                .help("write { exponential = \"400ms\" }");
        }
        all.push(Capacity::Stalls { every, length, speed: one.float("speed") });
    }
    all
}

fn fault(table: &Section, findings: &mut Findings) -> Fault {
    let (from_ns, until_ns) = (table.ns("from"), if table.has("until") { table.ns("until") } else { u64::MAX });
    if until_ns <= from_ns {
        findings
            .add(Code::Contradiction, table.span_of("until"), "the fault ends before it begins")
            .help("make \"until\" later than \"from\"");
    }
    let mode = match table.word("mode") {
        "fail-fast" => Mode::FailFast { after_ns: table.ns("after") },
        _ => Mode::BlackHole,
    };
    Fault { from_ns, until_ns, mode }
}
