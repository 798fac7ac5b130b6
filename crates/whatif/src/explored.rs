//! Explored picks compared with the model. The endpoint of an explored request was drawn with a known probability, and
//! does not depend on the request. So latencies, weighted by the inverse of the probability, show how an endpoint serves
//! any request. A model cannot see that if the policy in force sends some endpoint requests of another kind.
//!
//! Both sides mean the same: the latency of a request that is drawn by itself, while the policy in force picks for all
//! others. Means are self-normalised (Hájek). Their 90 % intervals are by the delta method over blocks of consecutive
//! requests, since requests of the same moment find the same load. Intervals of failures also cover Wilson's interval.

use crate::answer::{Answer, Range, WITHIN_90, range};
use crate::doubt::Doubt;
use crate::question::Question;
use crate::traffic::Traffic;
use crate::worlds::{World, latest};
use evenkeel_sim::replay::trace::Kind;
use evenkeel_sim::replay::{Drawn, Trace, stateless};

/// Fewest explored requests in the part of the log that answers are from. With 100, a mean of exponential latencies has a
/// standard error of 10 %.
pub const PICKS_MIN: usize = 100;

/// Fewest explored requests that are compared, such as those of an endpoint. Requests of unequal weight count as
/// less: (sum of weights)² / (sum of their squares).
pub const COMPARED_MIN: f64 = 30.0;

/// Blocks of consecutive requests.
const BLOCKS: usize = 20;

/// Quantile 0.95 of Student's t with a degree of freedom less than blocks.
const T_WITHIN_90: f64 = 1.729;

/// Mean latency in nanoseconds and share of failed first tries, with 90 % intervals.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub latency_ns: Range,
    pub failed: Range,
}

/// Shares by which explored requests are weighted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shares {
    Uniform,
    Endpoint(String),
    /// Policy by its label, whose picks do not depend on the state of the endpoints.
    Policy(String),
}

/// Explored requests of the log beside those of the model.
#[derive(Clone, Debug)]
pub struct Beside {
    pub of: Shares,
    pub explored: Estimate,
    pub model: Estimate,
}

/// All comparisons of a log.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Explored requests in the part of the log that answers are from.
    pub picks: usize,
    /// Uniform draws first, then endpoints with at least [`COMPARED_MIN`], then policies whose picks do not depend on
    /// the state of the endpoints. Empty with fewer than [`PICKS_MIN`].
    pub rows: Vec<Beside>,
    /// Explored requests by member: of the log by block, and of the model by world with the system of the world.
    blocks: Vec<Vec<Drawn>>,
    worlds: Vec<(usize, Vec<Drawn>)>,
}

impl Beside {
    /// True if intervals of the log and of the model overlap.
    pub fn agrees(&self) -> bool {
        let overlap = |a: Range, b: Range| a.low <= b.high && b.low <= a.high;
        overlap(self.explored.latency_ns, self.model.latency_ns) && overlap(self.explored.failed, self.model.failed)
    }

    /// Both figures, with the failures if there are any.
    pub fn figures(&self) -> String {
        let ms = |of: Range| format!("{:.1} ms ({:.1} to {:.1})", of.middle / 1e6, of.low / 1e6, of.high / 1e6);
        let percent =
            |of: Range| format!("{:.1} % ({:.1} to {:.1})", 100.0 * of.middle, 100.0 * of.low, 100.0 * of.high);
        let mean = format!("mean {}, the model {}", ms(self.explored.latency_ns), ms(self.model.latency_ns));
        match self.explored.failed.middle + self.model.failed.middle > 0.0 {
            true => {
                format!("{mean}; failed {}, the model {}", percent(self.explored.failed), percent(self.model.failed))
            }
            false => mean,
        }
    }
}

impl Explored {
    /// Explored requests of the traffic, beside those of each world under the policy of the log. `None` without any.
    pub fn of(traffic: &Traffic, worlds: &[World], drawn: &[Vec<Drawn>]) -> Option<Explored> {
        let trace = latest(&traffic.trace);
        let picks = trace.explored().count();
        let all = traffic.trace.explored().count();
        let systems = worlds.iter().map(|world| world.system);
        let worlds = systems.zip(drawn.iter().cloned()).collect();
        let mut explored = Explored { picks, rows: Vec::new(), blocks: blocks(&trace), worlds };
        if picks < PICKS_MIN {
            return (all > 0).then_some(explored);
        }
        let members = trace.members.len();
        let uniform = explored.beside(Shares::Uniform, &vec![1.0; members]);
        let of_endpoint = |at: usize| {
            let shares: Vec<f64> = (0..members).map(|other| f64::from(u8::from(other == at))).collect();
            explored.beside(Shares::Endpoint(traffic.names[at].clone()), &shares)
        };
        explored.rows = uniform.into_iter().chain((0..members).filter_map(of_endpoint)).collect();
        Some(explored)
    }

