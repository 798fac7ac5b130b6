//! The cluster as it is known: [`objects`] as they are read, the [`store`] that has them, and the [`watch`] that follows them.

// Order: watch, store, objects
pub mod objects;
pub mod store;
pub mod watch;
