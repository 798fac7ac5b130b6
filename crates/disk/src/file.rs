//! The file: its lock, its room, and segments by number.

use crate::clock::{ANCHOR, Clock, FileClock};
use crate::failure::Failure;
use crate::layout::{ANCHOR_AT, BLOCK, Layout, Options};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{FRAME, Frame, Kind};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::io::{ReadWriteFlags, preadv2};
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of the file in its folder.
const NAME: &str = "responses";

/// File whose segments a single process writes.
pub struct Ring {
    file: File,
    pub path: PathBuf,
    pub layout: Layout,
    /// Clock that records have their moments on, continued from the process before.
    pub clock: FileClock,
    clocks: Arc<Clock>,
    /// Number of the segment in each slot; 0 for none.
    epochs: Box<[AtomicU32]>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Waiting of a read for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Allowed,
    Never,
}

/// Result of opening a file.
pub enum Opened {
    Ring(Ring),
    /// Another process has the file.
    Locked,
}

/// Checks that a folder can hold the file, without changing anything that is there.
///
/// # Errors
/// The reason why it cannot.
pub fn check(options: &Options) -> Result<(), Failure> {
    let path = options.path.join(NAME);
    if path.is_symlink() {
        return Err(Failure::of("open", &path, &io::Error::from(rustix::io::Errno::LOOP)));
    }
    let (existing, what) = if path.exists() { (&path, "write to") } else { (&options.path, "write into") };
    if !options.path.exists() {
        let parent = options.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return writable(parent).map_err(|error| Failure::of("create", &options.path, &error));
    }
    writable(existing).map_err(|error| Failure::of(what, existing, &error))
}

fn writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

