//! How does a connection end so that its last words arrive? Unread bytes would make a reset of its end, in which they are lost
//! (RFC 9112 section 9.6): for a while they are read, and thrown away.

use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::transport::Transport;
use std::pin::pin;
use std::time::Duration;

/// How long a closing connection may still send what is not read.
pub const LINGER: Duration = Duration::from_secs(2);

/// Bytes that it may still send.
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// Says that nothing more follows, and waits until the peer says so too.
pub async fn linger(transport: &Transport, timer: &Timer) {
    transport.shutdown_write();
    timer.set(timer.tick_after(LINGER));
    let discard = async {
        let mut left = LINGER_BYTES_MAX;
        loop {
            let mut buf = Buf::take();
            match transport.read(&mut buf).await {
                Ok(n) if n > 0 && n < left => left -= n,
                _ => return,
            }
        }
    };
    let _ = timer.limit(pin!(discard)).await;
}
