//! Admission: responses in turn, through a memory that is much smaller than the disk.

use crate::support::{Folder, NOW, key, settle, stored, wait};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::store::{Found, KeyRef, Object, Options as Memory, Store};
use evenkeel_cache::stored::Stored;
use evenkeel_disk::{Admit, Disk};
use std::sync::Arc;

/// A cache with a memory of a few hundred responses.
struct Cache {
    memory: Store<Stored>,
    disk: Disk,
}

impl Cache {
    fn new(folder: &Folder, size: u64, admit: Admit) -> Cache {
        let options = evenkeel_disk::Options { admit, ..folder.options(size, 4 << 10) };
        let disk = Disk::open(options, crate::support::clock(NOW), evenkeel_disk::plain_body);
        assert!(disk.is_settled(crate::support::DEADLINE));
        let options = Memory { capacity: 256 << 10, object_max: 4 << 10, ..Memory::default() };
        Cache { memory: Store::with_evictions(&options, Some(Box::new(disk.clone()))), disk }
    }

    /// Requests a path. Returns true if that took a fetch.
    fn request(&self, path: &str, body: &[u8]) -> bool {
        let (key, began) = (key(path), self.memory.begin());
        let at = KeyRef::from(&key);
        if matches!(self.memory.lookup(at, |_| Some(0)), Found::Hit(_)) {
            return false;
        }
        let loaded = self.disk.read(at, began).map(wait);
        if let Some(loaded) = loaded.filter(|loaded| !loaded.responses.is_empty()) {
            for restored in loaded.responses.iter() {
                self.memory.restore(at, restored.clone(), loaded.began, NOW, |_| true);
            }
            return false;
        }
        let object = Arc::new(Object::new(stored(path, "de", "red"), body.to_vec().into()));
        self.disk.forget(at, object.head().varying());
        self.memory.insert(at, object, began, Moment(NOW.0), |_| true);
        true
    }

    /// Requests paths in turn, and returns the number of fetches.
    fn round(&self, paths: std::ops::Range<u32>) -> usize {
        let fetches = paths.filter(|path| self.request(&format!("/{path}"), &[7; 1000])).count();
        settle(&self.disk);
        fetches
    }
}

#[test]
fn a_disk_much_larger_than_memory_holds_what_is_requested_in_turn_from_the_second_round_on() {
    let folder = Folder::new();
    let cache = Cache::new(&folder, 64 << 20, Admit::Reused);
    let fetches: Vec<usize> = (0..4).map(|_| cache.round(0..30_000)).collect();
    assert_eq!(fetches, [30_000, 0, 0, 0]);
}

#[test]
fn a_full_disk_admits_what_is_requested_twice_within_its_own_time() {
    let folder = Folder::new();
    let cache = Cache::new(&folder, 4 << 20, Admit::Reused);
    // More than its room.
    cache.round(0..8_000);
    // A crawler leaves what others use.
    let used = 9_000..10_500;
    assert_eq!(cache.round(used.clone()), 1_500);
    cache.round(used.clone());
    assert!(cache.round(used.clone()) < 150);
    cache.round(20_000..30_000);
    let lost = cache.round(used);
    assert!(lost < 300, "{lost} of 1,500 were lost to requests that never came again");
}

#[test]
fn a_disk_that_admits_all_is_a_queue() {
    let folder = Folder::new();
    let cache = Cache::new(&folder, 4 << 20, Admit::All);
    cache.round(0..8_000);
    assert_eq!(cache.round(9_000..10_500), 1_500);
    assert!(cache.round(9_000..10_500) < 150);
}
