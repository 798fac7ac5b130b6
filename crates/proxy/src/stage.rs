//! In which order do connections that are ready at once get their turn? All read, then all write.
//!
//! Reading and writing are long ways through different code of the kernel, and neither fits the processor's instruction
//! cache together with the other, so each is taken for a whole batch. Measured on a busy machine, interleaved: with 64
//! clients 4 % less processor time a request in one trial and 7 % in another, within the spread of both; with one client
//! no difference; with 8 the noise was larger than any.

use std::future::poll_fn;
use std::task::Poll;

/// Lets the other connections that are ready have their turn first.
#[inline]
pub async fn after_others() {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        // Woken while it runs, a task goes to the end of the queue.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
