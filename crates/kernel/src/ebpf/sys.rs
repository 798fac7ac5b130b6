//! Operations on maps and links that aya lacks: batches of entries and arrays in memory; links of cgroups that are pinned and
//! updated, by bpf(2). And a thread without signals, for the calls that a signal ends.

use crate::driver::Fault;
use aya::Pod;
use aya::maps::{HashMap, IterableMap, Map, MapData, MapError};
use std::ffi::CString;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const OBJ_PIN: i32 = 6;
const OBJ_GET: i32 = 7;
const MAP_LOOKUP_BATCH: i32 = 24;
const MAP_UPDATE_BATCH: i32 = 26;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;
const LINK_DETACH: i32 = 34;

#[repr(C)]
#[derive(Default)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Link {
    /// Program of a new link; the link of an update.
    first: u32,
    /// Cgroup of a new link; the program of an update.
    second: u32,
    /// Type of attachment of a new link; flags of an update.
    third: u32,
    fourth: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// The pointers in `attributes` belong to the command, and are valid for it.
unsafe fn bpf<T>(command: i32, attributes: &mut T) -> io::Result<i64> {
    // SAFETY: the caller vouches for pointers in the attributes, whose size is given.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn number(fd: impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().cast_unsigned()
}

fn terminated(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn owned(result: i64) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(result).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Does something in a thread that no signal reaches meanwhile: signals to the process go to other threads.
pub fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set was filled below, and the old mask is not asked for.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are filled before they are read; these calls fail on wrong arguments only.
    let _restore = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        Restore(before.assume_init())
    };
    act()
}

/// Gives a link a name in a bpffs.
///
/// # Errors
/// The kernel refuses it.
pub fn pin(fd: impl AsFd, path: &Path) -> io::Result<()> {
    let path = terminated(path)?;
    let mut object = Object { path: path.as_ptr() as u64, fd: number(&fd), flags: 0 };
    // SAFETY: the path is terminated by 0 and lives through the call.
    unsafe { bpf(OBJ_PIN, &mut object) }.map(drop)
}

/// Opens a link that is pinned.
///
/// # Errors
/// There is nothing, or the kernel refuses it.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let path = terminated(path)?;
    let mut object = Object { path: path.as_ptr() as u64, ..Object::default() };
    // SAFETY: the path is terminated by 0 and lives through the call.
    owned(unsafe { bpf(OBJ_GET, &mut object) }?)
}

/// Attaches a program to a cgroup. Other programs there continue to run.
///
/// # Errors
/// The kernel refuses it.
pub fn link(program: impl AsFd, cgroup: impl AsFd, attach_type: u32) -> io::Result<OwnedFd> {
    let mut link = Link { first: number(&program), second: number(&cgroup), third: attach_type, fourth: 0 };
    // SAFETY: the command has no pointers.
    owned(unsafe { bpf(LINK_CREATE, &mut link) }?)
}

/// Replaces the program of a link, in a single step.
///
/// # Errors
/// The kernel refuses it.
pub fn relink(link: impl AsFd, program: impl AsFd) -> io::Result<()> {
    let mut update = Link { first: number(&link), second: number(&program), ..Link::default() };
    // SAFETY: the command has no pointers.
    unsafe { bpf(LINK_UPDATE, &mut update) }.map(drop)
}

/// Ends a link at once. The end of its last pin or descriptor ends it, too, but later.
///
/// # Errors
/// The kernel refuses it.
pub fn detach(link: impl AsFd) -> io::Result<()> {
    let mut link = Link { first: number(&link), ..Link::default() };
    // SAFETY: the command has no pointers.
    unsafe { bpf(LINK_DETACH, &mut link) }.map(drop)
}

/// Entries that a call of a batch asks for.
const AT_ONCE: usize = 4096;

/// Pinned hash that programs and this process share, with the batches that aya's lacks.
pub struct Hash<K, V>(HashMap<MapData, K, V>);

