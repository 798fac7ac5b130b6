//! Many short connections, by `ab`, which ends at the first that is reset. Client ports come round several times.

use super::mechanism::{Mechanism, alone};
use super::site::{Family, Site};
use std::path::Path;

/// Requests of a run, each on a connection that the endpoint closes.
const REQUESTS: u32 = 20_000;

/// Runs through each plane. `EVENKEEL_AB_RUNS` is another number.
const RUNS: u32 = 1;

const fn row(name: &'static str, plane: &'static str, settings: &'static str, is_local: bool) -> Mechanism {
    let (binds_sockets, balances) = (is_local, &["'round_robin'"]);
    Mechanism { name, plane, settings, is_local, binds_sockets, balances }
}

/// Each plane, with the mode of its listener. IPVS counts only where the kernel has it.
static PLANES: [(Mechanism, &str); 6] = [
    (row("nftables", "nftables", "", false), "tcp"),
    (row("ipvs", "ipvs", "", false), "tcp"),
    (row("ebpf, connect", "ebpf", "attach = 'connect'", true), "tcp"),
    (row("ebpf, forward", "ebpf", "attach = 'forward'", false), "tcp"),
    (row("proxy of TCP", "proxy", "", false), "tcp"),
    (row("proxy of HTTP", "proxy", "", false), "http"),
];

#[test]
fn no_connection_of_many_short_ones_is_reset() {
    if !evenkeel_peers::installed(&["ab"]) {
        return;
    }
    let runs = std::env::var("EVENKEEL_AB_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    alone(|| {
        let failed: Vec<String> = PLANES.iter().flat_map(|(mechanism, mode)| through(mechanism, mode, runs)).collect();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}

/// Returns the first run that has failed, with the words of `ab`.
fn through(mechanism: &'static Mechanism, mode: &str, runs: u32) -> Option<String> {
    if mechanism.plane == "ipvs" && !Path::new("/proc/net/ip_vs").exists() {
        return None;
    }
    let mut site = Site::lay_out(mechanism, Family::V4);
    if !mechanism.is_local {
        site.balancer.ip(&format!("addr add {}/32 dev lo", site.address().ip()));
    }
    site.write(mode, [""; 4], "");
    site.run();
    let url = format!("http://{}/", site.address());
    let command = format!("ab -q -s 30 -n {REQUESTS} -c 100 {url}");
    let place = if mechanism.is_local { &site.balancer } else { &site.clients };
    for run in 1..=runs {
        let output = place.output(&command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|count| count.trim().parse::<u32>().ok())
        };
        let (complete, failed) = (count("Complete requests:"), count("Failed requests:"));
        if !output.status.success() || complete != Some(REQUESTS) || failed != Some(0) {
            let why = String::from_utf8_lossy(&output.stderr);
            return Some(format!("{}: run {run} of {runs}: {why}{said}", mechanism.name));
        }
    }
    None
}
