//! Traffic of a pool: its requests in order of their starts, at its endpoints.

use crate::doubt::Doubt;
use crate::record::{Record, Row};
use evenkeel_balance::EndpointSpec;
use evenkeel_balance::rng::mix;
use evenkeel_sim::replay::trace::Kind;
use evenkeel_sim::replay::{Seen, Trace};

/// Latest tries that models are fitted to and replayed with.
const TRIES_MAX: usize = 100_000;

/// Endpoint of a pool as its configuration has it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Names under which logs may have it: its address, and its name if it has another.
    pub names: Vec<String>,
    pub weight: u32,
    /// Most requests in flight at once; 0 for no limit.
    pub in_flight_max: u32,
}

/// Requests of a pool, as lines and as a trace of the latest.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Name of the pool; empty if the log has none.
    pub pool: String,
    /// Names of the endpoints, by member of the trace.
    pub names: Vec<String>,
    /// Requests in the order of the lines.
    pub rows: Vec<Row>,
    pub trace: Trace,
    /// True if endpoints answer probes of their load.
    pub answers_probes: bool,
    /// Unit of the times, in nanoseconds.
    pub unit_ns: u32,
}

impl Traffic {
    /// Traffic of a pool by its index in the record. `members` of its configuration, if there is one. `workers`: number
    /// of workers that pick, each for a random part of the requests.
    ///
    /// # Errors
    /// Doubts if the log and the configuration have different endpoints.
    pub fn of(record: &Record, pool: usize, members: Option<&[Member]>, workers: u32) -> Result<Traffic, Vec<Doubt>> {
        let rows: Vec<Row> = record.rows.iter().filter(|row| row.pool as usize == pool).cloned().collect();
        let mut used = vec![false; record.endpoints.len()];
        rows.iter().flat_map(Row::tries).for_each(|of| used[of.endpoint as usize] = true);
        let mut order: Vec<usize> = (0..used.len()).filter(|&at| used[at]).collect();
        order.sort_by(|&a, &b| record.endpoints[a].cmp(&record.endpoints[b]));
        let names: Vec<String> = order.iter().map(|&at| record.endpoints[at].clone()).collect();
        let Configured { names, specs, index } = match members {
            None => {
                let specs = names.iter().map(|name| EndpointSpec::new(name)).collect();
                Configured { names, specs, index: (0..order.len()).collect() }
            }
            Some(members) => configured(members, &names)?,
        };
        let mut member = vec![None; used.len()];
        order.iter().zip(index).for_each(|(&at, index)| member[at] = Some(index));
        let unit_ns = record.units_ns[0].max(record.units_ns[1]).max(1);
        let seen = seen(&rows, &member, workers, record.units_ns.map(|unit| unit.max(1)));
        let trace = Trace::of(&seen, specs, workers, unit_ns.into());
        Ok(Traffic { pool: record.pools[pool].clone(), names, rows, trace, answers_probes: false, unit_ns })
    }
}

/// Endpoints in the order of a configuration.
struct Configured {
    names: Vec<String>,
    specs: Vec<EndpointSpec>,
    /// Index of each name of the log.
    index: Vec<usize>,
}

/// Names and members in the order of the configuration, and the member of each name of the log.
fn configured(members: &[Member], names: &[String]) -> Result<Configured, Vec<Doubt>> {
    let of = |name: &String| members.iter().position(|m| m.names.contains(name));
    let index: Vec<Option<usize>> = names.iter().map(of).collect();
    let unknown: Vec<&str> = names.iter().zip(&index).filter(|(_, at)| at.is_none()).map(|(name, _)| &**name).collect();
    let silent = |(at, m): &(usize, &Member)| m.weight > 0 && !index.contains(&Some(*at));
    let silent: Vec<&str> = members.iter().enumerate().filter(silent).map(|(_, m)| &*m.names[0]).collect();
    let mut doubts = Vec::new();
    if !unknown.is_empty() {
        let text =
            format!("the log has endpoints that the pool of the configuration does not have: {}", unknown.join(", "));
        doubts.push(Doubt::new("endpoints", text, "give the configuration that was in force when the log was written"));
    }
    if !silent.is_empty() {
        let text = format!("the log has no request of endpoints of the pool: {}", silent.join(", "));
        let help = "give the lines of all endpoints, and the configuration that was in force";
        doubts.push(Doubt::new("endpoints", text, help));
    }
    if !doubts.is_empty() {
        return Err(doubts);
    }
    let specs =
        members.iter().map(|m| EndpointSpec::new(&m.names[0]).weight(m.weight).limit(m.in_flight_max)).collect();
    let names = members.iter().map(|m| m.names[0].clone()).collect();
    Ok(Configured { names, specs, index: index.into_iter().flatten().collect() })
}

