//! Random operations beside a map: what is read is always what was stored last, and never what was purged; also after the
//! file was closed and opened, after a crash that has lost the end of it, and with a flipped bit.

use crate::support::{DEADLINE, Folder, NOW, clock, close, key, purge, put, read, settle, stored};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::Scope;
use evenkeel_cache::store::{Fate, Target};
use evenkeel_disk::Disk;
use proptest::prelude::*;
use std::collections::HashMap;

/// Number of keys, of which each has three languages.
const KEYS: u8 = 12;
const LANGUAGES: [&str; 3] = ["de", "en", "fr"];
const TAGS: [&str; 3] = ["red", "green", "blue"];

const SIZE: u64 = 1 << 20;
const BODY_MAX: usize = 24 << 10;

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: u8,
        language: usize,
        tag: usize,
        body: usize,
    },
    Forget {
        key: u8,
        language: usize,
    },
    Read(u8),
    PurgeUrl(u8, bool),
    PurgePrefix(u8, bool),
    PurgeTag(usize, bool),
    PurgeAll(bool),
    Reopen,
    /// The last part of what was written since the last purge is lost.
    Crash(f64),
    Flip(f64, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..KEYS, 0..3_usize, 0..3_usize, 0..BODY_MAX);
    prop_oneof![
        30 => put.prop_map(|(key, language, tag, body)| Step::Put { key, language, tag, body }),
        2 => (0..KEYS, 0..3_usize).prop_map(|(key, language)| Step::Forget { key, language }),
        20 => (0..KEYS).prop_map(Step::Read),
        2 => (0..KEYS, any::<bool>()).prop_map(|(key, is_soft)| Step::PurgeUrl(key, is_soft)),
        1 => (0..3_u8, any::<bool>()).prop_map(|(prefix, is_soft)| Step::PurgePrefix(prefix, is_soft)),
        1 => (0..3_usize, any::<bool>()).prop_map(|(tag, is_soft)| Step::PurgeTag(tag, is_soft)),
        1 => any::<bool>().prop_map(Step::PurgeAll),
        1 => Just(Step::Reopen),
        1 => (0.0..1.0).prop_map(Step::Crash),
        1 => (0.0..1.0, 0..8_u8).prop_map(|(at, bit)| Step::Flip(at, bit)),
    ]
}

fn path(key: u8) -> String {
    format!("/{}/{key}", key % 3)
}

/// A version that may be read.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    content: u64,
    tag: usize,
    is_stale: bool,
}

/// Versions of each key and language that may be read: the last one, and after a crash earlier ones.
#[derive(Clone, Default)]
struct Model(HashMap<(u8, usize), Vec<Version>>);

impl Model {
    fn purge(&mut self, is_soft: bool, is_for: impl Fn(u8, usize) -> bool) {
        for ((key, _), versions) in &mut self.0 {
            match is_soft {
                true => {
                    versions.iter_mut().filter(|known| is_for(*key, known.tag)).for_each(|known| known.is_stale = true)
                }
                false => versions.retain(|known| !is_for(*key, known.tag)),
            }
        }
    }
}

