//! Verification of passwords on separate threads, since it takes milliseconds to seconds.
//!
//! Threads begin with the first verification. Their work is bounded by [`WAITING_MAX`] waiting jobs. A client has few
//! of them, and they make room for jobs of other networks. Requests with the same credentials wait for the same job.
//! Jobs without a waiting request are skipped. Results are remembered for some minutes, so that a client is verified
//! once and not with each request.

#![expect(
    clippy::disallowed_types,
    reason = "taken for a verification, which takes milliseconds, and never held in one"
)]

use super::credentials::Credentials;
use super::hash;
use super::networks::{Networks, network};
use super::places::{self, Of, Place, WAITING_MAX};
use super::results::{ResultKey, Results};
use super::users::Users;
use crate::threads::{Shared, Threads, Work};
use evenkeel_balance::Instant;
use evenkeel_balance::slab::Slab;
use evenkeel_balance::time::SECOND_NS;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use zeroize::Zeroizing;

/// Most unfinished jobs of a client. A client has a single user, or a few.
const CLIENT_MAX: usize = 4;

/// Places for remembered results of right passwords, and of wrong passwords.
const RIGHT_MAX: usize = 16_384;
const WRONG_MAX: usize = 4096;

/// Shortest time for which a result is remembered. The longest time is twice as long, so that results that were
/// remembered together do not end together.
const REMEMBERED_NS: u64 = 300 * SECOND_NS;

/// Prefix of IPv6 addresses that count as the same client.
const IPV6_PREFIX: u32 = 64;

/// Verifier of a process. Its threads end when it is dropped.
pub struct Verifier(Threads<Verifying>);

/// Verification by threads, with the results that it remembers.
struct Verifying {
    /// Key of the hashes by which results are remembered.
    secret: [u8; 32],
    is_of: IsOf,
    /// Right and wrong passwords; allocated with the first verification.
    results: OnceLock<[Results; 2]>,
}

/// Comparison of a hash with a password, which takes long.
type IsOf = Box<dyn Fn(&str, &[u8]) -> bool + Send + Sync>;

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Wanted>,
    running: Vec<Arc<Job>>,
    networks: Networks,
    /// Number of the last job that was taken from each network with waiting jobs.
    served: HashMap<IpAddr, u64>,
    /// Jobs that threads have taken so far.
    taken: u64,
    /// Latest time that a caller has passed in.
    now: Instant,
}

/// A job that waits for a thread, with the input of the thread.
struct Wanted {
    job: Arc<Job>,
    hash: Arc<str>,
    is_known: bool,
    password: Zeroizing<Vec<u8>>,
    /// Time at which the result is forgotten.
    ends_ns: u64,
}

/// A verification that requests wait for.
struct Job {
    key: ResultKey,
    client: IpAddr,
    progress: Mutex<Progress>,
}

enum Progress {
    Waiting(Slab<Waker>),
    Done(Verified),
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    Right,
    Wrong,
    /// Not verified: the place went to a password of another network.
    GaveWay,
}

/// Result for the password of a request, or the verification that the request waits for.
pub enum Checked {
    /// The password was verified before: it is right, or it is not.
    Remembered(bool),
    Waits(Verification),
    /// Too many passwords wait to be verified, of this client or of all.
    TooMany,
}

/// Verification for which a request waits.
pub struct Verification {
    job: Arc<Job>,
    /// Place of the request's waker.
    place: Option<u32>,
    /// True if no other request waited for the same when it began.
    pub is_new: bool,
}

impl Default for Verifier {
    fn default() -> Verifier {
        Verifier::new(hash::is_of)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// Creates a verifier by a function that compares a hash with a password.
    fn new(is_of: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static) -> Verifier {
        let random = RandomState::new();
        let mut secret = [0; 32];
        for (n, part) in (0_u64..).zip(secret.chunks_exact_mut(8)) {
            part.copy_from_slice(&random.hash_one(n).to_le_bytes());
        }
        Verifier(Threads::new(Verifying { secret, is_of: Box::new(is_of), results: OnceLock::new() }))
    }

    /// Checks the password of a request against the users, or begins to.
    pub fn check(&self, users: &Users, credentials: &Credentials, client: IpAddr, now: Instant) -> Checked {
        let work = &self.0.work;
        let name = credentials.name();
        let Some(entry) = users.entry(name, || work.keyed([b"name", name, b"", b""])[0]) else {
            return Checked::Remembered(false);
        };
        // An unknown user's result must not become the result of a known user with the same hash.
        let known: &[u8] = if entry.is_known { b"known" } else { b"unknown" };
        let key = work.keyed([known, entry.hash.as_bytes(), name, credentials.password()]);
        if let Some(is_right) = work.remembered(key, now) {
            return Checked::Remembered(is_right);
        }
        let client = one_client(client);
        let mut jobs = self.0.lock();
        jobs.now = now;
        // A thread may have finished it before the lock was taken.
        if let Some(is_right) = work.remembered(key, now) {
            return Checked::Remembered(is_right);
        }
        if let Some(job) = jobs.all().find(|job| job.key == key) {
            return Checked::Waits(Verification { job: job.clone(), place: None, is_new: false });
        }
        jobs.waiting.retain(Wanted::is_wanted);
        let of_client = jobs.all().filter(|job| job.client == client).count();
        if of_client >= CLIENT_MAX || !self.0.has_thread(&mut jobs) || !jobs.make_room(client) {
            return Checked::TooMany;
        }
        let progress = Mutex::new(Progress::Waiting(Slab::default()));
        let job = Arc::new(Job { key, client, progress });
        jobs.waiting.push_back(Wanted {
            job: job.clone(),
            hash: entry.hash,
            is_known: entry.is_known,
            password: Zeroizing::new(credentials.password().to_vec()),
            ends_ns: now.0 + REMEMBERED_NS + key[2] % REMEMBERED_NS,
        });
        drop(jobs);
        self.0.wake();
        Checked::Waits(Verification { job, place: None, is_new: true })
    }
}

impl Jobs {
    /// Jobs that wait for a thread, in their order, and then those that threads are at.
    fn all(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.waiting.iter().map(|wanted| &wanted.job).chain(&self.running)
    }

