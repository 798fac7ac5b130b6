//! Recount of open flows: programs count up and down, and lost counts are found in the tables of flows.

use super::layout::Load;
use super::sys::Array;
use std::time::{Duration, Instant};

/// Time between recounts, in multiples of the duration of a recount: it uses at most 5 % of a core.
const PAUSE: u32 = 20;

/// Flows by endpoint, as found in tables of flows.
pub struct Counted {
    flows: Vec<u32>,
}

impl Counted {
    /// Counts flows that another count has found.
    pub fn add_all(&mut self, endpoint: u32, open: u32) {
        if let Some(flows) = self.flows.get_mut(endpoint as usize) {
            *flows = flows.saturating_add(open);
        }
    }

    /// Counts a flow. Numbers that cannot be are left out.
    pub fn add(&mut self, endpoint: u32) {
        if let Some(flows) = self.flows.get_mut(endpoint as usize) {
            *flows += 1;
        }
    }
}

/// Recounts that keep a pause in proportion to their cost.
pub struct Recount {
    next: Instant,
}

impl Recount {
    pub fn new() -> Recount {
        Recount { next: Instant::now() }
    }

    /// Corrects the loads of endpoints whose numbers are below `below` by the findings of `count`, if it is due.
    ///
    /// # Errors
    /// `count` has failed.
    pub fn run<E>(
        &mut self,
        loads: &Array<Load>,
        below: u32,
        count: impl FnOnce(&mut Counted) -> Result<(), E>,
    ) -> Result<(), E> {
        let began = Instant::now();
        if began < self.next {
            return Ok(());
        }
        let below = below.min(u32::try_from(loads.len()).unwrap_or(u32::MAX));
        let read = || -> Vec<Load> { (0..below).map(|id| loads.read(id)).collect() };
        let before = read();
        let mut counted = Counted { flows: vec![0; below as usize] };
        count(&mut counted)?;
        let after = read();
        for ((id, before), (after, &flows)) in (0..).zip(&before).zip(after.iter().zip(&counted.flows)) {
            let difference = i64::from(flows) - after.active;
            let difference = correction(before, after, difference);
            if let Some(load) = loads.at(id).filter(|_| difference != 0) {
                tracing::debug!("eBPF: corrected the open flows of endpoint {id} by {difference}");
                Load::correct(load, difference);
            }
        }
        self.next = Instant::now() + (began.elapsed() * PAUSE).min(Duration::from_secs(60));
        Ok(())
    }
}

/// Part of a difference that flows which began or ended meanwhile do not explain.
fn correction(before: &Load, after: &Load, difference: i64) -> i64 {
    let started = after.started.wrapping_sub(before.started).min(u64::from(u32::MAX)) as i64;
    let ended = (before.active + started - after.active).max(0);
    let changed = started + ended;
    if changed == 0 || difference.abs() > changed { difference } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(active: i64, started: u64) -> Load {
        Load { active, started, ..Load::default() }
    }

    #[test]
    fn a_leak_is_corrected_when_nothing_changes() {
        assert_eq!(correction(&load(7, 9), &load(7, 9), -3), -3);
        assert_eq!(correction(&load(-1, 9), &load(-1, 9), 1), 1);
    }

    #[test]
    fn flows_that_come_and_go_meanwhile_are_not_a_leak() {
        // Two began and another ended: the table may have had any of them.
        assert_eq!(correction(&load(7, 9), &load(8, 11), -3), 0);
        assert_eq!(correction(&load(7, 9), &load(8, 11), 2), 0);
        assert_eq!(correction(&load(7, 9), &load(8, 11), -4), -4);
    }
}
