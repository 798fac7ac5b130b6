//! Reception of many datagrams per call (`recvmmsg(2)`), each with its sender, its destination address, and
//! the segment size if the kernel coalesced several of a sender (`UDP_GRO`).

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr::{self, NonNull};

/// Most datagrams, or coalesced groups, per batch. With more, the first would wait longer than a call costs.
pub const SLOTS: usize = 32;

/// Size of a slot for coalesced datagrams, in bytes.
pub const JOINED_MAX: usize = 64 << 10;

/// Gap between slots, in bytes. Without it all slots would start in the same cache set.
const GAP: usize = 320;

/// Space for control messages, in bytes: at most an IPv6 address and a number, each with its header.
const CONTROL: usize = 64;

/// Buffers for a batch, reused.
pub struct RecvBatch {
    /// Size of a slot, in bytes.
    len_max: usize,
    /// Allocated lazily by the kernel as it is written to: most of it never is.
    bytes: Pinned<[u8]>,
    /// Always ready for the next call: fields that the kernel changed are restored when they are read.
    heads: Pinned<Heads>,
    /// True if the headers ask for the sender.
    with_sender: bool,
    came: [Came; SLOTS],
}

/// Headers by slot. They point to each other and into the bytes.
struct Heads {
    messages: [libc::mmsghdr; SLOTS],
    parts: [libc::iovec; SLOTS],
    names: [libc::sockaddr_in6; SLOTS],
    controls: [[u64; CONTROL / 8]; SLOTS],
}

/// Contents of a slot: a datagram or a coalesced group.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// Number of bytes, of all datagrams together.
    pub len: usize,
    /// Size of each datagram but the last, which may be shorter.
    pub segment: usize,
    /// Sender; `None` on connected sockets.
    pub from: Option<SocketAddr>,
    /// Destination address, on sockets bound to several.
    pub to: Option<IpAddr>,
    /// Interface of a link-local `to`; 0 for other addresses.
    pub interface: u32,
    /// True if the datagram was longer than the slot.
    pub is_cut: bool,
}

impl Came {
    /// Number of datagrams. An empty datagram counts as 1.
    pub fn count(&self) -> usize {
        if self.segment == 0 { 1 } else { self.len.div_ceil(self.segment) }
    }
}

impl RecvBatch {
    /// Buffers for datagrams of up to `len_max` bytes; use [`JOINED_MAX`] if the kernel may coalesce.
    pub fn new(len_max: usize) -> RecvBatch {
        let nothing = Came { len: 0, segment: 0, from: None, to: None, interface: 0, is_cut: false };
        let bytes = Pinned::new(vec![0; SLOTS * (len_max + GAP)].into_boxed_slice());
        // SAFETY: structs of integers and pointers, for which all zeros are valid.
        let heads: Pinned<Heads> = Pinned::new(Box::new(unsafe { std::mem::zeroed() }));
        let at = heads.0.as_ptr();
        for slot in 0..SLOTS {
            // SAFETY: `at` points to headers that nothing else refers to, and the slot is within them and the
            // bytes.
            unsafe {
                (*at).parts[slot].iov_base = bytes.0.cast::<u8>().as_ptr().add(slot * (len_max + GAP)).cast();
                (*at).parts[slot].iov_len = len_max;
                let head = &raw mut (*at).messages[slot].msg_hdr;
                (*head).msg_iov = &raw mut (*at).parts[slot];
                (*head).msg_iovlen = 1;
                (*head).msg_control = (&raw mut (*at).controls[slot]).cast();
                (*head).msg_controllen = CONTROL as _;
            }
        }
        RecvBatch { len_max, bytes, heads, with_sender: false, came: [nothing; SLOTS] }
    }

    pub fn came(&self, slot: usize) -> &Came {
        &self.came[slot]
    }

    /// Bytes of a slot, all its datagrams together.
    pub fn bytes(&self, slot: usize) -> &[u8] {
        let len = self.came[slot].len;
        // SAFETY: `came` has as many slots as the bytes, and no length above a slot's. The kernel
        // writes here only while `take` holds the batch exclusively.
        unsafe {
            let first = self.bytes.0.cast::<u8>().as_ptr().add(slot * (self.len_max + GAP));
            std::slice::from_raw_parts(first, len)
        }
    }

    /// Receives at most `most` datagrams into the slots from `first` on, and returns the number of slots
    /// filled. `with_sender` is for sockets that are not connected.
    ///
    /// # Errors
    /// Errors of `recvmmsg(2)`: `AGAIN` if nothing waits.
    pub fn take(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        most: usize,
        with_sender: bool,
    ) -> Result<usize, Errno> {
        let (first, flags) = (first.min(SLOTS), libc::MSG_DONTWAIT as _);
        let most = most.min(SLOTS - first);
        if self.with_sender != with_sender {
            self.ask_for_sender(with_sender);
        }
        let heads = self.heads.0.as_ptr();
        // SAFETY: there are `most` headers from `first` on; each points to an iovec, a name and a control
        // separate buffer, with their lengths, which all outlive the call.
        let n = unsafe {
            let messages = (&raw mut (*heads).messages).cast::<libc::mmsghdr>().add(first);
            libc::recvmmsg(socket.as_raw_fd(), messages, most as _, flags, ptr::null_mut())
        };
        if n < 0 {
            return Err(last_errno());
        }
        for slot in first..first + n as usize {
            self.came[slot] = self.read(slot);
        }
        Ok(n as usize)
    }

