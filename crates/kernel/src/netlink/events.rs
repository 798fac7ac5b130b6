//! Events that the kernel reports by itself: interfaces and addresses that come, change and go.

use super::message::Error;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::os::fd::OwnedFd;

/// Groups of events, `RTMGRP_*` of linux/rtnetlink.h: interfaces, and addresses of either family.
const LINKS: u32 = 1;
const IPV4_ADDRS: u32 = 0x10;
const IPV6_ADDRS: u32 = 0x100;

/// Subscription to changes of interfaces and their addresses, in the network namespace of the thread that opens it.
#[derive(Debug)]
pub struct Events(OwnedFd);

impl Events {
    /// # Errors
    /// The kernel has no socket left.
    pub fn of_interfaces() -> Result<Events, Error> {
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // The protocol of routes and interfaces is number 0.
            let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            bind(&fd, &SocketAddrNetlink::new(0, LINKS | IPV4_ADDRS | IPV6_ADDRS))?;
            Ok(fd)
        };
        open().map(Events).map_err(Error::Socket)
    }

    /// Returns true if something has changed since the last call. Does not wait.
    pub fn happened(&self) -> bool {
        let (mut happened, mut buffer) = (false, [0; 256]);
        loop {
            // Changes are read at their source: the rest of an event is of no use.
            match recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Ok(_) => happened = true,
                Err(Errno::INTR) => {}
                // More events than the socket holds.
                Err(Errno::NOBUFS) => happened = true,
                Err(_) => return happened,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_happens_in_a_namespace_where_nothing_changes() {
        if !rustix::process::geteuid().is_root() || !evenkeel_peers::installed(&["ip"]) {
            return evenkeel_peers::skip("namespaces need root");
        }
        let run = || {
            // SAFETY: only the network namespace of this thread changes, which shares no memory or descriptors by it.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
                .expect("root makes namespaces");
            let events = Events::of_interfaces().expect("a socket is left");
            let ip = |arguments: &[&str]| {
                let status = std::process::Command::new("ip").args(arguments).status().expect("it is installed");
                assert!(status.success(), "{arguments:?}");
            };
            assert!(!events.happened());
            ip(&["link", "add", "one", "type", "veth", "peer", "name", "two"]);
            assert!(events.happened());
            ip(&["address", "add", "192.0.2.1/24", "dev", "one"]);
            assert!(events.happened() && !events.happened());
        };
        std::thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}
