//! Our TLS record layer compared with that of rustls. A script says what the peer seals and what happens to
//! its records in transit; `crates/net/tests/tls/records.rs` runs it, in the tests with generated scripts.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/net/tests/tls/pair.rs"]
mod pair;
#[path = "../../crates/net/tests/tls/records.rs"]
mod records;

fuzz_target!(|script: &[u8]| records::run(script));
