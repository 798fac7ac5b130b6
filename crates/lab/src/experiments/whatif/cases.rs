//! Systems whose truth is known, a row each.

use super::case::Arrivals::{self, Closed, Mmpp, Poisson};
use super::case::Law::{self, Constant, Conversation, Exponential, Lognormal, Pareto};
use super::case::Sharing::{self, Equal, Fifo, Unlimited};
use super::case::{More, Row};
use super::lines::Format::{self, Evenkeel, Haproxy, Nginx};

/// Endpoints of a core and speed 1.
const TWO: &[(u32, f64)] = &[(1, 1.0); 2];
const THREE: &[(u32, f64)] = &[(1, 1.0); 3];
const FOUR: &[(u32, f64)] = &[(1, 1.0); 4];
const SIX: &[(u32, f64)] = &[(1, 1.0); 6];
const EIGHT: &[(u32, f64)] = &[(1, 1.0); 8];
const TWELVE: &[(u32, f64)] = &[(1, 1.0); 12];
const QUADS: &[(u32, f64)] = &[(4, 1.0); 3];
const WIDE: &[(u32, f64)] = &[(8, 1.0); 4];
/// Endpoints of different capacity.
const MIXED_CORES: &[(u32, f64)] = &[(4, 1.0), (2, 1.0), (1, 1.0), (1, 1.0)];
const MIXED_SPEEDS: &[(u32, f64)] = &[(1, 1.5), (1, 1.0), (1, 1.0), (1, 0.5)];
const HALVES: &[(u32, f64)] = &[(2, 1.0), (2, 1.0), (2, 0.5), (2, 0.5)];
const SLOW: &[(u32, f64)] = &[(1, 1.0), (1, 1.0), (1, 1.0), (1, 0.4)];
const SLOW_OF_EIGHT: &[(u32, f64)] = &[(2, 1.0), (2, 1.0), (2, 1.0), (2, 1.0), (2, 1.0), (2, 1.0), (2, 1.0), (2, 0.3)];
const SLOW_WIDE: &[(u32, f64)] = &[(8, 1.0), (8, 1.0), (8, 0.3)];

#[allow(clippy::too_many_arguments)] // rows of a table
const fn row(
    name: &'static str,
    endpoints: &'static [(u32, f64)],
    sharing: Sharing,
    law: Law,
    load: f64,
    arrivals: Arrivals,
    policy: &'static str,
    format: Format,
) -> Row {
    Row {
        name,
        endpoints,
        sharing,
        law,
        load,
        arrivals,
        policy,
        format,
        requests: 15_000,
        more: More::Nothing,
        quick: false,
    }
}

/// Row that `--quick` runs, too.
const fn quick(row: Row) -> Row {
    Row { quick: true, ..row }
}

const fn with(more: More, row: Row) -> Row {
    Row { more, ..row }
}

/// Row with so many requests instead of 15,000.
const fn long(requests: u64, row: Row) -> Row {
    Row { requests, ..row }
}

