//! Planes that balance, with the measured processor time of each, and the policies that a plane refuses.
//!
//! Figures are from `docs/measurements/2026-11-27-kernel-planes.md`, which a test reads: the table of requests on a
//! connection each, whose responses have 4 kB, and the times of the programs. A kernel forwards in soft interrupts,
//! which count for the process that they interrupt; so its planes cost the difference of all processes to a path with
//! as many endpoints and no hop. Of a proxy the time of its process counts: it also changes how long the others take,
//! by what it keeps open, and that would be subtracted.

use evenkeel_balance::params::Params;
use evenkeel_balance::picker::Algorithm;
use evenkeel_config::plan::Balance;
use evenkeel_config::planes::{Fidelity, Forwarding};
use std::fmt;

/// Plane of simulated balancers, with its cost.
#[derive(Debug)]
pub struct PlaneCost {
    /// Word for it in scenario files, such as `ebpf`.
    pub name: &'static str,
    pub forwarding: Forwarding,
    /// Processor time of a request at a balancer between two links, in nanoseconds.
    pub apart_ns: u64,
    /// Processor time of a request at a balancer beside its caller, in nanoseconds; `None` if it was not measured.
    pub beside_ns: Option<u64>,
    /// Derivation of `apart_ns` and of `beside_ns` from the measurement.
    pub derived: [&'static str; 2],
}

/// Planes in the order of their costs. There is no IPVS: its cost was not measured.
pub static ALL: &[PlaneCost] = &[
    PlaneCost {
        name: "ebpf",
        forwarding: Forwarding::Ebpf,
        apart_ns: 12_300,
        beside_ns: Some(1_588),
        derived: [
            "all processes, less those of eBPF at connect with as many endpoints",
            "the programs of a connect (`leastconn`, the slowest), of its success and of its end",
        ],
    },
    PlaneCost {
        name: "nftables",
        forwarding: Forwarding::Nftables,
        apart_ns: 26_000,
        beside_ns: None,
        derived: ["all processes, less those of eBPF at connect with as many endpoints", "not measured"],
    },
    PlaneCost {
        name: "http",
        forwarding: Forwarding::Requests,
        apart_ns: 41_400,
        beside_ns: Some(41_400),
        derived: ["the process of the balancer", "the process of the balancer, on another machine"],
    },
    PlaneCost {
        name: "tcp",
        forwarding: Forwarding::Sessions,
        apart_ns: 82_200,
        beside_ns: Some(82_200),
        derived: ["the process of the balancer", "the process of the balancer, on another machine"],
    },
];

/// Words for `plane`, in the order of [`ALL`].
pub const NAMES: &[&str] = &["ebpf", "nftables", "http", "tcp"];

/// Returns a plane by its word in scenario files.
pub fn find(name: &str) -> Option<&'static PlaneCost> {
    ALL.iter().find(|plane| plane.name == name)
}

impl PlaneCost {
    /// True if the kernel forwards: a machine counts once for all its processors.
    pub fn is_kernel(&self) -> bool {
        !matches!(self.forwarding, Forwarding::Requests | Forwarding::Sessions)
    }

    /// True if it balances requests, which it can send again; false for connections.
    pub fn sees_requests(&self) -> bool {
        self.forwarding == Forwarding::Requests
    }

