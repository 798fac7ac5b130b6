//! Files that are locked, missing, broken, or too small.

use crate::support::{DEADLINE, Folder, NOW, clock, close, key, purge, put, read, settle};
use bytes::Bytes;
use evenkeel_cache::record::{FRAME, Frame, Kind, Scope};
use evenkeel_cache::store::{Fate, Target};
use evenkeel_disk::{Disk, Stage, check};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::Mutex;
use std::time::Instant;

const SIZE: u64 = 1 << 20;

fn body(disk: &Disk, path: &str) -> Option<Vec<u8>> {
    read(disk, path).into_iter().map(|(_, body, _)| body).next()
}

#[test]
fn what_is_used_stays_when_its_segment_is_reclaimed() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 4 << 10);
    put(&disk, "/used", "de", "red", vec![7; 3000]);
    put(&disk, "/unused", "de", "red", vec![8; 3000]);
    for i in 0..2000 {
        put(&disk, &format!("/{i}"), "de", "red", vec![1; 3000]);
        if i % 20 == 0 {
            settle(&disk);
            assert_eq!(body(&disk, "/used"), Some(vec![7; 3000]), "{i}");
        }
    }
    settle(&disk);
    assert_eq!(body(&disk, "/unused"), None);
    let counts = disk.counts();
    assert!(counts.rewrites >= 3 && counts.bytes < SIZE && counts.objects > 100, "{counts:?}");
    // What was written again is behind purges, and they hold for it nevertheless.
    purge(&disk, Scope::Log(Target::Tag((*b"red").into())), Fate::Removed);
    assert_eq!(body(&disk, "/used"), None);
    for i in 0..2000 {
        put(&disk, &format!("/{i}"), "de", "blue", vec![1; 3000]);
    }
    settle(&disk);
    assert_eq!(body(&disk, "/used"), None);
    assert_eq!(body(&disk, "/1999"), Some(vec![1; 3000]));
    close(&disk);
}

#[test]
fn one_process_owns_the_file_and_the_next_one_gets_it_with_its_purges() {
    let folder = Folder::new();
    let first = folder.open(SIZE, 4 << 10);
    put(&first, "/a", "de", "red", vec![1; 10]);
    put(&first, "/b", "de", "red", vec![2; 10]);
    settle(&first);
    let second = Disk::open(folder.options(SIZE, 4 << 10), clock(NOW), evenkeel_disk::plain_body);
    assert_eq!(second.stage(), Stage::Waiting);
    assert_eq!(body(&second, "/a"), None);
    // Purges and responses that come meanwhile are not forgotten.
    let url = evenkeel_cache::record::PurgeRecord {
        scope: Scope::Url(key("/a").url().into()),
        fate: Fate::Removed,
        at: crate::support::NOW,
    };
    let hidden = second.hide(&url);
    let ticket = second.purge(&url, hidden);
    put(&second, "/c", "de", "red", vec![3; 10]);
    assert_eq!(ticket.wait(std::time::Duration::ZERO), None);
    close(&first);
    assert!(second.is_settled(DEADLINE));
    assert_eq!(ticket.wait(DEADLINE), Some(Ok(())));
    settle(&second);
    assert_eq!(
        [body(&second, "/a"), body(&second, "/b"), body(&second, "/c")],
        [None, Some(vec![2; 10]), Some(vec![3; 10])]
    );
    close(&second);
    let third = folder.open(SIZE, 4 << 10);
    assert_eq!((body(&third, "/a"), body(&third, "/b")), (None, Some(vec![2; 10])));
    close(&third);
}

#[test]
fn a_flipped_bit_in_a_body_is_a_miss_and_counted() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 4 << 10);
    put(&disk, "/a", "de", "red", vec![0xab; 1000]);
    settle(&disk);
    let bytes = fs::read(folder.file()).expect("a file");
    let at = bytes.windows(100).position(|part| part.iter().all(|byte| *byte == 0xab)).expect("the body");
    let file = fs::OpenOptions::new().write(true).open(folder.file()).expect("a file");
    file.write_all_at(&[0xaa], at as u64 + 50).expect("room");
    assert_eq!(body(&disk, "/a"), None);
    let counts = disk.counts();
    assert_eq!((counts.errors, counts.objects, counts.reads, counts.hits), (1, 0, 1, 0));
    close(&disk);
}

/// Body of a path as a worker reads it without waiting.
fn at_once(disk: &Disk, path: &str) -> Option<Option<Vec<u8>>> {
    let store = evenkeel_cache::store::Store::<evenkeel_cache::stored::Stored>::new(&Default::default());
    let loaded = disk.read_at_once((&key(path)).into(), store.begin())?;
    Some(loaded.responses.first().map(|known| known.object.body().to_vec()))
}

