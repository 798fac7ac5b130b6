//! Worlds: systems that the log may come from. Each has models of the endpoints that reproduce the log, with samples
//! drawn anew, and the arrivals in another order of blocks. All policies run in the same worlds.

use crate::model::{Likely, Model};
use crate::question::{Conditions, Question};
use crate::traffic::Traffic;
use evenkeel_balance::{EndpointSpec, Rng, hedge};
use evenkeel_sim::replay::fit::order;
use evenkeel_sim::replay::ranks::ranks;
use evenkeel_sim::replay::{Clients, Course, Hedging, Joining, Played, System, Trace, Way, play};
use std::collections::BTreeMap;

/// Blocks of consecutive arrivals that are drawn anew.
const BLOCKS: usize = 24;

/// Requests of a world; more would only make runs longer.
const REQUESTS_MAX: usize = 24_000;

/// A system and its arrivals.
pub struct World {
    /// Index of its system in the model.
    pub system: usize,
    trace: Trace,
    ways: Vec<Way>,
    clients: Clients,
    ranks: Option<Vec<f32>>,
    retries: u32,
    answers_probes: bool,
    /// True if a request takes its work along to another endpoint. A log has each request once, so that half of the worlds
    /// of each system are so.
    is_of_demand: bool,
    /// Warm-up of an endpoint that joins, see [`Joining::cold`].
    pub cold: Vec<(u64, f64)>,
    seed: u64,
}

/// Makes `count` worlds, in turn of the systems of a model.
pub fn worlds(model: &Model, traffic: &Traffic, retries: u32, count: usize, seed: u64) -> Vec<World> {
    let trace = latest(&traffic.trace);
    let world =
        |number| World { answers_probes: traffic.answers_probes, ..world(model, &trace, retries, number, seed) };
    (0..count).map(world).collect()
}

/// Part of a trace that worlds are made of.
pub(crate) fn latest(trace: &Trace) -> Trace {
    trace.part(1.0 - (REQUESTS_MAX as f64 / trace.arrivals.len().max(1) as f64).min(1.0), 1.0)
}

fn world(model: &Model, trace: &Trace, retries: u32, number: usize, seed: u64) -> World {
    let system = number % model.systems.len();
    let is_of_demand = (number / model.systems.len()).is_multiple_of(2);
    let Likely { ways, clients, .. } = &model.systems[system];
    let mut rng = Rng::new(evenkeel_balance::rng::mix(seed ^ (number as u64 + 1) << 20));
    // Ranks belong to the part of the log that is used, under models that are fitted to it.
    let of_ranks = || ways.iter().enumerate().map(|(at, way)| way.refit(trace, at)).collect::<Option<Vec<Way>>>();
    let ranked = model.has_memory.then(of_ranks).flatten().map(|fitted| ranks(trace, &fitted, seed));
    let drawn = if *clients == Clients::Thinking { of_clients } else { blocks };
    let (trace, ranks) = drawn(trace, ranked.as_deref(), &mut rng);
    let ways = match ranks {
        // The blocks bring other work already.
        Some(_) => ways.clone(),
        None => ways.iter().map(|way| resampled(way, &mut rng)).collect(),
    };
    World {
        system,
        trace,
        ways,
        clients: *clients,
        ranks,
        retries,
        answers_probes: false,
        is_of_demand,
        cold: Vec::new(),
        seed: rng.next_u64(),
    }
}

/// Model with as many samples, drawn from its own with repetition.
fn resampled(way: &Way, rng: &mut Rng) -> Way {
    let mut samples: Vec<_> =
        way.samples.iter().map(|_| way.samples[rng.below_u64(way.samples.len() as u64) as usize]).collect();
    samples.sort_by_key(|sample| sample.at);
    Way { order: order(&samples), samples, ..way.clone() }
}

/// Trace of blocks of consecutive requests, drawn with repetition; the ranks follow their requests.
fn blocks(trace: &Trace, ranks: Option<&[f32]>, rng: &mut Rng) -> (Trace, Option<Vec<f32>>) {
    let count = trace.arrivals.len();
    let length = count.div_ceil(BLOCKS).max(1);
    let mean_gap = trace.span_ns / count.max(1) as u64;
    let (mut arrivals, mut moved) = (Vec::with_capacity(count), ranks.map(|_| Vec::with_capacity(count)));
    let mut at = 0;
    while arrivals.len() < count {
        let first = rng.below_u64((count - length + 1) as u64) as usize;
        let before = trace.arrivals[first].at;
        for index in first..(first + length).min(first + count - arrivals.len()) {
            let arrival = trace.arrivals[index];
            arrivals.push(evenkeel_sim::replay::Arrival { at: at + arrival.at - before, ..arrival });
            if let (Some(moved), Some(ranks)) = (&mut moved, ranks) {
                moved.push(ranks[index]);
            }
        }
        at = arrivals.last().map_or(0, |last: &evenkeel_sim::replay::Arrival| last.at) + mean_gap;
    }
    let span_ns = arrivals.last().map_or(0, |last| last.at);
    (Trace { arrivals, members: trace.members.clone(), span_ns, ..*trace }, moved)
}

