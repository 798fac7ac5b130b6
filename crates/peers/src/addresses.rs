//! Addresses that tests listen at.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Returns an address that no other test uses, now or later: loopback is a network of 16 million addresses, and each
/// test process takes an address of it. A free port of 127.0.0.1 would not do. After its release the kernel may give it
/// to any client that connects, and a port that is free for TCP may be in use for UDP.
pub fn own_addr() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 128 | (high & 63), middle, low], NEXT.fetch_add(1, Relaxed)))
}
