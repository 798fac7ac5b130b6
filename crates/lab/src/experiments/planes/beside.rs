//! Throughput that the simulator predicts from the cost per request in the first round, beside the
//! rates of the later rounds. It cannot predict the cost itself.

use super::measure::{CONNECTIONS, Run};
use crate::error::Result;
use crate::study::comparison::{Case, RATE};
use crate::study::prediction::{time, with};
use crate::study::{Comparison, Prediction};

/// Scenario of the same system, without the costs.
const SCENARIO: &str = include_str!("../../../scenarios/planes.toml");
/// Groups of processes that do not run on the balancer's core.
const OTHERS: [&str; 3] = ["endpoints", "load", "lab"];
/// Number of simulated requests, enough for a rate, as all work is constant.
const REQUESTS: u64 = 200 * CONNECTIONS as u64;
/// Explanation of a deviation.
const WHY: &str = "No core of the simulator is ever idle under this load. Here a core waits while connections are opened and closed, and while \
the other one has not yet sent what it works on, and other programs and the kernel use it, too: the rate is below what the processor time of \
its processes would allow.";

/// Runs of a way of balancing.
pub struct Row<'r> {
    pub group: &'static str,
    pub name: &'static str,
    pub runs: Vec<&'r Run>,
}

/// Compares all rows. `others`: number of cores besides the balancer's.
///
/// # Errors
/// The simulator cannot run.
pub fn beside(rows: &[Row], evenkeel: &str, others: usize) -> Result<Comparison> {
    let line = |row: &Row| {
        let Some((first, further)) = row.runs.split_first() else { return Ok(None) };
        let balancer = first.us(Some("balancer")) / 1e6;
        let scenario = with(SCENARIO, "service.balancer", "work", &time(balancer));
        let beside: f64 = OTHERS.iter().map(|group| first.us(Some(group))).sum();
        let scenario = with(&scenario, "service.others", "work", &time(beside / 1e6));
        let scenario = with(&scenario, "service.others", "server", &format!("[{{ fifo = {others} }}]"));
        let prediction = Prediction::of(evenkeel, &scenario, REQUESTS, 1)?;
        let colour = usize::from(!row.name.starts_with("evenkeel"));
        let case = Case { group: row.group, name: row.name, simulated: ("", "random"), colour, why: WHY };
        let rates = further.iter().map(|run| run.rate).collect();
        Ok(Some(case.figure(RATE, &prediction, rates)))
    };
    let lines = rows.iter().map(line).collect::<Result<Vec<_>>>()?;
    Ok(lines.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::{Load, Serving};

    #[test]
    fn the_scenario_has_as_many_clients_and_one_core_for_the_balancer() {
        let points = read(&with(SCENARIO, "service.others", "server", "[{ fifo = 3 }]"));
        let scenario = &points[0].scenario;
        assert!(matches!(scenario.load, Load::Closed { users, .. } if users == CONNECTIONS));
        let cores: Vec<Serving> = scenario.services.iter().map(|service| service.servers[0].serving).collect();
        assert_eq!(cores, [Serving::Fifo { cores: 1 }, Serving::Fifo { cores: 3 }]);
    }
}
