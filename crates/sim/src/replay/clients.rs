//! Models of the clients: the time at which the next request comes.

use super::trace::{Arrival, Trace};

/// Model of the clients: when the next request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// At the time recorded in the trace.
    Open,
    /// Closed loop of this many users: as soon as one of their requests has ended.
    Closed(u32),
}

impl Clients {
    /// Possible models of the clients. In a closed loop, starts follow ends at once, and the number in flight hardly
    /// varies.
    pub fn possible(trace: &Trace) -> Vec<Clients> {
        let arrivals = &trace.arrivals[trace.arrivals.len() / 20..];
        let count = arrivals.len() as f64;
        let gap_ns = trace.span_ns as f64 / trace.arrivals.len() as f64;
        let at_once = arrivals.iter().filter(|a| (a.after_end_ns as f64) < 0.2 * gap_ns).count() as f64 / count;
        let there = |a: &Arrival| f64::from(a.found_in_all + 1);
        let mean = arrivals.iter().map(there).sum::<f64>() / count;
        let variance = arrivals.iter().map(|a| (there(a) - mean).powi(2)).sum::<f64>() / count;
        let spread = variance / mean;
        let open = at_once < 0.9 && !(spread < 0.15 && mean >= 4.0);
        let closed = at_once > 0.7 || (spread < 0.3 && mean >= 2.0);
        let users = mean.round() as u32;
        [open.then_some(Clients::Open), closed.then_some(Clients::Closed(users))].into_iter().flatten().collect()
    }
}
