//! Readers of a growing body, in turn and in threads.

use super::*;
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::{Options, Store};
use evenkeel_wire::head::{Request, Table};
use std::sync::atomic::{AtomicUsize, Ordering};

pub fn request<'f>(path: &'f str, fields: &'f mut Table) -> Request<'f, 'f> {
    Request { method: "GET", target: path, host: b"a", fields: fields.fields() }
}

/// Head of a response that may be stored, to a request with this `Accept`.
pub fn head(vary: Option<&str>, accept: &str) -> Stored {
    let (mut asked, mut fields) = (Table::default(), Table::default());
    asked.push(b"accept", accept.as_bytes());
    fields.push(b"cache-control", b"max-age=60");
    vary.iter().for_each(|vary| fields.push(b"vary", vary.as_bytes()));
    let reply = Reply { status: 200, fields: &fields.fields(), sent: Moment(1), received: Moment(1), arrived: Date(1) };
    storable(&request("/a", &mut asked), &Lookup::default(), &reply, &Policy::default()).expect("it can be stored")
}

fn growing(length: Option<u64>) -> Arc<Growing> {
    Growing::new(head(None, ""), length, Store::<Stored>::new(&Options::default()).begin(), Instant(0))
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Everything that a reader can have now, and its end: true if it is whole, false if it is cut, `None` if more comes.
fn read(reader: &mut Reader) -> (Vec<u8>, Option<bool>) {
    let mut all = Vec::new();
    loop {
        match reader.poll_next(&cx()) {
            Poll::Ready(Ok(Some(bytes))) => all.extend_from_slice(&bytes),
            Poll::Ready(Ok(None)) => return (all, Some(true)),
            Poll::Ready(Err(Cut)) => return (all, Some(false)),
            Poll::Pending => return (all, None),
        }
    }
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 7) as u8).collect()
}

#[test]
fn readers_get_all_bytes_from_wherever_they_are() {
    for (length, len) in [(None, 200_000), (Some(200_000), 200_000), (Some(5), 5), (None, PIECE), (None, 0)] {
        let (growing, all) = (growing(length), text(len));
        let mut early = growing.reader(0..u64::MAX).expect("it has begun");
        let (mut seen, mut late) = (Vec::new(), None);
        for (at, part) in all.chunks(33_333).enumerate() {
            growing.add(part, Instant(0));
            let (bytes, end) = read(&mut early);
            assert_eq!((bytes.len(), end), (part.len(), None));
            seen.extend(bytes);
            if at == 1 {
                late = growing.reader(0..u64::MAX);
            }
        }
        let body = growing.join();
        assert!(body == all);
        growing.end(body);
        assert_eq!(read(&mut early), (vec![], Some(true)));
        let mut last = growing.reader(0..u64::MAX).expect("all of it is here");
        for mut reader in late.into_iter().chain([last]) {
            assert!(read(&mut reader) == (all.clone(), Some(true)));
        }
        assert!(seen == all);
        last = growing.reader(0..u64::MAX).expect("all of it is here");
        assert_eq!(last.length(), length);
    }
}

#[test]
fn a_part_ends_with_its_last_byte_and_not_with_the_body() {
    let (growing, all) = (growing(Some(300_000)), text(300_000));
    let mut part = growing.reader(100_000..100_010).expect("it has begun");
    assert_eq!(part.length(), Some(10));
    growing.add(&all[..100_000], Instant(0));
    assert_eq!(read(&mut part), (vec![], None));
    growing.add(&all[100_000..100_005], Instant(0));
    assert_eq!(read(&mut part), (all[100_000..100_005].to_vec(), None));
    growing.add(&all[100_005..], Instant(0));
    assert_eq!(read(&mut part), (all[100_005..100_010].to_vec(), Some(true)));
}

#[test]
fn a_body_that_is_cut_never_looks_whole() {
    let growing = growing(None);
    let mut reader = growing.reader(0..u64::MAX).expect("it has begun");
    growing.add(b"half", Instant(0));
    growing.cut();
    growing.end(Bytes::from_static(b"half"));
    assert_eq!(read(&mut reader), (b"half".to_vec(), Some(false)));
    assert!(growing.reader(0..u64::MAX).is_none());
}

