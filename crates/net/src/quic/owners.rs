//! Owners of connection ids as far as a worker knows them. A forged datagram may name any of 2^24 owners, and asking for
//! each of them is a system call.

use super::ids::Owner;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time for which an owner is known to be gone, and in which unknown owners are counted.
const WINDOW: Duration = Duration::from_millis(100);

/// Limit of the unknown owners that are asked for in a window. An upgrade brings at most one owner for each worker.
const UNKNOWN_MAX: usize = 256;

/// Most owners that are remembered as gone. A process that crashed leaves no more than it had workers.
const GONE_MAX: usize = 64;

/// Handling of a datagram for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Handing it over shows whether the owner is there.
    Ask,
    Gone,
    /// Too many unknown owners were named lately. The datagram is dropped: a reset could end a connection that lives.
    Doubtful,
}

/// Owners that are there, and those that were found to be gone.
pub(super) struct Owners {
    there: Vec<Owner>,
    gone: VecDeque<(Owner, Instant)>,
    asked: usize,
    since: Instant,
}

impl Owners {
    pub(super) fn new(now: Instant) -> Owners {
        Owners { there: Vec::new(), gone: VecDeque::new(), asked: 0, since: now }
    }

    pub(super) fn known(&mut self, owner: Owner, now: Instant) -> Known {
        if self.there.contains(&owner) {
            return Known::Ask;
        }
        while self.gone.front().is_some_and(|(_, at)| now.saturating_duration_since(*at) >= WINDOW) {
            self.gone.pop_front();
        }
        if self.gone.iter().any(|(gone, _)| *gone == owner) {
            return Known::Gone;
        }
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.asked, self.since) = (0, now);
        }
        self.asked += 1;
        if self.asked > UNKNOWN_MAX { Known::Doubtful } else { Known::Ask }
    }

    /// Notes whether an owner was found. Its socket is bound by a process of this user, so that there are few.
    pub(super) fn note(&mut self, owner: Owner, is_there: bool, now: Instant) {
        match (is_there, self.there.iter().position(|there| *there == owner)) {
            (true, Some(_)) => {}
            (true, None) => self.there.push(owner),
            (false, at) => {
                at.map(|at| self.there.swap_remove(at));
                if self.gone.len() == GONE_MAX {
                    self.gone.pop_front();
                }
                self.gone.push_back((owner, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(n: usize) -> Owner {
        Owner { generation: (n >> 8) as u16, worker: n as u8 }
    }

    #[test]
    fn owners_that_were_found_are_always_asked_for() {
        let now = Instant::now();
        let mut owners = Owners::new(now);
        owners.note(owner(7), true, now);
        (1000..3000).for_each(|n| {
            owners.known(owner(n), now);
        });
        assert_eq!(owners.known(owner(7), now), Known::Ask);
        owners.note(owner(7), false, now);
        assert_eq!(owners.known(owner(7), now), Known::Gone);
        assert!(owners.there.is_empty());
    }

    #[test]
    fn an_owner_that_is_gone_is_asked_for_again_later() {
        let now = Instant::now();
        let mut owners = Owners::new(now);
        owners.note(owner(7), false, now);
        assert_eq!(owners.known(owner(7), now + WINDOW / 2), Known::Gone);
        assert_eq!(owners.known(owner(7), now + WINDOW), Known::Ask);
    }

    #[test]
    fn random_owners_are_bounded() {
        let now = Instant::now();
        let mut owners = Owners::new(now);
        let ask = |owners: &mut Owners, n: usize, at: Instant| {
            let known = owners.known(owner(n), at);
            if known == Known::Ask {
                owners.note(owner(n), false, at);
            }
            known
        };
        let asked = (0..10_000).filter(|n| ask(&mut owners, *n, now) == Known::Ask).count();
        assert_eq!((asked, owners.gone.len()), (UNKNOWN_MAX, GONE_MAX));
        assert_eq!(ask(&mut owners, 20_000, now), Known::Doubtful);
        assert_eq!(ask(&mut owners, 20_000, now + WINDOW), Known::Ask);
    }
}
