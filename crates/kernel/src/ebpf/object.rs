//! Objects of eBPF: programs and maps are loaded, pinned in a bpffs, attached, and found again by a later process.

use super::sys;
use crate::driver::{Fault, Lack};
use aya::maps::{Array, Map, MapData, MapError};
use aya::programs::ProgramError;
use aya::{Ebpf, EbpfLoader};
use rustix::thread::{CapabilitySet, capabilities};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Folder where systemd mounts a bpffs, too.
const BPFFS: &str = "/sys/fs/bpf";
/// Attempts to load a program: EAGAIN ends one, when the process is frozen or traced.
const LOADS: usize = 5;
/// Version of the layout of maps, LAYOUT of `common.h`.
const LAYOUT: u32 = 2;

/// Folder in a bpffs that keeps maps and links while no process has them.
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Folder of the balancer `name`, which may not be there.
    pub fn new(name: &str) -> Pins {
        Pins { folder: Path::new(BPFFS).join(format!("evenkeel-{name}")) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.folder.join(format!("map-{name}"))
    }

    pub fn link(&self, name: &str) -> PathBuf {
        self.folder.join(format!("link-{name}"))
    }

    /// Makes the folder, and mounts a bpffs if there is none.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn make(&self) -> Result<(), Fault> {
        if !mounted() {
            rustix::mount::mount("bpf", BPFFS, "bpf", rustix::mount::MountFlags::empty(), None)
                .map_err(|error| Fault::new(format!("mount a bpffs at {BPFFS}"), error))?;
        }
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Fault::new(format!("create {}", self.folder.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// True until others remove them, as `cleanup` of another process does.
    pub fn are_there(&self) -> bool {
        self.map("layout").exists()
    }

    /// Version of the layout that is pinned, if any.
    fn layout(&self) -> Option<u32> {
        self.layout_map().ok()?.get(&0, 0).ok().map(|value| (value & 0xffff_ffff) as u32)
    }

    /// True if an earlier process has left maps that this process understands. Others are removed.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn left(&self) -> Result<bool, Fault> {
        if !self.folder.exists() {
            return Ok(false);
        }
        let found = self.layout();
        if found == Some(LAYOUT) {
            return Ok(true);
        }
        // Version 0 is of a process that ended while it made them.
        if let Some(version) = found.filter(|&version| version > 0) {
            tracing::warn!(
                "eBPF: replacing maps of layout {version} with layout {LAYOUT}; counts and affinity are lost"
            );
        }
        self.remove()?;
        Ok(false)
    }

    /// Marks the maps as complete.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn complete(&self) -> Result<(), Fault> {
        let written = self.layout_map().and_then(|mut map| map.set(0, u64::from(LAYOUT), 0));
        written.map_err(|error| Fault::new("write the version of the layout", chain(&error)))
    }

    fn layout_map(&self) -> Result<Array<MapData, u64>, MapError> {
        MapData::from_pin(self.map("layout")).and_then(Map::from_map_data).and_then(Array::try_from)
    }

    /// Unpins everything. Objects that no other process holds end.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn remove(&self) -> Result<(), Fault> {
        let fault = |error| Fault::new(format!("remove {}", self.folder.display()), error);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(fault)?,
        };
        // Links first: a program ends before its maps do.
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(fault)?.path());
        }
        paths.sort();
        for path in paths {
            let is_link = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"link-"));
            if is_link && let Ok(link) = sys::open(&path) {
                sys::detach(&link).map_err(fault)?;
            }
            fs::remove_file(path).map_err(fault)?;
        }
        fs::remove_dir(&self.folder).map_err(fault)
    }
}

/// True if a bpffs is mounted where it belongs.
pub fn mounted() -> bool {
    const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
    rustix::fs::statfs(BPFFS).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC)
}

