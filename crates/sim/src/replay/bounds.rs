//! Bounds: choices that no balancer can make, beside which the others are seen. They know how long each endpoint takes on
//! average, and how many requests it has of all balancers.

use super::fit::Way;
use crate::scenario::Serving;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Each request goes where it is expected to be done first.
    Knowledge,
    /// Requests wait together, in order; an endpoint that has an idle core takes the next.
    Queue,
}

impl Bound {
    pub const ALL: [Bound; 2] = [Bound::Knowledge, Bound::Queue];

    pub fn name(self) -> &'static str {
        match self {
            Bound::Knowledge => "perfect knowledge",
            Bound::Queue => "a central queue",
        }
    }

    /// Member for the next request; `None` if it has to wait. `alone_ns`: mean time of a request that is alone at a member.
    pub(super) fn choose(self, ways: &[&Way], alone_ns: &[f64], in_flight: &[u32]) -> Option<usize> {
        let expected = |member: usize| alone_ns[member] * crowd(ways[member], in_flight[member]);
        let is_open = |member: &usize| self == Bound::Knowledge || crowd(ways[*member], in_flight[*member]) <= 1.0;
        (0..ways.len()).filter(is_open).min_by(|&a, &b| expected(a).total_cmp(&expected(b)))
    }
}

/// Mean time of a request that is alone at an endpoint, in nanoseconds.
pub(super) fn alone_ns(way: &Way) -> f64 {
    let sum: f64 = way.samples.iter().map(|sample| sample.work_ns).sum();
    way.delay_ns as f64 + sum / way.samples.len().max(1) as f64
}

/// Factor by which one more request takes longer than alone, at least 1.
fn crowd(way: &Way, in_flight: u32) -> f64 {
    let cores = match way.serving {
        Serving::Unlimited => return 1.0,
        Serving::Fifo { cores } => f64::from(cores),
        Serving::Sharing { cores } => cores.max(1.0),
    };
    ((f64::from(in_flight) + 1.0) / cores).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_an_idle_core_only_in_a_central_queue() {
        let fast = Way { serving: Serving::Fifo { cores: 1 }, ..Way::constant(10.0) };
        let slow = Way { serving: Serving::Fifo { cores: 2 }, ..Way::constant(25.0) };
        let (ways, alone) = ([&fast, &slow], [10.0, 25.0]);
        let choices = |in_flight: [u32; 2]| Bound::ALL.map(|bound| bound.choose(&ways, &alone, &in_flight));
        assert_eq!(choices([0, 0]), [Some(0), Some(0)]);
        assert_eq!(choices([1, 0]), [Some(0), Some(1)]);
        assert_eq!(choices([2, 1]), [Some(1), Some(1)]);
        assert_eq!(choices([1, 2]), [Some(0), None]);
    }
}
