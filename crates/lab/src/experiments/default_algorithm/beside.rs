//! What does the simulator say should come through? Each algorithm as that balancer has it.

use super::{Arm, Outcome, SHARES};
use crate::study::balancers::Algorithm;
use crate::study::comparison::{Case, Figure, RATE};
use crate::study::{Comparison, Prediction};

/// Of what came through without a slow link.
const THROUGH: Figure = Figure { name: "requests a second, of those without a slow link", ..RATE };
/// The point of the scenario in which no link is slow.
const WHOLE: &str = "no slow link";
/// What is off when it is off.
const TCP: &str = "The simulator's links lose nothing. On the slow one TCP sends again what waited too long, or was dropped from a full queue, \
which takes of the little that the link carries.";
/// The same of HAProxy's random.
const RING: &str = "HAProxy draws servers from the ring of its consistent hashing, on which the slow one may have more than its quarter; the \
simulator draws all alike. Both draws are of one server as often as the square of its part.";

/// What the simulator calls it: HAProxy and Envoy may draw the same server twice, Envoy's random draws one and its leastconn as many as
/// there are servers.
fn simulated(arm: &Arm) -> &'static str {
    match arm.algorithm {
        Algorithm::RoundRobin => "round_robin",
        Algorithm::LeastConn if arm.balancer.is("envoy") => "draws-with-replacement(4)",
        Algorithm::LeastConn => "leastconn{samples=0.0}",
        _ if arm.balancer.is("envoy") => "random{draws=1}",
        _ if arm.balancer.is("haproxy") => "draws-with-replacement(2)",
        _ => "random",
    }
}

impl Outcome<'_> {
    /// What the simulator said beside what was measured.
    pub fn beside(&self, prediction: &Prediction) -> Comparison {
        let cases =
            (0..SHARES.len()).flat_map(|share| self.arms.iter().enumerate().map(move |(at, arm)| (share, at, arm)));
        let line = |(share, at, arm): (usize, usize, &Arm)| {
            let (point, (runs, base)) = (format!("{:.1} %", SHARES[share] * 100.0), self.runs(at, share));
            let (group, of) = (format!("The slow link takes {point}"), (point.as_str(), simulated(arm)));
            let is_drawn = arm.balancer.is("haproxy") && arm.algorithm == Algorithm::Random;
            let why = if is_drawn { RING } else { TCP };
            let case = Case { group: &group, name: &arm.name, simulated: of, colour: arm.algorithm as usize, why };
            let measured = runs.iter().zip(base).map(|(run, base)| run / base).collect();
            case.line(THROUGH, prediction.ratio(of, (WHOLE, of.1), THROUGH.metric), measured)
        };
        cases.map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CLIENT_RATE, CONNECTIONS, SCENARIO, SERVERS};
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::Load;

    #[test]
    fn the_scenario_is_the_same_system() {
        let points = read(SCENARIO);
        assert_eq!((points.len(), points[0].label.as_str()), (1 + SHARES.len(), WHOLE));
        for (at, point) in points.iter().enumerate() {
            let [clients, web] = &point.scenario.services[..] else { panic!("two services") };
            assert!(matches!(point.scenario.load, Load::Closed { users, .. } if users == CONNECTIONS));
            assert_eq!((clients.servers[0].bandwidth, web.servers.len()), (CLIENT_RATE, SERVERS));
            let slow: Vec<f64> = web.servers.iter().map(|server| server.bandwidth).filter(|rate| *rate > 0.0).collect();
            match at.checked_sub(1) {
                None => assert!(slow.is_empty()),
                Some(share) => {
                    assert_eq!(point.label, format!("{:.1} %", SHARES[share] * 100.0));
                    assert_eq!(slow, [SHARES[share] * CLIENT_RATE]);
                }
            }
        }
    }
}
