//! Calls of bpf(2) that aya does not have: batches of entries, links that are pinned and updated; and maps in memory.

use crate::driver::Fault;
use std::ffi::CString;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const MAP_LOOKUP_ELEM: i32 = 1;
const MAP_UPDATE_ELEM: i32 = 2;
const MAP_DELETE_ELEM: i32 = 3;
const OBJ_PIN: i32 = 6;
const OBJ_GET: i32 = 7;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const MAP_LOOKUP_BATCH: i32 = 24;
const MAP_UPDATE_BATCH: i32 = 26;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;
const LINK_DETACH: i32 = 34;

/// Value without padding or pointers, as maps hold it.
///
/// # Safety
/// Every pattern of bits is a value, and the type has no padding.
pub unsafe trait Plain: Copy + Default {}

// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for u64 {}

#[repr(C)]
#[derive(Default)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
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

#[repr(C)]
#[derive(Default)]
struct Information {
    fd: u32,
    len: u32,
    at: u64,
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

/// Gives a map, program or link a name in a bpffs.
///
/// # Errors
/// The kernel refuses it.
pub fn pin(fd: impl AsFd, path: &Path) -> io::Result<()> {
    let path = terminated(path)?;
    let mut object = Object { path: path.as_ptr() as u64, fd: number(&fd), flags: 0 };
    // SAFETY: the path is terminated by 0 and lives through the call.
    unsafe { bpf(OBJ_PIN, &mut object) }.map(drop)
}

/// Opens a pinned object.
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

/// Returns the most entries that a map can have.
///
/// # Errors
/// The kernel refuses to say.
pub fn capacity(map: impl AsFd) -> io::Result<u32> {
    // struct bpf_map_info: type, id, size of key, size of value, entries, ...
    let mut found = [0u32; 20];
    let mut information =
        Information { fd: number(&map), len: size_of_val(&found) as u32, at: found.as_mut_ptr() as u64 };
    // SAFETY: the kernel writes at most `len` bytes to the array.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut information) }?;
    Ok(found[4])
}

/// Returns the value of a key.
///
/// # Errors
/// The kernel refuses it.
pub fn lookup<K: Plain, V: Plain>(map: impl AsFd, key: &K) -> io::Result<Option<V>> {
    let mut value = V::default();
    let mut element = Element {
        map: number(&map),
        key: std::ptr::from_ref(key) as u64,
        value: std::ptr::from_mut(&mut value) as u64,
        ..Element::default()
    };
    // SAFETY: key and value have the sizes of the map, the sizes of their types.
    match unsafe { bpf(MAP_LOOKUP_ELEM, &mut element) } {
        Ok(_) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the value of a key.
///
/// # Errors
/// The map is full, or the kernel refuses it.
pub fn update<K: Plain, V: Plain>(map: impl AsFd, key: &K, value: &V) -> io::Result<()> {
    let mut element = Element {
        map: number(&map),
        key: std::ptr::from_ref(key) as u64,
        value: std::ptr::from_ref(value) as u64,
        ..Element::default()
    };
    // SAFETY: key and value have the sizes of the map, the sizes of their types.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut element) }.map(drop)
}

/// Sets the values of many keys, in their order, until a value is refused.
///
/// # Errors
/// The map is full, or the kernel refuses it; those before are set.
pub fn update_all<K: Plain, V: Plain>(map: impl AsFd, keys: &[K], values: &[V]) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let count = keys.len().min(values.len()) as u32;
    let mut batch = Batch {
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count,
        map: number(&map),
        ..Batch::default()
    };
    // SAFETY: `count` keys and values of the sizes of the map are there.
    unsafe { bpf(MAP_UPDATE_BATCH, &mut batch) }.map(drop)
}

/// Removes a key. Returns false if there is none.
///
/// # Errors
/// The kernel refuses it.
pub fn delete<K: Plain>(map: impl AsFd, key: &K) -> io::Result<bool> {
    let mut element = Element { map: number(&map), key: std::ptr::from_ref(key) as u64, ..Element::default() };
    // SAFETY: the key has the size of the map.
    match unsafe { bpf(MAP_DELETE_ELEM, &mut element) } {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Entries that a call of a batch asks for.
const AT_ONCE: usize = 4096;

/// Calls `each` with every entry of a hash. An entry that comes or goes meanwhile may be left out.
///
/// # Errors
/// The kernel refuses it.
pub fn for_each<K: Plain, V: Plain>(map: impl AsFd, mut each: impl FnMut(&K, &V)) -> io::Result<()> {
    let of = number(&map);
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

impl<T: Plain> Array<T> {
    /// Maps a pinned array.
    ///
    /// # Errors
    /// The map cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<Array<T>, Fault> {
        let fault = |error: io::Error| Fault::new(format!("map {}", path.display()), error);
        let map = open(path).map_err(fault)?;
        let len = capacity(&map).map_err(fault)? as usize;
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                len * size_of::<T>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &map,
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
