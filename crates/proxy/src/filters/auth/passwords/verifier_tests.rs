//! Bounds of the verifier, sharing of jobs and remembered results. Its threads wait until the test releases them.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::thread;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const NOW: Instant = Instant(1);

/// A verifier whose threads report each job and wait for a permit; a password is right if it is the hash.
struct Held {
    /// Dropped before the verifier, whose drop waits for its threads.
    permits: Sender<()>,
    verifier: Verifier,
    begun: Receiver<String>,
    users: Users,
}

impl Held {
    fn new() -> Held {
        let (begin, begun) = channel();
        let (permits, permitted) = channel::<()>();
        let (begin, permitted) = (Mutex::new(begin), Mutex::new(permitted));
        let verifier = Verifier::new(move |hash, password| {
            let text = String::from_utf8_lossy(password).into_owned();
            // An error is the end of the test.
            let _ = begin.lock().expect("no panic").send(text);
            let _ = permitted.lock().expect("no panic").recv_timeout(SOON);
            assert_ne!(password, b"panic", "as a test wants it");
            hash.as_bytes() == password
        });
        let users = Users::new(HashMap::from([(b"ann".to_vec(), "right".to_string())]));
        Held { verifier, begun, permits, users }
    }

    fn check(&self, name: &str, password: &str, client: u8) -> Checked {
        self.check_at(name, password, client, NOW)
    }

    fn check_at(&self, name: &str, password: &str, client: u8, now: Instant) -> Checked {
        let value = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
        let credentials = Credentials::read(value.as_bytes()).expect("good credentials");
        self.verifier.check(&self.users, &credentials, [192, 0, 2, client].into(), now)
    }

    /// Begins a verification for a client of another network.
    fn check_of(&self, network: u8, client: u8, password: &str) -> Checked {
        let value = format!("Basic {}", STANDARD.encode(format!("ann:{password}")));
        let credentials = Credentials::read(value.as_bytes()).expect("good credentials");
        self.verifier.check(&self.users, &credentials, [198, 51, network, client].into(), NOW)
    }

    /// Waits for a verification that is not held.
    fn result(&self, verification: Verification) -> bool {
        self.permits.send(()).expect("threads wait for it");
        wait(verification)
    }

    fn next_begun(&self) -> String {
        self.begun.recv_timeout(SOON).expect("a thread takes it")
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

fn wait(verification: Verification) -> bool {
    match verified(verification) {
        Verified::Right => true,
        Verified::Wrong => false,
        Verified::GaveWay => panic!("it gave way"),
    }
}

/// Polls on this thread, which the waker unparks, as a worker would do.
fn verified(mut verification: Verification) -> Verified {
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        match Pin::new(&mut verification).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(verified) => return verified,
            Poll::Pending => thread::park_timeout(SOON),
        }
    }
}

#[track_caller]
fn waits(checked: Checked) -> Verification {
    match checked {
        Checked::Waits(verification) => verification,
        Checked::Remembered(is_right) => panic!("remembered: {is_right}"),
        Checked::TooMany => panic!("too many"),
    }
}

fn remembered(checked: &Checked) -> Option<bool> {
    if let Checked::Remembered(is_right) = checked { Some(*is_right) } else { None }
}

#[test]
fn a_result_is_remembered_for_its_user_and_hash_until_its_end() {
    let held = Held::new();
    let results = |name, password| held.result(waits(held.check(name, password, 1)));
    assert!(results("ann", "right") && !results("ann", "wrong") && !results("bob", "right"));
    let after = |name, password, ns| remembered(&held.check_at(name, password, 9, Instant(NOW.0 + ns)));
    for (name, password, result) in [("ann", "right", true), ("ann", "wrong", false), ("bob", "right", false)] {
        assert_eq!(after(name, password, REMEMBERED_NS - 1), Some(result), "{name} {password}");
        assert_eq!(after(name, password, 2 * REMEMBERED_NS), None, "{name} {password}");
    }
    assert_eq!(after("ann", "righ", 0), None);
    assert_eq!(after("an", "nright", 0), None);
    // A new hash has no results of the old hash.
    let users = Users::new(HashMap::from([(b"ann".to_vec(), "other".to_string())]));
    let changed = Held { users, ..held };
    assert_eq!(remembered(&changed.check("ann", "right", 10)), None);
    // Nor has a user who was unknown before, with the hash that was tried then.
    let users = HashMap::from([b"ann", b"bob"].map(|name| (name.to_vec(), "right".to_string())));
    let changed = Held { users: Users::new(users), ..changed };
    assert_eq!(remembered(&changed.check("ann", "right", 11)), Some(true));
    assert_eq!(remembered(&changed.check("bob", "right", 11)), None);
}

