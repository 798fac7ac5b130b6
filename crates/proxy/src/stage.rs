//! In which order do connections that are ready at once get their turn? All read, then all write.
//!
//! Reading and writing are long ways through different code of the kernel, and neither fits the processor's instruction
//! cache together with the other. Taking each way for a whole batch saves 3 to 4 % of the processor time of a small
//! request, and costs a request that is alone nothing to speak of.

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
