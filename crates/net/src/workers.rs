//! How does a plane run on all cores? A [`Workers`] has a thread with an event loop for each, sends them what changes, waits
//! until all of them have applied it, and notices when one has ended. What a worker does is the plane's.

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

/// Interval at which a wait for workers looks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time after which a wait for workers is logged: they apply an update in milliseconds.
const LATE: Duration = Duration::from_secs(2);

/// The control side of a plane's workers, which take updates of type `U`.
pub struct Workers<U> {
    threads: Threads,
    /// To each worker, in the order of the threads.
    updates: Vec<mpsc::UnboundedSender<(U, Applied)>>,
}

/// The threads of a plane's workers: what is asked of them is the same whatever updates they take.
pub struct Threads {
    commands: watch::Sender<Command>,
    threads: Vec<WorkerThread>,
    /// Threads that are about to end or have ended.
    ending: watch::Sender<usize>,
    /// Ending threads that were taken.
    taken: usize,
}

struct WorkerThread {
    name: String,
    heart: Arc<Heart>,
    /// `None` once it has ended, and that was reported.
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Counts a worker's thread when it is dropped, at its end.
struct Ending(watch::Sender<usize>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n += 1);
    }
}

/// Ends waits for workers, from any thread: a process that is to end must not wait for a worker that is stuck.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The error of a wait for workers that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl Interrupt {
    /// Ends the wait that is under way, and those that follow.
    pub fn raise(&self) {
        // Relaxed: the flag guards no other data.
        self.0.store(true, Relaxed);
    }
}

/// The control side of one worker. If it is dropped, the worker ends.
pub struct Worker<U> {
    updates: mpsc::UnboundedSender<(U, Applied)>,
    thread: WorkerThread,
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
}

/// Sign of life of an event loop, given only on request: a worker that has nothing to do is not woken for this.
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
    ///
    /// # Errors
    /// The wait was interrupted.
    pub fn wait(self, interrupt: &Interrupt) -> Result<(), Interrupted> {
        drop(self.done);
        let began = Instant::now();
        let mut is_late = false;
        // Nothing is ever sent: it ends when the last worker has let go.
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
        let heart = Arc::<Heart>::default();
        let link = ControlLink { updates, commands: self.threads.commands.subscribe() };
        let (started, is_started) = channel();
        let (beating, ending) = (heart.clone(), Ending(self.threads.ending.clone()));
        let run = move || {
            let _ending = ending;
            event_loop::run(async move {
                event_loop::spawn_essential(beating.beat());
                // The other side waits for it.
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

    /// Adds a worker.
    pub fn add(&mut self, worker: Worker<U>) {
        self.threads.threads.push(worker.thread);
        self.updates.push(worker.updates);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.updates.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Sends an update to the worker of that number. One that has ended needs none; that it has, is told elsewhere.
    pub fn send(&self, worker: usize, update: U, applying: &Applying) {
        let _ = self.updates[worker].send((update, Applied(applying.done.clone())));
    }

    /// The way to each of them.
    pub fn doors(&self) -> Vec<Door<U>> {
        self.updates.iter().map(|updates| Door(updates.downgrade())).collect()
    }

    /// Their threads.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Their threads, to take one that has ended.
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
    /// Tells all of them what to do.
    pub fn command(&self, command: Command) {
        self.commands.send_replace(command);
    }

    /// Returns the name of each worker, and a number that goes up between two calls if its event loop turns: a call asks it to.
    pub fn beats(&self) -> impl Iterator<Item = (&str, u64)> {
        self.threads.iter().map(|worker| {
            // Before it is asked: the answer counts at the next call, however fast it comes.
            let beats = worker.heart.beats.get();
            worker.heart.asked.notify_one();
            (&*worker.name, beats)
        })
    }

    /// Waits until the thread of a worker that was not taken is about to end.
    pub async fn ends(&self) {
        // Cannot fail: the sender is in `self`.
        let _ = self.ending.subscribe().wait_for(|ending| *ending > self.taken).await;
    }

    /// The thread of a worker that has ended, if there is one. Where nothing told it to, it cannot be had back: what is left
    /// is to end the rest, and to say why.
    pub fn take_ended(&mut self) -> Option<JoinHandle<io::Result<()>>> {
        let ended = self.threads.iter_mut().find_map(|worker| worker.thread.take_if(|thread| thread.is_finished()));
        self.taken += usize::from(ended.is_some());
        ended
    }

    /// Whether every worker has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().filter_map(|worker| worker.thread.as_ref()).all(JoinHandle::is_finished)
    }

    /// The names of workers that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        let runs = |worker: &&WorkerThread| worker.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        self.threads.iter().filter(runs).map(|worker| &*worker.name)
    }

    fn join(self) {
        let Threads { commands: _commands, threads, .. } = self;
        for WorkerThread { name, thread, .. } in threads {
            match thread.map(JoinHandle::join) {
                None | Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => tracing::error!(%error, "cannot run {name}"),
                Some(Err(_)) => tracing::error!("{name} panicked"),
            }
        }
    }
}

/// Calls `work` at each [`TICK`] while anything happens on this thread; else when it is due, and first of all when something
/// happens. `work` gets the time since `base`, and returns when it is due again; `None`: not before something happens.
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
            // Longer than a tick. It rests after the second time.
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
