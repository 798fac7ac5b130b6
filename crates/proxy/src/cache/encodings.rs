//! Encoded forms of stored bodies. Each is made once, at a hit, for all clients that get the coding: a small form at
//! once, a large form on a separate thread, while streams serve its clients.

use super::{Entry, SharedCache};
use crate::threads::{Shared, Threads, Work};
use bytes::Bytes;
use evenkeel_cache::key::Key;
use evenkeel_cache::moment::Moment;
use evenkeel_cache::store::{self, Forms};
use evenkeel_compress::coding::Coding;
use evenkeel_compress::encoder::whole;
use evenkeel_net::event_loop::budget;
use evenkeel_net::memory::pages;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Longest body that a worker encodes itself.
const SMALL_MAX: usize = 16 << 10;

/// Bytes of a small body that cost a unit of a turn's budget: a body of 16 KiB, which takes up to a millisecond, uses
/// up the turn.
const BYTES: usize = 128;

/// Most bodies that wait for a thread.
const WAITING_MAX: usize = 256;

/// Stored response that answers a request as a whole.
#[derive(Debug)]
pub struct Whole {
    pub entry: Arc<Entry>,
    pub key: Key,
    pub now: Moment,
}

/// Form of a stored body in a coding.
#[derive(Debug, PartialEq, Eq)]
pub enum Form {
    Encoded(Bytes),
    /// The coding makes it no smaller.
    NoSmaller,
    /// There is no form yet, though a thread may be making it.
    None,
}

/// Encoder of stored bodies, shared by all workers and kept across plans.
pub struct Encodings {
    threads: Threads<Encoding>,
    pub counts: EncodingCounts,
}

/// Counts of the results of encodings.
#[derive(Debug, Default)]
pub struct EncodingCounts {
    /// Forms that were made and stored, by [`Coding::ALL`].
    pub made: [AtomicU64; Coding::ALL.len()],
    /// Bytes of their bodies as they were stored before.
    pub before: AtomicU64,
    /// Bytes of the forms, without the store's overhead.
    pub after: AtomicU64,
    /// Encodings without a result, by [`Unmade`].
    pub unmade: [AtomicU64; Unmade::LABELS.len()],
}

/// Reason why a form was not made, or not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmade {
    /// The coding makes the body no smaller.
    NoSmaller,
    /// Too many bodies wait for a thread.
    QueueFull,
    /// Arriving bodies take all the memory that they may have.
    NoMemory,
    /// The response is no longer stored, or would become too large.
    NotStored,
}

impl Unmade {
    /// Labels, in the order of the counters.
    pub const LABELS: [&str; 4] = ["no_smaller", "queue_full", "no_memory", "not_stored"];
}

/// Work that threads do in the order of its arrival.
struct Encoding;

/// A body that is to be encoded. A body that leaves the store while it waits is skipped: the queue keeps no body in
/// memory.
struct Job {
    shared: Arc<SharedCache>,
    forms: Weak<Forms>,
    key: Key,
    coding: Coding,
    now: Moment,
}

impl Default for Encodings {
    fn default() -> Encodings {
        Encodings { threads: Threads::new(Encoding), counts: EncodingCounts::default() }
    }
}

impl Encodings {
    /// Number of bodies that wait for a thread.
    pub fn waiting(&self) -> usize {
        self.threads.lock().len()
    }

    /// Adds a job for the threads. Returns false if too many wait.
    fn add(&self, job: Job) -> bool {
        let mut jobs = self.threads.lock();
        if jobs.len() >= WAITING_MAX || !self.threads.has_thread(&mut jobs) {
            return false;
        }
        jobs.push_back(job);
        drop(jobs);
        self.threads.wake();
        true
    }
}

impl SharedCache {
    /// Body of a stored response in a coding. A missing form is made: at once if the body is small, otherwise later.
    pub fn encoded(self: &Arc<SharedCache>, whole: Whole, coding: Coding) -> Form {
        let Whole { entry, key, now } = whole;
        let (forms, known) = (entry.forms(), of_store(coding));
        if let Some(body) = forms.encoded(known) {
            return Form::Encoded(body.clone());
        }
        if forms.is_no_smaller(known) {
            return Form::NoSmaller;
        }
        if !forms.claim(known) {
            return Form::None;
        }
        if entry.body().len() <= SMALL_MAX {
            budget::charge((entry.body().len() / BYTES) as u32);
            return self.encode(forms, &key, coding, now);
        }
        let job = Job { shared: self.clone(), forms: Arc::downgrade(forms), key, coding, now };
        if !self.encodings.add(job) {
            forms.give_back(known);
            self.unmade(Unmade::QueueFull);
        }
        Form::None
    }

    /// Encodes the body of a stored response, and stores the form with it.
    fn encode(&self, forms: &Arc<Forms>, key: &Key, coding: Coding, now: Moment) -> Form {
        let Some(coded) = whole(coding, forms.body()) else {
            forms.set_no_smaller(of_store(coding));
            self.unmade(Unmade::NoSmaller);
            return Form::NoSmaller;
        };
        let body = pages::shared(coded);
        let counts = &self.encodings.counts;
        if self.store.add_encoded(key.into(), forms, of_store(coding), body.clone(), now) {
            counts.made[coding as usize].fetch_add(1, Ordering::Relaxed);
            counts.before.fetch_add(forms.body().len() as u64, Ordering::Relaxed);
            counts.after.fetch_add(body.len() as u64, Ordering::Relaxed);
        } else {
            self.unmade(Unmade::NotStored);
        }
        Form::Encoded(body)
    }

    fn unmade(&self, why: Unmade) {
        self.encodings.counts.unmade[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Work for Encoding {
    type Queue = VecDeque<Job>;
    type Job = Job;

    const NAME: &'static str = "encodings";
    const THREADS_MAX: usize = 2;

    fn waiting(jobs: &VecDeque<Job>) -> usize {
        jobs.len()
    }

    fn next(jobs: &mut VecDeque<Job>) -> Option<Job> {
        jobs.pop_front()
    }

    fn run(&self, job: Job, _: &Shared<Encoding>) {
        let Job { shared, forms, key, coding, now } = job;
        let Some(forms) = forms.upgrade() else { return shared.unmade(Unmade::NotStored) };
        // The form is as large as the body at most.
        let mut room = shared.room();
        if room.take(forms.body().len() as u64).is_ok() {
            shared.encode(&forms, &key, coding, now);
        } else {
            forms.give_back(of_store(coding));
            shared.unmade(Unmade::NoMemory);
        }
    }
}

/// Coding as the store has it.
pub fn of_store(coding: Coding) -> store::Coding {
    match coding {
        Coding::Zstd => store::Coding::Zstd,
        Coding::Brotli => store::Coding::Brotli,
        Coding::Gzip => store::Coding::Gzip,
    }
}
