//! The registry of balancing algorithms, a row for each. Config names, help, reference docs, contract tests, benches
//! and the simulator are driven by it. A new algorithm is its file, a `mod` line and a row.

// Order: first, leastconn, maglev, peak_ewma, prequal, random, round_robin
pub mod first;
pub mod leastconn;
pub mod maglev;
pub mod peak_ewma;
pub mod prequal;
pub mod random;
pub mod round_robin;

use crate::seam::picker::Algorithm;

/// Every algorithm, in the order of the docs. The first is the default.
pub static ALL: &[&Algorithm] = &[
    &random::ALGORITHM,
    &leastconn::ALGORITHM,
    &round_robin::ALGORITHM,
    &peak_ewma::ALGORITHM,
    &prequal::ALGORITHM,
    &maglev::ALGORITHM,
    &first::ALGORITHM,
];

/// Finds an algorithm by its name or an alias.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALL.iter().find(|a| a.name == name || a.aliases.contains(&name)).copied()
}

/// The algorithm of a pool that names none, `random`: of two drawn endpoints, the less loaded gets the request.
///
/// The two draws are distinct. A draw with replacement compares an endpoint with itself once in n draws, and so gives
/// the worst of n endpoints 1/n^2 of the traffic however slow it is (round robin gives it 1/n, distinct draws none).
pub fn default() -> &'static Algorithm {
    ALL[0]
}
