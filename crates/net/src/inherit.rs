//! Sockets passed between processes: listening sockets that came with this process, and their handover to its
//! replacement. By number from 3 on and counted in `LISTEN_FDS`, as systemd passes them (sd_listen_fds(3)),
//! and identified by their addresses.
//!
//! An inherited socket keeps the connections that wait to be accepted. Closing it and opening another would
//! reset them.

use crate::listen::Protocol;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd, ioctl_fionbio};
use rustix::net::{SocketAddrAny, SocketType, getsockname, sockopt};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of the first inherited descriptor.
const FIRST: RawFd = 3;

/// Variable with their count.
const COUNT: &str = "LISTEN_FDS";
/// Variable with their names, separated by colons.
const NAMES: &str = "LISTEN_FDNAMES";
/// Variable with the process they are meant for.
const PID: &str = "LISTEN_PID";
/// Variable with the descriptor on which the predecessor waits for the message that this process serves.
const READY: &str = "EVENKEEL_READY_FD";

/// Name of a descriptor that is not a socket but a file with the state that a predecessor leaves. A build that does not
/// know it closes it.
pub const LEFT: &str = "left";

/// Name of a connected socket on which a predecessor gives the stored responses of its cache. A build that does not
/// know it closes it.
pub const CACHE: &str = "cache";

/// Variable with the instance number of the predecessor, in hex.
const INSTANCE: &str = "EVENKEEL_INSTANCE";

/// Inherited sockets that were not taken yet. The rest is closed on drop.
#[derive(Debug)]
pub struct Inherited {
    instance: u64,
    bound: HashMap<(Protocol, SocketAddr), Vec<OwnedFd>>,
    unix: HashMap<PathBuf, OwnedFd>,
    left: Option<File>,
    cache: Option<UnixStream>,
    ready: Option<File>,
}

/// Nothing inherited, with a new instance number.
impl Default for Inherited {
    fn default() -> Inherited {
        // `RandomState` has new keys each time.
        let instance = RandomState::new().hash_one(std::process::id());
        Inherited { instance, bound: HashMap::new(), unix: HashMap::new(), left: None, cache: None, ready: None }
    }
}

impl Inherited {
    /// Collects the sockets that came with this process. Call it once, before anything else opens or closes
    /// descriptors.
    pub fn take_all() -> Inherited {
        let number = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
        let mut inherited = Inherited::default();
        let ready = number(READY).filter(|fd| *fd >= FIRST);
        // systemd sets LISTEN_PID. A predecessor cannot know our pid, but passes READY instead.
        if ready.is_none() && number(PID) != Some(std::process::id() as RawFd) {
            return inherited;
        }
        let count = number(COUNT).unwrap_or(0).max(0);
        let last = FIRST.saturating_add(count);
        let names = std::env::var(NAMES).unwrap_or_default();
        let mut names = names.split(':').map(Some).chain(std::iter::repeat(None));
        let named = (FIRST..last).filter_map(|fd| Some((names.next()?, adopt(fd)?)));
        for (name, fd) in named {
            let transport = match sockopt::socket_type(&fd) {
                Ok(SocketType::DGRAM) => Protocol::Udp,
                Ok(SocketType::STREAM) if sockopt::socket_acceptconn(&fd).unwrap_or(false) => Protocol::Tcp,
                // Only a predecessor leaves such a file: a service manager may pass its files under any name.
                Err(_) if ready.is_some() && name == Some(LEFT) => {
                    inherited.left = Some(File::from(fd));
                    continue;
                }
                Ok(SocketType::STREAM) if ready.is_some() && name == Some(CACHE) => {
                    inherited.cache = Some(UnixStream::from(fd));
                    continue;
                }
                // Other sockets that do not listen are not ours.
                _ => continue,
            };
            match (transport, getsockname(&fd).map(|addr| (SocketAddr::try_from(addr.clone()), unix_path(&addr)))) {
                (_, Ok((Ok(addr), _))) => inherited.bound.entry((transport, addr)).or_default().push(fd),
                (Protocol::Tcp, Ok((_, Some(path)))) => _ = inherited.unix.insert(path, fd),
                _ => {}
            }
        }
        if let (Some(_), Ok(instance)) = (ready, std::env::var(INSTANCE)) {
            inherited.instance = u64::from_str_radix(&instance, 16).unwrap_or(inherited.instance);
        }
        inherited.ready = ready.filter(|fd| *fd >= last).and_then(adopt).map(File::from);
        inherited
    }

    /// Number shared only by processes that replace each other.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Takes the listening TCP sockets at an address.
    pub fn tcp(&mut self, addr: SocketAddr) -> Vec<OwnedFd> {
        self.at((Protocol::Tcp, addr))
    }

    /// Takes the UDP sockets at an address.
    pub fn udp(&mut self, addr: SocketAddr) -> Vec<OwnedFd> {
        self.at((Protocol::Udp, addr))
    }

    /// Takes the sockets at an address.
    pub fn at(&mut self, at: (Protocol, SocketAddr)) -> Vec<OwnedFd> {
        self.bound.remove(&at).unwrap_or_default()
    }

    /// Takes the listening Unix socket at a path; an abstract name begins with `@`.
    pub fn unix(&mut self, path: &Path) -> Option<OwnedFd> {
        self.unix.remove(path)
    }

