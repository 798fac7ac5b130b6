//! Empty: this package exists for its benches.
