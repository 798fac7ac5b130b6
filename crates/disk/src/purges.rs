//! Purges against which responses are checked when they are read: by prefix, by tag, and soft purges.

use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{PurgeRecord, ResponseRecord, Scope};
use evenkeel_cache::store::{Fate, Head, Target};
use std::sync::{PoisonError, RwLock};

/// Most purges in the list. A further purge drops everything on disk: too much, never too little.
const PURGES_MAX: usize = 1024;

/// Purges that may cover a response on disk.
#[derive(Debug, Default)]
pub struct Purges(RwLock<List>);

#[derive(Debug, Default)]
struct List {
    listed: Vec<Listed>,
    next: u64,
}

/// A purge, with its place in the log.
#[derive(Debug)]
struct Listed {
    number: u64,
    /// Place in the log; `u64::MAX` until it is written.
    sequence: u64,
    purge: PurgeRecord,
}

/// Effect of purges on a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The response may be used. A soft purge makes it stale from this moment on.
    Holds(Option<Moment>),
    Purged,
}

impl Purges {
    /// Adds a purge that is not written yet, and returns its number. `None` if there are too many.
    pub fn add(&self, purge: &PurgeRecord) -> Option<u64> {
        self.insert(purge, u64::MAX)
    }

    /// Adds a purge that the search of the file has found.
    pub fn found(&self, purge: &PurgeRecord, sequence: u64) -> bool {
        self.insert(purge, sequence).is_some()
    }

    fn insert(&self, purge: &PurgeRecord, sequence: u64) -> Option<u64> {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if list.listed.len() >= PURGES_MAX {
            return None;
        }
        list.next += 1;
        let number = list.next;
        list.listed.push(Listed { number, sequence, purge: purge.clone() });
        Some(number)
    }

    /// Notes the place of a purge in the log.
    pub fn written(&self, number: u64, sequence: u64) {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        list.listed.iter_mut().filter(|listed| listed.number == number).for_each(|listed| listed.sequence = sequence);
    }

    /// Forgets purges before a place of the log: all responses that they cover are reclaimed.
    pub fn forget_before(&self, sequence: u64) {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        list.listed.retain(|listed| listed.sequence >= sequence);
    }

    /// Effect on a response at a place of the log.
    pub fn effect(&self, record: &ResponseRecord, sequence: u64) -> Effect {
        let list = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut stale_from = record.stale_from;
        for listed in list.listed.iter().filter(|listed| listed.sequence > sequence && is_for(&listed.purge, record)) {
            if listed.purge.fate == Fate::Removed {
                return Effect::Purged;
            }
            stale_from = Some(stale_from.map_or(listed.purge.at, |at| at.min(listed.purge.at)));
        }
        Effect::Holds(stale_from)
    }
}

fn is_for(purge: &PurgeRecord, record: &ResponseRecord) -> bool {
    let url = &record.key[..record.url_len];
    match &purge.scope {
        Scope::Url(of) => **of == *url,
        Scope::Log(Target::Prefix(prefix)) => url.starts_with(prefix),
        Scope::Log(Target::Tag(tag)) => record.stored.has_tag(tag),
        Scope::Log(Target::All) => true,
    }
}
