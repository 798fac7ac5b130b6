//! How does a plane run on all cores? A [`Workers`] has a thread with an event loop for each, sends them what changes, waits
//! until all of them have applied it, and notices when one has ended. What a worker does is the plane's.

use crate::counter::Counter;
use crate::deadline::TICK;
use crate::event_loop::{self, alarm};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// What workers are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run,
    /// Accept no more and finish what runs, as another process accepts now: connections close after their next request,
    /// as one that is idle may be about to send it.
    Retire,
    /// Accept no more, finish what runs, close what is idle, and end.
    Drain,
    /// End.
    Stop,
}

/// The control side of a plane's workers, which take updates of type `U`.
pub struct Workers<U> {
    commands: watch::Sender<Command>,
    workers: Vec<Worker<U>>,
}

/// The control side of one worker. If it is dropped, the worker ends.
pub struct Worker<U> {
    name: String,
    updates: mpsc::UnboundedSender<(U, Applied)>,
    beats: Arc<Counter>,
    /// `None` once it has ended, and that was reported.
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// A way to send updates to one worker, which does not keep it running.
pub struct Door<U>(mpsc::WeakUnboundedSender<(U, Applied)>);

impl<U> Door<U> {
    /// Sends an update, and waits for nothing. Whether the worker still runs.
    pub fn send(&self, update: U) -> bool {
        self.0.upgrade().is_some_and(|updates| updates.send((update, Applied(channel().0))).is_ok())
    }
}

/// What connects a worker to its control side.
pub struct ControlLink<U> {
    /// What changes, each with the guard to be dropped when it is in use. Closed: the worker is to end.
    pub updates: mpsc::UnboundedReceiver<(U, Applied)>,
    /// Whether to serve at all.
    pub commands: watch::Receiver<Command>,
    /// Counted up while the event loop turns.
    pub beats: Arc<Counter>,
}

/// Dropped when an update is in use, or its worker has ended.
pub struct Applied(#[expect(dead_code, reason = "nothing is sent: its end is the word")] Sender<()>);

/// An update on its way to the workers.
pub struct Applying {
    done: Sender<()>,
    waiting: Receiver<()>,
}

impl Default for Applying {
    fn default() -> Applying {
        let (done, waiting) = channel();
        Applying { done, waiting }
    }
}

impl Applying {
    /// Waits until every worker that it was sent to has applied it, or has ended.
    pub fn wait(self) {
        drop(self.done);
        // Nothing is ever sent: it ends when the last worker has let go.
        let _ = self.waiting.recv();
    }
}

impl<U> Default for Workers<U> {
    fn default() -> Workers<U> {
        Workers { commands: watch::channel(Command::Run).0, workers: Vec::new() }
    }
}

impl<U: Send + 'static> Workers<U> {
    /// Starts a thread with an event loop that runs what `serve` makes. It is none of these workers until it is
    /// [`add`](Self::add)ed.
    ///
    /// # Errors
    /// The thread or its event loop cannot be made.
    pub fn spawn<F: Future<Output = io::Result<()>>>(
        &self,
        name: String,
        serve: impl FnOnce(ControlLink<U>) -> F + Send + 'static,
    ) -> io::Result<Worker<U>> {
        let (sender, updates) = mpsc::unbounded_channel();
        let beats = Arc::<Counter>::default();
        let link = ControlLink { updates, commands: self.commands.subscribe(), beats: beats.clone() };
        let (started, is_started) = channel();
        let run = move || {
            event_loop::run(async move {
                // The other side waits for it.
                let _ = started.send(());
                serve(link).await
            })?
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(run)?;
        if is_started.recv().is_err() {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            return Err(ended.err().unwrap_or_else(|| io::Error::other("it ended at once")));
        }
        Ok(Worker { name, updates: sender, beats, thread: Some(thread) })
    }

    /// Adds a worker.
    pub fn add(&mut self, worker: Worker<U>) {
        self.workers.push(worker);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Sends an update to the worker of that number. One that has ended needs none; that it has, is told elsewhere.
    pub fn send(&self, worker: usize, update: U, applying: &Applying) {
        let _ = self.workers[worker].updates.send((update, Applied(applying.done.clone())));
    }

    /// The way to each of them.
    pub fn doors(&self) -> Vec<Door<U>> {
        self.workers.iter().map(|worker| Door(worker.updates.downgrade())).collect()
    }

    /// Tells all of them what to do.
    pub fn command(&self, command: Command) {
        self.commands.send_replace(command);
    }

    /// For each worker its name and a number that goes up while its event loop turns.
    pub fn beats(&self) -> impl Iterator<Item = (&str, u64)> {
        self.workers.iter().map(|worker| (&*worker.name, worker.beats.get()))
    }

    /// The thread of a worker that has ended, if there is one. Where nothing told it to, it cannot be had back: what is left
    /// is to end the rest, and to say why.
    pub fn take_ended(&mut self) -> Option<JoinHandle<io::Result<()>>> {
        self.workers.iter_mut().find_map(|worker| worker.thread.take_if(|thread| thread.is_finished()))
    }

    /// Whether every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.workers.iter().filter_map(|worker| worker.thread.as_ref()).all(JoinHandle::is_finished)
    }

    /// Waits until every worker has ended.
    pub fn join(self) {
        let Workers { commands: _commands, workers } = self;
        for Worker { name, updates: _updates, thread, .. } in workers {
            match thread.map(JoinHandle::join) {
                None | Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => tracing::error!(%error, "{name} could not run"),
                Some(Err(_)) => tracing::error!("{name} panicked"),
            }
        }
    }
}

/// Does `work` at each [`TICK`], and counts it as a beat.
pub async fn tick(beats: Arc<Counter>, mut work: impl FnMut()) {
    let mut next = Instant::now();
    loop {
        alarm::sleep_until(next).await;
        // Ticks that were missed are made up by the next.
        next = Instant::now().max(next + TICK);
        beats.add(1);
        work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Adds what it is sent to a sum, until it is told to end.
    async fn sum(mut link: ControlLink<usize>, into: Arc<AtomicUsize>) -> io::Result<()> {
        loop {
            tokio::select! {
                update = link.updates.recv() => match update {
                    Some((0, _)) => return Err(io::Error::other("nothing to add")),
                    Some((n, _applied)) => _ = into.fetch_add(n, SeqCst),
                    None => return Ok(()),
                },
                _ = link.commands.wait_for(|command| *command != Command::Run) => return Ok(()),
            }
        }
    }

    fn workers(count: usize, into: &Arc<AtomicUsize>) -> Workers<usize> {
        let mut workers = Workers::default();
        for index in 0..count {
            let into = into.clone();
            workers.add(workers.spawn(format!("sum-{index}"), move |link| sum(link, into)).unwrap());
        }
        workers
    }

    fn next_end(workers: &mut Workers<usize>) -> JoinHandle<io::Result<()>> {
        loop {
            match workers.take_ended() {
                Some(thread) => return thread,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn an_update_is_waited_for_until_the_last_worker_has_it_and_not_for_one_that_ended() {
        let into = Arc::default();
        let mut workers = workers(3, &into);
        for round in 1..=100 {
            let applying = Applying::default();
            (0..3).for_each(|worker| workers.send(worker, 1, &applying));
            applying.wait();
            assert_eq!(into.load(SeqCst), 3 * round);
        }
        for _ in 0..2 {
            let applying = Applying::default();
            workers.send(1, 0, &applying);
            applying.wait();
        }
        let ended = next_end(&mut workers);
        assert_eq!(ended.thread().name(), Some("sum-1"));
        assert_eq!(ended.join().unwrap().unwrap_err().to_string(), "nothing to add");
        assert!(workers.take_ended().is_none() && !workers.has_ended());
        workers.command(Command::Stop);
        workers.join();
    }

    #[test]
    fn a_worker_that_was_never_added_ends_with_its_control_side() {
        let into = Arc::<AtomicUsize>::default();
        let workers = workers(1, &into);
        let held = into.clone();
        let Worker { thread, updates, .. } = workers.spawn("spare".into(), move |link| sum(link, held)).unwrap();
        drop(updates);
        thread.unwrap().join().unwrap().unwrap();
        assert!(!workers.has_ended());
    }

    #[test]
    fn beats_are_counted_while_the_event_loop_turns() {
        let beats = Arc::<Counter>::default();
        let counted = beats.clone();
        event_loop::run(async move {
            event_loop::spawn(tick(beats.clone(), || {}));
            while beats.get() < 2 {
                event_loop::yield_now().await;
            }
        })
        .unwrap();
        assert!(counted.get() >= 2);
    }
}