impl Ring {
    /// Opens the file, or creates it. Its content stays if its segments match the options.
    ///
    /// # Errors
    /// The file system refuses it.
    pub fn open(options: &Options, clocks: &Arc<Clock>) -> Result<Opened, Failure> {
        if !options.path.is_dir() {
            let made = DirBuilder::new().mode(0o700).create(&options.path);
            made.map_err(|error| Failure::of("create", &options.path, &error))?;
        }
        let path = options.path.join(NAME);
        let mut open = OpenOptions::new();
        // A link would lead the writes of this process to a file of another.
        open.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = open.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|error| Failure::of("open", &path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Opened::Locked),
            Err(error) => return Err(Failure::of("lock", &path, &error.into())),
        }
        let layout = Layout::of(options);
        let epochs = (0..layout.count).map(|_| AtomicU32::new(0)).collect();
        let clock = FileClock::default();
        let mut ring = Ring { file, path, layout, clock, clocks: clocks.clone(), epochs };
        let known = ring.known_clock();
        let is_mine = known.is_some();
        ring.clock = known.unwrap_or_default();
        if !is_mine || !ring.read_epochs() {
            if is_mine {
                tracing::warn!("{}: broken segment; the cache on disk starts empty", ring.path.display());
            }
            ring.renew()?;
        }
        Ok(Opened::Ring(ring))
    }

    /// Replaces the content with an empty file.
    ///
    /// # Errors
    /// There is no room for the file; then it takes none.
    pub fn renew(&self) -> Result<(), Failure> {
        self.format().map_err(|error| {
            // Others need the room that the failed call has taken.
            let _ = self.file.set_len(0);
            Failure::of("allocate space for", &self.path, &error)
        })
    }

    /// Clock of the file, if it was made with the same layout, and has all its bytes.
    fn known_clock(&self) -> Option<FileClock> {
        let (mut block, mut anchor) = (vec![0; BLOCK], [0; ANCHOR]);
        self.file.read_exact_at(&mut block, 0).ok()?;
        self.file.read_exact_at(&mut anchor, ANCHOR_AT).ok()?;
        let is_whole = || self.file.metadata().is_ok_and(|file| file.len() == self.layout.file_len());
        if block == self.layout.block() && is_whole() { FileClock::after(&anchor, &self.clocks) } else { None }
    }

    /// Writes the anchor of the present moment, from which the next process continues the clock.
    ///
    /// # Errors
    /// The disk fails.
    pub fn write_anchor(&self) -> io::Result<()> {
        self.file.write_all_at(&self.clock.anchor(&self.clocks), ANCHOR_AT)
    }

    /// The present moment on the clock of the file.
    pub fn now(&self) -> Moment {
        self.clock.of_file((self.clocks.now)())
    }

    /// Makes an empty file of the right length, with all its room.
    fn format(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.epochs.iter().for_each(|epoch| epoch.store(0, Ordering::SeqCst));
        // Some file systems cannot reserve room; then writes may fail later.
        match fallocate(&self.file, FallocateFlags::empty(), 0, self.layout.file_len()) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        self.file.set_len(self.layout.file_len())?;
        self.file.write_all_at(&self.layout.block(), 0)?;
        self.write_anchor()?;
        self.file.sync_all()
    }

    /// Reads the numbers of segments. Returns false if a segment is missing or cannot be read: it may have held a
    /// purge.
    fn read_epochs(&self) -> bool {
        let mut broken = Vec::new();
        for slot in 0..self.layout.count {
            let mut bytes = [0; FRAME];
            let is_read = self.file.read_exact_at(&mut bytes, self.layout.at(slot)).is_ok();
            let frame = Frame::read(&bytes).ok().filter(|frame| {
                is_read && frame.kind == Kind::Segment && frame.head_len == 0 && frame.check_head(&[]).is_ok()
            });
            let epoch = frame.map_or(0, |frame| (frame.number >> 32) as u32);
            if epoch > 0 && self.layout.slot(epoch) == slot {
                self.set_epoch(slot, epoch);
            } else if bytes != [0; FRAME] {
                broken.push(slot);
            }
        }
        broken.is_empty() && self.segments().windows(2).all(|pair| pair[0] + 1 == pair[1])
    }

    /// Number of the segment in a slot; 0 for none.
    pub fn epoch(&self, slot: u16) -> u32 {
        // Readers check what they have read, and the index is changed under its locks.
        self.epochs.get(usize::from(slot)).map_or(0, |epoch| epoch.load(Ordering::SeqCst))
    }

    /// Place in the log of an offset in the segment that a slot has at present.
    pub fn sequence(&self, slot: u16, offset: u32) -> u64 {
        u64::from(self.epoch(slot)) << 32 | u64::from(offset)
    }

    /// True if the segment of a place in the log is still in its slot.
    pub fn has(&self, slot: u16, sequence: u64) -> bool {
        sequence >> 32 != 0 && self.epoch(slot) == (sequence >> 32) as u32
    }

    pub fn set_epoch(&self, slot: u16, epoch: u32) {
        self.epochs[usize::from(slot)].store(epoch, Ordering::SeqCst);
    }

    /// Numbers of all segments, the oldest first.
    pub fn segments(&self) -> Vec<u32> {
        let mut all: Vec<u32> =
            (0..self.layout.count).map(|slot| self.epoch(slot)).filter(|epoch| *epoch > 0).collect();
        all.sort_unstable();
        all
    }

    /// Fills a buffer from a segment.
    ///
    /// # Errors
    /// The disk fails, or there are fewer bytes; with [`Wait::Never`] also if the kernel has not all of them in its page
    /// cache, or cannot tell.
    pub fn read(&self, slot: u16, offset: u64, into: &mut [u8], wait: Wait) -> io::Result<()> {
        let at = self.layout.at(slot) + offset;
        match wait {
            Wait::Allowed => self.file.read_exact_at(into, at),
            Wait::Never => {
                let read = preadv2(&self.file, &mut [io::IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT)?;
                if read == into.len() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            }
        }
    }

    /// Writes to a segment.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn write(&self, slot: u16, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.layout.at(slot) + offset)
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Releases the file for another process.
    pub fn unlock(&self) {
        // The kernel releases it at the end of the process at the latest.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Drops everything for good, as purges can no longer be noted.
    ///
    /// # Errors
    /// The disk fails: its content may come back.
    pub fn erase(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.sync_all()
    }
}