fn body(content: u64, length: usize) -> Vec<u8> {
    let mut body = content.to_le_bytes().to_vec();
    body.resize(8 + length, content as u8);
    body
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let folder = Folder::new();
    let mut disk = folder.open(SIZE, BODY_MAX as u64);
    // What may be read, and what might be after a crash: all since the last purge or settling.
    let (mut model, mut older) = (Model::default(), Model::default());
    for (content, step) in (1..).zip(steps) {
        let fate = |is_soft| if is_soft { Fate::Stale } else { Fate::Removed };
        let mut purges = |scope, is_soft, is_for: &dyn Fn(u8, usize) -> bool, disk: &Disk| {
            purge(disk, scope, fate(is_soft));
            model.purge(is_soft, is_for);
            older = model.clone();
        };
        match step.clone() {
            Step::Put { key, language, tag, body: length } => {
                put(&disk, &path(key), LANGUAGES[language], TAGS[tag], body(content, length));
                let version = Version { content, tag, is_stale: false };
                older.0.entry((key, language)).or_default().push(version.clone());
                model.0.insert((key, language), vec![version]);
            }
            Step::Forget { key: of, language } => {
                let head = stored(&path(of), LANGUAGES[language], TAGS[0]);
                disk.forget((&key(&path(of))).into(), head.varying());
                model.0.remove(&(of, language));
            }
            Step::Read(key) => {
                settle(&disk);
                older = model.clone();
                look(&disk, &model, key)?;
            }
            Step::PurgeUrl(of, is_soft) => {
                purges(Scope::Url(key(&path(of)).url().into()), is_soft, &|key, _| key == of, &disk);
            }
            Step::PurgePrefix(of, is_soft) => {
                let prefix = format!("http://a/{of}/").into_bytes();
                purges(Scope::Log(Target::Prefix(prefix.into())), is_soft, &|key, _| key % 3 == of, &disk);
            }
            Step::PurgeTag(of, is_soft) => {
                purges(Scope::Log(Target::Tag(TAGS[of].as_bytes().into())), is_soft, &|_, tag| tag == of, &disk);
            }
            Step::PurgeAll(is_soft) => {
                purges(Scope::Log(Target::All), is_soft, &|_, _| true, &disk);
            }
            Step::Reopen => {
                close(&disk);
                disk = folder.open(SIZE, BODY_MAX as u64);
                older = model.clone();
                (0..KEYS).try_for_each(|key| look(&disk, &model, key))?;
            }
            Step::Crash(part) => {
                settle_without_a_trace(&disk);
                let mut image = std::fs::read(folder.file()).expect("a file");
                close(&disk);
                if let Some((start, end)) = newest(&image) {
                    let cut = start + ((end - start) as f64 * part) as usize;
                    image[cut..end].fill(0);
                }
                std::fs::write(folder.file(), image).expect("room");
                disk = folder.open(SIZE, BODY_MAX as u64);
                (0..KEYS).try_for_each(|key| look(&disk, &older, key))?;
                after_a_crash(&disk, &mut model, &mut older);
            }
            Step::Flip(part, bit) => {
                settle(&disk);
                older = model.clone();
                let mut image = std::fs::read(folder.file()).expect("a file");
                close(&disk);
                let at = ((image.len() as f64) * part) as usize;
                image[at] ^= 1 << bit;
                std::fs::write(folder.file(), image).expect("room");
                disk = folder.open(SIZE, BODY_MAX as u64);
                (0..KEYS).try_for_each(|key| look(&disk, &older, key))?;
                after_a_crash(&disk, &mut model, &mut older);
            }
        }
    }
    close(&disk);
    Ok(())
}

/// Waits until all that was stored is written, without a record behind it.
fn settle_without_a_trace(disk: &Disk) {
    let before = std::time::Instant::now();
    while !disk.is_written() {
        assert!(before.elapsed() < DEADLINE);
        std::thread::yield_now();
    }
}

/// Bytes of the newest segment behind the last record that states that all before it is on the disk.
fn newest(image: &[u8]) -> Option<(usize, usize)> {
    use evenkeel_cache::record::{FRAME, Frame, Kind};
    let frames = (4096..image.len().saturating_sub(FRAME)).filter_map(|at| {
        if image[at..at + 3] != *b"ekr" {
            return None;
        }
        let frame = Frame::read(image[at..at + FRAME].try_into().expect("a frame")).ok()?;
        Some((at, frame))
    });
    let frames: Vec<(usize, Frame)> = frames.collect();
    let last = frames.iter().map(|(_, frame)| frame.number >> 32).max()?;
    let mut own: Vec<&(usize, Frame)> = frames.iter().filter(|(_, frame)| frame.number >> 32 == last).collect();
    own.sort_by_key(|(_, frame)| frame.number);
    let start = own.iter().rev().find(|(_, frame)| frame.kind == Kind::Done || frame.kind == Kind::Segment)?;
    let end = own.last()?;
    Some((start.0 + start.1.record_len() as usize, end.0 + end.1.record_len() as usize))
}

/// Takes what is read after a crash as what is stored from then on.
fn after_a_crash(disk: &Disk, model: &mut Model, older: &mut Model) {
    // What a machine finds after its crash, the next crash does not undo.
    settle(disk);
    let mut now = Model::default();
    for key in 0..KEYS {
        for (language, body, is_stale) in read(disk, &path(key)) {
            let language = LANGUAGES.iter().position(|known| *known == language).expect("one of three");
            let content = u64::from_le_bytes(body[..8].try_into().expect("a number"));
            let known =
                older.0[&(key, language)].iter().find(|known| known.content == content).expect("it was looked at");
            now.0.insert((key, language), vec![Version { is_stale, ..known.clone() }]);
        }
    }
    *model = now.clone();
    *older = now;
}