    #[cold]
    fn ask_for_sender(&mut self, with_sender: bool) {
        let heads = self.heads.0.as_ptr();
        for slot in 0..SLOTS {
            // SAFETY: the headers are valid, and nothing else refers to them.
            unsafe {
                let head = &raw mut (*heads).messages[slot].msg_hdr;
                (*head).msg_name = if with_sender { (&raw mut (*heads).names[slot]).cast() } else { ptr::null_mut() };
                (*head).msg_namelen = if with_sender { NAME } else { 0 };
            }
        }
        self.with_sender = with_sender;
    }

    /// Reads the header of a slot, and restores it for the next call.
    fn read(&mut self, slot: usize) -> Came {
        let heads = self.heads.0.as_ptr();
        // SAFETY: the headers are valid, nothing else refers to them, and the kernel has filled in the headers of
        // this slot.
        unsafe {
            let message = &raw mut (*heads).messages[slot];
            let head = &raw mut (*message).msg_hdr;
            let len = ((*message).msg_len as usize).min(self.len_max);
            // A name that was not asked for has length 0.
            let from = if (*head).msg_namelen == 0 { None } else { sender(&(*heads).names[slot]) };
            let is_cut = (*head).msg_flags & libc::MSG_TRUNC != 0;
            let mut came = Came { len, segment: len, from, to: None, interface: 0, is_cut };
            read_control(&*head, &mut came);
            if self.with_sender {
                (*head).msg_namelen = NAME;
            }
            (*head).msg_controllen = CONTROL as _;
            came
        }
    }
}

const NAME: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

/// A box whose contents others point into. Unlike with `Box`, moving it does not assert exclusive access.
struct Pinned<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Pinned<T> {
    fn new(from: Box<T>) -> Pinned<T> {
        Pinned(NonNull::from(Box::leak(from)))
    }
}

impl<T: ?Sized> Drop for Pinned<T> {
    fn drop(&mut self) {
        // SAFETY: it was a box, and the contents are not used afterwards.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Converts the address that the kernel wrote into space for the longer kind.
fn sender(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match i32::from(name.sin6_family) {
        libc::AF_INET => {
            // SAFETY: the family identifies the type, which is neither longer nor more aligned than the
            // space.
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

/// Reads the control messages of a header.
fn read_control(head: &libc::msghdr, came: &mut Came) {
    // SAFETY: the kernel left the header valid: the control buffer has the length it states.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !next.is_null() {
        // SAFETY: `next` points to a complete message in the control buffer; its data may be unaligned.
        unsafe {
            let data = libc::CMSG_DATA(next);
            match ((*next).cmsg_level, (*next).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment = ptr::read_unaligned(data.cast::<libc::c_int>());
                    came.segment = usize::try_from(segment).unwrap_or(came.len);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in_pktinfo>());
                    // For a broadcast this is our address to reply from.
                    came.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = ptr::read_unaligned(data.cast::<libc::in6_pktinfo>());
                    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    came.to = Some(ip.into());
                    came.interface = if ip.is_unicast_link_local() { info.ipi6_ifindex as _ } else { 0 };
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(head, next);
        }
    }
}

/// Error of the call that has just failed.
pub fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_point_to_the_room_of_their_slot_wherever_the_batch_is_moved() {
        let moved = Box::new(RecvBatch::new(100));
        let mut batch = *moved;
        batch.ask_for_sender(true);
        for slot in 0..SLOTS {
            let heads = batch.heads.0.as_ptr();
            // SAFETY: as the kernel does, writes bytes, name and length to the buffers of the slot, which the batch
            // owns.
            unsafe {
                let message = &raw mut (*heads).messages[slot];
                let part = (*message).msg_hdr.msg_iov;
                ptr::write_bytes((*part).iov_base.cast::<u8>(), slot as u8, (*part).iov_len);
                let name = (*message).msg_hdr.msg_name.cast::<libc::sockaddr_in>();
                (*name).sin_family = libc::AF_INET as _;
                (*name).sin_port = (slot as u16).to_be();
                (*message).msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as _;
                (*message).msg_hdr.msg_controllen = 0;
                (*message).msg_len = 1 + slot as u32;
            }
            batch.came[slot] = batch.read(slot);
        }
        for slot in 0..SLOTS {
            assert_eq!(batch.bytes(slot), vec![slot as u8; 1 + slot]);
            assert_eq!(batch.came(slot).from, Some(([0, 0, 0, 0], slot as u16).into()));
            // SAFETY: as above.
            let head = unsafe { (*batch.heads.0.as_ptr()).messages[slot].msg_hdr };
            assert_eq!((head.msg_namelen, head.msg_controllen), (NAME, CONTROL as _));
        }
    }
}
