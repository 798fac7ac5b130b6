//! How do datagrams come and go? Up to [`BATCH`] for one system call each way, which is most of what an answer costs.

use crate::answer::{Answerer, Moment, Transport};
use crate::worker::{ListenFd, Place};
use socket2::Socket;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Datagrams that are read and sent at once: with more the first of them would wait longer than the system call costs.
const BATCH: usize = 32;
/// Batches until others have their turn.
const BATCHES: usize = 8;
/// The largest query: names have 255 bytes at most, and options some hundred.
const QUERY_MAX: usize = 2048;
/// Room for the address that a datagram was sent to.
const CONTROL: usize = 64;
/// Bytes that wait in the kernel: some thousand queries, for a moment in which the worker does something else.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Makes of a socket that is bound to this address one that a worker can use, whoever had it before.
///
/// # Errors
/// As setsockopt(2).
pub fn ready(socket: &Socket, addr: SocketAddr) -> io::Result<()> {
    // Where the kernel allows only less, it takes that.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    // A process before this one may have passed on datagrams there, several as one. A kernel that knows no such thing
    // (before 5.0) does not do it either.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 0);
    if addr.ip().is_unspecified() {
        // Has each datagram tell which of our addresses it was sent to, as the answer must come from there.
        match addr {
            SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
            SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?,
        }
    }
    Ok(())
}

fn set(socket: &Socket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the value is an int of the size that is said.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Answers what comes at a socket, until its place is left.
///
/// # Errors
/// The event loop cannot watch it.
pub async fn serve(place: Rc<Place>, socket: ListenFd) -> io::Result<()> {
    // SAFETY: the registration shares the ownership of the socket, so it stays open until both are gone.
    let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
    let mut batch = Batch::new();
    let mut left = pin!(place.left());
    loop {
        // By hand: a future for each wait, and a choice among them, cost more than a query.
        let ready = poll_fn(|cx| match left.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => socket.poll_read_ready(cx).map(Some),
        });
        match ready.await {
            Some(Ok(mut ready)) => {
                // While some were answered more may have come: to look costs less than to wait and be woken.
                if (0..BATCHES).any(|_| contained(|| batch.exchange(socket.get_ref(), &place)) == Some(0)) {
                    ready.clear_ready();
                } else {
                    tokio::task::yield_now().await;
                }
            }
            Some(Err(error)) => return Err(error),
            None => {
                // What waits was sent to us; whoever comes next finds another socket, or a successor at this one, or none.
                while contained(|| batch.exchange(socket.get_ref(), &place)).is_none_or(|came| came == BATCH) {}
                return Ok(());
            }
        }
    }
}

