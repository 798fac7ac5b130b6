//! How do queries come and answers go by datagrams? Up to [`SLOTS`] for one system call each way, which is most of what an
//! answer costs.

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

/// Batches of datagrams that a socket has room for, at most.
const BATCHES_MAX: usize = 256;
/// The largest query: names have 255 bytes at most, and options some hundred.
const QUERY_MAX: usize = 2048;
/// What an answer first has room for.
const ANSWER: usize = 512;

/// A socket that is served, and the task that does.
pub struct Serving {
    binding: Rc<Binding>,
    socket: ListenFd,
    batch: Rc<RefCell<Batch>>,
    task: Task,
}

/// Answers from now on what comes at a socket.
///
/// # Errors
/// The event loop cannot watch it.
pub fn start(binding: &Rc<Binding>, socket: ListenFd) -> io::Result<Serving> {
    let watched = Source::new(socket.clone())?;
    let batch = Rc::new(RefCell::new(Batch::new()));
    let task = spawn_essential(run(binding.clone(), watched, batch.clone()));
    Ok(Serving { binding: binding.clone(), socket, batch, task })
}

impl Serving {
    /// Answers no more, but for what waits, which was sent to us: what comes next finds another socket, or a successor at
    /// this one, or none.
    pub fn close(&self) {
        self.task.abort();
        let answer = || contained(|| self.batch.borrow_mut().exchange(&self.socket, &self.binding));
        // As much as can wait: more may come as fast as it is answered.
        (0..BATCHES_MAX).take_while(|_| answer().is_none_or(|n| n == SLOTS)).for_each(drop);
    }
}

async fn run(binding: Rc<Binding>, socket: Source<ListenFd>, batch: Rc<RefCell<Batch>>) {
    loop {
        socket.readable().await;
        // While some were answered more may have come: to look costs less than to wait and be woken.
        match contained(|| batch.borrow_mut().exchange(&socket, &binding)) {
            Some(0) => socket.note_empty(),
            answered => budget::charge(answered.unwrap_or(SLOTS) as u32 / 2),
        }
    }
}

/// `None` if it panics: that costs the messages at hand, as it costs a connection over TCP, and not the socket. What a batch
/// goes by is written anew for each.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Room for one batch.
struct Batch {
    queries: RecvBatch,
    /// By slot of the query.
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

    /// Reads what is there, answers it and sends the answers. How many messages there were.
    fn exchange(&mut self, socket: &ListenFd, binding: &Binding) -> usize {
        let Ok(came) = self.queries.take(socket.as_fd(), 0, SLOTS, true) else { return 0 };
        // Of a batch that panicked.
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