#[test]
fn readers_are_woken_by_bytes_and_by_the_end() {
    let growing = growing(None);
    let mut reader = growing.reader(0..u64::MAX).expect("it has begun");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let cx = Context::from_waker(&waker);
    for step in 0..2 {
        assert!(reader.poll_next(&cx).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), step);
        growing.add(b"a", Instant(0));
        assert!(matches!(reader.poll_next(&cx), Poll::Ready(Ok(Some(_)))));
    }
    assert!(reader.poll_next(&cx).is_pending());
    growing.cut();
    assert_eq!(woken.0.load(Ordering::SeqCst), 3);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_fetch_learns_that_its_last_reader_has_left() {
    let growing = growing(None);
    let readers = [0, 1].map(|_| growing.reader(0..u64::MAX).expect("it has begun"));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    assert!(growing.has_readers(&Context::from_waker(&waker)));
    let [first, second] = readers;
    drop(first);
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    drop(second);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(!growing.has_readers(&cx()));
}

/// A body of gigabytes must not take their memory, nor wait for ever for a reader that takes nothing.
#[test]
fn a_passed_body_waits_for_its_slowest_reader_unless_that_takes_nothing() {
    const HELD_MAX: u64 = 1 << 20;
    let growing = growing(None);
    let mut fast = growing.reader(0..u64::MAX).expect("it has begun");
    let mut slow = growing.reader(0..u64::MAX).expect("it has begun");
    growing.pass();
    assert!(growing.reader(0..u64::MAX).is_none());
    let block = text(PIECE);
    let grow = |fast: &mut Reader| {
        let mut added = 0;
        while let Poll::Ready((is_wanted, held)) = growing.poll_need(&cx(), HELD_MAX) {
            assert!(is_wanted && held <= HELD_MAX + PIECE as u64, "{held}");
            growing.add(&block, Instant(0));
            assert!(read(fast).1.is_none());
            added += block.len() as u64;
        }
        added
    };
    assert_eq!(grow(&mut fast), HELD_MAX);
    for step in 0..20 {
        let taken = slow.poll_next(&cx());
        assert!(matches!(taken, Poll::Ready(Ok(Some(_)))), "{step}");
        assert!(matches!(slow.poll_next(&cx()), Poll::Ready(Ok(Some(_)))), "{step}");
        growing.cut_slow();
        assert!(grow(&mut fast) >= PIECE as u64, "it continues at the pace of the slower reader: {step}");
    }
    growing.cut_slow();
    assert_eq!(read(&mut slow), (vec![], Some(false)), "it has taken nothing");
    drop(slow);
    growing.add(b"end", Instant(0));
    assert!(matches!(growing.poll_need(&cx(), HELD_MAX), Poll::Ready((true, _))));
    growing.cut_slow();
    read(&mut fast);
    let Poll::Ready((true, held)) = growing.poll_need(&cx(), HELD_MAX) else { panic!("it needs more") };
    assert!(held <= PIECE as u64);
    growing.end(Bytes::new());
    assert_eq!(read(&mut fast), (vec![], Some(true)));
    drop(fast);
    assert!(matches!(growing.poll_need(&cx(), HELD_MAX), Poll::Ready((false, _))));
}

#[test]
fn a_body_grows_in_one_thread_and_is_read_in_others() {
    let (growing, all) = (growing(None), Arc::new(text(1 << 20)));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (mut reader, all) = (growing.reader(0..u64::MAX).expect("it has begun"), all.clone());
            std::thread::spawn(move || {
                let mut at = 0;
                loop {
                    match reader.poll_next(&cx()) {
                        Poll::Ready(Ok(Some(bytes))) => {
                            assert!(bytes == all[at..at + bytes.len()]);
                            at += bytes.len();
                        }
                        Poll::Ready(end) => return (at, end == Ok(None)),
                        Poll::Pending => std::thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    all.chunks(1009).for_each(|part| growing.add(part, Instant(0)));
    growing.end(growing.join());
    for reader in readers {
        assert_eq!(reader.join().expect("no panic"), (1 << 20, true));
    }
}