    /// Doubt about the model, with the figures of the endpoint at which it is furthest from the explored requests. `None`
    /// if all agree.
    pub fn doubt(&self) -> Option<Doubt> {
        let off = |row: &&Beside| (row.explored.latency_ns.middle / row.model.latency_ns.middle.max(1.0)).ln().abs();
        let wrong = self.rows.iter().filter(|row| !row.agrees());
        let worst = wrong.max_by(|a, b| off(a).total_cmp(&off(b)))?;
        let of = match &worst.of {
            Shares::Endpoint(name) => format!("at {name}"),
            Shares::Uniform | Shares::Policy(_) => "in all".to_string(),
        };
        let text = format!(
            "explored requests differ from the model: {of} {}. The policy in force may send requests there that differ from the rest, \
             and the log has no field that shows it",
            worst.figures()
        );
        let help = "give a log under a policy that does not look at the request, such as random, or the log of one kind of requests at \
                    endpoints that serve no others";
        Some(Doubt::new(KIND, text, help))
    }

    /// Compares the requests as the policy of a question would share them, if its picks do not depend on the state of the
    /// endpoints. Refuses the answer if the model disagrees.
    pub fn judge(&mut self, answer: &mut Answer, question: &Question, traffic: &Traffic) {
        let (algorithm, params) = (question.policy.algorithm, &question.policy.params);
        // Whether a key is at an endpoint depends on the request.
        if self.rows.is_empty() || algorithm.needs.key {
            return;
        }
        let shares = stateless::shares(&picked(&latest(&traffic.trace)), (algorithm, params), false);
        let beside = shares.and_then(|shares| self.beside(Shares::Policy(question.label.clone()), &shares));
        let Some(beside) = beside else { return };
        if !beside.agrees() {
            let figures = beside.figures();
            answer.figures = Err(format!("{KIND}: as it would share them, explored requests have {figures}"));
        }
        self.rows.push(beside);
    }

    /// Comparison of requests that are drawn by these shares. `None` with fewer than [`COMPARED_MIN`], and if a world has
    /// none.
    fn beside(&self, of: Shares, shares: &[f64]) -> Option<Beside> {
        let explored = of_log(&self.blocks, shares)?;
        let systems: Vec<usize> = self.worlds.iter().map(|(system, _)| *system).collect();
        let means = self.worlds.iter().map(|(_, drawn)| Sums::of(drawn, shares).means());
        let means: Vec<[f64; 2]> = means.collect::<Option<_>>()?;
        let by_system = |at: usize| range(&means.iter().map(|of| of[at]).collect::<Vec<_>>(), &systems);
        Some(Beside { of, explored, model: Estimate { latency_ns: by_system(0), failed: by_system(1) } })
    }
}

/// Kind of the doubt, with which the reason of a refused question begins.
const KIND: &str = "explored";

/// Sums over the explored requests of a trace: a row for each block of consecutive requests, and a sum for each member.
fn blocks(trace: &Trace) -> Vec<Vec<Drawn>> {
    let mut blocks = vec![vec![Drawn::default(); trace.members.len()]; BLOCKS];
    let length = trace.arrivals.len().div_ceil(BLOCKS).max(1);
    for (block, part) in blocks.iter_mut().zip(trace.arrivals.chunks(length)) {
        for a in part {
            if let Kind::Explored(from) = a.kind {
                block[a.endpoint].add(from, a.latency_ns, a.failed);
            }
        }
    }
    blocks
}

/// Trace whose explored requests are picked like the others.
fn picked(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    for a in trace.arrivals.iter_mut().filter(|a| matches!(a.kind, Kind::Explored(_))) {
        a.kind = Kind::Picked;
    }
    trace
}

/// Sums of the requests, each weighted by the share of its endpoint and the inverse of its probability.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weight: f64,
    squares: f64,
    latency_ns: f64,
    failed: f64,
}

