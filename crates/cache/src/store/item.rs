//! An object with its key, apart from the tables of its shard.

use super::entry::Entry;
use super::keys::KeyRef;
use super::object::{FRESH, Head, Object};
use super::purge::Sequence;
use crate::moment::Moment;
use std::sync::Arc;

/// Object that a walk has reached, or that was evicted.
#[derive(Debug)]
pub struct Item<H> {
    /// All bytes of its key.
    pub key: Box<[u8]>,
    /// Bytes of the key that are the URL.
    pub url_len: usize,
    pub object: Arc<Object<H>>,
    /// Moment of the soft purge that covers it.
    pub stale_from: Option<Moment>,
    /// Point in the order of purges up to which it was checked: as if its fetch had begun then.
    pub began: Sequence,
    /// Hits of its key, including its other variants.
    pub hits: u32,
}

impl<H: Head> Item<H> {
    /// Objects of an entry, the most recently used first.
    pub(super) fn of(entry: &Entry<H>) -> impl Iterator<Item = Item<H>> {
        entry.variants().map(|known| Item {
            key: entry.key.clone(),
            url_len: entry.url_len as usize,
            object: known.object.clone(),
            stale_from: Some(Moment(known.stale_from)).filter(|at| at.0 != FRESH),
            began: Sequence(entry.checked),
            hits: entry.hits,
        })
    }

    /// Key to insert the object with.
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.key, self.url_len)
    }
}
