//! Readers of a growing body, in turn and in threads.

use super::*;
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::{Options, Store};
use evenkeel_wire::head::{Request, Table};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use std::ops::Range;
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
pub fn read(reader: &mut Reader) -> (Vec<u8>, Option<bool>) {
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

#[derive(Clone, Debug)]
enum Step {
    /// The endpoint sends this many bytes.
    Add(usize),
    /// A reader comes for a part, or for the whole.
    Come(Option<Range<u64>>),
    /// A reader takes at most this many pieces.
    Read(usize, usize),
    Leave(usize),
    /// No more room: the body is passed.
    Pass,
    /// Readers for which the fetch waits have had time.
    Slow,
}

#[derive(Clone, Copy, Debug)]
enum Last {
    Whole,
    Cut,
}

const TOTAL: usize = 1_000_000;
const HELD_MAX: u64 = 300_000;

/// A reader, and all that the model knows about it.
struct Known {
    reader: Reader,
    bytes: Range<u64>,
    seen: usize,
    end: Option<bool>,
    was_slow: bool,
}

/// A body as an endpoint sends it, and the parts for which its readers asked.
struct Model {
    growing: Arc<Growing>,
    all: Vec<u8>,
    sent: usize,
    readers: Vec<Known>,
    is_passed: bool,
}

impl Model {
    fn take(&mut self, step: Step) {
        match step {
            Step::Add(bytes) if self.wants() => self.add(bytes),
            Step::Add(_) => {}
            Step::Come(bytes) => {
                let bytes = bytes.unwrap_or(0..u64::MAX);
                let reader = self.growing.reader(bytes.clone());
                assert_eq!(reader.is_none(), self.is_passed, "only a passed body takes no more readers");
                let known = |reader| Known { reader, bytes, seen: 0, end: None, was_slow: false };
                self.readers.extend(reader.map(known));
            }
            Step::Read(which, pieces) if which < self.readers.len() => self.read(which, pieces),
            Step::Leave(which) if which < self.readers.len() => drop(self.readers.remove(which)),
            Step::Read(..) | Step::Leave(_) => {}
            Step::Pass => {
                self.is_passed = true;
                self.growing.pass();
            }
            Step::Slow if self.is_passed && self.growing.poll_need(&cx(), HELD_MAX).is_pending() => {
                let end = self.sent as u64;
                let before = self.readers.iter().filter(|known| known.end.is_none()).count();
                let cut = self.growing.cut_slow() as usize;
                // None that is at the end, and never all of them.
                assert!(cut == 0 || cut < before, "{cut} of {before}");
                self.readers.iter_mut().for_each(|known| known.was_slow |= cut > 0 && known.reader.at + AHEAD <= end);
            }
            Step::Slow => {}
        }
    }

    /// True if the fetch reads more.
    fn wants(&self) -> bool {
        if !self.is_passed {
            return true;
        }
        let Poll::Ready((is_wanted, held)) = self.growing.poll_need(&cx(), HELD_MAX) else { return false };
        assert!(held <= HELD_MAX + PIECE as u64, "{held}");
        is_wanted
    }

    fn add(&mut self, bytes: usize) {
        let to = TOTAL.min(self.sent + bytes);
        self.growing.add(&self.all[self.sent..to], Instant(0));
        self.sent = to;
    }

    fn read(&mut self, which: usize, pieces: usize) {
        let known = &mut self.readers[which];
        for _ in 0..pieces {
            if known.end.is_some() {
                return;
            }
            let at = known.bytes.start as usize + known.seen;
            match known.reader.poll_next(&cx()) {
                Poll::Ready(Ok(Some(bytes))) => {
                    assert!(!bytes.is_empty() && bytes == self.all[at..at + bytes.len()]);
                    known.seen += bytes.len();
                    assert!(at + bytes.len() <= self.sent && (at + bytes.len()) as u64 <= known.bytes.end);
                }
                Poll::Ready(Ok(None)) => known.end = Some(true),
                Poll::Ready(Err(Cut)) => known.end = Some(false),
                Poll::Pending => {
                    assert!(at >= self.sent, "what has arrived is there");
                    return;
                }
            }
        }
    }

    /// Ends the body, and checks the end of each reader.
    fn end(mut self, last: Last) {
        match last {
            Last::Whole => {
                while !self.is_passed && self.sent < TOTAL {
                    self.add(TOTAL);
                }
                let body = if self.is_passed { Bytes::new() } else { self.growing.join() };
                self.growing.end(body);
            }
            Last::Cut => _ = self.growing.cut(),
        }
        for which in 0..self.readers.len() {
            self.read(which, TOTAL);
            let Known { bytes, seen, end, was_slow, .. } = &self.readers[which];
            let wanted = (bytes.end.min(self.sent as u64) as usize).saturating_sub(bytes.start as usize);
            let has_part = bytes.start + *seen as u64 >= bytes.end;
            match end.expect("it has ended") {
                true => {
                    assert!(has_part || matches!(last, Last::Whole), "{last:?}");
                    assert_eq!(*seen, wanted);
                }
                false => assert!(*was_slow || matches!(last, Last::Cut)),
            }
            assert!(*was_slow || *seen == wanted, "all that has arrived is read");
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let part = (0..TOTAL as u64 / 2, 1..TOTAL as u64 / 2).prop_map(|(from, len)| from..from + len);
    prop_oneof![
        8 => (1..150_000_usize).prop_map(Step::Add),
        3 => proptest::option::of(part).prop_map(Step::Come),
        8 => (0..4_usize, 0..12_usize).prop_map(|(which, pieces)| Step::Read(which, pieces)),
        1 => (0..4_usize).prop_map(Step::Leave),
        1 => proptest::prelude::Just(Step::Pass),
        2 => proptest::prelude::Just(Step::Slow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// In any order of events, readers have the bytes of the endpoint, and a short body never looks whole.
    #[test]
    fn readers_have_what_was_sent_or_see_that_they_are_cut_off(
        steps in proptest::collection::vec(step(), 1..60),
        is_whole in any::<bool>(),
    ) {
        let model = Model { growing: growing(None), all: text(TOTAL), sent: 0, readers: vec![], is_passed: false };
        let model = steps.into_iter().fold(model, |mut model, step| {
            model.take(step);
            model
        });
        model.end(if is_whole { Last::Whole } else { Last::Cut });
    }
}
