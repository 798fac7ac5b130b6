//! Predictions of the simulator, with each algorithm as the balancer implements it.

use crate::balancers::Algorithm;
use crate::study::comparison::{Case, Figure, RATE};
use crate::study::{Comparison, Prediction};

/// Throughput relative to that without a slow link.
const THROUGH: Figure = Figure { name: "requests a second, of those without a slow link", ..RATE };
/// Point of the scenario without a slow link.
const WHOLE: &str = "no slow link";
/// Explanation of a deviation.
const TCP: &str = "The simulator's links lose nothing. On the slow one TCP sends again what waited too long, or was dropped from a full queue, \
which takes of the little that the link carries.";
/// Explanation of a deviation of HAProxy's random.
const RING: &str = "HAProxy draws servers from the ring of its consistent hashing, on which the slow one may have more than its quarter; the \
simulator draws all alike. Both draws are of one server as often as the square of its part.";

/// Name of the policy in the scenario. HAProxy and Envoy may draw the same server twice; Envoy's random draws once, and
/// its leastconn as many times as there are servers.
fn simulated(row: &Row) -> &'static str {
    match (row.algorithm, row.balancer) {
        (Algorithm::RoundRobin, _) => "round_robin",
        (Algorithm::LeastConn, "envoy") => "draws-with-replacement(4)",
        (Algorithm::LeastConn, _) => "leastconn{samples=0.0}",
        (_, "envoy") => "random{draws=1}",
        (_, "haproxy") => "draws-with-replacement(2)",
        _ => "random",
    }
}

/// Measurement of a balancer with an algorithm.
pub struct Row<'r> {
    pub name: &'r str,
    /// Name of the balancer alone.
    pub balancer: &'static str,
    pub algorithm: Algorithm,
    /// Share of the whole rate that the slow link can carry.
    pub share: f64,
    /// Throughput relative to that without a slow link, by round.
    pub through: Vec<f64>,
}

/// Compares the predictions with the measurements.
pub fn beside(rows: &[Row], prediction: &Prediction) -> Comparison {
    let line = |row: &Row| {
        let point = format!("{:.1} %", row.share * 100.0);
        let (group, of) = (format!("The slow link takes {point}"), (point.as_str(), simulated(row)));
        let is_drawn = (row.balancer, row.algorithm) == ("haproxy", Algorithm::Random);
        let why = if is_drawn { RING } else { TCP };
        let case = Case { group: &group, name: row.name, simulated: of, colour: row.algorithm as usize, why };
        case.line(THROUGH, prediction.ratio(of, (WHOLE, of.1), THROUGH.metric), row.through.clone())
    };
    rows.iter().map(line).collect()
}