#[test]
fn a_read_that_does_not_wait_finds_the_same_or_leaves_it_to_a_thread() {
    let folder = Folder::new();
    let disk = folder.open(8 << 20, 400 << 10);
    let bodies = [("/empty", 0), ("/small", 100), ("/long", 5_000), ("/large", 100_000)];
    for (path, len) in bodies {
        put(&disk, path, "de", "red", (0..len).map(|n| (n / 7) as u8).collect());
    }
    put(&disk, "/too-large", "de", "red", vec![7; 300_000]);
    settle(&disk);
    for (path, len) in bodies {
        let found = at_once(&disk, path).expect("it was just written");
        assert_eq!(found.as_ref().map(Vec::len), Some(len));
        assert_eq!(found, body(&disk, path));
    }
    assert_eq!(at_once(&disk, "/too-large"), None);
    assert_eq!(body(&disk, "/too-large"), Some(vec![7; 300_000]));
    purge(&disk, Scope::Url(key("/small").url().into()), Fate::Removed);
    assert_eq!(at_once(&disk, "/small").flatten(), None);
    purge(&disk, Scope::Log(Target::Tag((*b"red").into())), Fate::Removed);
    assert_eq!(at_once(&disk, "/long"), Some(None));

    put(&disk, "/flipped", "de", "blue", vec![0xab; 9_000]);
    put(&disk, "/cut", "de", "blue", vec![0xcd; 9_000]);
    settle(&disk);
    let bytes = fs::read(folder.file()).expect("a file");
    let at =
        |byte| bytes.windows(100).position(|part| part.iter().all(|other| *other == byte)).expect("the body") as u64;
    let file = fs::OpenOptions::new().write(true).open(folder.file()).expect("a file");
    file.write_all_at(&[0xaa], at(0xab) + 8_000).expect("room");
    // What is damaged is counted where it is removed.
    let before = disk.counts();
    assert_eq!((at_once(&disk, "/flipped"), disk.counts()), (None, before));
    assert_eq!((body(&disk, "/flipped"), disk.counts().errors), (None, 1));
    file.set_len(at(0xcd) + 8_000).expect("a shorter file");
    assert_eq!(at_once(&disk, "/cut"), None);
    assert_eq!((body(&disk, "/cut"), disk.counts().errors), (None, 2));
    close(&disk);
}

/// Places of frames in the file, by their kind.
fn frames(folder: &Folder, wanted: Kind) -> Vec<usize> {
    let image = fs::read(folder.file()).expect("a file");
    let is_one = |at: &usize| {
        let frame = image.get(*at..at + FRAME).and_then(|bytes| Frame::read(bytes.try_into().expect("a frame")).ok());
        frame.is_some_and(|frame| frame.kind == wanted)
    };
    (4096..image.len()).filter(|at| image[*at..].starts_with(b"ekr")).filter(is_one).collect()
}

fn flip(folder: &Folder, at: usize) {
    let mut image = fs::read(folder.file()).expect("a file");
    image[at] ^= 1;
    fs::write(folder.file(), image).expect("room");
}

#[test]
fn a_purge_that_cannot_be_read_drops_what_is_older() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 4 << 10);
    put(&disk, "/a", "de", "red", vec![1; 10]);
    put(&disk, "/b", "de", "red", vec![2; 10]);
    purge(&disk, Scope::Url(key("/a").url().into()), Fate::Removed);
    put(&disk, "/c", "de", "red", vec![3; 10]);
    settle(&disk);
    close(&disk);
    flip(&folder, frames(&folder, Kind::Purge)[0] + 20);
    let disk = folder.open(SIZE, 4 << 10);
    let found = ["/a", "/b", "/c"].map(|path| body(&disk, path));
    assert_eq!(found, [None, None, Some(vec![3; 10])]);
    assert_eq!(disk.counts().errors, 1);
    close(&disk);
}

#[test]
fn a_hole_that_a_crash_has_left_costs_what_was_in_it_alone() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 4 << 10);
    for i in 0..5 {
        put(&disk, &format!("/{i}"), "de", "red", vec![i; 10]);
    }
    while !disk.is_written() {
        std::thread::yield_now();
    }
    let image = fs::read(folder.file()).expect("a file");
    close(&disk);
    // Nothing behind it states that it was on the disk.
    fs::write(folder.file(), image).expect("room");
    flip(&folder, frames(&folder, Kind::Response)[2] + 20);
    let disk = folder.open(SIZE, 4 << 10);
    let found: Vec<bool> = (0..5).map(|i| body(&disk, &format!("/{i}")) == Some(vec![i; 10])).collect();
    assert_eq!(found, [true, true, false, true, true]);
    close(&disk);
}