/// Returns a warning if evenkeel would have to mount a bpffs that the machine cannot see: pinned objects there would
/// end with the process, and `cleanup` would not find it.
pub fn private_mount() -> Option<Lack> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let is_own = namespace("self") == namespace("1");
    (!mounted() && !is_own).then(|| {
        Lack::warning(
            format!("no bpffs is mounted at {BPFFS} in this mount namespace, and one of its own ends with it, also after a crash"),
            format!("make that of the machine visible here, as nsenter --net does, or `BindPaths={BPFFS}` of systemd"),
        )
    })
}

/// Capabilities for programs of eBPF that this process lacks.
pub fn missing_capabilities() -> Vec<&'static str> {
    let has = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    if has.contains(CapabilitySet::SYS_ADMIN) {
        return Vec::new();
    }
    let needed = [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
    ];
    needed.into_iter().filter(|(one, _)| !has.contains(*one)).map(|(_, name)| name).collect()
}

/// Name of a map, and the most entries that it can have.
pub type Size = (&'static str, u32);

/// Loads an object: its maps, or pinned maps of the same names, and then its programs, which are not attached.
/// Without `pins`, maps are private and small: a test of this kernel.
///
/// # Errors
/// The kernel refuses it.
pub fn load(object: &[u8], maps: &[&'static str], pins: Option<&Pins>, sizes: &[Size]) -> Result<Ebpf, Fault> {
    let mut loader = EbpfLoader::new();
    for &(name, size) in sizes {
        loader.map_max_entries(name, size);
    }
    if let Some(pins) = pins {
        for name in maps {
            loader.map_pin_path(name, pins.map(name));
        }
    }
    loader.load(object).map_err(|error| Fault::new("load eBPF maps", chain(&error)))
}

/// Loads a program of an object. The kernel gives up with EAGAIN when a signal reaches the thread, such as that of a
/// child that ends; so none may.
///
/// # Errors
/// The kernel refuses the program.
pub fn load_program(load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    let is_cut = |error: &ProgramError| match error {
        ProgramError::LoadError { io_error, .. } => io_error.kind() == io::ErrorKind::WouldBlock,
        _ => false,
    };
    sys::without_signals(|| attempts(load, is_cut))
}

fn attempts<E>(mut load: impl FnMut() -> Result<(), E>, is_cut: impl Fn(&E) -> bool) -> Result<(), E> {
    for _ in 1..LOADS {
        match load() {
            Err(error) if is_cut(&error) => {}
            done => return done,
        }
    }
    load()
}

/// Text of an error with all its causes, behind colons.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some repeat their cause.
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// Attaches a program to a cgroup, or gives it to the link that is pinned: flows see either program, and never none.
///
/// # Errors
/// The kernel refuses it.
pub fn attach(pins: &Pins, name: &str, program: impl AsFd, cgroup: impl AsFd, kind: u32) -> Result<OwnedFd, Fault> {
    let path = pins.link(name);
    if let Ok(link) = sys::open(&path) {
        match sys::relink(&link, &program) {
            Ok(()) => return Ok(link),
            // Its cgroup is gone.
            Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => {
                fs::remove_file(&path).map_err(|error| Fault::new(format!("remove {}", path.display()), error))?;
            }
            Err(error) => return Err(Fault::new(format!("replace the program {name}"), error)),
        }
    }
    let link =
        sys::link(program, cgroup, kind).map_err(|error| Fault::new(format!("attach the program {name}"), error))?;
    sys::pin(&link, &path).map_err(|error| Fault::new(format!("pin {}", path.display()), error))?;
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_cut_is_tried_again_a_few_times() {
        for (cuts, is_cut, loads) in [(3, true, 4), (usize::MAX, true, LOADS), (usize::MAX, false, 1)] {
            let mut count = 0;
            let load = || {
                count += 1;
                if count > cuts { Ok(()) } else { Err(is_cut) }
            };
            assert_eq!((attempts(load, |is_cut| *is_cut).is_ok(), count), (cuts < LOADS, loads));
        }
    }
}
