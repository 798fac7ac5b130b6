//! Reads from the disk. A worker reads by itself if the kernel has the bytes in its page cache, which takes no switch of
//! threads; other reads are on separate threads, and requests for the same key wait for the same read.
//!
//! A body is copied from the page cache, not sent out of the file: its checksum could not be checked, and the kernel
//! would send the bytes of another response if the writer reclaims the segment before the client has acknowledged it.

use crate::file::Wait;
use crate::index::Place;
use crate::purges::Effect;
use crate::response::{MakeBody, plain_body, read};
use crate::shared::Shared;
use bytes::Bytes;
use evenkeel_cache::record::ResponseRecord;
use evenkeel_cache::store::{KeyRef, Object, Restored, Sequence};
use evenkeel_cache::stored::Stored;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that a request waits for a read, before it goes to the endpoint: ten times the read time of a busy hard
/// disk. A slower disk gets no further reads until a read has ended.
pub const READ_MAX: Duration = Duration::from_secs(1);

/// Most threads that read. A disk can serve several reads at once, and CPUs are left to the workers.
const THREADS_MAX: usize = 2;

/// Most keys that wait for a thread. Requests for more go to the endpoint.
const WAITING_MAX: usize = 1024;

/// Most bytes that a worker reads at once: copies and checksums of 50 us or so.
pub const AT_ONCE_MAX: u64 = 256 << 10;

/// Reads that are under way. The first read starts a thread.
pub struct Reads {
    shared: Arc<Shared>,
    make: MakeBody,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Reads that are not done, by the hashes of their key.
    jobs: HashMap<(u64, u16), Arc<Job>>,
    waiting: VecDeque<Arc<Job>>,
    threads: usize,
    idle: usize,
    /// Begin of the read of each thread.
    running: [Option<Instant>; THREADS_MAX],
    has_ended: bool,
}

/// A read, for which at least one request waits.
struct Job {
    key: Box<[u8]>,
    url_len: usize,
    hashes: (u64, u16),
    /// Point in the order of purges of the memory at which the read began.
    began: Sequence,
    asked: Instant,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    done: Option<Loaded>,
    waiting: Vec<Waker>,
}

/// Responses that were read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Variants of the key, the newest last: stored in this order, it is the most recently used.
    pub responses: Arc<[Restored<Stored>]>,
    /// Point in the order of purges of the memory before they were read.
    pub began: Sequence,
}

/// Read for which a request waits.
pub struct Read {
    job: Arc<Job>,
    /// Waker that was noted last.
    noted: Option<Waker>,
}

impl Reads {
    pub fn new(shared: Arc<Shared>, make: MakeBody) -> Arc<Reads> {
        Arc::new(Reads { shared, make, state: Mutex::default(), work: Condvar::new() })
    }

    /// Reads the variants of a key. `None` if too many reads wait, or the disk does not answer.
    pub fn begin(self: &Arc<Reads>, key: KeyRef<'_>, began: Sequence) -> Option<Read> {
        let id = self.shared.index.id(&key, b"");
        let hashes = (id.url, id.rest);
        let mut state = self.state();
        if let Some(job) = state.jobs.get(&hashes) {
            // Keys with the same hashes are rare: the second key goes to the endpoint.
            if *job.key == *key.bytes() && job.asked.elapsed() < READ_MAX {
                return Some(Read { job: job.clone(), noted: None });
            }
            self.shared.counts.reads_dropped.add(1);
            return None;
        }
        let is_full = state.waiting.len() >= WAITING_MAX || state.is_stuck();
        if state.has_ended || is_full || !self.has_thread(&mut state) {
            self.shared.counts.reads_dropped.add(1);
            return None;
        }
        let (key, url_len) = (key.bytes().into(), key.url().len());
        let job = Arc::new(Job { key, url_len, hashes, began, asked: Instant::now(), progress: Mutex::default() });
        state.jobs.insert(hashes, job.clone());
        state.waiting.push_back(job.clone());
        drop(state);
        self.work.notify_one();
        Some(Read { job, noted: None })
    }

    /// Reads the variants of a key without waiting. `None` if the kernel has not all of them in its page cache, if they
    /// are large, or if one is damaged. Bodies are in buffers of the allocator: most are sent once, and new mappings cost
    /// more than the copy for the socket that they save.
    pub fn at_once(&self, key: KeyRef<'_>, began: Sequence) -> Option<Loaded> {
        let Shared { index, counts, ring, .. } = &*self.shared;
        let (id, ring) = (index.id(&key, b""), ring.get()?);
        let places = index.find(id.url, id.rest, ring);
        if places.iter().map(|(_, place)| u64::from(place.length)).sum::<u64>() > AT_ONCE_MAX {
            return None;
        }
        let mut responses = Vec::with_capacity(places.len());
        for (_, place) in places {
            let sequence = ring.sequence(place.slot, place.offset);
            let (record, body) = read(ring, place, sequence, plain_body, Wait::Never).ok()??;
            responses.extend(self.restored((key.bytes(), key.url().len()), (place, sequence), record, body));
        }
        counts.reads.add(1);
        counts.hits.add(u64::from(!responses.is_empty()));
        responses.reverse();
        Some(Loaded { responses: responses.into(), began })
    }

