//! DNS over UDP, with up to [`SLOTS`] datagrams per system call in each direction. The calls are most of the
//! cost of an answer.

use crate::binding::Binding;
use evenkeel_net::datagrams::recv_batch::{RecvBatch, SLOTS};
use evenkeel_net::datagrams::send_batch::{SendBatch, To};
use evenkeel_net::event_loop::{Source, Task, budget, spawn_essential};
use evenkeel_net::listen::{ListenFd, Protocol};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Most batches that can wait in a socket's buffer.
const BATCHES_MAX: usize = 256;
/// Largest query, in bytes: names have at most 255, and options some hundred.
const QUERY_MAX: usize = 2048;
/// Initial capacity of an answer, in bytes.
const ANSWER: usize = 512;

/// A served socket, with its task.
pub struct Serving {
    binding: Rc<Binding>,
    socket: ListenFd,
    batch: Rc<RefCell<Batch>>,
    task: Task,
}

/// Starts answering queries that arrive at a socket.
///
/// # Errors
/// If the event loop cannot watch it.
pub fn start(binding: &Rc<Binding>, socket: ListenFd) -> io::Result<Serving> {
    let watched = Source::new(socket.clone())?;
    let batch = Rc::new(RefCell::new(Batch::new()));
    let task = spawn_essential(run(binding.clone(), watched, batch.clone()));
    Ok(Serving { binding: binding.clone(), socket, batch, task })
}

impl Serving {
    /// Stops after the queries that already wait, which were sent to this process. Later queries reach another
    /// socket, a successor at this socket, or none.
    pub fn close(&self) {
        self.task.abort();
        let answer = || contained(|| self.batch.borrow_mut().exchange(&self.socket, &self.binding));
        // At most what the buffer can hold, because queries may arrive as fast as they are answered.
        (0..BATCHES_MAX).take_while(|_| answer().is_none_or(|n| n == SLOTS)).for_each(drop);
    }
}

async fn run(binding: Rc<Binding>, socket: Source<ListenFd>, batch: Rc<RefCell<Batch>>) {
    loop {
        socket.readable().await;
        // More may have arrived meanwhile, and another read is cheaper than a wait and a wakeup.
        match contained(|| batch.borrow_mut().exchange(&socket, &binding)) {
            Some(0) => socket.note_empty(),
            answered => budget::charge(answered.unwrap_or(SLOTS) as u32 / 2),
        }
    }
}

/// Runs `work`; `None` if it panics. A panic then costs the messages of the batch, like a connection over
/// TCP, but not the socket. Each batch rewrites all of its state.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Buffers of a socket, reused for each batch.
struct Batch {
    queries: RecvBatch,
    /// Answers by slot of the query.
    answers: [Vec<u8>; SLOTS],
    sending: SendBatch,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            queries: RecvBatch::new(QUERY_MAX),
            answers: std::array::from_fn(|_| Vec::with_capacity(ANSWER)),
            sending: SendBatch::default(),
        }
    }

    /// Receives a batch, answers it and sends the answers. Returns the number of queries.
    fn exchange(&mut self, socket: &ListenFd, binding: &Binding) -> usize {
        let Ok(came) = self.queries.take(socket.as_fd(), 0, SLOTS, true) else { return 0 };
        // Left over from a batch that panicked.
        self.sending.clear();
        let answerer = binding.answerer();
        let mut answerer = answerer.borrow_mut();
        let at = binding.moment();
        for slot in 0..came {
            let query = self.queries.came(slot);
            let Some(client) = query.from.filter(|_| !query.is_cut) else {
                answerer.stats().dropped.add(1);
                continue;
            };
            let answer = &mut self.answers[slot];
            if answerer.answer(self.queries.bytes(slot), client, Protocol::Udp, at, answer) {
                self.sending.push_one(slot, answer.len(), To { client, ours: query.to, interface: query.interface });
            }
        }
        let sent = self.sending.flush(socket, &self.answers[..]);
        answerer.stats().unsent.add(sent.lost);
        came
    }
}

#[cfg(test)]
mod tests {
    use super::contained;

    #[test]
    fn a_panic_ends_with_the_batch() {
        assert_eq!(contained(|| 3), Some(3));
        assert_eq!(contained(|| -> usize { panic!("as it should in this test") }), None);
    }
}
