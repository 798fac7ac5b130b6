//! Throughput with a slow link to an endpoint of four, and the share of an endpoint at which nothing listens.

use super::site::{CONNECTIONS, Path, Site};
use crate::balancers::{Algorithm, Front};
use crate::child;
use crate::error::Result;
use crate::study::figures::{row, told};
use crate::study::{Claim, Finding, Found, Options, Plot, Rounds, Says};
use serde_json::json;

const RIVAL: &str = "haproxy TCP, leastconn";

/// Paths in the order of the table.
pub const PATHS: [Path; 8] = [
    Path::connect("eBPF connect, random(1)", Algorithm::OneDraw),
    Path::connect("eBPF connect, power of two", Algorithm::Random),
    Path::connect("eBPF connect, leastconn", Algorithm::LeastConn),
    Path::forward("eBPF forward, random(1)", Algorithm::OneDraw),
    Path::forward("eBPF forward, power of two", Algorithm::Random),
    Path::forward("eBPF forward, leastconn", Algorithm::LeastConn),
    Path::nftables("nftables, random(1)"),
    Path::proxy(RIVAL, "haproxy", Front::Tcp, Algorithm::LeastConn),
];

/// Paths before a refusing endpoint.
pub const REFUSING: [Path; 2] = [
    Path::connect("eBPF connect, power of two", Algorithm::Random),
    Path::forward("eBPF forward, power of two", Algorithm::Random),
];

const KEEPS: [(Claim, &str); 4] = [
    (Claim::ours("Power of two at connect keeps three quarters of leastconn"), "eBPF connect, power of two"),
    (Claim::ours("Least connections at connect keep three quarters of it"), "eBPF connect, leastconn"),
    (Claim::ours("Power of two that forwards keeps three quarters of it"), "eBPF forward, power of two"),
    (Claim::ours("Least connections that forward keep three quarters of it"), "eBPF forward, leastconn"),
];
const LOSES: [(Claim, &str); 3] = [
    (Claim::ours("A random draw at connect keeps less than half"), "eBPF connect, random(1)"),
    (Claim::ours("A random draw that forwards keeps less than half"), "eBPF forward, random(1)"),
    (Claim::ours("A random draw of nftables keeps less than half"), "nftables, random(1)"),
];
const REFUSED: [Claim; 2] = [
    Claim::ours("At connect, a refusing endpoint of four gets at most 15 % of the connects"),
    Claim::ours("Where packets are forwarded, it gets at most 15 %"),
];

/// Rate of the slow link, in bytes per second: 40 Mbit/s.
const SLOW: f64 = 5e6;
const CONNECTS: usize = 40;

/// Measures the slow link and adds the figures to those that were found.
///
/// # Errors
/// A balancer does not start, or the experiment is interrupted.
pub fn slow(site: &Site, paths: &[&Path], options: &Options, found: &mut Found) -> Result<()> {
    let names: Vec<String> = paths.iter().map(|path| path.name.to_owned()).collect();
    let requests = if options.quick { 1000 } else { 10_000 };
    site.limit_last(Some(SLOW))?;
    let rounds = Rounds::run(&names, options.rounds(), |at, _| {
        let open = site.open(paths[at], false)?;
        open.load(requests, CONNECTIONS, false).map(|answered| answered.requests as f64 / answered.seconds)
    })?;
    site.limit_last(None)?;
    let rate = |name: &str| paths.iter().position(|path| path.name == name).map(|at| rounds.figures(at, |rate| *rate));
    let judge = |claim, name: &str, says| {
        let what = format!("requests a second, {name} over {RIVAL}");
        Finding::of_ratio(claim, &what, (rate(name), rate(RIVAL)), says, "one of both did not run")
    };
    found.findings.extend(KEEPS.map(|(claim, name)| judge(claim, name, Says::AtLeast(0.75))));
    found.findings.extend(LOSES.map(|(claim, name)| judge(claim, name, Says::AtMost(0.5))));
    let mut table = vec![["", "requests/s", "of haproxy leastconn", "failed runs"].map(str::to_owned).to_vec()];
    let base = rate(RIVAL);
    for (at, name) in names.iter().enumerate() {
        let runs = rounds.figures(at, |rate| *rate);
        let ratios = base.as_ref().map(|base| runs.iter().zip(base).map(|(run, base)| run / base).collect::<Vec<_>>());
        table.push(vec![name.clone(), told(&runs, 0), told(&ratios.unwrap_or_default(), 2), rounds.failed_of(at)]);
    }
    found.tables.push(("One endpoint of four at 40 Mbit/s, a connection for each request".to_owned(), table));
    let of = |(at, path): (usize, &&Path)| {
        let colour = usize::from(path.program() != Some("evenkeel"));
        row(path.name, &rounds.figures(at, |rate| *rate), None, colour)
    };
    let rows: Vec<_> = paths.iter().enumerate().map(of).collect();
    found.plots.push(Plot::of_rows("Throughput with one slow endpoint of four", "requests a second", &rows));
    found.add_runs("slow", rounds.json(|rate| json!(rate)), rounds.failed());
    Ok(())
}

/// Measures the share of a refusing endpoint.
///
/// # Errors
/// A balancer does not start, or the experiment is interrupted.
pub fn refusing(site: &Site, options: &Options, found: &mut Found) -> Result<()> {
    let names: Vec<String> = REFUSING.iter().map(|path| path.name.to_owned()).collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, _| {
        let open = site.open(&REFUSING[at], true)?;
        child::go_on()?;
        open.refused(CONNECTS).map(|refused| refused as f64 / CONNECTS as f64)
    })?;
    let mut table = vec![["", "share of the refusing endpoint"].map(str::to_owned).to_vec()];
    for (at, claim) in REFUSED.into_iter().enumerate() {
        let runs = rounds.figures(at, |share| *share);
        let interval = crate::stats::Interval::of(&runs);
        found.findings.push(Finding::at_most(claim, "share of 40 connects that are held", interval, 0.15));
        table.push(vec![names[at].clone(), told(&runs, 3)]);
    }
    found.tables.push(("Nothing listens at one endpoint of four".to_owned(), table));
    found.add_runs("refusing", rounds.json(|share| json!(share)), rounds.failed());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_on_paths_of_the_table() {
        let is_there = |name: &str| PATHS.iter().filter(|path| path.name == name).count() == 1;
        assert!(KEEPS.iter().chain(&LOSES).all(|(_, name)| is_there(name)));
        assert!(is_there(RIVAL) && REFUSED.len() == REFUSING.len());
    }
}
