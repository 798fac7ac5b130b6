//! Nothing: this package exists for its benches.
