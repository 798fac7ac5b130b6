//! Network namespaces of tests, and folders of bpffs, which are removed at the end.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Returns true if the test can run here. If not, it is skipped.
pub fn possible() -> bool {
    if !rustix::process::geteuid().is_root() {
        evenkeel_peers::skip("needs root, for network namespaces and eBPF");
        return false;
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        evenkeel_peers::skip("the kernel has no BTF");
        return false;
    }
    evenkeel_peers::installed(&["ip", "mount", "umount"])
}

/// Name that no other test of this machine has, short enough for an interface.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a command, of words without spaces, and asserts that it succeeds.
pub fn run(command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect(words[0]);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Network namespace, removed when it is dropped.
pub struct Space {
    pub name: String,
}

impl Space {
    pub fn new(prefix: &str) -> Space {
        let name = unique(&format!("ek{prefix}"));
        run(&format!("ip netns add {name}"));
        let space = Space { name };
        space.ip("link set lo up");
        space
    }

    /// Runs `ip` in it.
    pub fn ip(&self, arguments: &str) {
        run(&format!("ip -n {} {arguments}", self.name));
    }

    /// Runs a closure in it, on a thread of its own.
    pub fn enter<T: Send + 'static>(&self, inside: impl FnOnce() -> T + Send + 'static) -> T {
        match self.start(inside).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Starts a thread that belongs to the namespace until it ends.
    pub fn start<T: Send + 'static>(&self, inside: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        let file = File::open(Path::new("/run/netns").join(&self.name)).expect("the namespace exists");
        thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("enter a namespace");
            inside()
        })
    }

    /// Sets a switch of `/proc/sys`, which shows each thread that of its own namespace.
    pub fn set(&self, path: &'static str, value: &'static str) {
        self.enter(move || fs::write(Path::new("/proc/sys").join(path), value).expect(path));
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

/// Folder with a bpffs of its own.
pub struct Pins {
    pub folder: PathBuf,
}

impl Pins {
    pub fn new() -> Pins {
        let folder = std::env::temp_dir().join(unique("evenkeel-bpf"));
        fs::create_dir(&folder).expect("a folder");
        run(&format!("mount -t bpf bpf {}", folder.display()));
        Pins { folder }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.folder).output();
        let _ = fs::remove_dir(&self.folder);
    }
}
