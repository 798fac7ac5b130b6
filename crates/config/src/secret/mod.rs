//! Secrets in texts for people: how they are recognized, and how quoted lines hide them.

// Order: masked, names
pub(crate) mod masked;
pub(crate) mod names;
