//! Has a worker ended that was not told to? Then the process ends as well, at once and with an error, so that its supervisor
//! starts another: what is left would go on with fewer sockets, unnoticed.

use crate::failure::Failure;
use evenkeel_proxy::Server;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at a thread that is about to end: threads can be joined, but not awaited.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until a worker of either plane has ended; to be given up while none was told to.
pub async fn worker(proxy: &mut Server, dns: &mut evenkeel_dns::Server) -> Failure {
    tokio::select! {
        () = proxy.worker_ends() => {}
        () = dns.worker_ends() => {}
    }
    loop {
        if let Some(thread) = proxy.take_ended().or_else(|| dns.take_ended()) {
            return Failure::running(why(thread));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Which one has ended, and why.
fn why(thread: JoinHandle<io::Result<()>>) -> String {
    let name = thread.thread().name().unwrap_or("a worker").to_string();
    match thread.join() {
        Ok(Ok(())) => format!("{name} has ended on its own"),
        Ok(Err(error)) => format!("{name} has ended on its own: {error}"),
        Err(_) => format!("{name} has ended on its own: it panicked, as is said above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_worker_and_what_ended_it() {
        let said = |work: fn() -> io::Result<()>| {
            why(std::thread::Builder::new().name("dns-1".into()).spawn(work).expect("a thread"))
        };
        assert_eq!(said(|| Ok(())), "dns-1 has ended on its own");
        assert_eq!(said(|| Err(io::Error::other("no room"))), "dns-1 has ended on its own: no room");
        let panicked = said(|| panic!("as it should in this test"));
        assert_eq!(panicked, "dns-1 has ended on its own: it panicked, as is said above");
    }
}
