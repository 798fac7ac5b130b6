//! Outstanding probes: a table of fixed size, keyed by nonces that cannot be guessed.
//!
//! Places are used in turn, so the oldest question is always the next to time out. The result of a question stays known
//! until its place is reused: late and repeated answers can be distinguished from forged ones.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Places of the table: limit on the outstanding questions of a worker. A power of two, as nonces have the place in
/// their low bits.
const PLACES: usize = 1024;

/// The questions of a worker, each with the state to continue it.
pub struct Outstanding<Q> {
    places: Box<[Entry<Q>]>,
    /// Number of questions so far. The next question has the place `asked % PLACES`.
    asked: u64,
    /// Number of questions, counted from the first, up to which all results are decided.
    decided: u64,
    random: RandomState,
}

struct Entry<Q> {
    nonce: u64,
    state: State<Q>,
}

enum State<Q> {
    Waiting(Q),
    Answered,
    Late,
}

/// Reason to drop an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    /// No known question has this nonce.
    Unknown,
    Late,
    /// The question was answered before.
    Repeated,
    /// The question was sent to another address.
    Sender,
}

impl<Q> Default for Outstanding<Q> {
    fn default() -> Outstanding<Q> {
        // A placeholder: only a nonce of 0 would match it, in place 0, which gets a real nonce with the first question.
        let places = (0..PLACES).map(|_| Entry { nonce: 0, state: State::Late });
        Outstanding { places: places.collect(), asked: 0, decided: 0, random: RandomState::new() }
    }
}

impl<Q> Outstanding<Q> {
    /// Adds a question. Returns the nonce to send with it, or the question if the table is full.
    pub fn ask(&mut self, question: Q) -> Result<u64, Q> {
        let at = self.asked % PLACES as u64;
        let place = &mut self.places[at as usize];
        if matches!(place.state, State::Waiting(_)) {
            return Err(question);
        }
        // A keyed hash of a counter: only a peer that saw the question can answer it.
        place.nonce = (self.random.hash_one(self.asked) & !(PLACES as u64 - 1)) | at;
        place.state = State::Waiting(question);
        self.asked += 1;
        Ok(place.nonce)
    }

    /// Takes the question with this nonce, if `fits` is true: the answer came from the address that was asked.
    pub fn answer(&mut self, nonce: u64, fits: impl FnOnce(&Q) -> bool) -> Result<Q, Unwanted> {
        let place = &mut self.places[(nonce % PLACES as u64) as usize];
        if place.nonce != nonce || self.asked == 0 {
            return Err(Unwanted::Unknown);
        }
        match &place.state {
            State::Waiting(question) if !fits(question) => return Err(Unwanted::Sender),
            State::Waiting(_) => {}
            State::Answered => return Err(Unwanted::Repeated),
            State::Late => return Err(Unwanted::Late),
        }
        match std::mem::replace(&mut place.state, State::Answered) {
            State::Waiting(question) => Ok(question),
            State::Answered | State::Late => unreachable!("it waits, as was seen above"),
        }
    }

    /// True if a question may be outstanding.
    pub fn any(&self) -> bool {
        self.decided < self.asked
    }

    /// Takes the oldest outstanding question if `over` is true for it. Later answers to it count as late.
    pub fn give_up(&mut self, over: impl Fn(&Q) -> bool) -> Option<Q> {
        while self.decided < self.asked {
            let place = &mut self.places[(self.decided % PLACES as u64) as usize];
            match &place.state {
                State::Waiting(question) if !over(question) => return None,
                State::Waiting(_) => {
                    if let State::Waiting(question) = std::mem::replace(&mut place.state, State::Late) {
                        return Some(question);
                    }
                }
                State::Answered | State::Late => self.decided += 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_answered_once_by_the_peer_that_was_asked() {
        let mut table = Outstanding::default();
        assert_eq!(table.answer(0, |_: &u32| true), Err(Unwanted::Unknown));
        let nonce = table.ask(7).expect("there is room");
        assert_eq!(table.answer(nonce ^ 1 << 40, |_| true), Err(Unwanted::Unknown));
        assert_eq!(table.answer(nonce, |_| false), Err(Unwanted::Sender));
        assert_eq!(table.answer(nonce, |q| *q == 7), Ok(7), "a stranger's answer does not spoil it");
        assert_eq!(table.answer(nonce, |_| true), Err(Unwanted::Repeated));
    }

    #[test]
    fn the_oldest_are_given_up_first_and_their_answers_are_late() {
        let mut table = Outstanding::default();
        let nonces: Vec<u64> = (0..4).map(|i| table.ask(i).expect("there is room")).collect();
        table.answer(nonces[1], |_| true).expect("it waits");
        let given_up: Vec<i32> = std::iter::from_fn(|| table.give_up(|i| *i < 3)).collect();
        assert_eq!(given_up, [0, 2]);
        assert_eq!(table.answer(nonces[2], |_| true), Err(Unwanted::Late));
        assert_eq!(table.answer(nonces[3], |_| true), Ok(3));
    }

    #[test]
    fn no_more_wait_than_there_are_places_and_places_come_back() {
        let mut table = Outstanding::default();
        let nonces: Vec<u64> = (0..PLACES).map(|i| table.ask(i).expect("there is room")).collect();
        assert_eq!(table.ask(PLACES), Err(PLACES));
        table.answer(nonces[0], |_| true).expect("it waits");
        let again = table.ask(PLACES).expect("the first place is free");
        assert_eq!(table.answer(nonces[0], |_| true), Err(Unwanted::Unknown), "its place is another's now");
        assert_eq!(table.answer(again, |_| true), Ok(PLACES));
        let left = std::iter::from_fn(|| table.give_up(|_| true)).count();
        assert_eq!(left, PLACES - 1);
    }
}