/// Trace of clients, drawn with repetition, each with all its requests; the ranks follow their requests.
fn of_clients(trace: &Trace, ranks: Option<&[f32]>, rng: &mut Rng) -> (Trace, Option<Vec<f32>>) {
    let mut by_client: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, arrival) in trace.arrivals.iter().enumerate() {
        by_client.entry(arrival.key.unwrap_or_default()).or_default().push(index);
    }
    let clients: Vec<Vec<usize>> = by_client.into_values().collect();
    let draw = |number: usize| (number as u64, &clients[rng.below_u64(clients.len() as u64) as usize]);
    let drawn: Vec<(u64, &Vec<usize>)> = (0..clients.len()).map(draw).collect();
    let of_client =
        |(key, indices): (u64, &Vec<usize>)| indices.iter().map(move |index| (*index, key)).collect::<Vec<_>>();
    let mut all: Vec<(usize, u64)> = drawn.into_iter().flat_map(of_client).collect();
    all.sort_unstable();
    let arrival =
        |(index, key): &(usize, u64)| evenkeel_sim::replay::Arrival { key: Some(*key), ..trace.arrivals[*index] };
    let arrivals: Vec<_> = all.iter().map(arrival).collect();
    let moved = ranks.map(|ranks| all.iter().map(|(index, _)| ranks[*index]).collect());
    let span_ns = arrivals.last().map_or(0, |last| last.at);
    (Trace { arrivals, members: trace.members.clone(), span_ns, ..*trace }, moved)
}

impl World {
    /// Answers a question in the world.
    pub fn play(&self, question: &Question) -> Played {
        let Question { policy, conditions, bound, .. } = question;
        let (members, ways) = self.endpoints(conditions);
        let system = System {
            trace: &self.trace,
            members: &members,
            ways: ways.iter().collect(),
            clients: match self.clients {
                Clients::Closed(users) => Clients::Closed((f64::from(users) * conditions.load).round().max(1.0) as u32),
                other => other,
            },
            answers_probes: self.answers_probes,
            ranks: self.ranks.as_deref(),
        };
        play(
            &system,
            Course {
                pace: conditions.load,
                retries: question.retries(self.retries),
                balancers: conditions.balancers,
                bound: *bound,
                queue: if conditions.queue.is_some() { u32::MAX } else { 0 },
                hedging: conditions.hedge.map(|percentile| Hedging {
                    settings: hedge::Settings { percentile, ..hedge::Settings::default() },
                    is_of_demand: self.is_of_demand,
                }),
                joining: conditions.join.map(|join| Joining {
                    members: conditions.added as usize,
                    slow_start: join.is_slow.then_some(join.ramp),
                    window_ns: join.ramp.window_ns,
                    cold: &self.cold,
                }),
                ..Course::new(policy.algorithm, &policy.params, self.seed)
            },
        )
    }

    fn endpoints(&self, conditions: &Conditions) -> (Vec<EndpointSpec>, Vec<Way>) {
        let (mut members, mut ways) = (self.trace.members.clone(), self.ways.clone());
        for &(at, factor) in &conditions.slowed {
            ways[at].samples.iter_mut().for_each(|sample| sample.work_ns *= factor);
        }
        let mut by_capacity: Vec<usize> = (0..ways.len()).collect();
        by_capacity.sort_by(|&a, &b| ways[a].capacity.total_cmp(&ways[b].capacity));
        let median = by_capacity[by_capacity.len() / 2];
        let (like, way) = (members[median].clone(), ways[median].clone());
        for number in 0..conditions.added {
            let id = evenkeel_balance::EndpointId::of(&format!("added {number}"));
            members.push(EndpointSpec { id, ..like.clone() });
            ways.push(way.clone());
        }
        if let Some(most) = conditions.queue {
            members.iter_mut().for_each(|member| member.in_flight_max = most);
        }
        let mut removed = conditions.removed.clone();
        removed.sort_unstable();
        for at in removed.into_iter().rev() {
            members.remove(at);
            ways.remove(at);
        }
        (members, ways)
    }
}
