//! Algorithms, and the properties that each kind of forwarding keeps. Figures of approximations are constants, which
//! the drivers use and their tests assert.

use super::Fidelity::{self, Approximated, Exact, Refused};
use crate::table::Balance;
use evenkeel_balance::params::Params;

/// Places of a round of `nftables`: `round_robin` there takes turns by a table of at most so many. Shares are exact if
/// the weights, divided by their greatest common divisor, add up to no more.
pub const NFTABLES_ROUND: u64 = 1_024;

/// Largest error of a share in a round of [`NFTABLES_ROUND`] that had to be scaled, for each endpoint of the pool: a
/// place is a little less.
pub const NFTABLES_ROUND_ERROR: f64 = 0.001;

/// Places of the table of `nftables` for `maglev`, each an element that a change may write.
pub const NFTABLES_HASH: u64 = 2_039;

/// Largest relative error of a share of the places in a table of [`NFTABLES_HASH`], up to [`NFTABLES_HASH_ENDPOINTS`]
/// equal endpoints: a place more or less than 2,039 / 20.
pub const NFTABLES_HASH_ERROR: f64 = 0.01;

/// Number of equal endpoints up to which [`NFTABLES_HASH_ERROR`] holds.
pub const NFTABLES_HASH_ENDPOINTS: usize = 20;

/// Endpoints up to which `leastconn` of `ebpf` compares all; of more, it compares so many in a row.
pub const EBPF_LEASTCONN: usize = 256;

/// Places of a round of `ebpf`, at least: `round_robin` there takes turns by a table of so many, or 16 for each
/// endpoint if that is more. Shares are exact if the weights, divided by their greatest common divisor, add up to no
/// more.
pub const EBPF_ROUND: u64 = 4_096;

/// Largest error of a share in a round of [`EBPF_ROUND`] that had to be scaled, for each endpoint of the pool: a place
/// is a little less. The heaviest endpoint bears most of it, as each of the others has a place at least.
pub const EBPF_ROUND_ERROR: f64 = 0.0003;

/// Steps of a weight of `round_robin` by `ipvs`, from 0 to the weight of the heaviest endpoint.
pub const IPVS_ROUND: u32 = 100;

/// Places of the table of `ipvs` for `maglev`, as kernels are built by default.
pub const IPVS_HASH: u64 = 4_093;

/// Part of an open connection that `ipvs` counts for a closed connection until the kernel forgets it, some minutes
/// later.
pub const IPVS_CLOSED: f64 = 1.0 / 256.0;

/// Algorithm, perhaps with a restriction of its parameters, and the parts that each kind keeps.
#[derive(Debug)]
pub struct Row {
    pub algorithm: &'static str,
    /// Parameters that the row is for, as `draws = 1`; `None` for all.
    pub with: Option<&'static str>,
    fits: fn(&Params) -> bool,
    /// Fidelity of each kind, in the order of [`Forwarding::ALL`](super::Forwarding::ALL).
    pub keeps: [Fidelity; 6],
}

const ANSWERS: Fidelity = Approximated("resolvers keep an answer, and one answer may serve many clients");
const NO_ENDS: Fidelity = Refused("an answer does not show when clients are done");
const NO_LOADS: Fidelity = Refused("rules cannot compare open connections");
const NO_LATENCY: Fidelity = Refused("the kernel forwards packets and does not measure latency");
const NO_PROBES: Fidelity = Refused("probes accompany HTTP requests");
const NO_ORDER: Fidelity = Refused("the kernel has no limit at which the next endpoint would take over");

/// Rows in the order of pages. The first row that fits a configured algorithm counts.
pub static ROWS: &[Row] = &[
    Row {
        algorithm: "random",
        with: Some("draws = 1"),
        fits: |params| params.int("draws") == 1,
        keeps: [Exact, Exact, Exact, Exact, Refused("IPVS always draws two endpoints"), ANSWERS],
    },
    Row {
        algorithm: "random",
        with: Some("draws = 2"),
        fits: |params| params.int("draws") == 2,
        keeps: [
            Exact,
            Exact,
            Exact,
            NO_LOADS,
            Approximated(
                "both draws may be the same endpoint; a closed connection counts 1/256 until the kernel forgets it",
            ),
            ANSWERS,
        ],
    },
    Row {
        algorithm: "random",
        with: Some("draws = 3 and more"),
        fits: |_| true,
        keeps: [Exact, Exact, Exact, NO_LOADS, Refused("IPVS always draws two endpoints"), ANSWERS],
    },
    Row {
        algorithm: "leastconn",
        with: None,
        fits: |_| true,
        keeps: [
            Exact,
            Exact,
            Approximated("exact up to 256 endpoints; with more, the least loaded of 256 in a row from a random start"),
            NO_LOADS,
            Approximated("a closed connection counts 1/256 until the kernel forgets it"),
            NO_ENDS,
        ],
    },
    Row {
        algorithm: "round_robin",
        with: None,
        fits: |_| true,
        keeps: [
            Exact,
            Exact,
            Approximated(
                "turns follow a table of 4,096 places or more: if the sum of the weights is larger, a share may differ \
                 by 0.03 points for each endpoint",
            ),
            Approximated(
                "turns follow a table of 1,024 places: if the sum of the weights is larger, a share may differ by 0.1 \
                 points for each endpoint",
            ),
            Approximated(
                "weights are rounded to hundredths of the largest, and heavier endpoints come first in a round",
            ),
            ANSWERS,
        ],
    },
    Row {
        algorithm: "maglev",
        with: None,
        fits: |_| true,
        keeps: [
            Exact,
            Exact,
            Approximated("the same table by another hash; without \"bound\""),
            Approximated(
                "a table of 2,039 places by another hash, shares within 1 % up to 20 endpoints; without \"bound\"",
            ),
            Approximated("the kernel's own hash and table of 4,093 places; without \"bound\""),
            ANSWERS,
        ],
    },
    Row {
        algorithm: "peak_ewma",
        with: None,
        fits: |_| true,
        keeps: [
            Exact,
            Approximated("the latency is the time to connect, or to the first datagram back"),
            NO_LATENCY,
            NO_LATENCY,
            NO_LATENCY,
            NO_ENDS,
        ],
    },
    Row {
        algorithm: "prequal",
        with: None,
        fits: |_| true,
        keeps: [
            Exact,
            Approximated("probes accompany HTTP requests, so only its own counts are compared"),
            NO_PROBES,
            NO_PROBES,
            NO_PROBES,
            NO_ENDS,
        ],
    },
    Row {
        algorithm: "first",
        with: None,
        fits: |_| true,
        keeps: [
            Exact,
            Exact,
            NO_ORDER,
            NO_ORDER,
            NO_ORDER,
            Approximated("nothing is counted, so the first endpoint that is up gets all clients"),
        ],
    },
];