trait Limit {
    fn limit(self, in_flight_max: u32) -> Self;
}

impl Limit for EndpointSpec {
    fn limit(self, in_flight_max: u32) -> EndpointSpec {
        EndpointSpec { in_flight_max, ..self }
    }
}

/// The latest tries in order of their starts. Times are spread over their units, of starts and of durations, as a log
/// rounds them.
fn seen(rows: &[Row], member: &[Option<usize>], workers: u32, units_ns: [u32; 2]) -> Vec<Seen> {
    let mut seen = Vec::with_capacity(rows.len());
    for (number, row) in (0u64..).zip(rows) {
        let luck = mix(number ^ 0x5eed);
        let worker = if workers < 2 { 0 } else { (luck % u64::from(workers)) as u32 };
        // Both ends of a span were rounded down.
        let part = |luck: u64| (luck >> 11) as f64 / (1u64 << 53) as f64;
        let at = (part(mix(luck)) * f64::from(units_ns[0] - 1)) as u64;
        let off = ((part(mix(luck ^ 2)) - part(mix(luck ^ 3))) * f64::from(units_ns[1] - 1)) as i64;
        for (try_, tried) in row.tries().enumerate() {
            let held_ns = tried.held.saturating_add_signed(off).max(1);
            seen.push(Seen {
                at: tried.began + at,
                worker,
                key: row.client,
                endpoint: member[tried.endpoint as usize],
                kind: match (try_, row.drawn_from) {
                    (0, 0) => Kind::Picked,
                    (0, from) => Kind::Explored(from),
                    _ => Kind::Again,
                },
                held_ns,
                latency_ns: if try_ == 0 { row.took().saturating_add_signed(off).max(1) } else { held_ns },
                failed: tried.failed,
            });
        }
    }
    in_order_of_ends(&mut seen, units_ns[0]);
    seen.sort_by_key(|one| one.at);
    seen.drain(..seen.len().saturating_sub(TRIES_MAX));
    seen
}

/// Orders tries of an endpoint that start in the same unit of time by their ends: an endpoint that serves in order of arrival
/// ends them in that order, and for others the order within a unit hardly matters.
fn in_order_of_ends(seen: &mut [Seen], unit_ns: u32) {
    if unit_ns < 2 {
        return;
    }
    let units: Vec<(Option<usize>, u64)> = seen.iter().map(|one| (one.endpoint, one.at / u64::from(unit_ns))).collect();
    let mut order: Vec<usize> = (0..seen.len()).collect();
    order.sort_by_key(|&at| (units[at], seen[at].at + seen[at].held_ns));
    for same in order.chunk_by(|&a, &b| units[a] == units[b]) {
        let mut starts: Vec<u64> = same.iter().map(|&at| seen[at].at).collect();
        starts.sort_unstable();
        for (&at, start) in same.iter().zip(starts) {
            // The end stays.
            let end = seen[at].at + seen[at].held_ns;
            let moved = start.abs_diff(seen[at].at);
            seen[at].latency_ns = match start > seen[at].at {
                true => seen[at].latency_ns.saturating_sub(moved).max(1),
                false => seen[at].latency_ns + moved,
            };
            (seen[at].at, seen[at].held_ns) = (start, end.saturating_sub(start).max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Tried;

    fn row(began: u64, held: u64) -> Row {
        let first = Tried { endpoint: 0, began, held, failed: false };
        Row {
            pool: 0,
            file: 0,
            line: 1,
            arrived: began,
            ended: began + held,
            first,
            more: Vec::new(),
            client: None,
            drawn_from: 0,
            counted: None,
        }
    }

    #[test]
    fn tries_of_the_same_millisecond_end_in_the_order_of_their_starts() {
        const MS: u64 = 1_000_000;
        // Pairs of requests to an endpoint with a core: the second of each waits for the first.
        let pair = |number: u64| [row(100 * MS * number, 40 * MS), row(100 * MS * number, 10 * MS)];
        let rows: Vec<Row> = (0..200).flat_map(pair).collect();
        let seen = seen(&rows, &[Some(0)], 1, [MS as u32, 1_000]);
        for pair in seen.chunks(2) {
            let [first, second] = [0, 1].map(|at| pair[at].at + pair[at].held_ns);
            assert!(pair[0].at <= pair[1].at && first < second, "{pair:?}");
            assert_eq!(pair[0].at / MS, pair[1].at / MS);
        }
    }

    #[test]
    fn durations_are_as_fine_as_their_own_unit() {
        let seen = seen(&[row(5_000_000, 7_000_000)], &[Some(0)], 1, [1_000_000, 1_000]);
        assert!(seen[0].held_ns.abs_diff(7_000_000) <= 1_000, "{:?}", seen[0]);
        assert!((5_000_000..6_000_000).contains(&seen[0].at));
    }
}
