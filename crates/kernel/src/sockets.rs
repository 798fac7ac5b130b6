//! Sockets of this machine, over sock_diag: those that a connect() has bound to an endpoint that cannot answer are
//! ended, as `ss --kill` does it. Their owner gets `ECONNABORTED` where it waits, and of UDP `EDESTADDRREQ` where it
//! sends.

use crate::driver::Lack;
use crate::netlink::{DUMP, Error, Payload, SOCK_DIAG, Socket};
use crate::service::Transport;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::thread;

/// Requests, `SOCK_*` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;

/// Address families, `AF_*`.
const FAMILIES: [u8; 2] = [2, 10];

/// Length of `struct inet_diag_sockid`, which names a socket; place of the cookie in it, and of itself in
/// `struct inet_diag_msg`.
const ID: usize = 48;
const COOKIE_AT: usize = 40;
const ID_AT: usize = 4;

/// States of sockets as bits: of UDP, connected; of TCP, not answered yet.
const ESTABLISHED: u32 = 1 << 1;
const SYN_SENT: u32 = 1 << 2;

/// Sockets by their cookies.
pub type Cookies = HashMap<u64, Transport>;

/// Ends sockets, and counts them.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Number of sockets that were ended.
    pub ended: u64,
    /// Sockets that were not found once: they may have been closed just then.
    missed: HashSet<u64>,
    /// Sockets that were ended, or could not be, until they are closed or connected again.
    done: HashSet<u64>,
    /// Number of sockets that could not be ended.
    pub kept_total: u64,
    /// True once the log has why sockets are kept.
    has_warned: bool,
}

impl Sockets {
    /// Ends connected sockets of UDP and unanswered sockets of TCP. `bound`: all that are bound to an endpoint that
    /// cannot answer.
    pub fn end(&mut self, bound: Cookies) {
        self.done.retain(|cookie| bound.contains_key(cookie));
        self.missed.retain(|cookie| bound.contains_key(cookie));
        let mut left = bound;
        left.retain(|cookie, _| !self.done.contains(cookie));
        if left.is_empty() {
            return;
        }
        let mut ended = Vec::new();
        let mut result = end_here(&mut left, &mut ended);
        // Namespaces of containers.
        if result.is_ok() && !left.is_empty() {
            result = elsewhere(&mut left, &mut ended);
        }
        self.ended += ended.len() as u64;
        self.done.extend(ended);
        // Each is looked for twice.
        left.retain(|cookie, _| !self.missed.insert(*cookie));
        if left.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.has_warned, true) {
            let reason = match result {
                Err(error) if error.is(Errno::OPNOTSUPP) => NO_DESTROY.to_owned(),
                Err(error) => error.to_string(),
                Ok(()) => "they are in a network namespace that evenkeel may not enter".to_owned(),
            };
            let text = "sockets stay connected to endpoints that are down or removed, until their processes close them";
            tracing::warn!(sockets = left.len(), reason, "{text}");
        }
        self.kept_total += left.len() as u64;
        self.done.extend(left.into_keys());
    }
}

const NO_DESTROY: &str = "the kernel cannot end sockets (CONFIG_INET_DIAG_DESTROY)";

/// Returns the features that the kernel lacks for ending sockets.
pub fn lack() -> Option<Lack> {
    // No socket has this address, so that nothing is ended.
    let request = request(FAMILIES[0], Transport::Udp, 0, &[0; ID]);
    let refused = Socket::open(SOCK_DIAG).and_then(|mut socket| socket.request(DESTROY, 0, &request)).err()?;
    let help = "UDP clients that connect() stay at endpoints that are down: have them close their sockets, or use a kernel with it";
    refused.is(Errno::OPNOTSUPP).then(|| Lack::warning(NO_DESTROY, help))
}

