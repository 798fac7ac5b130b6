//! Ticks for planned requests, from a thread that only sleeps, exact to tens of microseconds. Timers of the event loop
//! are exact to a millisecond, longer than many answers take.

use crate::clock;
use crate::error::{Result, While};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Returns a stream that gets a byte at each of these times, ascending, on the clock of [`clock::now_ns`]. To be called
/// within an event loop.
///
/// # Errors
/// The system refuses it.
pub fn ring(moments: Vec<u64>) -> Result<tokio::net::UnixStream> {
    let doing = || "cannot make a timer".to_owned();
    let (mut bell, heard) = UnixStream::pair().or_say(doing)?;
    heard.set_nonblocking(true).or_say(doing)?;
    std::thread::spawn(move || {
        for moment in moments {
            let now = clock::now_ns();
            if now < moment {
                std::thread::sleep(Duration::from_nanos(moment - now));
            }
            if bell.write_all(&[1]).is_err() {
                return; // the load has ended
            }
        }
    });
    tokio::net::UnixStream::from_std(heard).or_say(doing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[test]
    fn no_bell_rings_too_early_and_all_ring() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
        runtime.block_on(async {
            let begin = clock::now_ns();
            let mut heard = ring(vec![begin, begin + 1_000_000, begin + 2_000_000]).expect("a socket");
            for count in 0..3 {
                assert_eq!(heard.read_u8().await.expect("it rings"), 1);
                assert!(clock::now_ns() >= begin + count * 1_000_000);
            }
            assert!(heard.read_u8().await.is_err());
        });
    }
}
