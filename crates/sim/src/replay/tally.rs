//! Counts of a run, by parts of it.

use super::drawn::Drawn;

/// Figure of a run, with two standard errors, from the blocks of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figure {
    pub value: f64,
    pub error: f64,
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
}
