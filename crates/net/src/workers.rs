//! Worker threads of a plane. [`Workers`] runs an event loop on each, sends updates, waits until all have
//! applied them, and notices workers that end. The plane supplies their work.

use crate::clock::Base;
use crate::counter::Counter;
use crate::deadline::TICK;
use crate::event_loop::{self, alarm};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};

/// Command of the control side to all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Accept clients and serve them.
    Run,
    /// Stop accepting and finish requests in flight, because another process accepts now. Connections close
    /// only after their next request, since an idle client may be about to send it.
    Retire,
    /// Stop accepting, finish requests in flight, close idle connections, and end.
    Drain,
    /// End at once, dropping requests in flight.
    Stop,
}

/// Interval at which a wait for workers checks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time after which a wait for workers is logged; an update usually takes milliseconds.
const LATE: Duration = Duration::from_secs(2);

/// Control side of a plane's workers, which accept updates of type `U`.
pub struct Workers<U> {
    threads: Threads,
    /// Channel to each worker, in the order of the threads.
    updates: Vec<mpsc::UnboundedSender<(U, Applied)>>,
}

/// Threads of a plane's workers, independent of the type of updates.
pub struct Threads {
    commands: watch::Sender<Command>,
    threads: Vec<WorkerThread>,
    /// Number of threads that are about to end or have ended.
    ending: watch::Sender<usize>,
    /// Number of ended threads that were taken.
    taken: usize,
}

struct WorkerThread {
    name: String,
    heart: Arc<Heart>,
    /// `None` once its end was reported.
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Counts a worker's thread on drop, at its end.
struct Ending(watch::Sender<usize>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n += 1);
    }
}

/// Ends waits for workers, from any thread: a process that shuts down must not wait for a stuck worker.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// Error of a wait that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl Interrupt {
    /// Ends the current wait and all later waits.
    pub fn raise(&self) {
        // Relaxed: the flag guards no other data.
        self.0.store(true, Relaxed);
    }
}

/// Control side of a worker, which ends when this is dropped.
pub struct Worker<U> {
    updates: mpsc::UnboundedSender<(U, Applied)>,
    thread: WorkerThread,
}

/// Sender of updates to a worker. Does not keep it running.
pub struct Door<U>(mpsc::WeakUnboundedSender<(U, Applied)>);

impl<U> Door<U> {
    /// Sends an update without waiting. False if the worker has ended.
    pub fn send(&self, update: U) -> bool {
        self.0.upgrade().is_some_and(|updates| updates.send((update, Applied(channel().0))).is_ok())
    }
}

/// Worker's end of its control channels.
pub struct ControlLink<U> {
    /// Updates, each with a guard to drop once it is in use. When the channel closes, the worker must end.
    pub updates: mpsc::UnboundedReceiver<(U, Applied)>,
    pub commands: watch::Receiver<Command>,
}

/// Liveness signal of an event loop, given only on request, so that an idle worker is not woken for it.
#[derive(Default)]
struct Heart {
    asked: Notify,
    beats: Counter,
}

impl Heart {
    async fn beat(self: Arc<Heart>) {
        loop {
            self.asked.notified().await;
            self.beats.add(1);
        }
    }
}

/// Guard of an update: dropped when the update is in use, or its worker has ended.
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
    /// Waits until every worker that it was sent to has applied it or has ended.
    ///
    /// # Errors
    /// If the wait is interrupted.
    pub fn wait(self, interrupt: &Interrupt) -> Result<(), Interrupted> {
        drop(self.done);
        let began = Instant::now();
        let mut is_late = false;
        // Nothing is ever sent: the channel closes when the last worker drops its guard.
        while let Err(RecvTimeoutError::Timeout) = self.waiting.recv_timeout(LOOK_EVERY) {
            if interrupt.0.load(Relaxed) {
                return Err(Interrupted);
            }
            if !is_late && began.elapsed() >= LATE {
                is_late = true;
                tracing::error!("waiting for a worker that has not applied the change");
            }
        }
        Ok(())
    }
}

impl<U> Default for Workers<U> {
    fn default() -> Workers<U> {
        Workers { threads: Threads::default(), updates: Vec::new() }
    }
}

