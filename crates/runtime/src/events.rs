//! Latest events of this process: changes of endpoints, pools and configuration, and actions of operators.
#![expect(clippy::disallowed_types, reason = "workers tell nothing here")]

use evenkeel_view::Event;
use evenkeel_view::events::Kind;
use evenkeel_view::words::unix_ms;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// Maximum number of events that are kept. The oldest are dropped first.
pub const KEPT_MAX: usize = 2000;

/// Latest events of this process, shared by all clones.
#[derive(Clone, Debug)]
pub struct Events {
    kept: Arc<Mutex<VecDeque<Event>>>,
    /// Number of the latest event.
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

    /// Adds an event with the current time. `about`: pool and endpoint concerned; `by`: the operator.
    pub fn tell(&self, kind: Kind, about: (Option<&Arc<str>>, Option<&Arc<str>>), text: String, by: Option<&str>) {
        let mut kept = self.kept();
        let id = *self.latest.borrow() + 1;
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        let (pool, endpoint, by) = (about.0.cloned(), about.1.cloned(), by.map(str::to_owned));
        let (at_ms, kind) = (unix_ms(SystemTime::now()), kind.name().into());
        kept.push_back(Event { id, at_ms, kind, pool, endpoint, text, by });
        self.latest.send_replace(id);
    }

    /// Prepends the events of the previous process; the numbers of this one's events continue theirs.
    pub fn restore(&self, before: Vec<Event>) {
        let mut kept = self.kept();
        let last = before.iter().map(|event| event.id).max().unwrap_or(0);
        kept.iter_mut().for_each(|event| event.id += last);
        let room = KEPT_MAX.saturating_sub(kept.len());
        before.into_iter().rev().take(room).for_each(|event| kept.push_front(event));
        self.latest.send_modify(|latest| *latest += last);
    }

    /// Returns the events after this number, oldest first.
    pub fn since(&self, id: u64) -> Vec<Event> {
        self.kept().iter().filter(|event| event.id > id).cloned().collect()
    }

    /// Subscribes to the number of the latest event.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
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
        let next = Events::default();
        next.tell(Kind::Process, (None, None), "it serves".to_owned(), None);
        next.restore(kept);
        let kept = next.since(0);
        assert_eq!((kept.len(), kept[0].id, &*kept[0].text), (KEPT_MAX, 7, "change 6"));
        assert_eq!(&*next.since(KEPT_MAX as u64 + 5)[0].text, "it serves");
        next.tell(Kind::Config, (None, None), "one more".to_owned(), None);
        assert_eq!(next.since(KEPT_MAX as u64 + 6).len(), 1);
    }
}
