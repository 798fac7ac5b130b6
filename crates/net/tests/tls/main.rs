//! TLS compared with rustls: arbitrary records of a peer, and complete connections.

mod connections;
mod limits;
mod pair;
mod records;

use evenkeel_balance::Rng;

/// Runs a test with many seeds, and prints the seed that fails.
fn with_seeds(seeds: std::ops::Range<u64>, mut test: impl FnMut(&mut Rng, u64)) {
    struct Named(u64);
    impl Drop for Named {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {}", self.0);
            }
        }
    }
    for seed in seeds {
        let _named = Named(seed);
        test(&mut Rng::new(seed), seed);
    }
}

/// `fuzz/targets/tls_records.rs` runs the same with fuzzed scripts.
#[test]
fn records_read_as_rustls_reads_them() {
    with_seeds(0..1000, |rng, seed| {
        let mut script = vec![seed as u8];
        script.extend((0..rng.below(120)).map(|_| rng.below(256) as u8));
        records::run(&script);
    });
}
