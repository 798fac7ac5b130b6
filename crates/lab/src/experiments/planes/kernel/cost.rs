//! CPU time of a request in the kernel and through proxies, on the same machine.

use super::site::{CONNECTIONS, Open, Path, Site};
use crate::balancers::{Algorithm, Front};
use crate::error::Result;
use crate::procfs::{self, Cpu};
use crate::study::figures::{row, told};
use crate::study::{Claim, Finding, Found, Meter, Options, Plot, Rounds, Says, Used, busy};
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

const DIRECT: &str = "direct";
const ROUTED: &str = "direct, routed";
const NFTABLES: &str = "nftables";
const CONNECT: &str = "eBPF connect";
const CONNECT_ONE: &str = "eBPF connect, one endpoint";
const FORWARD: &str = "eBPF forward";
const TCP: &str = "haproxy TCP";
const HTTP: &str = "haproxy HTTP";

/// Paths in the order of the table. Each that has a choice draws at random, by load where it can.
pub const PATHS: [Path; 11] = [
    Path::direct(DIRECT, true),
    Path::direct(ROUTED, false),
    Path::nftables(NFTABLES),
    Path { endpoints: 1, ..Path::connect(CONNECT_ONE, Algorithm::Random) },
    Path::connect(CONNECT, Algorithm::Random),
    Path::forward(FORWARD, Algorithm::Random),
    Path::proxy("evenkeel TCP", "evenkeel", Front::Tcp, Algorithm::Random),
    Path::proxy("evenkeel HTTP", "evenkeel", Front::Http1, Algorithm::Random),
    Path::proxy(TCP, "haproxy", Front::Tcp, Algorithm::Random),
    Path::proxy(HTTP, "haproxy", Front::Http1, Algorithm::Random),
    Path::proxy("nginx stream", "nginx", Front::Tcp, Algorithm::Random),
];

const SOURCE: &str = "a cloud provider's comparison";
/// Claims on the ratio of two paths, a connection for each request: CPU time of the first over the second.
const ORDER: [(Claim, &str, &str, f64); 6] = [
    (Claim { text: "iptables serves more than HAProxy: nftables costs less", source: SOURCE }, NFTABLES, TCP, 1.0),
    (
        Claim { text: "Without a balancer more is served than through one in the kernel", source: SOURCE },
        ROUTED,
        NFTABLES,
        1.0,
    ),
    (Claim { text: "A balancer of layer 4 serves more than one of layer 7", source: SOURCE }, TCP, HTTP, 1.0),
    (
        Claim::ours("eBPF at connect costs as a direct connection to one endpoint, within 5 %"),
        CONNECT_ONE,
        DIRECT,
        1.05,
    ),
    (Claim::ours("eBPF that forwards costs at most 0.75 of HAProxy's TCP"), FORWARD, TCP, 0.75),
    (Claim::ours("nftables costs at most 0.85 of HAProxy's TCP"), NFTABLES, TCP, 0.85),
];

pub fn claims() -> impl Iterator<Item = Claim> {
    ORDER.iter().map(|(claim, ..)| *claim)
}

const CLOSE: &str = "a connection each";
const KEPT: &str = "kept";

struct Run {
    /// Requests per second.
    rate: f64,
    requests: f64,
    /// CPU time by group, and of the machine, which includes other programs.
    used: Used,
    softirq: Duration,
    /// CPU time of other programs.
    others: Duration,
    elapsed: Duration,
}

impl Run {
    fn per_request(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.requests
    }

    fn us(&self, group: &str) -> f64 {
        self.per_request(self.used.of(group))
    }

    /// CPU time of all processes of the path, with the kernel's threads for soft interrupts.
    fn processes(&self) -> f64 {
        self.used.groups.iter().map(|(group, _)| self.us(group)).sum()
    }

    /// CPU time of the machine, less the time of other programs.
    fn machine(&self) -> f64 {
        self.per_request(self.used.machine.saturating_sub(self.others))
    }
}

