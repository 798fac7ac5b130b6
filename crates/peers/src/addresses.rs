//! Addresses that tests listen at.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Returns an address that no other test has, nor will have: loopback is a network of 16 million addresses, and each test process
/// takes one of its own. A port that was free and let go again may be another's a moment later, as the system gives those of
/// 127.0.0.1 to any that connects, and one that is free for TCP may be in use for UDP.
pub fn own_addr() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 128 | (high & 63), middle, low], NEXT.fetch_add(1, Relaxed)))
}
