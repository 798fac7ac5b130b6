//! A small pool of recent probe answers, the newest of each endpoint, from which picks are decided. Old, bad and
//! used-up answers are removed.
//!
//! Source: Wydrowski et al., Load is not what you should balance: Introducing Prequal (NSDI 2024), section 4.

use crate::endpoints::set::Slot;
use crate::structures::time::Instant;

/// Recent answers from which the threshold of hot endpoints is derived. The median of 64 is within 6 % of the true rank
/// (standard deviation 1 / (2 sqrt 64)), and a change of load shows after 64 probes, about 20 requests.
const RECENT_MAX: usize = 64;

/// The latest answer of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) slot: Slot,
    /// Requests in flight at the endpoint, per weight: the number it answered, plus 1 for each request that this
    /// worker has sent there since, minus 1 for each of them that has ended.
    pub(crate) in_flight: f32,
    /// Amount that a request adds to `in_flight`.
    pub(crate) one: f32,
    pub(crate) latency_ns: u64,
    pub(crate) at: Instant,
    /// Further requests that may use this answer.
    pub(crate) uses: u32,
}

/// Recent answers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ProbePool {
    entries: Vec<Entry>,
    /// Requests in flight per weight in recent answers: a ring buffer whose oldest is at `next`, and the same numbers
    /// sorted.
    recent: Vec<f32>,
    next: usize,
    sorted: Vec<f32>,
    /// True if the next removal takes the worst answer, false if it takes the oldest.
    worst_next: bool,
}

impl ProbePool {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an answer. If that exceeds `most`, the oldest is removed.
    pub(crate) fn add(&mut self, entry: Entry, most: usize) {
        let over = self.entries.len().saturating_sub(most); // the limit falls when endpoints leave
        self.entries.drain(..over);
        let before = self.entries.iter().position(|e| e.slot == entry.slot);
        match before.or((self.entries.len() >= most).then_some(0)) {
            Some(gone) => {
                self.entries[gone..].rotate_left(1);
                *self.entries.last_mut().expect("one goes") = entry;
            }
            None => self.entries.push(entry),
        }
        self.note(entry.in_flight);
    }

    fn note(&mut self, in_flight: f32) {
        let to = self.sorted.partition_point(|&x| x < in_flight);
        if self.recent.len() < RECENT_MAX {
            self.recent.push(in_flight);
            return self.sorted.insert(to, in_flight);
        }
        let gone = std::mem::replace(&mut self.recent[self.next], in_flight);
        self.next = (self.next + 1) % RECENT_MAX;
        let from = self.sorted.partition_point(|&x| x < gone);
        // Only the numbers between the two positions move.
        if from < to {
            self.sorted[from..to].rotate_left(1);
            self.sorted[to - 1] = in_flight;
        } else {
            self.sorted[to..=from].rotate_right(1);
            self.sorted[to] = in_flight;
        }
    }

    /// Quantile `q` of requests in flight per weight over recent answers. Endpoints above it are hot.
    pub(crate) fn quantile(&self, q: f64) -> f32 {
        let at = (q * self.sorted.len().saturating_sub(1) as f64) as usize;
        self.sorted.get(at).copied().unwrap_or(0.0)
    }

    /// Removes the answer of an endpoint.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.entries.retain(|e| e.slot != slot);
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.entries.retain(keep);
    }

    /// Counts a request sent to `slot`: the endpoint is busier by 1 than it answered, and its answer was used once
    /// more.
    pub(crate) fn sent(&mut self, slot: Slot) {
        let Some(at) = self.entries.iter().position(|e| e.slot == slot) else { return };
        let entry = &mut self.entries[at];
        entry.in_flight += entry.one;
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses == 0 {
            self.entries.remove(at);
        }
    }

    /// Counts the end of a request at `slot`.
    pub(crate) fn ended(&mut self, slot: Slot) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.slot == slot) {
            entry.in_flight = (entry.in_flight - entry.one).max(0.0);
        }
    }

    /// Removes the oldest and the worst answer by turns. The oldest is the least accurate. The worst, which no request
    /// picks, would stay until it is the oldest, and the pool would fill up with bad answers.
    pub(crate) fn remove_one(&mut self, hot_above: f32) {
        if self.entries.is_empty() {
            return;
        }
        let at = if self.worst_next { self.worst(hot_above) } else { 0 };
        self.entries.remove(at);
        self.worst_next = !self.worst_next;
    }

    /// Index of the hot answer with the most in flight or, if none is hot, of the answer with the highest latency.
    fn worst(&self, hot_above: f32) -> usize {
        let rank = |e: &Entry| if e.in_flight > hot_above { (e.in_flight, 0) } else { (-1.0, e.latency_ns) };
        let mut worst = 0;
        for (i, e) in self.entries.iter().enumerate().skip(1) {
            if rank(e) > rank(&self.entries[worst]) {
                worst = i;
            }
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: u32, in_flight: f32, latency_ns: u64) -> Entry {
        Entry { slot: Slot(slot), in_flight, one: 1.0, latency_ns, at: Instant(0), uses: 2 }
    }

    fn slots(pool: &ProbePool) -> Vec<u32> {
        pool.entries().iter().map(|e| e.slot.0).collect()
    }

    #[test]
    fn the_newest_answer_of_each_endpoint_counts_and_the_oldest_makes_room() {
        let mut pool = ProbePool::default();
        [1, 2, 3, 1].iter().for_each(|&s| pool.add(entry(s, 0.0, 0), 3));
        assert_eq!(slots(&pool), [2, 3, 1]);
        pool.add(entry(4, 0.0, 0), 3);
        assert_eq!(slots(&pool), [3, 1, 4]);
    }

    #[test]
    fn an_answer_is_used_up_and_counts_what_was_sent() {
        let mut pool = ProbePool::default();
        pool.add(entry(1, 5.0, 0), 4);
        pool.sent(Slot(1));
        assert_eq!(pool.entries()[0].in_flight, 6.0);
        pool.sent(Slot(1));
        assert!(pool.entries().is_empty());
    }

    #[test]
    fn the_oldest_and_the_worst_go_by_turns() {
        let mut pool = ProbePool::default();
        let of = [(0, 1.0, 5), (1, 9.0, 1), (2, 1.0, 50), (3, 8.0, 1), (4, 0.0, 7), (5, 0.0, 3)];
        of.iter().for_each(|&(slot, in_flight, latency)| pool.add(entry(slot, in_flight, latency), 16));
        let mut gone = Vec::new();
        while !pool.entries().is_empty() {
            let before = slots(&pool);
            pool.remove_one(8.0);
            gone.extend(before.into_iter().filter(|s| !slots(&pool).contains(s)));
        }
        // In order: oldest, hot, oldest, slowest of those not hot, oldest, last.
        assert_eq!(gone, [0, 1, 2, 4, 3, 5]);
    }

    #[test]
    fn quantiles_are_those_of_the_latest_answers() {
        let mut pool = ProbePool::default();
        assert_eq!(pool.quantile(0.5), 0.0);
        (0..1000u32).for_each(|i| pool.add(entry(i % 7, i as f32, 0), 16));
        assert_eq!([0.0, 0.5, 1.0].map(|q| pool.quantile(q)), [936.0, 967.0, 999.0]);
    }
}
