//! Sockets for the datagrams of flows, connected, for each flow, to its endpoint: the kernel then filters
//! answers by address, and reports an endpoint that is gone.

use libc::c_int;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Opens a socket for the datagrams of a flow.
///
/// # Errors
/// If no descriptor or port is left, or there is no route to the endpoint.
pub fn connect(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(addr)?;
    join_segments(&socket, true);
    socket.connect(&addr.into())?;
    Ok(socket.into())
}

pub(crate) fn open(addr: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(addr), Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))
}

/// Sets whether the kernel may coalesce datagrams of a sender. An optimisation: kernels before 5.0 without
/// it are fine.
pub(crate) fn join_segments(socket: &Socket, joins: bool) {
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, c_int::from(joins));
}

/// Has the kernel send datagrams whole or not at all, whatever it has learned of the path: QUIC finds the size that fits
/// by probes, which fragments would answer wrongly.
pub(crate) fn never_fragment(socket: impl AsFd) {
    // Sockets of IPv6 take both options, as they may serve IPv4, too. Without the options, large datagrams may be cut.
    let _ = set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    let _ = set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
}

pub(crate) fn turn_on(socket: &Socket, level: c_int, name: c_int) -> io::Result<()> {
    set(socket, level, name, 1)
}

fn set(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `value`, which outlives it.
    match unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