    /// Listening socket at a path that is wanted, with the path.
    pub fn unix_where(&mut self, is_wanted: impl Fn(&Path) -> bool) -> Option<(PathBuf, OwnedFd)> {
        let path = self.unix.keys().find(|path| is_wanted(path))?.clone();
        self.unix.remove_entry(&path)
    }

    /// File that the predecessor has left for this process, positioned at its start.
    pub fn take_left(&mut self) -> Option<File> {
        self.left.take()
    }

    /// Socket on which the predecessor gives the stored responses of its cache. It does not block.
    pub fn take_cache(&mut self) -> Option<UnixStream> {
        self.cache.take()
    }

    /// Addresses of sockets that no listener has taken.
    pub fn left(&self) -> Vec<String> {
        let bound = self.bound.keys().map(|(_, addr)| addr.to_string());
        bound.chain(self.unix.keys().map(|path| path.display().to_string())).collect()
    }

    /// Closes sockets that were not taken, and notifies the predecessor that this process serves. Returns true if
    /// there is any.
    pub fn serves(self) -> bool {
        let Inherited { bound, unix, left, cache, ready, .. } = self;
        // Closed first, so that the predecessor is the last holder and can drain them.
        drop((bound, unix, left, cache));
        match ready {
            // If the predecessor is gone, no message is needed.
            Some(mut ready) => ready.write_all(word(std::process::id()).as_bytes()).is_ok(),
            None => false,
        }
    }
}

/// Prefix of the message of a successor. Unmistakable, because whatever runs as the successor may write to a
/// descriptor of the same number for another purpose.
const SERVES: &str = "evenkeel serves as process ";

fn word(pid: u32) -> String {
    format!("{SERVES}{pid}\n")
}

/// Longest message, in bytes.
pub const WORD_MAX: usize = SERVES.len() + "4294967295\n".len();

/// Parses the message, and returns the process id of the sender. `None` for anything else.
pub fn read_word(said: &[u8]) -> Option<u32> {
    let pid = std::str::from_utf8(said).ok()?.strip_prefix(SERVES)?.strip_suffix('\n')?.parse().ok()?;
    (word(pid).as_bytes() == said).then_some(pid)
}

/// Takes ownership of an inherited descriptor, if it is open.
fn adopt(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: only borrowed to check that it is open; the call fails cleanly if it is not.
    fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    // SAFETY: it is open, it was passed to this process to own, and `take_all` is called once, before
    // anything else could own it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC).ok()?;
    ioctl_fionbio(&fd, true).ok()?;
    Some(fd)
}

fn unix_path(addr: &SocketAddrAny) -> Option<PathBuf> {
    let addr = rustix::net::SocketAddrUnix::try_from(addr.clone()).ok()?;
    match addr.abstract_name() {
        Some(name) => Some(PathBuf::from(OsStr::from_bytes(&[b"@", name].concat()))),
        None => Some(PathBuf::from(OsStr::from_bytes(addr.path_bytes()?))),
    }
}

/// Makes `command` inherit these named sockets, and a descriptor on which it reports that it serves as the
/// same instance.
///
/// # Errors
/// If no descriptor is left.
pub fn hand_over(
    command: &mut Command,
    instance: u64,
    sockets: &[(String, BorrowedFd<'_>)],
    ready: &OwnedFd,
) -> io::Result<()> {
    let last = FIRST + sockets.len() as RawFd;
    let all = sockets.iter().map(|(_, fd)| *fd).chain([rustix::fd::AsFd::as_fd(ready)]);
    // Copies beyond the target range, so that none is overwritten before it is in place.
    let all: Vec<OwnedFd> = all.map(|fd| fcntl_dupfd_cloexec(fd, last + 1)).collect::<Result<_, _>>()?;
    let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    command.env(COUNT, sockets.len().to_string()).env(NAMES, names.join(":")).env(READY, last.to_string());
    command.env(INSTANCE, format!("{instance:x}"));
    // These concern the current process.
    command.env_remove(PID).env_remove("WATCHDOG_PID");
    // `Command` opens a pipe on which the child reports a failed exec. It must not get a target
    // number, so free numbers are occupied until the command is dropped. If another thread frees a number meanwhile,
    // the child still does not report that it serves.
    let mut taken = Vec::new();
    while let fd = fcntl_dupfd_cloexec(ready, FIRST)?
        && fd.as_raw_fd() <= last
    {
        taken.push(fd);
    }
    let place = move || {
        let _taken = &taken;
        for (fd, to) in all.iter().zip(FIRST..) {
            // SAFETY: the descriptor is open, and a child between fork and exec may overwrite any other: it
            // needs only these and the first three. The copy stays open across exec.
            if unsafe { libc::dup2(fd.as_raw_fd(), to) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only dup2(2) is called, which is async-signal-safe, and nothing is
    // allocated or locked.
    unsafe { command.pre_exec(place) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_says_that_a_process_serves() {
        for pid in [1, 4711, u32::MAX] {
            assert!(word(pid).len() <= WORD_MAX);
            assert_eq!(read_word(word(pid).as_bytes()), Some(pid));
        }
        // 0 0 0 2 and NOEX: the bytes that std writes to its own pipe if the program does not exist.
        for other in
            ["", "1", "\0\0\0\x02NOEX", SERVES, "evenkeel serves as process 7", "evenkeel serves as process +7\n"]
        {
            assert_eq!(read_word(other.as_bytes()), None, "{other:?}");
        }
    }
}