#[test]
fn a_file_whose_segments_cannot_all_be_read_begins_anew() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 4 << 10);
    for i in 0..100 {
        put(&disk, &format!("/{i}"), "de", "red", vec![1; 3000]);
    }
    close(&disk);
    let segments = frames(&folder, Kind::Segment);
    assert!(segments.len() > 3);
    for segment in [segments[1], segments[segments.len() - 1]] {
        let image = fs::read(folder.file()).expect("a file");
        flip(&folder, segment + 20);
        let disk = folder.open(SIZE, 4 << 10);
        assert_eq!((disk.stage(), disk.counts().objects), (Stage::Open, 0));
        close(&disk);
        fs::write(folder.file(), image).expect("room");
    }
    let disk = folder.open(SIZE, 4 << 10);
    assert!(disk.counts().objects > 50);
    close(&disk);
}

#[test]
fn another_size_or_noise_begins_anew() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 4 << 10);
    put(&disk, "/a", "de", "red", vec![1; 10]);
    close(&disk);
    let disk = folder.open(2 * SIZE, 4 << 10);
    assert_eq!(body(&disk, "/a"), None);
    put(&disk, "/a", "de", "red", vec![1; 10]);
    close(&disk);
    for noise in [&b"noise"[..], b"", &[0; 1 << 20], &[0xff; 3 << 20]] {
        fs::write(folder.file(), noise).expect("room");
        let disk = folder.open(SIZE, 4 << 10);
        assert_eq!((disk.stage(), body(&disk, "/a")), (Stage::Open, None));
        put(&disk, "/a", "de", "red", vec![1; 10]);
        close(&disk);
        let disk = folder.open(SIZE, 4 << 10);
        assert_eq!(body(&disk, "/a"), Some(vec![1; 10]));
        close(&disk);
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_named_with_a_remedy() {
    let folder = Folder::new();
    let nowhere = Folder(folder.0.join("deeper/still"));
    let disk = nowhere.open(SIZE, 4 << 10);
    let Stage::Off(failure) = disk.stage() else { panic!("it cannot be there: {:?}", disk.stage()) };
    assert!(
        failure.to_string().starts_with("cannot create /") && failure.to_string().ends_with("; create the folder"),
        "{failure}"
    );
    assert_eq!(check(&nowhere.options(SIZE, 4 << 10)).expect_err("it cannot be made"), failure);
    assert_eq!(disk.counts().errors, 1);
    // The tier still accepts responses and purges; it only finds nothing.
    put(&disk, "/a", "de", "red", vec![1; 10]);
    purge(&disk, Scope::Log(Target::All), Fate::Removed);
    assert_eq!(body(&disk, "/a"), None);
    assert!(disk.is_closed(DEADLINE));
    fs::create_dir(&folder.0).expect("a folder");
    assert!(check(&folder.options(SIZE, 4 << 10)).is_ok());
    fs::write(folder.0.join("file"), "").expect("room");
    let file = Folder(folder.0.join("file"));
    let disk = file.open(SIZE, 4 << 10);
    assert!(matches!(disk.stage(), Stage::Off(_)), "{:?}", disk.stage());
    // Whether a mode keeps the test out depends on its user.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).expect("it is ours");
    let refused = check(&folder.options(SIZE, 4 << 10)).is_err();
    let disk = folder.open(SIZE, 4 << 10);
    assert_eq!(matches!(disk.stage(), Stage::Off(_)), refused);
    close_if_open(&disk);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).expect("it is ours");
}

#[test]
fn a_disk_that_has_failed_comes_back_empty_once_it_can_be_used() {
    let folder = Folder::new();
    let later = Folder(folder.0.join("later/cache"));
    let disk = later.open(SIZE, 4 << 10);
    assert!(matches!(disk.stage(), Stage::Off(_)), "{:?}", disk.stage());
    // What happens meanwhile is not noted there.
    put(&disk, "/a", "de", "red", vec![1; 10]);
    purge(&disk, Scope::Log(Target::Tag(b"blue"[..].into())), Fate::Removed);
    let before = disk.counts().errors;
    fs::create_dir_all(folder.0.join("later")).expect("a folder");
    disk.retry();
    let until = std::time::Instant::now() + DEADLINE;
    while disk.stage() != Stage::Open {
        assert!(std::time::Instant::now() < until, "{:?}", disk.stage());
        std::thread::yield_now();
    }
    assert_eq!((disk.counts().objects, disk.counts().errors), (0, before));
    put(&disk, "/a", "de", "blue", vec![2; 10]);
    settle(&disk);
    assert_eq!(body(&disk, "/a"), Some(vec![2; 10]), "purges of the time before are not for it");
    purge(&disk, Scope::Log(Target::Tag(b"blue"[..].into())), Fate::Removed);
    assert_eq!(body(&disk, "/a"), None);
    close(&disk);
    // One that is closed while it is off does not come back.
    let disk = Folder(folder.0.join("never/cache")).open(SIZE, 4 << 10);
    disk.close();
    disk.retry();
    assert!(disk.is_closed(DEADLINE) && matches!(disk.stage(), Stage::Off(_)));
}