    /// Networks of the jobs that wait.
    fn networks(&self) -> Vec<Of> {
        self.waiting.iter().map(|wanted| self.of(wanted.job.client)).collect()
    }

    fn of(&self, client: IpAddr) -> Of {
        let network = network(client);
        (network, self.networks.standing(network, self.now))
    }

    /// Makes room for a job of this client. False if those that wait keep their places.
    fn make_room(&mut self, client: IpAddr) -> bool {
        if self.waiting.len() < WAITING_MAX - places::RESERVED {
            return true;
        }
        match places::place(&self.networks(), self.of(client)) {
            Place::Free => true,
            Place::Of(at) => {
                if let Some(wanted) = self.waiting.remove(at) {
                    wanted.job.finish(Verified::GaveWay);
                }
                true
            }
            Place::None => false,
        }
    }
}

impl Wanted {
    /// True if a request waits for the job. Requests join a job under the lock of the queue, so no request can join a
    /// job that is skipped under it.
    fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.job) > 1
    }
}

impl Verifying {
    /// Keyed hash of parts, whose lengths count too.
    fn keyed(&self, parts: [&[u8]; 4]) -> ResultKey {
        let mut hasher = Sha256::new_with_prefix(self.secret);
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let digest = hasher.finalize();
        let mut words = digest.chunks_exact(8).map(|word| {
            let word = word.try_into().expect("a chunk has 8 bytes");
            u64::from_le_bytes(word)
        });
        std::array::from_fn(|_| words.next().unwrap_or_default())
    }

    fn remembered(&self, key: ResultKey, now: Instant) -> Option<bool> {
        let [right, wrong] = self.results.get()?;
        // Both are searched, so that the time does not depend on which has it.
        let (is_right, is_wrong) = (right.has(key, now.0), wrong.has(key, now.0));
        (is_right | is_wrong).then_some(is_right)
    }
}

impl Work for Verifying {
    type Queue = Jobs;
    type Job = Wanted;

    const NAME: &'static str = "passwords";
    const THREADS_MAX: usize = 2;

    fn waiting(jobs: &Jobs) -> usize {
        jobs.waiting.len()
    }

    /// Takes the next job that is still wanted.
    fn next(jobs: &mut Jobs) -> Option<Wanted> {
        jobs.waiting.retain(Wanted::is_wanted);
        let networks = jobs.networks();
        let next = places::next(&networks, &jobs.served, jobs.taken)?;
        let wanted = jobs.waiting.remove(next)?;
        jobs.served.retain(|network, _| networks.iter().any(|(other, _)| other == network));
        jobs.served.insert(networks[next].0, jobs.taken);
        jobs.taken += 1;
        jobs.running.push(wanted.job.clone());
        Some(wanted)
    }

    fn run(&self, wanted: Wanted, threads: &Shared<Verifying>) {
        let Wanted { job, hash, is_known, password, ends_ns } = wanted;
        let is_of = catch_unwind(AssertUnwindSafe(|| (self.is_of)(&hash, &password)));
        let is_right = is_of.unwrap_or(false) & is_known;
        drop(password);
        let [right, wrong] = self.results.get_or_init(|| [RIGHT_MAX, WRONG_MAX].map(Results::new));
        let mut jobs = threads.lock();
        jobs.running.retain(|other| !Arc::ptr_eq(other, &job));
        // Under the lock, as the tables allow a single writer at a time.
        (if is_right { right } else { wrong }).add(job.key, ends_ns);
        let now = jobs.now;
        jobs.networks.note(network(job.client), is_right, now);
        drop(jobs);
        job.finish(if is_right { Verified::Right } else { Verified::Wrong });
    }
}

impl Job {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, verified: Verified) {
        let before = std::mem::replace(&mut *self.progress(), Progress::Done(verified));
        if let Progress::Waiting(mut wakers) = before {
            wakers.iter_mut().for_each(|waker| waker.wake_by_ref());
        }
    }
}

impl Future for Verification {
    type Output = Verified;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Verified> {
        let Verification { job, place, .. } = self.get_mut();
        match &mut *job.progress() {
            Progress::Done(verified) => Poll::Ready(*verified),
            Progress::Waiting(wakers) => {
                match place.and_then(|place| wakers.get_mut(place)) {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *place = Some(wakers.insert(cx.waker().clone())),
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Verification {
    fn drop(&mut self) {
        if let (Some(place), Progress::Waiting(wakers)) = (self.place, &mut *self.job.progress()) {
            wakers.remove(place);
        }
    }
}

/// Network of addresses that count as the same client.
fn one_client(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & u128::MAX << (128 - IPV6_PREFIX)).into(),
        ip => ip,
    }
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
mod tests;
