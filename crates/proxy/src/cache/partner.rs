//! The other process of an upgrade, as purges see it: each purge of a process has to hold in the other, too. The
//! threads of a [`handover`](super::handover) move the bytes.

#![expect(clippy::disallowed_types, reason = "taken for purges, and by the threads of a handover")]

use evenkeel_cache::record::PurgeRecord;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Most purges that wait to be sent. A further purge turns all of them into a purge of everything: too much is purged,
/// never too little.
const PURGES_MAX: usize = 4096;

/// Time in which the other process has to confirm a purge.
const CONFIRM: Duration = Duration::from_secs(5);

/// Place of the connection to the other process, if any. Kept across plans.
#[derive(Debug, Default)]
pub struct Partner(RwLock<Option<Arc<Link>>>);

/// Role of this process in an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Gives its stored responses away, and ends.
    Gives,
    /// Takes the responses of the previous process, and stays.
    Takes,
}

/// Connection to the other process of an upgrade.
#[derive(Debug)]
pub struct Link {
    pub side: Side,
    state: Mutex<State>,
    changed: Condvar,
}

/// State of a connection, which its two threads and purges share.
#[derive(Debug, Default)]
pub struct State {
    /// Purges to be sent, with their numbers.
    pub purges: VecDeque<(u64, PurgeRecord)>,
    /// Number of the newest purge of this process.
    newest: u64,
    /// Newest purge of this process that the other process has confirmed.
    confirmed: u64,
    /// Newest purge of the other process that must still be confirmed.
    pub to_confirm: Option<u64>,
    /// True once the other process serves. Set in the process that gives.
    pub serves: bool,
    /// True once all responses are sent.
    pub is_given: bool,
    pub has_ended: bool,
}

/// A purge that was sent to the other process.
#[derive(Debug)]
pub struct Told {
    link: Arc<Link>,
    number: u64,
}

/// Reason why a purge may not hold in the other process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconfirmed {
    /// The connection to the process that takes over is lost.
    Lost,
    /// The other process has not answered in time.
    Late(Side),
}

impl Partner {
    /// Connects to the other process. An earlier connection is given up.
    pub fn set(&self, link: Arc<Link>) {
        let before = self.0.write().unwrap_or_else(PoisonError::into_inner).replace(link);
        before.inspect(|before| before.end());
    }

    /// Sends a purge to the other process, if any. Does not wait.
    pub fn tell(&self, purge: &PurgeRecord) -> Option<Told> {
        let link = self.0.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let mut state = link.state();
        state.newest += 1;
        let number = state.newest;
        if !state.has_ended {
            let is_full = state.purges.len() >= PURGES_MAX;
            if is_full {
                state.purges.clear();
            }
            let purge = if is_full { PurgeRecord::all(purge.at) } else { purge.clone() };
            state.purges.push_back((number, purge));
        }
        drop(state);
        link.changed.notify_all();
        Some(Told { link, number })
    }
}

impl Link {
    pub fn new(side: Side) -> Arc<Link> {
        Arc::new(Link { side, state: Mutex::default(), changed: Condvar::new() })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the threads that wait for a change.
    pub fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Notes that the other process holds purges up to a number.
    pub fn confirm(&self, number: u64) {
        self.change(|state| state.confirmed = state.confirmed.max(number.min(state.newest)));
    }

    pub fn end(&self) {
        self.change(|state| {
            state.has_ended = true;
            state.purges.clear();
        });
    }

    /// Waits until `is_due` is true, or the connection has ended; until then, or for good without it.
    pub fn wait(&self, until: Option<Instant>, is_due: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while !state.has_ended && !is_due(&state) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return state,
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state
    }
}

impl Told {
    /// Waits until the purge holds in the other process. Not for a thread that serves requests.
    ///
    /// # Errors
    /// The other process may still serve purged responses.
    pub fn wait(&self) -> Result<(), Unconfirmed> {
        let until = Some(Instant::now() + CONFIRM);
        let state = self.link.wait(until, |state| state.confirmed >= self.number);
        match (state.confirmed >= self.number, state.has_ended, self.link.side) {
            (true, ..) => Ok(()),
            // A process that gives and has lost its successor serves nothing from its cache, see `handover`.
            (_, true, Side::Takes) => Ok(()),
            // There is no successor.
            (_, true, Side::Gives) if !state.serves => Ok(()),
            (_, true, Side::Gives) => Err(Unconfirmed::Lost),
            (_, false, side) => Err(Unconfirmed::Late(side)),
        }
    }
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unconfirmed::Lost => "the process that takes over could not be told of the purge: repeat it, which goes there",
            Unconfirmed::Late(Side::Gives) => {
                "the purge holds here, and the process that takes over has not confirmed it yet: repeat it when that serves"
            }
            Unconfirmed::Late(Side::Takes) => {
                "the purge holds here, and the process before, which finishes its requests, has not confirmed it: repeat it"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_cache::moment::Moment;
    use evenkeel_cache::record::Scope;
    use evenkeel_cache::store::Fate;

    fn purge() -> PurgeRecord {
        PurgeRecord { scope: Scope::Url((*b"http://a/\0").into()), fate: Fate::Stale, at: Moment(7) }
    }

    #[test]
    fn too_many_purges_become_one_of_everything() {
        let (partner, link) = (Partner::default(), Link::new(Side::Gives));
        assert!(partner.tell(&purge()).is_none());
        partner.set(link.clone());
        (0..PURGES_MAX).for_each(|_| _ = partner.tell(&purge()));
        assert_eq!(link.state().purges.len(), PURGES_MAX);
        let told = partner.tell(&purge()).expect("a link");
        let purges = std::mem::take(&mut link.state().purges);
        assert_eq!(purges, [(PURGES_MAX as u64 + 1, PurgeRecord::all(Moment(7)))]);
        link.confirm(u64::MAX);
        assert_eq!(told.wait(), Ok(()));
    }

    #[test]
    fn a_lost_connection_matters_only_to_a_process_whose_successor_serves() {
        for (side, serves, wanted) in
            [(Side::Takes, false, Ok(())), (Side::Gives, false, Ok(())), (Side::Gives, true, Err(Unconfirmed::Lost))]
        {
            let (partner, link) = (Partner::default(), Link::new(side));
            partner.set(link.clone());
            let told = partner.tell(&purge()).expect("a link");
            link.change(|state| state.serves = serves);
            link.end();
            assert_eq!(told.wait(), wanted);
        }
    }
}
