//! Store.

#![expect(clippy::disallowed_types, reason = "x")]

use bytes::Bytes;
use evenkeel_cache::stored::Stored;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A stored response.
pub struct Entry {
    pub stored: Stored,
    pub body: Bytes,
}

pub struct Store {
    all: Mutex<HashMap<Box<[u8]>, Vec<Arc<Entry>>>>,
}

impl Store {
    pub fn new(_memory: u64) -> Store {
        Store { all: Mutex::default() }
    }

    pub fn get(&self, key: &[u8], mut serves: impl FnMut(&Entry) -> bool) -> (bool, Option<Arc<Entry>>) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(variants) = all.get(key) else { return (false, None) };
        let found = variants.iter().filter(|entry| serves(entry)).max_by_key(|entry| entry.stored.terms.date);
        (true, found.cloned())
    }

    /// Number of the next purge.
    pub fn now(&self) -> u64 {
        0
    }

    pub fn put(&self, key: &[u8], entry: Entry, _began: u64) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let variants = all.entry(key.into()).or_default();
        variants.retain(|other| other.stored.varying() != entry.stored.varying());
        variants.push(entry.into());
    }

    pub fn remove(&self, key: &[u8], is: impl Fn(&Entry) -> bool) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(variants) = all.get_mut(key) {
            variants.retain(|entry| !is(entry));
        }
    }

    pub fn remove_url(&self, url: &[u8]) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|key, _| !key.starts_with(url));
    }
}
