//! Requests of a simulated run as the lines of an access log describe them, before they are written.

use evenkeel_sim::run::Failure;
use evenkeel_sim::{Logged, LoggedTry};
use std::collections::VecDeque;

/// Resolution of the clocks of all formats, in nanoseconds.
pub const MILLISECOND_NS: u64 = 1_000_000;

/// Request as its line describes it. Breakers change entries.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Arrival at the balancer, in nanoseconds since the start of the log.
    pub arrived_ns: u64,
    pub queue_ns: u64,
    pub total_ns: u64,
    pub tries: Vec<Tried>,
    pub balancer: u32,
    /// Number of the client, by which it has its address.
    pub client: u32,
    /// Number of endpoints that the first was drawn from; 0 if the policy picked it.
    pub drawn_from: u32,
    pub bytes_out: u64,
    pub counts: Counts,
    pub failure: Option<Failure>,
    /// Error of the clock that stamps the line, in nanoseconds; and its resolution.
    pub shift_ns: i64,
    pub step_ns: u64,
}

/// Part of a request that an endpoint served or failed.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Index of the endpoint; `None` if the line does not name it.
    pub endpoint: Option<usize>,
    /// Start, in nanoseconds since the arrival.
    pub began_ns: u64,
    pub took_ns: u64,
    pub failure: Option<Failure>,
}

/// Counts of HAProxy at the end of the request. The request itself counts as a connection of the listener only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub listener: u32,
    pub pool: u32,
    pub endpoint: u32,
    /// Requests that were in the queue when it arrived.
    pub queued: u32,
}

/// Entries of all requests that have ended, in the order of their ends: the order in which lines are written.
pub fn entries(log: &[Logged], bytes_out: impl Fn(&Logged) -> u64) -> Vec<Entry> {
    let mut entries: Vec<Entry> = log.iter().filter_map(|logged| entry(logged, &bytes_out)).collect();
    count(&mut entries);
    entries.sort_by_key(Entry::ended_ns);
    entries
}

fn entry(logged: &Logged, bytes_out: &impl Fn(&Logged) -> u64) -> Option<Entry> {
    let tried = |of: &LoggedTry| {
        let began_ns = of.began_ns - logged.arrived_ns;
        let took_ns = of.took_ns.unwrap_or(0);
        Tried { endpoint: Some(of.server as usize), began_ns, took_ns, failure: of.failure }
    };
    Some(Entry {
        arrived_ns: logged.arrived_ns,
        queue_ns: logged.queue_ns(),
        total_ns: logged.total_ns()?,
        tries: logged.tries.iter().map(tried).collect(),
        balancer: logged.balancer,
        client: logged.user,
        drawn_from: logged.drawn_from,
        bytes_out: bytes_out(logged),
        counts: Counts::default(),
        failure: logged.failure,
        shift_ns: 0,
        step_ns: MILLISECOND_NS,
    })
}

impl Entry {
    pub fn ended_ns(&self) -> u64 {
        self.arrived_ns + self.total_ns
    }

    /// Endpoint of the last try.
    pub fn endpoint(&self) -> Option<usize> {
        self.tries.last().and_then(|last| last.endpoint)
    }

    /// Multiplies all durations.
    pub fn stretch(&mut self, factor: f64) {
        let times = |ns: &mut u64| *ns = (*ns as f64 * factor) as u64;
        times(&mut self.queue_ns);
        times(&mut self.total_ns);
        for of in &mut self.tries {
            times(&mut of.began_ns);
            times(&mut of.took_ns);
        }
    }
}

/// Changes of the counts by a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(usize),
    TryEnded(usize),
    LeftQueue,
    TryBegan(usize),
    Arrived(usize),
}

/// Sets the counts of each entry, from all entries of the same balancer.
fn count(entries: &mut [Entry]) {
    let balancers: std::collections::BTreeSet<u32> = entries.iter().map(|of| of.balancer).collect();
    for balancer in balancers {
        let mut events = Vec::new();
        for (at, of) in entries.iter().enumerate().filter(|(_, of)| of.balancer == balancer) {
            events.push((of.arrived_ns, Event::Arrived(at)));
            events.push((of.ended_ns(), Event::Ended(at)));
            if of.queue_ns > 0 {
                events.push((of.arrived_ns + of.queue_ns, Event::LeftQueue));
            }
            for tried in &of.tries {
                let endpoint = tried.endpoint.unwrap_or(0);
                events.push((of.arrived_ns + tried.began_ns, Event::TryBegan(endpoint)));
                events.push((of.arrived_ns + tried.began_ns + tried.took_ns, Event::TryEnded(endpoint)));
            }
        }
        events.sort_unstable();
        let (mut all, mut queued, mut at_endpoint) = (0i64, 0i64, std::collections::BTreeMap::<usize, i64>::new());
        // Ends of tries before the end of their request, which is at the same time.
        let mut later: VecDeque<usize> = VecDeque::new();
        for at in 0..events.len() {
            let (now, event) = events[at];
            match event {
                Event::Arrived(of) => {
                    entries[of].counts.queued = queued.max(0) as u32;
                    all += 1;
                    queued += i64::from(entries[of].queue_ns > 0);
                }
                Event::LeftQueue => queued -= 1,
                Event::TryBegan(endpoint) => *at_endpoint.entry(endpoint).or_default() += 1,
                Event::TryEnded(endpoint) => *at_endpoint.entry(endpoint).or_default() -= 1,
                Event::Ended(of) => {
                    all -= 1;
                    later.push_back(of);
                }
            }
            if events.get(at + 1).is_none_or(|(next, _)| *next > now) {
                for of in later.drain(..) {
                    let there = entries[of].endpoint().and_then(|endpoint| at_endpoint.get(&endpoint));
                    let others = all.max(0) as u32;
                    let endpoint = there.copied().unwrap_or(0).max(0) as u32;
                    let counts = &mut entries[of].counts;
                    (counts.listener, counts.pool, counts.endpoint) = (others + 1, others, endpoint);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(arrived_ns: u64, queue_ns: u64, took_ns: u64, server: u32) -> Logged {
        let only = LoggedTry { server, began_ns: arrived_ns + queue_ns, took_ns: Some(took_ns), failure: None };
        Logged {
            arrived_ns,
            ended_ns: Some(arrived_ns + queue_ns + took_ns),
            user: 0,
            balancer: 0,
            worker: 0,
            work_ns: took_ns,
            drawn_from: 0,
            tries: vec![only],
            failure: None,
        }
    }

    #[test]
    fn counts_are_those_at_the_end_without_the_request() {
        let log = [logged(0, 0, 100, 0), logged(10, 0, 20, 1), logged(20, 80, 50, 0), logged(25, 75, 100, 0)];
        let entries = entries(&log, |logged| logged.work_ns);
        let found: Vec<_> = entries.iter().map(|of| (of.arrived_ns, of.counts)).collect();
        let counts = |listener, endpoint, queued| Counts { listener, pool: listener - 1, endpoint, queued };
        // The first ends as the two that waited begin.
        let expected = [(10, counts(4, 0, 0)), (0, counts(3, 2, 0)), (20, counts(2, 1, 0)), (25, counts(1, 0, 1))];
        assert_eq!(found, expected);
        assert_eq!(entries[0].bytes_out, 20);
    }
}
