//! Detection of workers that end without a command. The process then exits with an error, so that its supervisor
//! restarts it: otherwise it would continue with fewer sockets, unnoticed.

use crate::plane::Plane;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

/// Polling interval for a thread that is about to end: threads can be joined, but not awaited.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until a worker of any plane has ended, and returns its name and the reason. Cancel safe.
pub async fn worker(planes: &mut [Box<dyn Plane>]) -> String {
    let mut ends: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    ends.extend(planes.iter().map(|plane| Box::pin(plane.workers().ends()) as _));
    poll_fn(|cx| match ends.iter_mut().any(|end| end.as_mut().poll(cx).is_ready()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
    drop(ends);
    loop {
        if let Some(thread) = planes.iter_mut().find_map(|plane| plane.workers_mut().take_ended()) {
            return why(thread);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns the name of an ended worker, and the reason, as a sentence.
fn why(thread: JoinHandle<io::Result<()>>) -> String {
    let name = thread.thread().name().unwrap_or("a worker").to_string();
    match thread.join() {
        Ok(Ok(())) => format!("{name} stopped unexpectedly"),
        Ok(Err(error)) => format!("{name} stopped unexpectedly: {error}"),
        Err(_) => format!("{name} stopped unexpectedly: it panicked; see the log above"),
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
        assert_eq!(said(|| Ok(())), "dns-1 stopped unexpectedly");
        assert_eq!(said(|| Err(io::Error::other("no room"))), "dns-1 stopped unexpectedly: no room");
        let panicked = said(|| panic!("as it should in this test"));
        assert_eq!(panicked, "dns-1 stopped unexpectedly: it panicked; see the log above");
    }
}
