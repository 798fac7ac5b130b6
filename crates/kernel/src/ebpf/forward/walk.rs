//! Walks through the entries of a map of flows, many with a syscall: [`Walk`].

use crate::driver::Fault;
use aya::maps::{MapData, MapInfo};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Bytes of `struct tuple`, a key.
pub(super) const KEY: usize = 40;
/// Bytes of `struct flow`, a value, and the beginning of the values of `openings`.
pub(super) const VALUE: usize = 128;

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

/// Walk, with buffers that are kept between walks.
pub(super) struct Walk {
    map: MapData,
    /// Bytes of a value of this map.
    size: usize,
    keys: Vec<[u8; KEY]>,
    values: Vec<u8>,
}

impl Walk {
    /// Opens the map that is pinned at `path`. Its values begin with a flow.
    pub(super) fn new(path: &Path) -> Result<Walk, Fault> {
        let fault = |e: &dyn std::fmt::Display| Fault::new(format!("open {}", path.display()), e);
        let info = MapInfo::from_pin(path).map_err(|e| fault(&e))?;
        let size = info.value_size() as usize;
        // The kernel rounds sizes of values up to words.
        if info.key_size() as usize != KEY || size < VALUE || !size.is_multiple_of(8) {
            return Err(fault(&"entries of another size: another version has made it"));
        }
        let map = MapData::from_pin(path).map_err(|e| fault(&e))?;
        Ok(Walk { map, size, keys: vec![[0; KEY]; BATCH], values: vec![0; BATCH * size] })
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
            // SAFETY: the buffers have room for `count` keys and values of the sizes of the map, which `new` has read;
            // the kernel writes to them and to `next`.
            let result = unsafe { libc::syscall(libc::SYS_bpf, LOOKUP_BATCH, at, length) };
            let error = (result < 0).then(io::Error::last_os_error);
            let end = match error.as_ref().map(io::Error::raw_os_error) {
                None => false,
                Some(Some(libc::ENOENT)) => true,
                // A bucket with more entries than the buffers hold.
                Some(Some(libc::ENOSPC)) => {
                    let more = self.keys.len() * 2;
                    self.keys.resize(more, [0; KEY]);
                    self.values.resize(more * self.size, 0);
                    continue;
                }
                Some(Some(libc::EINTR)) => continue,
                Some(_) => return Err(Fault::new("list flows", error.unwrap_or_else(io::Error::last_os_error))),
            };
            let count = arguments.count as usize;
            for (key, value) in self.keys.iter().zip(self.values.chunks_exact(self.size)).take(count) {
                if let Some(flow) = value.first_chunk() {
                    each(key, flow);
                }
            }
            if end {
                return Ok(());
            }
            position = next;
            first = false;
        }
    }
}