#[rustfmt::skip] // rows of a table
pub static ALL: &[Row] = &[
    // Equal endpoints, by load, law and policy.
    quick(row("equal-075", FOUR, Fifo, Exponential, 0.75, Poisson, "round_robin", Evenkeel)),
    row("equal-030", FOUR, Fifo, Exponential, 0.3, Poisson, "random", Haproxy),
    row("equal-050", THREE, Fifo, Exponential, 0.5, Poisson, "leastconn", Nginx),
    long(30_000, row("equal-085", FOUR, Fifo, Exponential, 0.85, Poisson, "random", Evenkeel)),
    long(40_000, row("equal-090", SIX, Fifo, Exponential, 0.9, Poisson, "leastconn", Evenkeel)),
    long(60_000, row("equal-095", FOUR, Fifo, Exponential, 0.95, Poisson, "leastconn", Haproxy)),
    row("two-endpoints", TWO, Fifo, Exponential, 0.7, Poisson, "random", Haproxy),
    long(30_000, row("twelve-endpoints", TWELVE, Fifo, Exponential, 0.8, Poisson, "random", Evenkeel)),
    row("constant-work", FOUR, Fifo, Constant, 0.8, Poisson, "random", Evenkeel),
    quick(row("constant-sharing", SIX, Equal, Constant, 0.7, Poisson, "round_robin", Haproxy)),
    quick(row("lognormal", FOUR, Fifo, Lognormal(1.0), 0.7, Poisson, "leastconn", Evenkeel)),
    long(30_000, row("lognormal-wide", SIX, Fifo, Lognormal(1.5), 0.6, Poisson, "random", Evenkeel)),
    long(60_000, row("pareto", EIGHT, Fifo, Pareto(1.5), 0.5, Poisson, "random", Evenkeel)),
    long(40_000, row("pareto-sharing", FOUR, Equal, Pareto(1.5), 0.6, Poisson, "round_robin", Evenkeel)),
    // Other ways to share an endpoint.
    quick(row("sharing", FOUR, Equal, Exponential, 0.75, Poisson, "random", Evenkeel)),
    row("sharing-lognormal", SIX, Equal, Lognormal(1.0), 0.8, Poisson, "leastconn", Haproxy),
    row("quad-cores", QUADS, Fifo, Exponential, 0.8, Poisson, "round_robin", Evenkeel),
    row("quad-cores-sharing", QUADS, Equal, Lognormal(1.0), 0.8, Poisson, "random", Nginx),
    row("unlimited", WIDE, Unlimited, Exponential, 0.5, Poisson, "round_robin", Haproxy),
    row("unlimited-slow", SLOW_WIDE, Unlimited, Lognormal(0.5), 0.5, Poisson, "random", Evenkeel),
    // Endpoints of different capacity.
    quick(row("mixed-speeds", MIXED_SPEEDS, Fifo, Exponential, 0.6, Poisson, "random", Evenkeel)),
    row("mixed-speeds-sharing", MIXED_SPEEDS, Equal, Lognormal(1.0), 0.7, Poisson, "leastconn", Haproxy),
    row("mixed-cores", MIXED_CORES, Fifo, Exponential, 0.7, Poisson, "leastconn", Evenkeel),
    with(More::Weights(&[4, 2, 1, 1]), row("weights", MIXED_CORES, Fifo, Exponential, 0.75, Poisson, "round_robin", Evenkeel)),
    with(More::Weights(&[2, 2, 1, 1]), row("weights-leastconn", HALVES, Equal, Exponential, 0.7, Poisson, "leastconn", Evenkeel)),
    row("halves", HALVES, Fifo, Lognormal(1.0), 0.6, Poisson, "peak_ewma", Evenkeel),
    quick(row("one-slow", SLOW, Fifo, Exponential, 0.5, Poisson, "random", Haproxy)),
    row("one-slow-of-eight", SLOW_OF_EIGHT, Fifo, Exponential, 0.6, Poisson, "leastconn", Nginx),
    row("one-slow-round-robin", SLOW_OF_EIGHT, Equal, Exponential, 0.25, Poisson, "round_robin", Evenkeel),
    row("one-slow-ewma", SLOW, Fifo, Lognormal(0.5), 0.6, Poisson, "peak_ewma", Evenkeel),
    // Token counts of public traces.
    quick(row("conversation", FOUR, Fifo, Conversation, 0.7, Poisson, "round_robin", Evenkeel)),
    row("conversation-sharing", SIX, Equal, Conversation, 0.85, Poisson, "leastconn", Evenkeel),
    long(30_000, row("code", EIGHT, Fifo, Law::Code, 0.5, Poisson, "leastconn", Evenkeel)),
    // Arrivals in bursts.
    long(30_000, row("mmpp", SIX, Fifo, Exponential, 0.4, Mmpp, "random", Evenkeel)),
    quick(row("mmpp-sharing", FOUR, Equal, Lognormal(1.0), 0.4, Mmpp, "leastconn", Haproxy)),
    long(30_000, row("code-bursts", EIGHT, Fifo, Exponential, 0.3, Arrivals::Code, "round_robin", Evenkeel)),
    long(30_000, row("code-bursts-tokens", TWELVE, Equal, Law::Code, 0.4, Arrivals::Code, "leastconn", Evenkeel)),
    // Clients that wait for their responses.
    quick(row("closed-loop", FOUR, Fifo, Exponential, 0.7, Closed, "random", Evenkeel)),
    row("closed-loop-sharing", SIX, Equal, Lognormal(1.0), 0.9, Closed, "round_robin", Haproxy),
    row("closed-loop-slow", SLOW, Fifo, Exponential, 0.6, Closed, "leastconn", Evenkeel),
    // Pauses, retries, queues and several balancers.
    long(40_000, with(More::Stalls, row("stalls", FOUR, Fifo, Exponential, 0.5, Poisson, "round_robin", Evenkeel))),
    long(40_000, with(More::Stalls, row("stalls-sharing", SIX, Equal, Exponential, 0.6, Poisson, "leastconn", Evenkeel))),
    long(30_000, with(More::Neighbour, row("noisy-neighbour", FOUR, Equal, Exponential, 0.6, Poisson, "random", Evenkeel))),
    with(More::Refusals, row("refusals", FOUR, Fifo, Exponential, 0.6, Poisson, "random", Evenkeel)),
    // Explored picks, which check the model.
    long(30_000, with(More::Explore(0.02), row("explored", FOUR, Fifo, Exponential, 0.75, Poisson, "leastconn", Evenkeel))),
    long(30_000, with(More::Explore(0.05), row("explored-slow", SLOW, Equal, Lognormal(0.5), 0.5, Poisson, "peak_ewma", Evenkeel))),
    // An endpoint that joins, with slow start and without.
    with(More::Joins { is_seen: true }, row("slow-start-cold", FOUR, Fifo, Exponential, 0.6, Poisson, "leastconn", Evenkeel)),
    with(More::Joins { is_seen: true }, row("slow-start-cold-sharing", FOUR, Equal, Lognormal(0.5), 0.6, Poisson, "random", Haproxy)),
    with(More::Joins { is_seen: false }, row("slow-start-unseen", SIX, Fifo, Exponential, 0.7, Poisson, "round_robin", Evenkeel)),
    with(More::Balancers(2), row("two-balancers", SIX, Fifo, Exponential, 0.7, Poisson, "leastconn", Evenkeel)),
    with(More::Balancers(2), row("two-balancers-random", FOUR, Equal, Exponential, 0.7, Poisson, "random", Haproxy)),
    with(More::Workers(2), row("two-workers", FOUR, Fifo, Exponential, 0.75, Poisson, "leastconn", Evenkeel)),
    with(More::Queue(4), row("queue", FOUR, Fifo, Exponential, 0.75, Poisson, "leastconn", Haproxy)),
    with(More::BadLines, quick(row("bad-lines", FOUR, Fifo, Exponential, 0.6, Poisson, "leastconn", Haproxy))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_sim::engine::offered;

    #[test]
    fn there_are_enough_cases_of_each_kind() {
        assert!(ALL.len() >= 40 && (8..=12).contains(&ALL.iter().filter(|row| row.quick).count()));
        for row in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
            assert!(
                (2..=12).contains(&row.endpoints.len()) && (10_000..=60_000).contains(&row.requests),
                "{}",
                row.name
            );
        }
        for policy in super::super::truth::QUESTIONS {
            assert!(ALL.iter().any(|row| row.policy == policy), "{policy}");
        }
    }

    #[test]
    fn the_offered_work_is_that_of_the_row() {
        for row in
            ALL.iter().filter(|row| row.sharing != Unlimited && !matches!(row.more, More::Stalls | More::Neighbour))
        {
            let offered = offered(&row.case().scenario);
            assert!(row.arrivals == Closed || (offered - row.load).abs() < 0.02, "{}: {offered}", row.name);
        }
    }
}