/// `None` if it panics: that costs the messages at hand, as it costs a connection over TCP, and not the socket. What a batch
/// goes by is written anew for each.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Room for one batch.
struct Batch {
    queries: Box<[[u8; QUERY_MAX]; BATCH]>,
    controls: Box<[[u64; CONTROL / 8]; BATCH]>,
    clients: Box<[libc::sockaddr_storage; BATCH]>,
    answers: [Vec<u8>; BATCH],
    headers: Box<[libc::mmsghdr; BATCH]>,
    parts: Box<[libc::iovec; BATCH]>,
    /// Of headers and parts, how many at the beginning are not as they must be for receiving.
    used: usize,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            queries: Box::new([[0; QUERY_MAX]; BATCH]),
            controls: Box::new([[0; CONTROL / 8]; BATCH]),
            answers: std::array::from_fn(|_| Vec::with_capacity(512)),
            // SAFETY: structs of integers and pointers, for which all zeros are a value; they are written before use.
            headers: Box::new(unsafe { std::mem::zeroed() }),
            // SAFETY: as above.
            clients: Box::new(unsafe { std::mem::zeroed() }),
            // SAFETY: as above.
            parts: Box::new(unsafe { std::mem::zeroed() }),
            used: BATCH,
        }
    }

    /// Reads what is there, answers it and sends the answers. How many messages there were.
    fn exchange(&mut self, socket: &OwnedFd, place: &Place) -> usize {
        let came = self.receive(socket);
        if came == 0 {
            return 0;
        }
        let answerer = place.answerer();
        let mut answerer = answerer.borrow_mut();
        let at = place.moment();
        let mut to_send = 0;
        for i in 0..came {
            if self.answer(i, &mut answerer, at) {
                self.prepare_to_send(to_send, i);
                to_send += 1;
            }
        }
        let sent = self.send(socket, to_send);
        answerer.stats().unsent.add((to_send - sent) as u64);
        came
    }

    fn receive(&mut self, socket: &OwnedFd) -> usize {
        for i in 0..self.used {
            self.parts[i] = libc::iovec { iov_base: self.queries[i].as_mut_ptr().cast(), iov_len: QUERY_MAX };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.clients[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
            header.msg_iov = &raw mut self.parts[i];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[i].as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            header.msg_flags = 0;
        }
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: each header points to a name, a part and a control buffer of `self` with the sizes that are said, all of
        // which live in boxes that are not touched during the call.
        let came = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), BATCH as _, flags, std::ptr::null_mut())
        };
        self.used = usize::try_from(came).unwrap_or(0);
        self.used
    }

    /// Answers the message number `i`. Whether there is an answer.
    fn answer(&mut self, i: usize, answerer: &mut Answerer, at: Moment) -> bool {
        let header = &self.headers[i];
        let (Some(client), 0) = (address(&self.clients[i]), header.msg_hdr.msg_flags & libc::MSG_TRUNC) else {
            answerer.stats().dropped.add(1);
            return false;
        };
        let query = &self.queries[i][..header.msg_len as usize];
        answerer.answer(query, client, Transport::Udp, at, &mut self.answers[i])
    }

    /// Puts the answer number `i` in place `at` of those to send, from the address that the query was sent to.
    fn prepare_to_send(&mut self, at: usize, i: usize) {
        let mut header = self.headers[i];
        self.parts[i] = libc::iovec { iov_base: self.answers[i].as_mut_ptr().cast(), iov_len: self.answers[i].len() };
        header.msg_hdr.msg_flags = 0;
        if header.msg_hdr.msg_controllen == 0 {
            header.msg_hdr.msg_control = std::ptr::null_mut();
        } else {
            free_interface(&mut self.controls[i]);
        }
        self.headers[at] = header;
    }

    /// Sends the first so many. How many the kernel took: a socket whose buffer is full loses the rest, as a network would.
    fn send(&mut self, socket: &OwnedFd, count: usize) -> usize {
        let mut sent = 0;
        while sent < count {
            let (rest, flags) = (&mut self.headers[sent..count], libc::MSG_DONTWAIT as _);
            // SAFETY: as for receiving; parts point to answers, which are not touched during the call.
            let now = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as _, flags) };
            match usize::try_from(now) {
                Ok(now) if now > 0 => sent += now,
                _ => break,
            }
        }
        sent
    }
}

/// The address of a client, if it has one.
fn address(of: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(of.ss_family) {
        libc::AF_INET => {
            // SAFETY: there is room for a struct sockaddr_in, which the kernel wrote with this family, and which may have any
            // bytes.
            let of = unsafe { &*(&raw const *of).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(of.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::from((ip, u16::from_be(of.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a struct sockaddr_in6.
            let of = unsafe { &*(&raw const *of).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::from((of.sin6_addr.s6_addr, u16::from_be(of.sin6_port))))
        }
        _ => None,
    }
}

/// The answer goes by the routes, and not back through the interface that the query came by: of a struct in_pktinfo, which
/// is behind a struct cmsghdr, the first number. That of IPv6 has the interface behind the address and may keep it.
fn free_interface(control: &mut [u64; CONTROL / 8]) {
    const HEAD: usize = size_of::<libc::cmsghdr>() / 8;
    let kind = control[1];
    if kind.to_ne_bytes()[..4] == libc::IPPROTO_IP.to_ne_bytes() {
        let mut bytes = control[HEAD].to_ne_bytes();
        bytes[..4].fill(0);
        control[HEAD] = u64::from_ne_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::contained;

    #[test]
    fn a_panic_ends_with_the_batch() {
        assert_eq!(contained(|| 3), Some(3));
        assert_eq!(contained(|| -> usize { panic!("as it should in this test") }), None);
    }
}
