//! Network namespaces, joined by cables of which each end is in one of them. Removed when dropped.

// Each binary of tests uses a part of this file.
#![allow(dead_code)]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

/// Network with interfaces, routes and rules of its own.
pub struct Namespace {
    name: String,
}

/// Number of namespaces that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Namespace {
    pub fn new() -> Namespace {
        let name = format!("ek{}-{}", std::process::id(), MADE.fetch_add(1, SeqCst));
        ip(&["netns", "add", &name]);
        let namespace = Namespace { name };
        namespace.ip("link set lo up");
        namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` for this namespace, with arguments separated by spaces.
    #[track_caller]
    pub fn ip(&self, arguments: &str) {
        ip(&[&["-n", &*self.name], &arguments.split(' ').collect::<Vec<_>>()[..]].concat());
    }

    /// Runs a program in this namespace, which has to succeed, and returns its output.
    #[track_caller]
    pub fn run(&self, command: &str) -> String {
        let output = self.output(command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program in this namespace.
    pub fn output(&self, command: &str) -> Output {
        let words: Vec<&str> = command.split(' ').collect();
        let output = Command::new("ip").args([&["netns", "exec", &self.name], &words[..]].concat()).output();
        output.expect("ip is installed")
    }

    /// Sets a parameter of the kernel.
    pub fn set(&self, parameter: &str, value: &str) {
        let path = format!("/proc/sys/{}", parameter.replace('.', "/"));
        self.within(|| std::fs::write(path, value).expect("the parameter exists"));
    }

    /// Runs `work` on a thread of its own in this namespace, and returns its result.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let run = || {
                enter(&self.file());
                work()
            };
            scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn file(&self) -> File {
        File::open(format!("/run/netns/{}", self.name)).expect("the namespace exists")
    }

    /// Lays a cable to another namespace. Each end has a name, an address of either family, and the length of its
    /// network.
    pub fn cable(&self, here: &End, other: &Namespace, there: &End) {
        self.ip(&format!("link add {} type veth peer name {} netns {}", here.name, there.name, other.name));
        for (namespace, end) in [(self, here), (other, there)] {
            let End { name, v4, v6 } = end;
            namespace.ip(&format!("addr add {v4} dev {name}"));
            namespace.ip(&format!("-6 addr add {v6} dev {name} nodad"));
            namespace.ip(&format!("link set {name} up"));
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Interface at one side of a cable, with its addresses and their prefixes.
pub struct End {
    pub name: String,
    pub v4: String,
    pub v6: String,
}

fn enter(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("tests of the kernel run as root");
}

#[track_caller]
fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip is installed");
    assert!(output.status.success(), "ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
}
