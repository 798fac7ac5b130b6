//! True figures of an endpoint that joins: of the time of slow start, with it and without.

use super::{QUANTILES, Ran, Seeds, Truth};
use crate::experiments::whatif::case::{Case, JOINS_NS, SlowStart, named};
use crate::stats::quantile;
use evenkeel_balance::slow_start;
use evenkeel_sim::scenario::{Load, Scenario};
use evenkeel_sim::{Logged, simulate, simulate_logged};

/// Questions, with their policies, without slow start and with it.
const QUESTIONS: [(&str, &str, bool); 8] = [
    ("round_robin", "round_robin", false),
    ("random", "random", false),
    ("leastconn", "leastconn", false),
    ("peak_ewma", "peak_ewma", false),
    ("round_robin, slow start", "round_robin", true),
    ("random, slow start", "random", true),
    ("leastconn, slow start", "leastconn", true),
    ("peak_ewma, slow start", "peak_ewma", true),
];

/// Runs the system of a case with all endpoints warm, and with another that joins.
pub fn run(case: &Case, log: &[Logged], asked: SlowStart, seeds: Seeds) -> Truth {
    let mut steady = case.scenario.clone();
    steady.load = Load::Trace { at_ns: log.iter().map(|logged| logged.arrived_ns).collect() };
    steady.services[0].servers.iter_mut().for_each(|server| (server.joins_ns, server.cold) = (0, None));
    let [at_once, slow] = [false, true].map(|is_slow| joining(&steady, asked, is_slow));
    let own_policy = named(case.policy);
    let (mut own, mut runs) = (Vec::new(), vec![Vec::new(); QUESTIONS.len()]);
    loop {
        let seed = 1_000 + own.len() as u64;
        own.push(Ran::of(&simulate(&steady, &own_policy, seed), case.service));
        for ((_, policy, is_slow), runs) in QUESTIONS.iter().zip(&mut runs) {
            let scenario = if *is_slow { &slow } else { &at_once };
            let (_, log) = simulate_logged(scenario, &named(policy), case.service, seed);
            runs.push(ran(&log, asked.window_ns, scenario.services[0].servers.len()));
        }
        let done = own.len() as u64;
        if done < seeds.0 {
            continue;
        }
        let truth = Truth::of_runs(&QUESTIONS.map(|(label, ..)| label), &runs, &own);
        if done >= seeds.1 || truth.is_precise() {
            return truth;
        }
    }
}

/// System with another endpoint that joins, until the requests of the time of slow start have ended.
fn joining(steady: &Scenario, asked: SlowStart, is_slow: bool) -> Scenario {
    let mut scenario = steady.clone();
    let web = &mut scenario.services[0];
    let mut added = web.servers[0].clone();
    (added.name, added.joins_ns, added.cold) = ("added".to_owned(), JOINS_NS, asked.cold);
    web.servers.push(added);
    let ramp = slow_start::Settings { window_ns: asked.window_ns, aggression: 1.0, min_weight: 0.1 };
    web.balancing.control.slow_start = is_slow.then_some(ramp);
    scenario.until_ns = JOINS_NS + 2 * asked.window_ns;
    scenario
}

/// Figures of the requests of the time of slow start.
fn ran(log: &[Logged], window_ns: u64, servers: usize) -> Ran {
    let is_within = |of: &&Logged| (JOINS_NS..JOINS_NS + window_ns).contains(&of.arrived_ns);
    let within: Vec<&Logged> = log.iter().filter(is_within).collect();
    let mut latencies: Vec<f64> = within.iter().filter_map(|of| Some(of.total_ns()? as f64 / 1e6)).collect();
    latencies.sort_by(f64::total_cmp);
    let tries: Vec<usize> = within.iter().flat_map(|of| &of.tries).map(|of| of.server as usize).collect();
    let share = |at: usize| tries.iter().filter(|of| **of == at).count() as f64 / tries.len().max(1) as f64;
    Ran {
        latency_ms: QUANTILES.map(|(_, part)| quantile(&latencies, part).unwrap_or(f64::NAN)),
        shares: (0..servers).map(share).collect(),
    }
}