/// Ends sockets of the network namespace of this thread, and takes them out of `cookies`.
fn end_here(cookies: &mut Cookies, ended: &mut Vec<u64>) -> Result<(), Error> {
    let mut socket = Socket::open(SOCK_DIAG)?;
    for (transport, states) in [(Transport::Udp, ESTABLISHED), (Transport::Tcp, SYN_SENT)] {
        if !cookies.values().any(|of| *of == transport) {
            continue;
        }
        for family in FAMILIES {
            let mut found = Vec::new();
            let all = request(family, transport, states, &[0; ID]);
            let each = socket.each(BY_FAMILY, DUMP, &all, &mut |_, payload| {
                let id = payload.get(ID_AT..ID_AT + ID).and_then(|id| <[u8; ID]>::try_from(id).ok());
                found.extend(id.filter(|id| cookies.contains_key(&cookie(id))));
            });
            // Sockets came or went meanwhile.
            if let Err(error) = each
                && error != Error::Interrupted
            {
                return Err(error);
            }
            for id in found {
                match socket.request(DESTROY, 0, &request(family, transport, 0, &id)) {
                    Ok(_) => ended.push(cookie(&id)),
                    // Closed meanwhile.
                    Err(error) if error.is(Errno::NOENT) => {}
                    Err(error) => return Err(error),
                }
                cookies.remove(&cookie(&id));
            }
        }
    }
    Ok(())
}

/// Ends sockets of other network namespaces that processes of this machine have, as far as they may be entered.
fn elsewhere(cookies: &mut Cookies, ended: &mut Vec<u64>) -> Result<(), Error> {
    let Ok(own) = fs::metadata("/proc/thread-self/ns/net") else { return Ok(()) };
    let mut seen = HashSet::from([own.ino()]);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path().join("ns/net"));
    for path in processes {
        if cookies.is_empty() {
            break;
        }
        let is_new = fs::metadata(&path).is_ok_and(|it| seen.insert(it.ino()));
        let Some(namespace) = is_new.then(|| File::open(&path).ok()).flatten() else { continue };
        // A thread that has moved never comes back.
        let result = thread::scope(|scope| {
            let work = || {
                let is_there = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).is_ok();
                if is_there { end_here(cookies, ended) } else { Ok(()) }
            };
            scope.spawn(work).join()
        });
        result.unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Writes `struct inet_diag_req_v2`.
fn request(family: u8, transport: Transport, states: u32, id: &[u8; ID]) -> Payload {
    Payload::new(&[&[family, transport.number(), 0, 0], &states.to_ne_bytes()[..], id].concat())
}

/// Cookie of a socket: two words, the lower word first.
fn cookie(id: &[u8; ID]) -> u64 {
    let word = |at: usize| u64::from(u32::from_ne_bytes([id[at], id[at + 1], id[at + 2], id[at + 3]]));
    word(COOKIE_AT) | word(COOKIE_AT + 4) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Cookie of a socket, by `SO_COOKIE`.
    fn cookie_of(socket: &UdpSocket) -> u64 {
        rustix::net::sockopt::socket_cookie(socket).expect("Linux has it")
    }

    #[test]
    fn a_connected_socket_is_ended_and_others_stay() {
        if !rustix::process::geteuid().is_root() || lack().is_some() {
            return evenkeel_peers::skip("ending sockets needs root, and CONFIG_INET_DIAG_DESTROY");
        }
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let client = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
            socket.connect(server.local_addr().expect("it is bound")).expect("loopback is up");
            socket
        };
        let (ended, stays) = (client(), client());
        let mut sockets = Sockets::default();
        sockets.end(Cookies::from([(cookie_of(&ended), Transport::Udp)]));
        // Its flow is known until it is closed.
        sockets.end(Cookies::from([(cookie_of(&ended), Transport::Udp)]));
        assert_eq!((sockets.ended, sockets.kept_total), (1, 0));
        let error = ended.send(b"who").expect_err("it is ended");
        let kinds = [libc::ECONNABORTED, libc::EDESTADDRREQ];
        assert!(error.raw_os_error().is_some_and(|number| kinds.contains(&number)), "{error}");
        stays.send(b"who").expect("it is connected");
    }

    #[test]
    fn a_socket_that_is_nowhere_is_looked_for_twice() {
        if !rustix::process::geteuid().is_root() {
            return evenkeel_peers::skip("namespaces are entered by root");
        }
        let mut sockets = Sockets::default();
        for kept in [0, 1, 1] {
            sockets.end(Cookies::from([(u64::MAX, Transport::Udp)]));
            assert_eq!((sockets.ended, sockets.kept_total), (0, kept));
        }
        sockets.end(Cookies::new());
        assert!(sockets.done.is_empty() && sockets.missed.is_empty());
    }
}