impl<U: Send + 'static> Workers<U> {
    /// Starts a thread with an event loop that runs the future of `serve`. The worker does not count as a worker
    /// of these until [`add`](Self::add)ed.
    ///
    /// # Errors
    /// If the thread or its event loop cannot be created.
    pub fn spawn<F: Future<Output = io::Result<()>>>(
        &self,
        name: String,
        serve: impl FnOnce(ControlLink<U>) -> F + Send + 'static,
    ) -> io::Result<Worker<U>> {
        let (sender, updates) = mpsc::unbounded_channel();
        let heart = Arc::<Heart>::default();
        let link = ControlLink { updates, commands: self.threads.commands.subscribe() };
        let (started, is_started) = channel();
        let (beating, ending) = (heart.clone(), Ending(self.threads.ending.clone()));
        let run = move || {
            let _ending = ending;
            event_loop::run(async move {
                event_loop::spawn_essential(beating.beat());
                // `spawn` waits for this.
                let _ = started.send(());
                serve(link).await
            })?
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(run)?;
        if is_started.recv().is_err() {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            return Err(ended.err().unwrap_or_else(|| io::Error::other("it exited immediately")));
        }
        Ok(Worker { updates: sender, thread: WorkerThread { name, heart, thread: Some(thread) } })
    }

    pub fn add(&mut self, worker: Worker<U>) {
        self.threads.threads.push(worker.thread);
        self.updates.push(worker.updates);
    }

    pub fn len(&self) -> usize {
        self.updates.len()
    }

    /// True if no workers were added.
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Sends an update to a worker by index. A worker that has ended is skipped; its end is reported
    /// elsewhere.
    pub fn send(&self, worker: usize, update: U, applying: &Applying) {
        let _ = self.updates[worker].send((update, Applied(applying.done.clone())));
    }

    /// Senders to all workers, in order.
    pub fn doors(&self) -> Vec<Door<U>> {
        self.updates.iter().map(|updates| Door(updates.downgrade())).collect()
    }

    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Threads of the workers, for taking ended threads.
    pub fn threads_mut(&mut self) -> &mut Threads {
        &mut self.threads
    }

    /// Waits until every worker has ended.
    pub fn join(self) {
        let Workers { threads, updates: _updates } = self;
        threads.join();
    }
}

impl Default for Threads {
    fn default() -> Threads {
        let (commands, ending) = (watch::channel(Command::Run).0, watch::channel(0).0);
        Threads { commands, threads: Vec::new(), ending, taken: 0 }
    }
}

impl Threads {
    /// Sends a command to all workers.
    pub fn command(&self, command: Command) {
        self.commands.send_replace(command);
    }

    /// Name of each worker with a counter. A call asks each event loop to increment its counter; a stuck loop
    /// does not.
    pub fn beats(&self) -> impl Iterator<Item = (&str, u64)> {
        self.threads.iter().map(|worker| {
            // Read before asking, so the answer always counts at the next call.
            let beats = worker.heart.beats.get();
            worker.heart.asked.notify_one();
            (&*worker.name, beats)
        })
    }

    /// Waits until a worker thread that was not taken is about to end.
    pub async fn ends(&self) {
        // Cannot fail: the sender is in `self`.
        let _ = self.ending.subscribe().wait_for(|ending| *ending > self.taken).await;
    }

    /// Takes the thread of a worker that has ended, if any. An unexpected end cannot be repaired:
    /// the caller should end the other workers and report the reason.
    pub fn take_ended(&mut self) -> Option<JoinHandle<io::Result<()>>> {
        let ended = self.threads.iter_mut().find_map(|worker| worker.thread.take_if(|thread| thread.is_finished()));
        self.taken += usize::from(ended.is_some());
        ended
    }

    /// True if every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().filter_map(|worker| worker.thread.as_ref()).all(JoinHandle::is_finished)
    }

    /// Names of workers that are still running.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        let runs = |worker: &&WorkerThread| worker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        self.threads.iter().filter(runs).map(|worker| &*worker.name)
    }

    fn join(self) {
        let Threads { commands: _commands, threads, .. } = self;
        for WorkerThread { name, thread, .. } in threads {
            match thread.map(JoinHandle::join) {
                None | Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => tracing::error!(%error, "{name} failed"),
                Some(Err(_)) => tracing::error!("{name} panicked"),
            }
        }
    }
}

