//! What has come? Many datagrams by one call (`recvmmsg(2)`), each with its sender, the address that it was sent to, and,
//! if the kernel has joined several of one sender (`UDP_GRO`), where to part them.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;

/// Datagrams, or joined ones, that are taken before they are passed on.
pub const SLOTS: usize = 32;

/// From one slot to the next: the 64 KiB that joined datagrams can have, and some, or all would begin in the same set of
/// the processor's cache.
const STRIDE: usize = (64 << 10) + 320;

/// What the kernel says beside the bytes: at most an IPv6 address and a number, each with its head.
const CONTROL: usize = 64;

/// Room for what comes.
pub struct RecvBatch {
    /// Taken from the kernel as it is written to: most of it never is.
    bytes: Vec<u8>,
    came: [Came; SLOTS],
}

/// What is in one slot.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// Bytes.
    pub len: usize,
    /// Bytes of each datagram but the last, which may be shorter.
    pub segment: usize,
    /// From where, on sockets that take from anybody.
    pub from: Option<SocketAddr>,
    /// To which address, on sockets that have several.
    pub to: Option<IpAddr>,
}

impl Came {
    /// How many datagrams they are. An empty one is one too.
    pub fn count(&self) -> usize {
        if self.segment == 0 { 1 } else { self.len.div_ceil(self.segment) }
    }
}

impl Default for RecvBatch {
    fn default() -> RecvBatch {
        let nothing = Came { len: 0, segment: 0, from: None, to: None };
        RecvBatch { bytes: vec![0; SLOTS * STRIDE], came: [nothing; SLOTS] }
    }
}

impl RecvBatch {
    /// What is in a slot.
    pub fn came(&self, slot: usize) -> &Came {
        &self.came[slot]
    }

    /// The bytes in a slot.
    pub fn bytes(&self, slot: usize) -> &[u8] {
        &self.bytes[slot * STRIDE..][..self.came[slot].len]
    }

    /// Takes what waits, at most `most`, into the slots from `first` on: how many slots were filled. `with_sender`: the
    /// socket takes from anybody, so who it was is of interest.
    ///
    /// # Errors
    /// As `recvmmsg(2)`: `AGAIN` if nothing waits.
    pub fn take(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        most: usize,
        with_sender: bool,
    ) -> Result<usize, Errno> {
        let most = most.min(SLOTS - first);
        let mut names: [MaybeUninit<libc::sockaddr_in6>; SLOTS] = [const { MaybeUninit::uninit() }; SLOTS];
        let mut controls: [MaybeUninit<[u64; CONTROL / 8]>; SLOTS] = [const { MaybeUninit::uninit() }; SLOTS];
        let mut parts: [MaybeUninit<libc::iovec>; SLOTS] = [const { MaybeUninit::uninit() }; SLOTS];
        let mut heads: [MaybeUninit<libc::mmsghdr>; SLOTS] = [const { MaybeUninit::uninit() }; SLOTS];
        for (at, room) in self.bytes[first * STRIDE..].chunks_exact_mut(STRIDE).take(most).enumerate() {
            parts[at].write(libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() });
            // SAFETY: all zeros are a message without a name, parts and control.
            let head = heads[at].write(unsafe { std::mem::zeroed() });
            if with_sender {
                // All zeros are an address of no family, whatever the kernel leaves as it is.
                names[at] = MaybeUninit::zeroed();
                head.msg_hdr.msg_name = names[at].as_mut_ptr().cast();
                head.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
            head.msg_hdr.msg_iov = parts[at].as_mut_ptr();
            head.msg_hdr.msg_iovlen = 1;
            head.msg_hdr.msg_control = controls[at].as_mut_ptr().cast();
            head.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: the first `most` heads were written above; each points to a part, a name and a control of its own, with
        // their lengths, which all outlive the call.
        let n = unsafe {
            let heads = heads.as_mut_ptr().cast();
            libc::recvmmsg(socket.as_raw_fd(), heads, most as _, libc::MSG_DONTWAIT as _, ptr::null_mut())
        };
        if n < 0 {
            return Err(last_errno());
        }
        for at in 0..n as usize {
            // SAFETY: it was written above, and filled in by the kernel.
            let head = unsafe { heads[at].assume_init_ref() };
            // SAFETY: with a sender, it was written above.
            let from = if with_sender { sender(unsafe { names[at].assume_init_ref() }) } else { None };
            let len = (head.msg_len as usize).min(STRIDE);
            let mut came = Came { len, segment: len, from, to: None };
            read_control(&head.msg_hdr, &mut came);
            self.came[first + at] = came;
        }
        Ok(n as usize)
    }
}

/// The address that the kernel wrote into room for the longer kind.
fn sender(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match i32::from(name.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the family says which of the two it is, and the other one is no longer and no more aligned.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some((ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            let (ip, port) = (Ipv6Addr::from(name.sin6_addr.s6_addr), u16::from_be(name.sin6_port));
            Some(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Reads what the kernel says beside the bytes.
fn read_control(head: &libc::msghdr, came: &mut Came) {
    // SAFETY: the head is as the kernel left it: its control has as many bytes as it says.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !next.is_null() {
        // SAFETY: it points into the control, to a message that the kernel wrote whole; its data may be unaligned.
        unsafe {
            let data = libc::CMSG_DATA(next);
            match ((*next).cmsg_level, (*next).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment = ptr::read_unaligned(data.cast::<libc::c_int>());
                    came.segment = usize::try_from(segment).unwrap_or(came.len);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in_pktinfo>());
                    // Of a broadcast it is the address of ours to answer from.
                    came.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in6_pktinfo>());
                    came.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(head, next);
        }
    }
}

/// What the call that has just failed says.
pub fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
