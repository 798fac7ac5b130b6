//! Clients that think: each sends its next request some time after its last response.

use super::run::Run;
use crate::engine::calendar::Event;
use crate::replay::clients::{Clients, Sequence, sequences};
use crate::replay::trace::Trace;
use evenkeel_balance::rng::mix;

#[derive(Clone, Debug)]
pub(super) struct Thinker {
    /// Index among [`Thinkers::sequences`].
    sequence: usize,
    /// Position in the sequence at which it begins; it repeats the sequence.
    first: usize,
    begins: u64,
    sent: usize,
}

/// Clients of a trace that think, with the sequences of their requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Thinkers {
    sequences: Vec<Sequence>,
    all: Vec<Thinker>,
}

impl Thinkers {
    /// Clients of a trace, `pace` times as many. Copies of a client begin anywhere in its sequence.
    pub fn of(clients: Clients, trace: &Trace, pace: f64, luck: u64) -> Thinkers {
        if clients != Clients::Thinking {
            return Thinkers::default();
        }
        let sequences = sequences(trace);
        let count = (sequences.len() as f64 * pace).round().max(1.0) as usize;
        let thinker = |number: usize| {
            // Fewer clients are spread over those of the trace.
            let sequence = if pace < 1.0 { number * sequences.len() / count } else { number % sequences.len().max(1) };
            let requests = &sequences[sequence].requests;
            if number < sequences.len() {
                return Thinker { sequence, first: 0, begins: trace.arrivals[requests[0].0].at, sent: 0 };
            }
            let first = (mix(luck ^ number as u64) % requests.len() as u64) as usize;
            let think = requests[(first + requests.len() - 1) % requests.len()].1;
            Thinker { sequence, first, begins: mix(luck ^ !(number as u64)) % (think + 1), sent: 0 }
        };
        let all = if sequences.is_empty() { Vec::new() } else { (0..count).map(thinker).collect() };
        Thinkers { sequences, all }
    }

    /// Index in the trace of a client's next request, or think time after its latest.
    fn step(&self, client: usize, back: usize) -> (usize, u64) {
        let of = &self.all[client];
        let requests = &self.sequences[of.sequence].requests;
        requests[(of.first + of.sent - back) % requests.len()]
    }
}

impl Run<'_> {
    /// Lets every client send its first request.
    pub(super) fn begin_thinking(&mut self) {
        for client in 0..self.thinkers.all.len() {
            let begins = self.thinkers.all[client].begins;
            self.calendar.at(begins, Event::AtBalancer(client as u32));
        }
    }

    /// Sends the next request of a client.
    pub(super) fn send(&mut self, client: u32) {
        let at = client as usize;
        let (index, _) = self.thinkers.step(at, 0);
        let number = u64::from(client) << 32 | self.thinkers.all[at].sent as u64;
        self.thinkers.all[at].sent += 1;
        self.come(index, number);
    }

    /// Lets the client of a request think once it has its response.
    pub(super) fn think(&mut self, number: u64) {
        let client = (number >> 32) as usize;
        let (_, think) = self.thinkers.step(client, 1);
        self.calendar.at(self.now + think, Event::AtBalancer(client as u32));
    }
}
