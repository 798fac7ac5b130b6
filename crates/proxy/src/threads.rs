//! Threads for work that takes milliseconds to seconds and must not hold a worker. They begin with the first job, and
//! end with their owner. The caller that adds jobs bounds how many may wait.

#![expect(
    clippy::disallowed_types,
    reason = "held for a look at a short queue, by those who add a job and by the threads"
)]

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A kind of work, with the state that its threads share.
pub trait Work: Send + Sync + 'static {
    /// Jobs that wait, and other state under the same lock.
    type Queue: Default + Send;
    type Job;

    /// Name of the threads, each with a number behind it.
    const NAME: &'static str;

    /// Most threads. Other CPUs are left to the workers.
    const THREADS_MAX: usize;

    /// Number of jobs that wait.
    fn waiting(queue: &Self::Queue) -> usize;

    /// Takes the next job out of the queue.
    fn next(queue: &mut Self::Queue) -> Option<Self::Job>;

    /// Does a job, without the lock.
    fn run(&self, job: Self::Job, threads: &Shared<Self>)
    where
        Self: Sized;
}

/// Threads for one kind of work. They end when this is dropped, and jobs that wait are discarded.
pub struct Threads<W: Work>(Arc<Shared<W>>);

/// State that the threads share with the owner.
pub struct Shared<W: Work> {
    pub work: W,
    state: Mutex<State<W::Queue>>,
    wake: Condvar,
}

/// Jobs that wait, and the threads for them.
#[derive(Default)]
pub struct State<Q> {
    queue: Q,
    pub threads: usize,
    /// Threads that have nothing to do.
    idle: usize,
    has_ended: bool,
}

impl<W: Work> Threads<W> {
    pub fn new(work: W) -> Threads<W> {
        Threads(Arc::new(Shared { work, state: Mutex::default(), wake: Condvar::new() }))
    }

    /// Starts a thread if no thread would be free for a further job. Returns false if there is no thread and none can
    /// be started.
    pub fn has_thread(&self, state: &mut State<W::Queue>) -> bool {
        let is_busy = W::waiting(&state.queue) >= state.idle;
        if is_busy && state.threads < W::THREADS_MAX.min(thread::available_parallelism().map_or(1, Into::into)) {
            let shared = self.0.clone();
            let name = format!("{}-{}", W::NAME, state.threads);
            match thread::Builder::new().name(name).spawn(move || shared.serve()) {
                Ok(_) => state.threads += 1,
                Err(error) => tracing::error!("cannot start a thread for {}: {error}", W::NAME),
            }
        }
        state.threads > 0
    }

    /// Wakes a thread for a job that was added. To be called without the lock.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }
}

impl<W: Work> Deref for Threads<W> {
    type Target = Shared<W>;

    fn deref(&self) -> &Shared<W> {
        &self.0
    }
}

impl<W: Work> Drop for Threads<W> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        self.0.wake.notify_all();
    }
}

impl<W: Work> Shared<W> {
    /// Locks the waiting jobs. To be held briefly, as workers take this lock, too.
    pub fn lock(&self) -> MutexGuard<'_, State<W::Queue>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the jobs in turn until the owner is dropped.
    fn serve(&self) {
        while let Some(job) = self.next() {
            // A panic ends only its job.
            let _ = catch_unwind(AssertUnwindSafe(|| self.work.run(job, self)));
        }
    }

    /// Waits for a job. `None` once the owner is dropped.
    fn next(&self) -> Option<W::Job> {
        let mut state = self.lock();
        while !state.has_ended {
            if let Some(job) = W::next(&mut state.queue) {
                return Some(job);
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        None
    }
}

impl<Q> Deref for State<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.queue
    }
}

impl<Q> DerefMut for State<Q> {
    fn deref_mut(&mut self) -> &mut Q {
        &mut self.queue
    }
}