    /// Ends the threads once they have served the waiting reads.
    pub fn end(&self) {
        self.state().has_ended = true;
        self.work.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts another thread if there is work for it. Returns false if there is no thread.
    fn has_thread(self: &Arc<Reads>, state: &mut State) -> bool {
        if state.waiting.len() >= state.idle && state.threads < THREADS_MAX {
            let reads = self.clone();
            let thread = state.threads;
            let name = format!("cache-read-{thread}");
            match thread::Builder::new().name(name).spawn(move || reads.serve(thread)) {
                Ok(_) => state.threads += 1,
                Err(error) => tracing::error!("cannot start a thread for reads of the cache on disk: {error}"),
            }
        }
        state.threads > 0
    }

    fn serve(&self, thread: usize) {
        while let Some(job) = self.next(thread) {
            let responses = self.read(&job);
            let mut state = self.state();
            state.jobs.remove(&job.hashes);
            state.running[thread] = None;
            drop(state);
            job.end(Loaded { responses: responses.into(), began: job.began });
        }
    }

    fn next(&self, thread: usize) -> Option<Arc<Job>> {
        let mut state = self.state();
        loop {
            match state.waiting.pop_front() {
                // A request still waits: it, the table and this function hold the job.
                Some(job) if Arc::strong_count(&job) > 2 => {
                    state.running[thread] = Some(Instant::now());
                    return Some(job);
                }
                Some(job) => _ = state.jobs.remove(&job.hashes),
                None if state.has_ended => return None,
                None => {
                    state.idle += 1;
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
    }

    /// Reads all variants of a key that are not purged.
    fn read(&self, job: &Job) -> Vec<Restored<Stored>> {
        let Shared { index, counts, ring, .. } = &*self.shared;
        let Some(ring) = ring.get() else { return Vec::new() };
        counts.reads.add(1);
        let mut responses = Vec::new();
        for (id, place) in index.find(job.hashes.0, job.hashes.1, ring) {
            let sequence = ring.sequence(place.slot, place.offset);
            let found = read(ring, place, sequence, self.make, Wait::Allowed);
            // Removed only if it can never be read: drops of responses outside the index are not logged.
            if let Ok(None) = found {
                index.remove(id, place);
            }
            let Ok(Some((record, body))) = found else {
                // The record is damaged, unless its segment was reclaimed meanwhile.
                counts.errors.add(u64::from(ring.has(place.slot, sequence)));
                continue;
            };
            responses.extend(self.restored((&job.key, job.url_len), (place, sequence), record, body));
        }
        counts.hits.add(u64::from(!responses.is_empty()));
        responses.reverse();
        responses
    }

    /// Response of a record, unless the record is of another key or purged, or its segment was reclaimed.
    fn restored(
        &self,
        (key, url_len): (&[u8], usize),
        (place, sequence): (Place, u64),
        record: ResponseRecord,
        body: Bytes,
    ) -> Option<Restored<Stored>> {
        let is_same = *record.key == *key && record.url_len == url_len;
        let effect = self.shared.purges.effect(&record, sequence);
        // Purges of a segment are forgotten after its number is taken away.
        let is_there = || self.shared.ring.get().is_some_and(|ring| ring.has(place.slot, sequence));
        match effect {
            Effect::Holds(stale_from) if is_same && is_there() => {
                let object = Arc::new(Object::new(record.stored, body));
                Some(Restored { object, stale_from, hits: record.hits })
            }
            _ => None,
        }
    }
}

impl State {
    /// True if every thread waits for the disk longer than any request does.
    fn is_stuck(&self) -> bool {
        self.idle == 0 && self.running.iter().all(|since| since.is_some_and(|since| since.elapsed() >= READ_MAX))
    }
}

impl Job {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, loaded: Loaded) {
        let mut progress = self.progress();
        progress.done = Some(loaded);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Future for Read {
    type Output = Loaded;

    fn poll(mut self: Pin<&mut Read>, cx: &mut Context<'_>) -> Poll<Loaded> {
        let this = &mut *self;
        let mut progress = this.job.progress();
        if let Some(loaded) = &progress.done {
            return Poll::Ready(loaded.clone());
        }
        if this.noted.as_ref().is_none_or(|noted| !noted.will_wake(cx.waker())) {
            progress.waiting.push(cx.waker().clone());
            this.noted = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reads")
    }
}
