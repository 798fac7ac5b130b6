//! Connections that several pools share, by the settings of their server. See [`Shared`].

use crate::lock::lock;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

/// Values that exist while they are in use, by their type and a key.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>);

type Values<K, V> = HashMap<K, Weak<V>>;

impl Shared {
    /// Returns the value of a key, which `begin` makes if it is not in use.
    pub fn get<K, V>(&self, key: &K, begin: impl FnOnce() -> V) -> Arc<V>
    where
        K: Clone + Eq + Hash + Send + 'static,
        V: Send + Sync + 'static,
    {
        let mut all = lock(&self.0);
        let all = all.entry(TypeId::of::<Values<K, V>>()).or_insert_with(|| Box::new(Values::<K, V>::new()));
        let all = all.downcast_mut::<Values<K, V>>().expect("each type has its own values");
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
        let shared = Shared::default();
        let (a, b) = (shared.get(&"a", || 1_u32), shared.clone().get(&"a", || 2_u32));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(*shared.get(&"b", || 3_u32), 3);
        drop((a, b));
        assert_eq!(*shared.get(&"a", || 4_u32), 4);
        let all = lock(&shared.0);
        let values = all[&TypeId::of::<Values<&str, u32>>()].downcast_ref::<Values<&str, u32>>();
        assert_eq!(values.map(HashMap::len), Some(1), "those that ended are gone");
    }

    #[test]
    fn values_of_different_types_do_not_meet() {
        let shared = Shared::default();
        let (number, text) = (shared.get(&"a", || 1_u32), shared.get(&"a", || "one"));
        assert_eq!((*number, *text), (1, "one"));
        assert!(Arc::ptr_eq(&number, &shared.get(&"a", || 2_u32)));
    }
}
