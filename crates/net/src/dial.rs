//! How does a connection to an endpoint begin? Without waiting, and where it is asked for as if the client had opened it.

use crate::stream::Stream;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Starts a connection. It may be under way when this returns; a write then says so. `source`: the address that it comes
/// from, if any. `speaks`: bytes follow at once.
///
/// # Errors
/// Why it could not even start.
pub fn dial(addr: SocketAddr, source: Option<IpAddr>, speaks: bool) -> io::Result<Stream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    if let Some(source) = source {
        bind(&socket, addr, source)?;
    }
    if speaks {
        // They carry the last acknowledgement of the handshake: a packet less. Only a saving, so a kernel that does not
        // know it is fine.
        let _ = rustix::net::sockopt::set_tcp_quickack(&socket, false);
    }
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(e) => return Err(e),
    }
    Ok(Stream::new(socket.into()))
}

/// Whether this process may open connections that come from its clients' addresses.
///
/// # Errors
/// It may not: it lacks CAP_NET_ADMIN and CAP_NET_RAW, or the kernel does not know it.
pub fn check_transparent() -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?.set_ip_transparent_v4(true)
}

/// Has the connection come from `source`.
fn bind(socket: &Socket, to: SocketAddr, source: IpAddr) -> io::Result<()> {
    match to {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    // The port is chosen when it is known where the connection leads: each endpoint gets all ports, not a share.
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `on`, which outlives it.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        );
    }
    // An address of the other family cannot be spoken from, which is no fault of the endpoint.
    if to.is_ipv4() != source.is_ipv4() {
        return Err(Errno::ADDRNOTAVAIL.into());
    }
    socket.bind(&SocketAddr::new(source, 0).into())
}