fn look(disk: &Disk, model: &Model, key: u8) -> Result<(), TestCaseError> {
    for (language, body, is_stale) in read(disk, &path(key)) {
        let at = LANGUAGES.iter().position(|known| *known == language).expect("one of three");
        let content = u64::from_le_bytes(body[..8].try_into().expect("a number"));
        prop_assert!(body[8..].iter().all(|byte| *byte == content as u8), "another body");
        let known = model.0.get(&(key, at)).and_then(|known| known.iter().find(|known| known.content == content));
        let Some(known) = known else {
            return Err(TestCaseError::fail(format!(
                "{content} of {key} {language} instead of {:?}",
                model.0.get(&(key, at))
            )));
        };
        // A soft mark is kept, or the response is gone.
        prop_assert!(is_stale == known.is_stale, "{} of {} {}: stale {}", content, key, language, is_stale);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_was_stored_last_and_never_purged(steps in proptest::collection::vec(step(), 1..120)) {
        run(&steps)?;
    }
}

/// Without crashes and with room, nothing is lost either.
#[test]
fn everything_that_fits_is_there_also_after_it_was_opened_again() {
    let folder = Folder::new();
    let mut disk = folder.open(8 << 20, 1 << 10);
    for round in 0..3_u8 {
        for i in 0..200 {
            put(&disk, &format!("/{round}/{i}"), "de", "red", body(i, 900));
        }
        close(&disk);
        disk = folder.open(8 << 20, 1 << 10);
        for (round, i) in (0..=round).flat_map(|round| (0..200).map(move |i| (round, i))) {
            assert_eq!(read(&disk, &format!("/{round}/{i}")), [("de".to_owned(), body(i, 900), false)], "{round} {i}");
        }
    }
    assert_eq!(disk.counts().objects, 600);
    close(&disk);
}

/// A part of the file that was reclaimed, and not yet written over, is not found again.
#[test]
fn what_is_dropped_after_the_file_came_round_does_not_come_back() {
    let folder = Folder::new();
    let mut disk = folder.open(SIZE, BODY_MAX as u64);
    let mut gone = Vec::new();
    for i in 0..300_u64 {
        put(&disk, &format!("/{i}"), "de", "red", body(i, 10_000));
        settle(&disk);
        // Looks that do not count as a use: what was used would be written again.
        let is_new = |i: &u64| !gone.contains(i) && !disk.has((&key(&format!("/{i}"))).into());
        let new: Vec<u64> = (0..=i).filter(is_new).collect();
        for i in &new {
            let head = stored(&format!("/{i}"), "de", "red");
            disk.forget((&key(&format!("/{i}"))).into(), head.varying());
            gone.push(*i);
        }
        if !new.is_empty() {
            close(&disk);
            disk = folder.open(SIZE, BODY_MAX as u64);
            let back: Vec<&u64> = gone.iter().filter(|i| disk.has((&key(&format!("/{i}"))).into())).collect();
            assert!(back.is_empty(), "{back:?} after {i}");
        }
    }
    assert!(gone.len() > 100, "{gone:?}");
    close(&disk);
}

/// The oldest of many variants of a key are not found any more, and neither is what is later than the clock. If that is dropped
/// then, a later search does not find it either.
#[test]
fn what_was_dropped_while_it_was_not_found_does_not_come_back() {
    let folder = Folder::new();
    let disk = folder.open(16 << 20, BODY_MAX as u64);
    let languages: Vec<String> = (0..100).map(|i| format!("l{i}")).collect();
    for language in &languages {
        put(&disk, "/a", language, "red", body(1, 10));
    }
    settle(&disk);
    assert_eq!(disk.counts().objects, 64);
    for language in &languages {
        disk.forget((&key("/a")).into(), stored("/a", language, "red").varying());
    }
    put(&disk, "/b", "de", "red", body(1, 10));
    close(&disk);
    // The clock was ahead when that was stored.
    let disk =
        Disk::open(folder.options(16 << 20, BODY_MAX as u64), clock(Moment(NOW.0 - 1)), evenkeel_disk::plain_body);
    assert!(disk.is_settled(DEADLINE));
    assert_eq!(disk.counts().objects, 0);
    disk.forget((&key("/b")).into(), stored("/b", "de", "red").varying());
    close(&disk);
    let disk = folder.open(16 << 20, BODY_MAX as u64);
    assert_eq!(disk.counts().objects, 0);
    close(&disk);
}

/// A clock that is behind at a start costs nothing of what is stored.
#[test]
fn what_is_later_than_the_clock_is_found_once_the_clock_is_right() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, BODY_MAX as u64);
    put(&disk, "/a", "de", "red", body(1, 10));
    close(&disk);
    let behind = Disk::open(folder.options(SIZE, BODY_MAX as u64), clock(Moment(0)), evenkeel_disk::plain_body);
    assert!(behind.is_settled(DEADLINE) && read(&behind, "/a").is_empty());
    close(&behind);
    let disk = folder.open(SIZE, BODY_MAX as u64);
    assert_eq!(read(&disk, "/a"), [("de".to_owned(), body(1, 10), false)]);
    close(&disk);
}