impl Sums {
    fn of(drawn: &[Drawn], shares: &[f64]) -> Sums {
        let mut sums = Sums::default();
        for (of, share) in drawn.iter().zip(shares) {
            sums.weight += share * of.weight;
            sums.squares += share * share * of.squares;
            sums.latency_ns += share * of.latency_ns;
            sums.failed += share * of.failed;
        }
        sums
    }

    /// Mean latency and share of failures. `None` without weight.
    fn means(&self) -> Option<[f64; 2]> {
        (self.weight > 0.0).then(|| [self.latency_ns / self.weight, self.failed / self.weight])
    }
}

/// Estimate from the blocks of the log. `None` with fewer than [`COMPARED_MIN`] requests.
fn of_log(blocks: &[Vec<Drawn>], shares: &[f64]) -> Option<Estimate> {
    let blocks: Vec<Sums> = blocks.iter().map(|of| Sums::of(of, shares)).collect();
    let total = blocks.iter().fold(Sums::default(), |sum, of| Sums {
        weight: sum.weight + of.weight,
        squares: sum.squares + of.squares,
        latency_ns: sum.latency_ns + of.latency_ns,
        failed: sum.failed + of.failed,
    });
    let count = total.weight.powi(2) / total.squares;
    let [latency_ns, failed] = total.means().filter(|_| count >= COMPARED_MIN)?;
    // The error of a ratio of sums is the error of the sum of residuals, by block.
    let half = |mean: f64, of: fn(&Sums) -> f64| {
        let squares: f64 = blocks.iter().map(|block| (of(block) - mean * block.weight).powi(2)).sum();
        let length = blocks.len() as f64;
        T_WITHIN_90 * (length / (length - 1.0) * squares).sqrt() / total.weight
    };
    let around = |mean: f64, half: f64| Range { low: mean - half, middle: mean, high: mean + half };
    let (by_blocks, wilson) = (around(failed, half(failed, |of| of.failed)), wilson(failed, count));
    Some(Estimate {
        latency_ns: around(latency_ns, half(latency_ns, |of| of.latency_ns)),
        failed: Range {
            low: by_blocks.low.min(wilson.0).max(0.0),
            middle: failed,
            high: by_blocks.high.max(wilson.1).min(1.0),
        },
    })
}

/// Wilson's 90 % interval of a share of `count` requests: it has a width even if none failed.
fn wilson(share: f64, count: f64) -> (f64, f64) {
    let z = WITHIN_90 * WITHIN_90 / count;
    let (centre, scale) = (share + z / 2.0, 1.0 + z);
    let half = (z * share * (1.0 - share) + z * z / 4.0).sqrt();
    ((centre - half) / scale, (centre + half) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_balance::Rng;

    /// Blocks of explored requests of two members, whose latencies are exponential with these means, and which every
    /// third block doubles.
    fn blocks(means: [f64; 2], seed: u64) -> Vec<Vec<Drawn>> {
        let mut rng = Rng::new(seed);
        let mut blocks = vec![vec![Drawn::default(); 2]; BLOCKS];
        for (number, block) in blocks.iter_mut().enumerate() {
            let load = if number % 3 == 0 { 2.0 } else { 1.0 };
            for _ in 0..30 {
                // Probabilities differ: sometimes one of the two has no room.
                let (from, at) = (1 + rng.below(2), rng.below(2) as usize);
                block[at].add(from, (-means[at] * load * (1.0 - rng.unit()).ln()) as u64, rng.unit() < 0.01);
            }
        }
        blocks
    }

    #[test]
    fn weights_undo_unequal_probabilities_and_intervals_hold_90_percent() {
        const ROUNDS: u64 = 400;
        let truth = (0.25 * 1e6 + 0.75 * 5e6) * (7.0 * 2.0 + 13.0) / 20.0;
        let (mut held, mut held_failed) = (0, 0);
        for seed in 0..ROUNDS {
            let estimate = of_log(&blocks([1e6, 5e6], seed), &[0.25, 0.75]).expect("it has requests");
            held += u32::from((estimate.latency_ns.low..=estimate.latency_ns.high).contains(&truth));
            held_failed += u32::from((estimate.failed.low..=estimate.failed.high).contains(&0.01));
        }
        // Binomial: 360 with a standard deviation of 6; some wider, as the load of a block is not chance here.
        assert!((340..=400).contains(&held) && held_failed >= 340, "{held} {held_failed}");
    }

    #[test]
    fn no_failure_leaves_room_for_some() {
        let (low, high) = wilson(0.0, 100.0);
        assert!(low.abs() < 1e-9 && (0.02..0.03).contains(&high), "{low} {high}");
    }
}
