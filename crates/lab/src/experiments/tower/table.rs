//! Published results of tower: three tables of three demonstrations, each with its own endpoints (tower's change #76, 2018).

/// Quantiles of the columns, 0 to 1.
pub const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Names of the rows, as published.
pub const ROWS: [&str; 3] = ["Peak EWMA", "least loaded", "round robin"];

/// Demonstration and its results.
pub struct Table {
    pub name: &'static str,
    /// Name of the simulator's built-in scenario.
    pub simulated: &'static str,
    /// Lower bound of latencies in milliseconds (inclusive); each is a whole number.
    pub from_ms: u64,
    /// Upper bounds of latencies in milliseconds (exclusive), by endpoint.
    pub below_ms: &'static [u64],
    /// Number of concurrent requests.
    pub at_once: usize,
    /// Requests of a run here; the demonstrations sent 50,000 and a million.
    pub requests: usize,
    /// Published latencies in milliseconds, by row and quantile.
    pub published: [[f64; 5]; 3],
    /// True if two cores can carry it over sockets.
    pub over_sockets: bool,
}

/// All three demonstrations.
pub static ALL: [Table; 3] = [
    Table {
        name: "first",
        simulated: "tower-a",
        from_ms: 0,
        below_ms: &[1, 10, 10, 10, 10, 100, 100, 100, 100, 1000],
        at_once: 50,
        requests: 10_000,
        published: [[5.0, 56.0, 78.0, 96.0, 105.0], [5.0, 57.0, 80.0, 98.0, 857.0], [9.0, 98.0, 496.0, 906.0, 988.0]],
        over_sockets: true,
    },
    Table {
        name: "second",
        simulated: "tower-b",
        from_ms: 100,
        below_ms: &[500, 500, 500, 500, 500, 500, 500, 500, 2000],
        at_once: 10_000,
        requests: 100_000,
        published: [
            [302.0, 463.0, 483.0, 499.0, 1811.0],
            [305.0, 470.0, 491.0, 1457.0, 1946.0],
            [319.0, 495.0, 1142.0, 1829.0, 1983.0],
        ],
        over_sockets: false,
    },
    Table {
        name: "third",
        simulated: "tower-c",
        from_ms: 10,
        below_ms: &[50, 50, 50, 50, 50, 50, 50, 50, 50, 2000],
        at_once: 1000,
        requests: 100_000,
        published: [
            [30.0, 46.0, 48.0, 51.0, 74.0],
            [30.0, 46.0, 48.0, 50.0, 1436.0],
            [32.0, 50.0, 1004.0, 1802.0, 1980.0],
        ],
        over_sockets: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::Load;
    use evenkeel_sim::work::Work;

    #[test]
    fn the_scenarios_of_the_simulator_are_the_same_demonstrations() {
        for table in &ALL {
            let points = read(evenkeel_sim::builtin::find(table.simulated).expect("it is built in").text);
            let scenario = &points[0].scenario;
            assert!(matches!(scenario.load, Load::Closed { users, .. } if users as usize == table.at_once));
            let servers = &scenario.services[0].servers;
            let uniform = |server: &evenkeel_sim::scenario::Server| match server.work {
                Some(Work::Uniform { min, max, step_ns: 1_000_000, .. }) => (min, max + 1),
                other => panic!("{other:?}"),
            };
            let expected = table.below_ms.iter().map(|&below| (table.from_ms.min(below - 1), below));
            assert!(servers.iter().map(uniform).eq(expected), "{}", table.name);
        }
    }
}