/// Measures all paths, and adds the figures to those that were found.
///
/// # Errors
/// A balancer does not start, or the experiment is interrupted.
pub fn measure(site: &Site, paths: &[&Path], options: &Options, found: &mut Found) -> Result<()> {
    let kinds = [(false, CLOSE), (true, KEPT)];
    let arms: Vec<(&Path, bool)> = kinds.iter().flat_map(|(kept, _)| paths.iter().map(|&path| (path, *kept))).collect();
    let names: Vec<String> =
        arms.iter().map(|(path, kept)| format!("{}, {}", path.name, if *kept { KEPT } else { CLOSE })).collect();
    let rounds = Rounds::run(&names, options.rounds_of_many(), |at, _| {
        let (path, kept) = arms[at];
        run(site, &site.open(path, false)?, kept, options)
    })?;
    let figures = |name: &str, kept: bool, figure: &dyn Fn(&Run) -> f64| {
        let at = arms.iter().position(|(path, of)| path.name == name && *of == kept)?;
        Some(rounds.figures(at, figure))
    };
    for (claim, of, over, most) in ORDER {
        let both = (figures(of, false, &Run::processes), figures(over, false, &Run::processes));
        let what = format!("CPU time of all processes, a connection for each request, {of} over {over}");
        found.findings.push(Finding::of_ratio(claim, &what, both, Says::AtMost(most), "one of both did not run"));
    }
    for (kept, how) in kinds {
        let base = figures(TCP, kept, &Run::processes);
        let header = [
            "",
            "requests/s",
            "client, CPU us/request",
            "balancer",
            "endpoints",
            "ksoftirqd",
            "processes",
            "of haproxy TCP",
            "soft interrupts",
            "machine",
            "processes/machine",
            "other programs, cores",
            "failed runs",
        ];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        for (at, (path, _)) in arms.iter().enumerate().filter(|(_, (_, of))| *of == kept) {
            let of = |digits: usize, figure: &dyn Fn(&Run) -> f64| told(&rounds.figures(at, figure), digits);
            table.push(vec![
                path.name.to_owned(),
                of(0, &|run| run.rate),
                of(1, &|run| run.us("client")),
                of(1, &|run| run.us("balancer")),
                of(1, &|run| run.us("endpoints")),
                of(1, &|run| run.us("ksoftirqd")),
                of(1, &Run::processes),
                base.as_ref().map_or_else(String::new, |base| ratio(&rounds.figures(at, Run::processes), base)),
                of(1, &|run| run.per_request(run.softirq)),
                of(1, &Run::machine),
                of(2, &|run| run.processes() / run.machine()),
                of(2, &|run| run.others.as_secs_f64() / run.elapsed.as_secs_f64()),
                rounds.failed_of(at),
            ]);
        }
        found.tables.push((format!("In network namespaces, {CONNECTIONS} clients, {how}"), table));
        let rows = arms.iter().enumerate().filter(|(_, (_, of))| *of == kept).map(|(at, (path, _))| {
            let colour = usize::from(path.program() != Some("evenkeel"));
            row(path.name, &rounds.figures(at, Run::processes), None, colour)
        });
        let rows: Vec<_> = rows.collect();
        let title = format!("CPU time of client, balancer and endpoints in network namespaces, {how}");
        found.plots.push(Plot::of_rows(title, "microseconds a request", &rows));
    }
    let raw = |run: &Run| {
        json!({
            "rate": run.rate, "requests": run.requests, "cpu": run.used.json(),
            "softirq": run.softirq.as_secs_f64(), "others": run.others.as_secs_f64(), "elapsed": run.elapsed.as_secs_f64(),
        })
    };
    found.add_runs("kernel", rounds.json(raw), rounds.failed());
    Ok(())
}

/// Measures a path under load.
fn run(site: &Site, open: &Open, kept: bool, options: &Options) -> Result<Run> {
    let requests = if kept { 30_000 } else { 10_000 };
    let requests = if options.quick { requests / 10 } else { requests };
    let (threads, clients, all) = (ksoftirqd()?, procfs::ended_children()?, procfs::all_processes());
    let groups = vec![("balancer", open.balancer()), ("endpoints", site.endpoints())];
    let (soft, start, meter) = (busy()?.softirq, Instant::now(), Meter::start(groups)?);
    let answered = open.load(requests, CONNECTIONS, kept)?;
    let (mut used, elapsed, soft_end) = (meter.used()?, start.elapsed(), busy()?.softirq);
    let all = procfs::all_processes().saturating_sub(all);
    used.groups.push(("client", procfs::ended_children()?.saturating_sub(clients)));
    used.groups.push(("ksoftirqd", ksoftirqd()?.since(&threads).time));
    let ours: Duration = used.groups.iter().map(|(_, time)| *time).sum();
    Ok(Run {
        rate: answered.requests as f64 / answered.seconds,
        requests: answered.requests as f64,
        used,
        softirq: soft_end.saturating_sub(soft),
        others: all.saturating_sub(ours),
        elapsed,
    })
}

/// CPU time of the kernel's threads for soft interrupts.
fn ksoftirqd() -> Result<Cpu> {
    // They are children of kthreadd.
    let is_one =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"));
    Cpu::of(&procfs::children_of(2).into_iter().filter(is_one).collect::<Vec<_>>())
}

/// Ratio of two paths by round, as text.
fn ratio(runs: &[f64], base: &[f64]) -> String {
    told(&runs.iter().zip(base).map(|(run, base)| run / base).collect::<Vec<_>>(), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_compare_paths_of_the_table() {
        let is_there = |name: &str| PATHS.iter().filter(|path| path.name == name).count() == 1;
        assert!(PATHS.iter().all(|path| is_there(path.name)));
        assert!(ORDER.iter().all(|(_, of, over, _)| is_there(of) && is_there(over)));
    }
}