#[test]
fn requests_with_the_same_credentials_share_a_job() {
    let held = Held::new();
    let first = waits(held.check("ann", "right", 1));
    assert_eq!(held.next_begun(), "right");
    let (second, third) = (waits(held.check("ann", "right", 2)), waits(held.check("ann", "right", 2)));
    assert_eq!([first.is_new, second.is_new, third.is_new], [true, false, false]);
    let waiting = [second, third].map(|verification| thread::spawn(move || wait(verification)));
    assert!(held.result(first));
    assert!(waiting.into_iter().all(|thread| thread.join().expect("no panic")));
    assert!(held.begun.try_recv().is_err(), "it was verified once");
}

#[test]
fn jobs_are_bounded_by_client_and_in_all() {
    let held = Held::new();
    let mut all = Vec::new();
    for n in 0..CLIENT_MAX {
        all.push(waits(held.check("ann", &format!("1-{n}"), 1)));
    }
    assert!(matches!(held.check("ann", "1-more", 1), Checked::TooMany), "the client has its share");
    assert!(!waits(held.check("ann", "1-0", 1)).is_new, "but may wait for what is verified already");
    let threads = Verifying::THREADS_MAX.min(thread::available_parallelism().map_or(1, Into::into));
    (0..threads).for_each(|_| _ = held.next_begun());
    let most = WAITING_MAX - places::RESERVED;
    for n in all.len()..most + threads {
        all.push(waits(held.check("ann", &format!("n-{n}"), 2 + (n / CLIENT_MAX) as u8)));
    }
    assert!(matches!(held.check("ann", "more", 200), Checked::TooMany), "the queue is full");
    // A request that is gone leaves its place.
    drop(all.pop());
    all.push(waits(held.check("ann", "more", 200)));
    // Those that are over leave theirs, and clients have their share again.
    (0..most + threads).for_each(|_| held.permits.send(()).expect("threads wait for it"));
    assert!(all.drain(..).all(|verification| !wait(verification)));
    assert!(!held.result(waits(held.check("ann", "1-more", 1))));
}

/// Regression: 17 guessing addresses took all places, and all other clients got a 503.
#[test]
fn guesses_of_a_network_give_way_to_other_networks_and_are_verified_after_them() {
    let held = Held::new();
    let threads = Verifying::THREADS_MAX.min(thread::available_parallelism().map_or(1, Into::into));
    let guess = |n: usize| held.check_of(1, (n / CLIENT_MAX) as u8, &format!("guess {n}"));
    let mut guesses: Vec<_> = (0..threads).map(|n| waits(guess(n))).collect();
    (0..threads).for_each(|_| _ = held.next_begun());
    let most = WAITING_MAX - places::RESERVED;
    guesses.extend((threads..threads + most).map(|n| waits(guess(n))));
    assert!(matches!(guess(threads + most + CLIENT_MAX), Checked::TooMany), "the network has its share");
    let others: Vec<_> = (0..3u8).map(|n| waits(held.check_of(2 + n, 1, &format!("other {n}")))).collect();
    for last in guesses.drain(threads + most - 3..) {
        assert_eq!(verified(last), Verified::GaveWay);
    }
    // The network is known to guess once three passwords of it were wrong, and other networks are in front anyway.
    (0..threads + 3).for_each(|_| held.permits.send(()).expect("threads wait for it"));
    others.into_iter().for_each(|other| assert!(!wait(other)));
    let begun: Vec<String> = (0..4).map(|_| held.next_begun()).collect();
    assert_eq!(begun.iter().filter(|text| text.starts_with("other")).count(), 3, "{begun:?}");
}