#[test]
fn the_file_is_not_a_link_to_another() {
    let folder = Folder::new();
    fs::create_dir_all(&folder.0).expect("a folder");
    let other = folder.0.join("precious");
    fs::write(&other, "precious").expect("room");
    std::os::unix::fs::symlink(&other, folder.file()).expect("a link");
    let failure = check(&folder.options(SIZE, 4 << 10)).expect_err("it is a link");
    assert!(failure.to_string().contains("remove the symbolic link"), "{failure}");
    let disk = folder.open(SIZE, 4 << 10);
    assert_eq!(disk.stage(), Stage::Off(failure));
    assert_eq!(fs::read(&other).expect("a file"), b"precious");
    close_if_open(&disk);
}

fn close_if_open(disk: &Disk) {
    disk.close();
    assert!(disk.is_closed(DEADLINE));
}

#[test]
fn too_many_purges_purge_everything_rather_than_too_little() {
    let folder = Folder::new();
    let mut disk = folder.open(SIZE, 4 << 10);
    put(&disk, "/a", "de", "red", vec![1; 10]);
    for i in 0..1500 {
        let tag = format!("tag-{i}").into_bytes();
        let purge = evenkeel_cache::record::PurgeRecord {
            scope: Scope::Log(Target::Tag(tag.into())),
            fate: Fate::Removed,
            at: crate::support::NOW,
        };
        let hidden = disk.hide(&purge);
        disk.purge(&purge, hidden);
    }
    settle(&disk);
    assert_eq!(body(&disk, "/a"), None);
    close(&disk);
    disk = folder.open(SIZE, 4 << 10);
    assert_eq!((disk.stage(), body(&disk, "/a")), (Stage::Open, None));
    close(&disk);
}

#[test]
fn a_thousand_requests_for_a_key_are_one_read() {
    let folder = Folder::new();
    let disk = folder.open(SIZE, 64 << 10);
    put(&disk, "/a", "de", "red", vec![1; 60_000]);
    settle(&disk);
    let store = evenkeel_cache::store::Store::<evenkeel_cache::stored::Stored>::new(&Default::default());
    let key = key("/a");
    // All of them join before the first one is polled: a read that is done is not joined.
    let reads: Vec<_> = (0..1000).filter_map(|_| disk.read((&key).into(), store.begin())).collect();
    let loaded: Vec<_> = reads.into_iter().map(crate::support::wait).collect();
    assert_eq!(loaded.len(), 1000);
    assert!(loaded.iter().all(|loaded| loaded.responses[0].object.body().len() == 60_000));
    assert!(disk.counts().reads < 100, "{:?}", disk.counts());
    close(&disk);
}

/// Held as long as no read is to end.
static GATE: Mutex<()> = Mutex::new(());

fn behind_the_gate(len: usize, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Option<Bytes> {
    let _passed = GATE.lock().expect("no panic while held");
    evenkeel_disk::plain_body(len, fill)
}

#[test]
fn a_disk_that_does_not_answer_is_not_asked_until_it_does() {
    let folder = Folder::new();
    let disk = Disk::open(folder.options(SIZE, 4 << 10), clock(NOW), behind_the_gate);
    assert!(disk.is_settled(DEADLINE));
    for path in ["/a", "/b", "/c"] {
        put(&disk, path, "de", "red", vec![1; 1000]);
    }
    settle(&disk);
    let store = evenkeel_cache::store::Store::<evenkeel_cache::stored::Stored>::new(&Default::default());
    let begin = |path: &str| disk.read((&key(path)).into(), store.begin());
    let gate = GATE.lock().expect("no panic while held");
    let under_way = ["/a", "/b"].map(|path| begin(path).expect("a read"));
    for path in ["/a", "/c"] {
        let began = Instant::now();
        while begin(path).is_some() {
            assert!(began.elapsed() < DEADLINE, "{path} is asked for");
            std::thread::yield_now();
        }
    }
    drop(gate);
    for read in under_way {
        assert_eq!(crate::support::wait(read).responses.len(), 1);
    }
    assert!(disk.counts().reads_dropped > 0);
    let began = Instant::now();
    while read(&disk, "/c").is_empty() {
        assert!(began.elapsed() < DEADLINE, "the disk answers again");
    }
    close(&disk);
}
