//! Connections to endpoints: opened without blocking, over TCP or to a Unix socket, optionally from the client's
//! address.

use crate::stream::Stream;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;
use std::sync::Arc;

/// Address of an endpoint, over TCP or on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Remote {
    Ip(SocketAddr),
    /// Unix socket: an absolute path, or an abstract name behind an `@`.
    Unix(Arc<str>),
}

impl Remote {
    /// IP address; `None` for a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        self.socket_addr().map(|addr| addr.ip())
    }

    /// IP address and port; `None` for a Unix socket.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        if let Remote::Ip(addr) = self { Some(*addr) } else { None }
    }

    /// Value for `Host` where no name is configured; a Unix socket is on this machine.
    pub fn host(&self) -> impl fmt::Display {
        match self {
            Remote::Ip(addr) => Host::Ip(*addr),
            Remote::Unix(_) => Host::Local,
        }
    }

    /// Address of a Unix socket for the standard library.
    ///
    /// # Errors
    /// The path is too long, or has a NUL.
    pub fn unix(path: &str) -> io::Result<net::SocketAddr> {
        match path.strip_prefix('@') {
            Some(name) => net::SocketAddr::from_abstract_name(name),
            None => net::SocketAddr::from_pathname(path),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Ip(addr) => addr.fmt(f),
            Remote::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

enum Host {
    Ip(SocketAddr),
    Local,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(addr) => addr.fmt(f),
            Host::Local => f.write_str("localhost"),
        }
    }
}

/// Starts a connection to an endpoint. `source` and `speaks` as for TCP; a Unix socket has no use for them.
///
/// # Errors
/// If the connection could not be started.
#[inline]
pub fn dial(remote: &Remote, source: Option<IpAddr>, speaks: bool) -> io::Result<Stream> {
    match remote {
        Remote::Ip(addr) => tcp(*addr, source, speaks),
        Remote::Unix(path) => unix(path),
    }
}

/// Opens a connection to a Unix socket, which the kernel does at once. If the queue of the listener is full it fails,
/// as a refused connection does.
#[cold]
fn unix(path: &str) -> io::Result<Stream> {
    Ok(Stream::new(unix_stream(path)?.into()))
}

/// Opens a non-blocking connection to a Unix socket.
///
/// # Errors
/// Nothing listens there, or its queue is full.
pub fn unix_stream(path: &str) -> io::Result<net::UnixStream> {
    // An abstract name follows a NUL, as socket2 takes it.
    let address = match path.strip_prefix('@') {
        Some(name) => SockAddr::unix(format!("\0{name}"))?,
        None => SockAddr::unix(path)?,
    };
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&address)?;
    Ok(socket.into())
}

/// Starts a connection, which may still be in progress on return; a later write reports its failure. With
/// `source`, it comes from that address (`IP_TRANSPARENT`). With `speaks`, bytes follow at once.
///
/// # Errors
/// If the connection could not be started.
fn tcp(addr: SocketAddr, source: Option<IpAddr>, speaks: bool) -> io::Result<Stream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    if let Some(source) = source {
        bind(&socket, addr, source)?;
    }
    if speaks {
        // The first bytes then carry the ACK of the handshake, which saves a packet. Ignoring errors is fine
        // for an optimisation.
        let _ = rustix::net::sockopt::set_tcp_quickack(&socket, false);
    }
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(e) => return Err(e),
    }
    Ok(Stream::new(socket.into()))
}

/// Checks that this process may open connections from its clients' addresses.
///
/// # Errors
/// If it lacks CAP_NET_ADMIN and CAP_NET_RAW, or the kernel does not support it.
pub fn check_transparent() -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?.set_ip_transparent_v4(true)
}

/// Binds the socket to `source`, which need not be an address of this machine.
fn bind(socket: &Socket, to: SocketAddr, source: IpAddr) -> io::Result<()> {
    match to {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    // Delays the choice of the port until the destination is known, so that each endpoint gets the whole port
    // range.
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `on`, which outlives
    // it.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        );
    }
    // A source of the other family cannot work, and is not the endpoint's fault.
    if to.is_ipv4() != source.is_ipv4() {
        return Err(Errno::ADDRNOTAVAIL.into());
    }
    socket.bind(&SocketAddr::new(source, 0).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_unix_socket_is_reached_by_path_and_by_abstract_name() {
        let folder = std::env::temp_dir();
        let name = format!("evenkeel-dial-{}", std::process::id());
        let path = folder.join(&name);
        let _ = std::fs::remove_file(&path);
        let by_path = path.to_str().expect("a folder that is text").to_owned();
        for address in [by_path, format!("@{name}")] {
            let remote = Remote::Unix(address.as_str().into());
            assert!(dial(&remote, None, true).is_err(), "nothing listens there yet");
            let bound = Remote::unix(&address).expect("a short path");
            let listener = UnixListener::bind_addr(&bound).expect("a free path");
            let stream = dial(&remote, None, true).expect("it listens");
            let (mut accepted, _) = listener.accept().expect("a connection");
            assert_eq!(stream.send_now(b"hello"), 5);
            drop(stream);
            let mut text = String::new();
            accepted.read_to_string(&mut text).expect("the end");
            assert_eq!((&*text, remote.to_string()), ("hello", format!("unix:{address}")));
        }
        std::fs::remove_file(&path).expect("it was bound");
    }
}
