//! Which sockets do datagrams come through? One for each worker at every address of a listener, and one for each flow,
//! connected to its endpoint: so the kernel lets in the answers of nobody else, and tells of an endpoint that is gone.

use crate::inherit;
use crate::parts::ListenFd;
use libc::c_int;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Bytes that may wait to be taken; the kernel caps it at `net.core.rmem_max`. A flow has what the kernel gives, as its
/// datagrams wait for nobody else's.
const WAITING_MAX: usize = 4 << 20;

/// Opens one socket for each of `workers` workers, or more: those that are `given` are used first.
///
/// # Errors
/// As `bind(2)`. An address that another process has is in use, even if that process would share it.
pub fn listen(addr: SocketAddr, workers: usize, given: Vec<OwnedFd>) -> io::Result<Vec<Vec<ListenFd>>> {
    let socket = |shared: bool| -> io::Result<Socket> {
        let socket = open(addr)?;
        socket.set_reuse_port(shared)?;
        socket.bind(&addr.into())?;
        Ok(socket)
    };
    let ready = |socket: &Socket| {
        socket.set_recv_buffer_size(WAITING_MAX)?;
        join_segments(socket);
        if addr.ip().is_unspecified() {
            // An answer must come from the address that was asked, which only the datagram tells.
            let (level, name) = match addr {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            };
            turn_on(socket, level, name)?;
        }
        Ok(())
    };
    inherit::share_out(workers, given, socket, ready)
}

/// A socket for the datagrams of one flow.
///
/// # Errors
/// No descriptor or no port is left, or there is no way to the endpoint.
pub fn connect(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(addr)?;
    join_segments(&socket);
    socket.connect(&addr.into())?;
    Ok(socket.into())
}

fn open(addr: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(addr), Type::DGRAM.nonblocking().cloexec(), Some(Protocol::UDP))
}

/// Several datagrams of one sender may come as one. An optimisation: a kernel without it (before 5.0) is fine.
fn join_segments(socket: &Socket) {
    let _ = turn_on(socket, libc::SOL_UDP, libc::UDP_GRO);
}

fn turn_on(socket: &Socket, level: c_int, name: c_int) -> io::Result<()> {
    let on: c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the pointer and length describe `on`, which outlives it.
    match unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const on).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
