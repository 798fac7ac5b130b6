//! Connections that several pools share, by the settings of their server. See [`Shared`].

use crate::lock::lock;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

/// Values that exist while they are in use, by key.
#[derive(Debug)]
pub struct Shared<K, V>(Arc<Mutex<HashMap<K, Weak<V>>>>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Shared(Arc::default())
    }
}

impl<K, V> Clone for Shared<K, V> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<K: Clone + Eq + Hash, V> Shared<K, V> {
    /// Returns the value of a key, which `begin` makes if it is not in use.
    pub fn get(&self, key: &K, begin: impl FnOnce() -> V) -> Arc<V> {
        let mut all = lock(&self.0);
        if let Some(there) = all.get(key).and_then(Weak::upgrade) {
            return there;
        }
        all.retain(|_, value| value.strong_count() > 0);
        let new = Arc::new(begin());
        all.insert(key.clone(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lasts_as_long_as_it_is_in_use() {
        let shared = Shared::<&str, u32>::default();
        let (a, b) = (shared.get(&"a", || 1), shared.clone().get(&"a", || 2));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(*shared.get(&"b", || 3), 3);
        drop((a, b));
        assert_eq!(*shared.get(&"a", || 4), 4);
        assert_eq!(lock(&shared.0).len(), 1, "those that ended are gone");
    }
}
