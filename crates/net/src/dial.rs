//! Connections to endpoints: opened without blocking, optionally from the client's address.

use crate::stream::Stream;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Starts a connection, which may still be in progress on return; a later write reports its failure. With
/// `source`, it comes from that address (`IP_TRANSPARENT`). With `speaks`, bytes follow at once.
///
/// # Errors
/// If the connection could not be started.
pub fn dial(addr: SocketAddr, source: Option<IpAddr>, speaks: bool) -> io::Result<Stream> {
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
