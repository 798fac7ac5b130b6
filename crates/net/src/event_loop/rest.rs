//! Rest of the task that keeps the time of its thread: waits while nothing happens there.

use super::alarm;
use super::tasks::go_first;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

/// Waits until anything happens on this thread, or until `until`, and continues before all tasks that it
/// woke. Only a single task of a thread may use it.
pub async fn rest(until: Option<Instant>) {
    let mut is_resting = false;
    let mut alarm = until.map(alarm::sleep_until);
    poll_fn(|cx| {
        if std::mem::replace(&mut is_resting, true) {
            return Poll::Ready(());
        }
        if let Some(alarm) = &mut alarm
            && Pin::new(alarm).poll(cx).is_ready()
        {
            return Poll::Ready(());
        }
        go_first(cx);
        Poll::Pending
    })
    .await;
}