/// Row of a configured algorithm; `None` for an algorithm without a row.
pub(super) fn row(balance: &Balance) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.algorithm == balance.algorithm.name && (row.fits)(&balance.params))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planes::Forwarding;
    use evenkeel_balance::algorithms;

    #[test]
    fn every_algorithm_has_rows_and_every_row_an_algorithm() {
        for algorithm in algorithms::ALL {
            assert!(row(&Balance::of(algorithm)).is_some(), "{} has no row", algorithm.name);
            let last = ROWS.iter().rfind(|row| row.algorithm == algorithm.name).expect("it has a row");
            assert!((last.fits)(&Params::defaults(algorithm.params)), "{}: parameters without a row", algorithm.name);
        }
        for row in ROWS {
            assert!(algorithms::ALL.iter().any(|algorithm| algorithm.name == row.algorithm), "{}", row.algorithm);
        }
    }

    #[test]
    fn the_proxy_keeps_everything_and_dns_what_needs_no_ends() {
        for algorithm in algorithms::ALL {
            let keeps = |kind: Forwarding| kind.keeps(&Balance::of(algorithm));
            assert_eq!(keeps(Forwarding::Requests), Exact);
            assert!(!matches!(keeps(Forwarding::Sessions), Refused(_)), "{}", algorithm.name);
            assert_eq!(matches!(keeps(Forwarding::Dns), Refused(_)), algorithm.needs.ends, "{}", algorithm.name);
            let measures = algorithm.needs.latency || algorithm.needs.probes;
            for kind in [Forwarding::Ebpf, Forwarding::Nftables, Forwarding::Ipvs] {
                assert!(!measures || matches!(keeps(kind), Refused(_)), "{} by {}", algorithm.name, kind.name());
            }
        }
    }

    #[test]
    fn texts_name_the_figures_of_the_constants() {
        let says = |algorithm: &str, kind: Forwarding, figure: &str| {
            let rows = ROWS.iter().filter(|row| row.algorithm == algorithm);
            let texts: Vec<&str> = rows.filter_map(|row| row.keeps[kind as usize].why()).collect();
            assert!(texts.iter().any(|text| text.contains(figure)), "{algorithm} by {}: no {figure}", kind.name());
        };
        let grouped = |n: u64| format!("{},{:03}", n / 1000, n % 1000);
        says("round_robin", Forwarding::Nftables, &grouped(NFTABLES_ROUND));
        says("round_robin", Forwarding::Nftables, &format!("{:.1} points", NFTABLES_ROUND_ERROR * 100.0));
        says("maglev", Forwarding::Nftables, &grouped(NFTABLES_HASH));
        says("maglev", Forwarding::Nftables, &format!("{} %", NFTABLES_HASH_ERROR * 100.0));
        says("maglev", Forwarding::Nftables, &format!("{NFTABLES_HASH_ENDPOINTS} endpoints"));
        says("round_robin", Forwarding::Ebpf, &grouped(EBPF_ROUND));
        says("round_robin", Forwarding::Ebpf, &format!("{:.2} points", EBPF_ROUND_ERROR * 100.0));
        says("leastconn", Forwarding::Ebpf, &format!("{EBPF_LEASTCONN} endpoints"));
        says("maglev", Forwarding::Ipvs, &grouped(IPVS_HASH));
        says("leastconn", Forwarding::Ipvs, &format!("1/{}", 1.0 / IPVS_CLOSED));
        says("random", Forwarding::Ipvs, &format!("1/{}", 1.0 / IPVS_CLOSED));
        assert_eq!(IPVS_ROUND, 100);
        says("round_robin", Forwarding::Ipvs, "hundredths");
    }
}
