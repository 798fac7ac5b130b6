//! Counts of a run, by parts of it, and the results.

use super::drawn::Drawn;
use super::trace::quantile;

/// Figure of a run, with two standard errors, from the blocks of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figure {
    pub value: f64,
    pub error: f64,
}

/// Results of a run, without its first third.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Shares by member of the pool.
    pub shares: Vec<Figure>,
    /// Requests found at the picked endpoint, on average.
    pub met: Figure,
    /// Share of the picks that went to a member with the least requests in flight, relative to its weight.
    pub least: Figure,
    /// Share of the picks that were the same as a round of the members before.
    pub in_turn: Figure,
    /// Share of the picks that found more in flight than any request of the trace at that member.
    pub beyond: f64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Explored requests by member of the pool.
    pub drawn: Vec<Drawn>,
    /// Share of the requests whose last try failed.
    pub failed: f64,
    /// Median, 90th percentile and natural logarithm of the 99th percentile of the latency, in nanoseconds.
    pub median_ns: f64,
    pub p90_ns: f64,
    pub ln_p99: Figure,
    /// Share of the requests for which all endpoints were at their limits.
    pub full: f64,
    /// True if requests did not pile up.
    pub steady: bool,
    /// Member with the most requests in flight at the end.
    pub busiest: usize,
    /// Hash over all picks, in order.
    pub picks: u64,
    /// Number of requests behind these figures.
    pub requests: f64,
}

/// Parts of a run that are counted separately, to estimate the random variation of figures.
pub(super) const BLOCKS: usize = 6;

#[derive(Default)]
pub(super) struct Tally {
    pub blocks: [Block; BLOCKS],
    pub full: u64,
    pub failed: u64,
    pub beyond: u64,
    pub hash: u64,
    pub drawn: Vec<Drawn>,
    /// By third of the run: sum over arrivals of the requests then in flight.
    pub thirds: [u64; 3],
}

#[derive(Default)]
pub(super) struct Block {
    /// Picks by member of the pool.
    pub picks: Vec<u64>,
    pub met: u64,
    pub least: u64,
    pub in_turn: u64,
    pub latencies: Vec<u64>,
}

impl Block {
    pub fn count(&self) -> f64 {
        self.picks.iter().sum::<u64>().max(1) as f64
    }
}

impl Tally {
    /// Mean over the blocks, with two standard errors.
    pub fn figure(&self, of: impl Fn(&Block) -> f64) -> Figure {
        let values = self.blocks.each_ref().map(of);
        let value = values.iter().sum::<f64>() / BLOCKS as f64;
        let variance = values.iter().map(|x| (x - value).powi(2)).sum::<f64>() / (BLOCKS - 1) as f64;
        Figure { value, error: 2.0 * (variance / BLOCKS as f64).sqrt() }
    }

    /// Results of a run with so many members and requests.
    pub fn played(mut self, members: usize, requests: usize, busiest: usize) -> Played {
        let drawn = std::mem::take(&mut self.drawn);
        let all: f64 = self.blocks.iter().map(Block::count).sum();
        let [_, second, last] = self.thirds.map(|sum| sum as f64 / (requests / 3) as f64);
        let mut latencies: Vec<u64> = self.blocks.iter().flat_map(|of| &of.latencies).copied().collect();
        latencies.sort_unstable();
        let at = |part: f64| {
            latencies.get(((latencies.len() as f64 * part) as usize).min(latencies.len().saturating_sub(1)))
        };
        let at = |part: f64| at(part).map_or(0.0, |&ns| ns as f64);
        let ended = latencies.len().max(1) as f64;
        let ln_p99 = |of: &Block| quantile(of.latencies.clone(), 0.99).max(1.0).ln();
        Played {
            shares: (0..members).map(|at| self.figure(|of| of.picks[at] as f64 / of.count())).collect(),
            met: self.figure(|of| of.met as f64 / of.count()),
            least: self.figure(|of| of.least as f64 / of.count()),
            in_turn: self.figure(|of| of.in_turn as f64 / of.count()),
            beyond: self.beyond as f64 / all,
            mean_ns: latencies.iter().sum::<u64>() as f64 / ended,
            failed: self.failed as f64 / ended,
            drawn,
            median_ns: at(0.5),
            p90_ns: at(0.9),
            ln_p99: Figure { value: at(0.99).max(1.0).ln(), ..self.figure(ln_p99) },
            full: self.full as f64 / (all + self.full as f64),
            // If requests pile up linearly, the last third has 1.67 times as many as the second.
            steady: last <= 1.4 * second + 2.0,
            busiest,
            picks: self.hash,
            requests: all,
        }
    }
}
