//! Walks through the entries of the map of flows, many with a syscall: [`Walk`].

use crate::driver::Fault;
use aya::maps::MapData;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of `struct tuple`, a key.
pub(super) const KEY: usize = 40;
/// Bytes of `struct flow`, a value.
pub(super) const VALUE: usize = 120;

/// Entries that a syscall returns at first. It returns whole buckets of the map, which has at least as many buckets as
/// entries: they hold a few.
const BATCH: usize = 4096;

/// `BPF_MAP_LOOKUP_BATCH`.
const LOOKUP_BATCH: libc::c_long = 24;

/// Arguments of the syscall, the variant for batches of `union bpf_attr`.
#[repr(C)]
struct Arguments {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Walk, with buffers that are kept from one to the next.
pub(super) struct Walk {
    map: MapData,
    keys: Vec<[u8; KEY]>,
    values: Vec<[u8; VALUE]>,
}

impl Walk {
    pub(super) fn new(map: MapData) -> Walk {
        Walk { map, keys: vec![[0; KEY]; BATCH], values: vec![[0; VALUE]; BATCH] }
    }

    /// Calls `each` for every entry. Those that are added or removed meanwhile may be missed.
    pub(super) fn run(&mut self, mut each: impl FnMut(&[u8; KEY], &[u8; VALUE])) -> Result<(), Fault> {
        // The position is the number of a bucket, as the kernel keeps it.
        let (mut position, mut next) = (0_u32, 0_u32);
        let mut first = true;
        loop {
            let mut arguments = Arguments {
                in_batch: if first { 0 } else { (&raw const position) as u64 },
                out_batch: (&raw mut next) as u64,
                keys: self.keys.as_mut_ptr() as u64,
                values: self.values.as_mut_ptr() as u64,
                count: self.keys.len() as u32,
                map_fd: self.map.fd().as_fd().as_raw_fd() as u32,
                elem_flags: 0,
                flags: 0,
            };
            let (at, length) = (&raw mut arguments, size_of::<Arguments>());
            // SAFETY: the buffers have room for `count` keys and values of the sizes of the map, which `Sweep::new`
            // compares; the kernel writes to them and to `next`.
            let result = unsafe { libc::syscall(libc::SYS_bpf, LOOKUP_BATCH, at, length) };
            let error = (result < 0).then(io::Error::last_os_error);
            let end = match error.as_ref().map(io::Error::raw_os_error) {
                None => false,
                Some(Some(libc::ENOENT)) => true,
                // A bucket with more entries than the buffers hold.
                Some(Some(libc::ENOSPC)) => {
                    let more = self.keys.len() * 2;
                    self.keys.resize(more, [0; KEY]);
                    self.values.resize(more, [0; VALUE]);
                    continue;
                }
                Some(Some(libc::EINTR)) => continue,
                Some(_) => return Err(Fault::new("list flows", error.unwrap_or_else(io::Error::last_os_error))),
            };
            let count = arguments.count as usize;
            for (key, value) in self.keys.iter().zip(&self.values).take(count) {
                each(key, value);
            }
            if end {
                return Ok(());
            }
            position = next;
            first = false;
        }
    }
}
