//! What has happened of late? The latest changes of endpoints, pools and configuration, and what operators did, for those who
//! follow them.
#![expect(clippy::disallowed_types, reason = "workers tell nothing here")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// Events that are kept; older ones are forgotten.
pub const KEPT_MAX: usize = 2000;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An endpoint changed its state.
    Endpoint,
    /// A pool began to panic, or is over it.
    Pool,
    /// An operator changed something.
    Operator,
    /// A configuration was read.
    Config,
    /// The process started, takes over or ends.
    Process,
}

impl Kind {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Endpoint => "endpoint",
            Kind::Pool => "pool",
            Kind::Operator => "operator",
            Kind::Config => "config",
            Kind::Process => "process",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Counts up from 1.
    pub id: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// What it is about.
    pub kind: Kind,
    /// The pool that it is about, if it is about one.
    pub pool: Option<Arc<str>>,
    /// The endpoint of that pool.
    pub endpoint: Option<Arc<str>>,
    /// One sentence without a full stop.
    pub text: String,
    /// Who did it, if a person or a program did.
    pub by: Option<String>,
}

/// The latest events of this process, shared by all that hold it.
#[derive(Clone, Debug)]
pub struct Events {
    kept: Arc<Mutex<VecDeque<Event>>>,
    /// The number of the latest.
    latest: watch::Sender<u64>,
}

impl Default for Events {
    fn default() -> Events {
        Events { kept: Arc::default(), latest: watch::Sender::new(0) }
    }
}

impl Events {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event that happens now. `about`: the pool, and the endpoint of it.
    pub fn tell(&self, kind: Kind, about: (Option<&Arc<str>>, Option<&Arc<str>>), text: String, by: Option<&str>) {
        let mut kept = self.kept();
        let id = *self.latest.borrow() + 1;
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        let (pool, endpoint, by) = (about.0.cloned(), about.1.cloned(), by.map(str::to_owned));
        kept.push_back(Event { id, unix_ms: unix_ms(SystemTime::now()), kind, pool, endpoint, text, by });
        self.latest.send_replace(id);
    }

    /// Those after the one of this number, the oldest first.
    pub fn since(&self, id: u64) -> Vec<Event> {
        self.kept().iter().filter(|event| event.id > id).cloned().collect()
    }

    /// Tells when there are more.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
}

/// A moment as milliseconds since 1970.
pub fn unix_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_and_numbered_on() {
        let events = Events::default();
        let mut follower = events.follow();
        assert!(events.since(0).is_empty());
        for n in 0..KEPT_MAX + 5 {
            events.tell(Kind::Config, (None, None), format!("change {n}"), Some("root"));
        }
        let kept = events.since(0);
        assert_eq!((kept.len(), kept[0].id, &*kept[0].text), (KEPT_MAX, 6, "change 5"));
        assert_eq!(events.since(KEPT_MAX as u64 + 4).len(), 1);
        assert!(follower.has_changed().expect("the sender is there"));
        assert_eq!(*follower.borrow_and_update(), KEPT_MAX as u64 + 5);
    }
}
