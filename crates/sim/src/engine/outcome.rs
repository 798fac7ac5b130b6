//! Conversion of a world's final state to a [`Run`].

use super::arrivals;
use super::world::World;
use crate::run::{Run, ServerRun, ServiceRun};
use crate::scenario::{self, Capacity, Deployment, Scenario, Serving, Step};

impl World<'_> {
    pub fn outcome(mut self) -> Run {
        let now = self.now;
        let open_ns = self.jobs.open_of_clients().map(|began| u128::from(now - began)).sum();
        let little = self.tally.little(now, open_ns);
        let offered = offered(self.scenario);
        let steady = offered < 1.0 && (offered == 0.0 || self.tally.settled(self.servers.len()));
        let mut servers = self.servers.iter();
        let mut services = Vec::new();
        for (group, spec) in self.groups.into_iter().zip(&self.scenario.services) {
            let server = |s: &scenario::Server| {
                let server = servers.next().expect("each service has its servers");
                let (requests, in_flight_max) = (server.requests, server.in_flight_max);
                ServerRun { name: s.name.clone(), requests, in_flight_max, capacity: capacity(s) }
            };
            services.push(ServiceRun {
                name: spec.name.clone(),
                servers: spec.servers.iter().map(server).collect(),
                requests: group.requests,
                probes: group.probes,
                retries: group.retries,
                series: group.recorder.series,
            });
        }
        let tally = self.tally;
        Run {
            latency_sum_ns: tally.latency_sum_ns,
            failed: tally.failed,
            span_ns: tally.last_end.saturating_sub(tally.measured_from.unwrap_or(0)),
            wall_ns: tally.last_end,
            services,
            in_system_max: tally.in_system_max,
            little,
            offered,
            steady,
            events: self.events,
            latency: tally.latency,
        }
    }
}

/// Mean capacity of a server, in seconds of work per second; 0 if unlimited.
fn capacity(server: &scenario::Server) -> f64 {
    let cores = match server.serving {
        Serving::Unlimited => return 0.0,
        Serving::Fifo { cores } => f64::from(cores),
        Serving::Sharing { cores } => cores,
    };
    let factor = |c: &Capacity| match c {
        Capacity::Antagonist { states, .. } => states.iter().map(|(factor, p)| factor * p).sum(),
        // Requests that fill all its places get the most beside a neighbour.
        Capacity::Neighbour { threads, busy_ns, idle_ns } => {
            let (places, busy) = (f64::from(server.threads), *busy_ns as f64 / (busy_ns + idle_ns).max(1) as f64);
            let beside = if server.threads == 0 { 1.0 } else { places / (places + f64::from(*threads)) };
            busy * beside + (1.0 - busy)
        }
        Capacity::Stalls { every, length, speed } => {
            let (well, ill) = (every.mean_ns(), length.mean_ns());
            (well + ill * speed) / (well + ill)
        }
    };
    cores * server.capacity.iter().map(factor).product::<f64>()
}

/// Returns the mean number of requests to each service that a client request causes.
fn visits(scenario: &Scenario) -> Vec<f64> {
    let mut visits = vec![0.0; scenario.services.len()];
    let mut open = vec![0usize];
    // Call graphs are small and acyclic: the reader of scenario files rejects cycles.
    while let Some(at) = open.pop() {
        visits[at] += 1.0;
        open.extend(
            scenario.services[at].steps.iter().filter_map(|s| if let Step::Call(i) = s { Some(*i) } else { None }),
        );
    }
    visits
}

/// Offered work as a share of capacity: of servers, or of the balancers on separate machines, whichever is
/// higher. 0 for closed loops, and where no capacity is limited.
pub fn offered(scenario: &Scenario) -> f64 {
    let Some(rate) = arrivals::rate(&scenario.load) else { return 0.0 };
    let of = |(service, visits): (&scenario::Service, f64)| match (&service.balancing.hop, service.balancing.deployment)
    {
        (Some(hop), Deployment::Central { balancers }) => {
            rate * visits * hop.work_ns as f64 / 1e9 / (capacity(&hop.processors) * f64::from(balancers))
        }
        _ => 0.0,
    };
    scenario.services.iter().zip(visits(scenario)).map(of).fold(offered_to_servers(scenario), f64::max)
}

/// Offered work as a share of capacity, at the busiest service or over the shared machines, whichever is higher. 0 for
/// closed loops, and where no capacity is limited.
pub fn offered_to_servers(scenario: &Scenario) -> f64 {
    let Some(rate) = arrivals::rate(&scenario.load) else { return 0.0 };
    let of = |(service, visits): (&scenario::Service, f64)| {
        let works = service.steps.iter().filter(|s| **s == Step::Work).count() as f64;
        // Requests per second that a server can do, with its own work if any.
        let can = |s: &scenario::Server| capacity(s) / (s.work.unwrap_or(service.work).mean_ns() / 1e9 * works);
        let all: f64 = service.servers.iter().map(can).sum();
        let bounded = service.servers.iter().all(|s| s.serving != Serving::Unlimited);
        if bounded && all > 0.0 { rate * visits / all } else { 0.0 }
    };
    let visits = visits(scenario);
    let by_service = scenario.services.iter().zip(visits.iter().copied()).map(of).fold(0.0, f64::max);
    // Machines are shared by all services: total work on them over total cores, if requests are spread evenly.
    let cores: f64 = scenario.machines.iter().sum();
    let asked = |(service, visits): (&scenario::Service, &f64)| {
        let works = service.steps.iter().filter(|s| **s == Step::Work).count() as f64;
        let on_machines = service.servers.iter().filter(|s| s.machine.is_some()).count() as f64;
        rate * visits * works * service.work.mean_ns() / 1e9 * on_machines / service.servers.len() as f64
    };
    let all: f64 = scenario.services.iter().zip(&visits).map(asked).sum();
    if cores > 0.0 { by_service.max(all / cores) } else { by_service }
}