impl<K: Pod + Default, V: Pod + Default> Hash<K, V> {
    /// Opens a pinned hash.
    ///
    /// # Errors
    /// There is none, or the kernel refuses it.
    pub fn open(path: &Path) -> Result<Hash<K, V>, Fault> {
        let map = MapData::from_pin(path).and_then(Map::from_map_data).and_then(HashMap::try_from);
        map.map(Hash).map_err(|error| Fault::new(format!("open the map {}", path.display()), refusal(error)))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn get(&self, key: &K) -> io::Result<Option<V>> {
        match self.0.get(key, 0) {
            Ok(value) => Ok(Some(value)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The map is full, or the kernel refuses it.
    pub fn set(&mut self, key: &K, value: &V) -> io::Result<()> {
        self.0.insert(key, value, 0).map_err(refusal)
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn remove(&mut self, key: &K) -> io::Result<()> {
        match self.0.remove(key).map_err(refusal) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Sets the values of many keys, in their order, until a value is refused.
    ///
    /// # Errors
    /// The map is full, or the kernel refuses it; those before are set.
    pub fn set_all(&mut self, keys: &[K], values: &[V]) -> io::Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let count = keys.len().min(values.len()) as u32;
        let mut batch = Batch {
            keys: keys.as_ptr() as u64,
            values: values.as_ptr() as u64,
            count,
            map: number(self.0.map().fd()),
            ..Batch::default()
        };
        // SAFETY: `count` keys and values of the sizes of the map are there.
        unsafe { bpf(MAP_UPDATE_BATCH, &mut batch) }.map(drop)
    }

    /// Calls `each` with every entry. An entry that comes or goes meanwhile may be left out.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn for_each(&self, mut each: impl FnMut(&K, &V)) -> io::Result<()> {
        let of = number(self.0.map().fd());
        let mut room = AT_ONCE;
        let (mut keys, mut values) = (vec![K::default(); room], vec![V::default(); room]);
        let (mut from, mut to) = (0u32, 0u32);
        let mut began = false;
        loop {
            let mut batch = Batch {
                from: if began { std::ptr::from_ref(&from) as u64 } else { 0 },
                to: std::ptr::from_mut(&mut to) as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: room as u32,
                map: of,
                ..Batch::default()
            };
            // SAFETY: `room` keys and values of the sizes of the map fit, and a hash counts buckets by 32 bits.
            let result = unsafe { bpf(MAP_LOOKUP_BATCH, &mut batch) };
            let ended = match result {
                Ok(_) => false,
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                // A bucket has more entries than there is room.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    room *= 2;
                    keys.resize(room, K::default());
                    values.resize(room, V::default());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let count = (batch.count as usize).min(room);
            for (key, value) in keys[..count].iter().zip(&values[..count]) {
                each(key, value);
            }
            if ended {
                return Ok(());
            }
            (from, began) = (to, true);
        }
    }
}

/// Returns the kernel's error, so that its number can be compared, or aya's own.
fn refusal(error: MapError) -> io::Error {
    match error {
        MapError::SyscallError(error) => error.io_error,
        error => io::Error::other(error),
    }
}

/// Waits until every program that runs now has ended. False if this kernel cannot.
pub fn grace_period() -> bool {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: the call has no pointers. It waits for a grace period of RCU, in which programs of eBPF run.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0 }
}

/// Array of the kernel in our memory.
pub struct Array<T> {
    at: *mut T,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: the mapping belongs to the value, and is not tied to a thread.
unsafe impl<T: Send> Send for Array<T> {}

impl<T: Pod + Default> Array<T> {
    /// Maps a pinned array.
    ///
    /// # Errors
    /// The map cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<Array<T>, Fault> {
        let fault = |error: io::Error| Fault::new(format!("map {}", path.display()), error);
        let map = MapData::from_pin(path).map_err(|error| fault(refusal(error)))?;
        let len = map.info().map_err(|error| fault(refusal(error)))?.max_entries() as usize;
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                len * size_of::<T>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map.fd(),
                0,
            )
        };
        Ok(Array { at: at.map_err(|error| fault(error.into()))?.cast(), len, of: PhantomData })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a value, or an empty value beyond the end. Programs may write it meanwhile.
    pub fn read(&self, i: u32) -> T {
        match self.at(i) {
            // SAFETY: within the mapping, aligned, and every pattern of bits is a value.
            Some(at) => unsafe { at.read_volatile() },
            None => T::default(),
        }
    }

    /// Writes a value. Nothing happens beyond the end.
    pub fn write(&self, i: u32, value: T) {
        if let Some(at) = self.at(i) {
            // SAFETY: within the mapping and aligned.
            unsafe { at.write_volatile(value) }
        }
    }

    /// Returns the address of a value, or `None` beyond the end.
    pub fn at(&self, i: u32) -> Option<*mut T> {
        // SAFETY: within the mapping.
        ((i as usize) < self.len).then(|| unsafe { self.at.add(i as usize) })
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this size, and no reference to it is left.
        let _ = unsafe { rustix::mm::munmap(self.at.cast(), self.len * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(signal: i32) -> bool {
        let mut waiting = MaybeUninit::uninit();
        // SAFETY: sigpending fills the set that sigismember reads.
        unsafe { libc::sigpending(waiting.as_mut_ptr()) == 0 && libc::sigismember(waiting.as_ptr(), signal) == 1 }
    }

    #[test]
    fn a_signal_to_a_thread_without_signals_waits() {
        // SAFETY: no test handles SIGURG, which does nothing by default.
        let raised = without_signals(|| (unsafe { libc::raise(libc::SIGURG) } == 0).then(|| waits(libc::SIGURG)));
        assert_eq!((raised, waits(libc::SIGURG)), (Some(true), false));
    }
}
