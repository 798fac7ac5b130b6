//! What do sources share? The settings of the plan, and connections: one may serve the sources of many pools.
#![cfg_attr(not(test), expect(dead_code, reason = "names and files share no connection; what streams will"))]

use evenkeel_config::plan::Resolver;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a source may use besides its own settings.
#[derive(Clone, Debug)]
pub struct Context {
    /// How names are resolved.
    pub resolver: Resolver,
    /// What sources share by key.
    pub shared: Shared,
}

/// What sources of this process have in common, each thing by its type and a key: the URL of a server, for instance. It is
/// there as long as a source holds it, through plans.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Things>>);

type Things = HashMap<(TypeId, String), Weak<dyn Any + Send + Sync>>;

impl Shared {
    /// Finds what another source made by this key, or makes it. `make` only makes a handle: it is called under a lock, so
    /// connecting is for a task that ends when the handle is dropped.
    pub fn find_or_make<T: Any + Send + Sync>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut things = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<T>(), key.to_string());
        let found = things.get(&key).and_then(Weak::upgrade).and_then(|thing| thing.downcast().ok());
        found.unwrap_or_else(|| {
            things.retain(|_, thing| thing.strong_count() > 0);
            let made = Arc::new(make());
            let thing: Arc<dyn Any + Send + Sync> = made.clone();
            things.insert(key, Arc::downgrade(&thing));
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Connection(u8);

    #[test]
    fn sources_with_the_same_key_share_a_connection_until_the_last_one_ends() {
        let text = "[listener.a]\nbind = ['127.0.0.1:1']\n[pool.p]\nendpoints = ['127.0.0.1:2']\n";
        let plan = evenkeel_config::parse_str("a.toml", text, &|_| None).plan.expect("a good plan");
        let context = Context { resolver: plan.resolver, shared: Shared::default() };
        let shared = &context.clone().shared;
        let of = |key: &str, made| shared.find_or_make(key, || Connection(made));
        let (first, second) = (of("a", 1), of("a", 2));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*of("b", 3), Connection(3), "another key");
        assert_eq!(*shared.find_or_make("a", || 4u8), 4, "another type");
        drop(first);
        assert_eq!(*of("a", 5), Connection(1));
        drop(second);
        assert_eq!(*of("a", 6), Connection(6));
        assert_eq!(shared.0.lock().unwrap().len(), 1, "what is over is forgotten");
    }
}
