//! Shared support of the socket tests: a proxy in this process, endpoints that follow a script, and clients that send
//! and read bytes. There are no sleeps for synchronisation: every wait has a deadline, after which the test fails and
//! names what did not happen.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

pub mod certificate;
pub mod client;
pub mod datagrams;
pub mod decoder;
pub mod endpoint;
pub mod filters;
pub mod h2_client;
pub mod h2_frames;
pub mod h2_server;
pub mod h3_client;
pub mod haproxy;
pub mod log;
pub mod lossy;
pub mod message;
pub mod nginx;
pub mod pki;
pub mod proxy;
pub mod tls;
pub mod unix;

pub use client::Client;
pub use endpoint::Endpoint;
pub use evenkeel_peers::own_addr;
pub use proxy::Proxy;

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Deadline of anything that should happen at once. Long, as other tests may keep the machine busy.
pub const SOON: Duration = Duration::from_secs(20);

/// Polls until `holds` is true.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Like [`wait_until`], for a condition that takes requests to find out.
pub async fn wait_until_asked(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds().await {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Starts a server without output, and waits until it listens at `addr`.
#[track_caller]
pub fn listening(mut server: Command, addr: SocketAddr) -> Child {
    let quiet = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = quiet.spawn().unwrap_or_else(|error| panic!("{quiet:?}: {error}"));
    wait_until("the server listens", || {
        assert_eq!(process.try_wait().expect("a child of ours"), None, "{server:?} has ended");
        TcpStream::connect(addr).is_ok()
    });
    process
}

/// Bytes without repetitions, so that one that is lost, doubled or moved is found.
pub fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A command for a program that the tests require; panics if it is not installed.
#[track_caller]
pub fn tool(program: &str) -> Command {
    let found = evenkeel_peers::find(program);
    Command::new(
        found.unwrap_or_else(|| panic!("{program} is not installed; `make setup` installs what the tests need")),
    )
}

/// Bytes as text, for comparisons and messages.
pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", "\n")
}
