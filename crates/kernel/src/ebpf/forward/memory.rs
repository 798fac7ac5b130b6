//! Arrays of the kernel as memory of this process: [`Memory`].

use crate::driver::Fault;
use aya::maps::{MapData, MapInfo};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::AsFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// Values of an array that programs read and write at the same time.
pub(super) struct Memory {
    start: NonNull<u8>,
    value: usize,
    pub(super) entries: u32,
}

// SAFETY: the memory is shared with the kernel anyway, and only accessed by atomic operations.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps the array that is pinned at `path`.
    pub(super) fn of(path: &Path) -> Result<Memory, Fault> {
        let fault = |e: &dyn std::fmt::Display| Fault::new(format!("map the memory of {}", path.display()), e);
        let map = MapData::from_pin(path).map_err(|e| fault(&e))?;
        let info = MapInfo::from_pin(path).map_err(|e| fault(&e))?;
        let (value, entries) = (info.value_size() as usize, info.max_entries());
        // Fields of values are accessed as words.
        if value % 8 != 0 {
            return Err(fault(&"values that are not of whole words"));
        }
        let length = value * entries as usize;
        // SAFETY: a new mapping, wherever the kernel places it.
        let start = unsafe {
            mmap(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, map.fd().as_fd(), 0)
        };
        let start = start.map_err(|e| fault(&e))?.cast();
        let start = NonNull::new(start).ok_or_else(|| fault(&"a mapping at 0"))?;
        Ok(Memory { start, value, entries })
    }

    /// Address of a field of an entry; `None` if the array has no such entry.
    fn field(&self, id: u32, offset: usize, size: usize) -> Option<NonNull<u8>> {
        let valid = id < self.entries && offset.is_multiple_of(size) && offset + size <= self.value;
        // SAFETY: the field is within the mapping.
        valid.then(|| unsafe { self.start.add(id as usize * self.value + offset) })
    }

    pub(super) fn signed(&self, id: u32, offset: usize) -> Option<&AtomicI64> {
        // SAFETY: aligned, within the mapping, and only accessed by atomic operations.
        self.field(id, offset, 8).map(|at| unsafe { AtomicI64::from_ptr(at.cast().as_ptr()) })
    }

    pub(super) fn unsigned(&self, id: u32, offset: usize) -> Option<&AtomicU64> {
        // SAFETY: aligned, within the mapping, and only accessed by atomic operations.
        self.field(id, offset, 8).map(|at| unsafe { AtomicU64::from_ptr(at.cast().as_ptr()) })
    }

    /// Writes words, each at once. Nothing, if the array has no such entry.
    pub(super) fn write(&self, id: u32, offset: usize, words: [u32; 4]) {
        for (i, word) in words.into_iter().enumerate() {
            if let Some(at) = self.field(id, offset + i * 4, 4) {
                // SAFETY: aligned, within the mapping, and only accessed by atomic operations.
                let at = unsafe { AtomicU32::from_ptr(at.cast().as_ptr()) };
                at.store(word, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is not used any more: references to it borrow this.
        let _ = unsafe { munmap(self.start.cast().as_ptr(), self.value * self.entries as usize) };
    }
}