#[test]
fn a_network_that_was_right_has_places_of_its_own() {
    let held = Held::new();
    assert!(held.result(waits(held.check("ann", "right", 1))));
    held.next_begun();
    let threads = Verifying::THREADS_MAX.min(thread::available_parallelism().map_or(1, Into::into));
    // Each from a separate network, so that no network has more than another.
    let guess = |n: usize| held.check_of(n as u8, 1, &format!("guess {n}"));
    let mut guesses: Vec<_> = (0..threads).map(|n| waits(guess(n))).collect();
    (0..threads).for_each(|_| _ = held.next_begun());
    let most = threads + WAITING_MAX - places::RESERVED;
    guesses.extend((threads..most).map(|n| waits(guess(n))));
    assert!(matches!(guess(most), Checked::TooMany), "all places for others are taken");
    let first = waits(held.check("ann", "right, but mistyped", 1));
    held.permits.send(()).expect("threads wait for it");
    assert_eq!(held.next_begun(), "right, but mistyped", "it is next");
    (0..threads).for_each(|_| held.permits.send(()).expect("threads wait for it"));
    assert!(!wait(first));
}

#[test]
fn no_request_waits_for_a_job_that_is_left_out() {
    let held = Held::new();
    let threads = Verifying::THREADS_MAX.min(thread::available_parallelism().map_or(1, Into::into));
    let first: Vec<_> = (0..threads).map(|n| waits(held.check("ann", &format!("first {n}"), 1))).collect();
    (0..threads).for_each(|_| assert!(held.next_begun().starts_with("first")));
    drop(waits(held.check("ann", "gone", 2)));
    let last = waits(held.check("ann", "last", 2));
    drop(waits(held.check("ann", "gone, too", 2)));
    // For all that follows, as any thread may take a permit.
    (0..threads + 2).for_each(|_| held.permits.send(()).expect("threads wait for it"));
    first.into_iter().for_each(|verification| assert!(!wait(verification)));
    assert!(!wait(last));
    assert!(!wait(waits(held.check("ann", "end", 2))));
    assert_eq!(held.begun.try_iter().collect::<Vec<_>>(), ["last", "end"]);
}

#[test]
fn a_panic_is_a_wrong_password_and_its_thread_goes_on() {
    let held = Held::new();
    assert!(!held.result(waits(held.check("ann", "panic", 1))));
    assert!(held.result(waits(held.check("ann", "right", 1))));
}

#[test]
fn threads_begin_with_the_first_job_and_end_with_the_verifier() {
    /// Counts the threads that have ended, as their closure is dropped with the last of them.
    struct Ended(Sender<()>);
    impl Drop for Ended {
        fn drop(&mut self) {
            // An error is the end of the test.
            let _ = self.0.send(());
        }
    }
    let (end, ended) = channel();
    let (end, calls) = (Ended(end), Arc::new(AtomicUsize::new(0)));
    let verifier = Verifier::new({
        let calls = calls.clone();
        move |_, _| {
            let _ = &end;
            calls.fetch_add(1, Ordering::Relaxed) == 0
        }
    });
    assert_eq!((verifier.0.lock().threads, verifier.0.work.results.get().is_none()), (0, true));
    let users = Users::new(HashMap::from([(b"ann".to_vec(), "$".to_string())]));
    let credentials = Credentials::read(b"Basic YW5uOmE=").expect("good credentials");
    assert!(wait(waits(verifier.check(&users, &credentials, [192, 0, 2, 1].into(), NOW))));
    assert_eq!((verifier.0.lock().threads, calls.load(Ordering::Relaxed)), (1, 1));
    drop(verifier);
    ended.recv_timeout(SOON).expect("no thread holds it any more");
}

#[test]
fn an_ipv6_client_is_its_network() {
    let same = |a: &str, b: &str| one_client(a.parse().expect("good")) == one_client(b.parse().expect("good"));
    assert!(same("2001:db8::1", "2001:db8::2:0:0:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
    assert!(same("192.0.2.1", "::ffff:192.0.2.1") && !same("192.0.2.1", "192.0.2.2"));
}