/// Calls `work` at each [`TICK`] while anything happens on this thread; otherwise when it is due, and first
/// when something happens. `work` gets the time since `base`, and returns when it is due next; `None` = not
/// before something happens.
pub async fn tick(base: Base, mut work: impl FnMut(Duration) -> Option<Duration>) {
    let now = || Duration::from_nanos(base.elapsed().0);
    loop {
        work(now());
        alarm::sleep(TICK).await;
        let at = now();
        let due = work(at);
        let until = due.and_then(|due| Instant::now().checked_add(due.saturating_sub(at)));
        event_loop::rest(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Adds the updates to a sum until the end.
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
            match workers.threads_mut().take_ended() {
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
            assert_eq!(applying.wait(&Interrupt::default()), Ok(()));
            assert_eq!(into.load(SeqCst), 3 * round);
        }
        for _ in 0..2 {
            let applying = Applying::default();
            workers.send(1, 0, &applying);
            assert_eq!(applying.wait(&Interrupt::default()), Ok(()));
        }
        let ended = next_end(&mut workers);
        assert_eq!(ended.thread().name(), Some("sum-1"));
        assert_eq!(ended.join().unwrap().unwrap_err().to_string(), "nothing to add");
        assert!(workers.threads_mut().take_ended().is_none() && !workers.threads().has_ended());
        workers.threads().command(Command::Stop);
        workers.join();
    }

    #[test]
    fn a_wait_for_a_worker_that_is_stuck_can_be_interrupted() {
        let mut workers = Workers::<()>::default();
        let (unstick, stuck) = channel::<()>();
        let serve = move |mut link: ControlLink<()>| async move {
            let _held = link.updates.recv().await;
            let _ = stuck.recv();
            Ok(())
        };
        workers.add(workers.spawn("stuck".into(), serve).unwrap());
        let applying = Applying::default();
        workers.send(0, (), &applying);
        let interrupt = Interrupt::default();
        let raised = interrupt.clone();
        let other = std::thread::spawn(move || raised.raise());
        assert_eq!(applying.wait(&interrupt), Err(Interrupted));
        other.join().unwrap();
        assert_eq!(workers.threads().running().collect::<Vec<_>>(), ["stuck"]);
        drop(unstick);
        workers.join();
    }

    #[test]
    fn a_worker_that_was_never_added_ends_with_its_control_side() {
        let into = Arc::<AtomicUsize>::default();
        let workers = workers(1, &into);
        let held = into.clone();
        let Worker { thread, updates, .. } = workers.spawn("spare".into(), move |link| sum(link, held)).unwrap();
        drop(updates);
        thread.thread.unwrap().join().unwrap().unwrap();
        assert!(!workers.threads().has_ended());
    }

    #[test]
    fn a_worker_beats_when_it_is_asked() {
        let into = Arc::default();
        let workers = workers(2, &into);
        let beats = || workers.threads().beats().map(|(_, n)| n).collect::<Vec<_>>();
        assert_eq!(beats(), [0, 0], "none is woken unless it is asked");
        while beats().contains(&0) {
            std::thread::yield_now();
        }
        workers.threads().command(Command::Stop);
        workers.join();
    }

    #[test]
    fn a_thread_on_which_nothing_happens_does_its_work_when_it_is_due_and_first_when_something_happens() {
        use std::cell::{Cell, RefCell};
        use std::rc::Rc;
        let base = Base::now();
        let worked = Rc::new(RefCell::new(Vec::new()));
        let due = Rc::new(Cell::new(None));
        event_loop::run(async {
            let (works, when) = (worked.clone(), due.clone());
            event_loop::spawn(tick(base, move |at| {
                works.borrow_mut().push(at);
                when.get().filter(|due| at < *due)
            }));
            // Longer than a tick. It rests after the second call.
            alarm::sleep(10 * TICK).await;
            assert!(worked.borrow().len() <= 3, "twice, and when this was about to go on: {worked:?}");
            due.set(Some(Duration::from_nanos(base.elapsed().0) + 4 * TICK));
            let (at, before) = (due.get().unwrap(), worked.borrow().len());
            alarm::sleep(20 * TICK).await;
            let worked = worked.borrow();
            assert!(worked.iter().any(|worked| *worked >= at) && worked.len() <= before + 5, "{worked:?} for {at:?}");
        })
        .unwrap();
    }
}
