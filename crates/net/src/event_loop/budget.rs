//! Budget of a task's turn, which limits a turn to some hundred microseconds however ready everything is that
//! the task reads and writes. Every read and write draws from it, and so does other work that a single read
//! can cause in quantity. A task that has used it up continues after the others, and after the kernel was
//! polled.
//!
//! Similar to tokio's `coop`, which counts operations. Here larger operations cost more, because 128 operations of
//! 32 KiB take milliseconds. Drawing is a decrement and does not read the clock.

use super::{tasks, units};
use std::future::poll_fn;
use std::task::{Context, Poll};
pub use units::{charge, is_spent};

/// Units of the verification of a signature by a public key, which takes some hundred microseconds.
pub const SIGNATURE: u32 = 64;

/// Bytes of a read or write that cost another unit.
const BYTES: usize = 8 * 1024;

/// Draws a unit. Pending if none is left; the task then continues after the others.
#[inline]
pub fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    if units::draw() {
        return Poll::Ready(());
    }
    tasks::wait_for_turn(cx);
    Poll::Pending
}

/// Draws a unit; if none is left, lets other tasks run first.
#[inline]
pub async fn proceed() {
    poll_fn(|cx| poll_proceed(cx)).await;
}

/// Draws the cost of the bytes of a read or write, in addition to the unit of every operation.
#[inline]
pub(crate) fn charge_bytes(bytes: usize) {
    if bytes >= BYTES {
        charge((bytes / BYTES) as u32);
    }
}

/// Ends the turn: the task must return `Pending`, and continues after the others.
pub fn pause(cx: &Context<'_>) {
    units::end();
    tasks::wait_for_turn(cx);
}

#[cfg(test)]
mod tests {
    use super::super::units::TURN;
    use super::super::{Watched, run, spawn, yield_now};
    use super::*;
    use crate::buffer::Buf;
    use crate::stream::Stream;
    use std::cell::Cell;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    fn pair() -> (UnixStream, Stream) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, Stream::new(ours.into()))
    }

    /// Number of times that `repeat` is ready within a turn.
    async fn in_one_turn(mut repeat: impl FnMut(&mut Context<'_>) -> Poll<()>) -> usize {
        yield_now().await;
        poll_fn(|cx| Poll::Ready((0..10_000).take_while(|_| repeat(cx).is_ready()).count())).await
    }

    #[test]
    fn whatever_is_always_ready_gives_way_in_time() {
        run(async {
            let (mut peer, stream) = pair();
            let small = in_one_turn(|cx| stream.poll_write(cx, b"x").map(|n| assert_eq!(n.unwrap(), 1))).await;
            assert_eq!(small, TURN as usize, "writes of a socket that is not watched");
            peer.write_all(&vec![0; 100_000]).unwrap();
            stream.watch().unwrap();
            // Each peek finds bytes and leaves them.
            let peeks = in_one_turn(|cx| stream.poll_peek(cx).map(|n| assert_eq!(n.unwrap(), 1))).await;
            assert_eq!(peeks, TURN as usize, "reads of a socket that is watched, for which there is news or not");
            let (mut peer, stream) = pair();
            peer.write_all(&vec![0; 128 * 1024]).unwrap();
            let large = in_one_turn(|cx| {
                charge(TURN - 20);
                stream.poll_read(cx, &mut Buf::take()).map(|n| assert!(n.unwrap() >= 32 * 1024))
            });
            assert!(large.await <= 4, "large reads draw more");
            peer.write_all(b"x").unwrap();
            let heads = in_one_turn(|cx| poll_proceed(cx).map(|()| charge(3))).await;
            assert_eq!(heads, TURN as usize / 4);
        })
        .unwrap();
    }

    #[test]
    fn a_readable_source_gives_way_in_time_though_the_kernel_has_news() {
        run(async {
            let (mut peer, ours) = UnixStream::pair().unwrap();
            let watched = Watched::new(&ours).unwrap();
            peer.write_all(b"x").unwrap();
            poll_fn(|cx| watched.poll_readable(cx)).await;
            assert!(in_one_turn(|cx| watched.poll_readable(cx)).await <= TURN as usize);
        })
        .unwrap();
    }

    /// A task woken by the kernel waits for at most a few turns of tasks that never wait, however many there
    /// are.
    #[test]
    fn a_task_with_news_goes_before_those_that_have_used_up_their_turns() {
        run(async {
            let spent = Rc::new(Cell::new(0u32));
            for _ in 0..50 {
                let spent = spent.clone();
                spawn(async move {
                    loop {
                        charge(TURN);
                        spent.set(spent.get() + 1);
                        proceed().await;
                    }
                });
            }
            let (mut peer, stream) = pair();
            stream.watch().unwrap();
            // Every task has had its first turn.
            while spent.get() < 200 {
                yield_now().await;
            }
            for _ in 0..100 {
                let before = spent.get();
                peer.write_all(b"x").unwrap();
                let (n, _) = poll_fn(|cx| stream.poll_read_into(cx, Buf::take)).await.unwrap();
                assert_eq!(n, 1);
                // It finds nothing before the next poll of the kernel, which wakes it.
                assert!(spent.get() - before <= 4, "{}", spent.get() - before);
            }
        })
        .unwrap();
    }

    #[test]
    fn all_that_have_used_up_their_turns_continue_in_order_and_once_for_each_look() {
        run(async {
            let order = Rc::new(std::cell::RefCell::new(Vec::new()));
            for number in 0..3 {
                let order = order.clone();
                spawn(async move {
                    for _ in 0..3 {
                        order.borrow_mut().push(number);
                        let mut has_paused = false;
                        poll_fn(|cx| {
                            if has_paused {
                                return Poll::Ready(());
                            }
                            has_paused = true;
                            // Both directions of a connection may ask.
                            pause(cx);
                            assert!(poll_proceed(cx).is_pending() && poll_proceed(cx).is_pending());
                            Poll::Pending
                        })
                        .await;
                    }
                });
            }
            while Rc::strong_count(&order) > 1 {
                yield_now().await;
            }
            assert_eq!(order.borrow()[..3], [0, 1, 2]);
            assert_eq!(order.borrow().len(), 9);
        })
        .unwrap();
    }
}