    /// Reason for which the plane cannot keep an algorithm, or the simulator cannot do as the plane does.
    pub fn refuses(&self, algorithm: &'static Algorithm, params: &Params) -> Option<&'static str> {
        let balance = Balance { params: params.clone(), ..Balance::of(algorithm) };
        match self.forwarding.keeps(&balance) {
            Fidelity::Refused(why) => Some(why),
            Fidelity::Approximated(_) if self.forwarding == Forwarding::Sessions && algorithm.needs.latency => {
                Some("it goes by the time to connect, which is not simulated")
            }
            Fidelity::Approximated(_) | Fidelity::Exact => None,
        }
    }

    /// Planes that keep an algorithm, by name.
    pub fn that_keep(algorithm: &'static Algorithm, params: &Params) -> Vec<&'static str> {
        ALL.iter().filter(|plane| plane.refuses(algorithm, params).is_none()).map(|plane| plane.name).collect()
    }
}

/// Policy that the plane of a service cannot keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Policy by its label in results.
    pub policy: String,
    pub service: String,
    /// Plane of the service, by name.
    pub plane: &'static str,
    pub why: &'static str,
    /// Planes that keep the policy, by name.
    pub instead: Vec<&'static str>,
}

impl Refused {
    /// Ways to correct it, for a line of help.
    pub fn help(&self) -> String {
        let planes: Vec<String> = self.instead.iter().map(|plane| format!("plane = \"{plane}\"")).collect();
        format!("set {}, or try other algorithms", planes.join(" or "))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { policy, service, plane, why, .. } = self;
        write!(f, "plane = \"{plane}\" of service \"{service}\" cannot keep \"{policy}\": {why}")
    }
}

impl std::error::Error for Refused {}

/// Table of the costs, Markdown, for the reference page.
pub fn table() -> String {
    let us = |ns: u64| format!("{} us", ns as f64 / 1e3);
    let row = |plane: &PlaneCost| {
        let [apart, beside] = plane.derived;
        let cost = plane.beside_ns.map_or("-".to_string(), us);
        format!("| `{}` | {} | {apart} | {cost} | {beside} |\n", plane.name, us(plane.apart_ns))
    };
    let rows: String = ALL.iter().map(row).collect();
    format!("| Plane | Apart | Measured as | Beside the caller | Measured as |\n|---|---|---|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_balance::algorithms;

    #[test]
    fn every_plane_has_its_word_and_keeps_an_algorithm() {
        assert_eq!(ALL.iter().map(|plane| plane.name).collect::<Vec<_>>(), NAMES);
        for plane in ALL {
            let keeps = |a: &&'static Algorithm| plane.refuses(a, &Params::defaults(a.params)).is_none();
            assert!(algorithms::ALL.iter().copied().any(|a| keeps(&a)), "{}", plane.name);
        }
    }

    #[test]
    fn only_the_http_proxy_keeps_every_algorithm() {
        for algorithm in algorithms::ALL {
            let planes = PlaneCost::that_keep(algorithm, &Params::defaults(algorithm.params));
            assert!(planes.contains(&"http"), "{}", algorithm.name);
            assert_eq!(planes.contains(&"tcp"), !algorithm.needs.latency, "{}", algorithm.name);
        }
    }

    #[test]
    fn costs_are_those_of_the_measurement() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measurements/2026-11-27-kernel-planes.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        // The first row of a name: of a connection for each request. Columns: name, rate, client, balancer, endpoints,
        // all.
        let cell = |name: &str, column: usize| -> f64 {
            let row = page.lines().find(|line| line.starts_with(&format!("| {name} |"))).expect(name);
            let cell = row.split('|').nth(column).expect("it has this column").trim().trim_start_matches('*');
            let figure = cell.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').next().expect("a figure");
            figure.replace(',', "").parse().expect(name)
        };
        let apart = |name: &str| find(name).expect("a row").apart_ns as f64 / 1e3;
        for (name, row) in [("http", "evenkeel HTTP"), ("tcp", "evenkeel TCP")] {
            assert_eq!(apart(name), cell(row, 4), "{name}");
        }
        for (name, row) in [("ebpf", "eBPF forward"), ("nftables", "nftables")] {
            let over = cell(row, 6) - cell("eBPF connect", 6);
            assert!((apart(name) - over).abs() < 0.05, "{name}: {over}");
        }
        let last = |name: &str| -> f64 {
            let row = page.lines().find(|line| line.starts_with(&format!("| {name} |"))).expect(name);
            let cell = row.split('|').nth(2).expect("it has this column").replace(',', "");
            cell.split_whitespace().last().expect("a figure").parse().expect(name)
        };
        let programs = ["connect4, leastconn", "end of a connection (sock_release)", "established (sockops)"].map(last);
        assert_eq!(find("ebpf").and_then(|plane| plane.beside_ns), Some(programs.iter().sum::<f64>() as u64));
    }
}
