//! How does what has come go on? Many datagrams by one call (`sendmmsg(2)`), and those of one flow that are equally long
//! as one (`UDP_SEGMENT`): it goes through the kernel once, and is parted at the end of its way.

use super::recv_batch::{RecvBatch, SLOTS, last_errno};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use socket2::SockAddr;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Datagrams in one message: what kernels before 6.10 take.
const SEGMENTS_MAX: usize = 64;

/// Bytes in one message: what a datagram over IPv4 can have.
const LEN_MAX: usize = 65_507;

/// An address of ours and the length of segments, each with its head.
const CONTROL: usize = 64;

/// Datagrams that are about to be sent. They stay in the received; this says which, and where to.
#[derive(Default)]
pub struct SendBatch {
    messages: Vec<Message>,
    // Built for each call, and kept for their memory.
    addresses: Vec<SockAddr>,
    parts: Vec<libc::iovec>,
    controls: Vec<Control>,
    heads: Vec<libc::mmsghdr>,
}

/// What goes to one address in one go.
struct Message {
    group: u32,
    slots: Range<usize>,
    len: usize,
    segment: usize,
    count: usize,
    /// Whether its last datagram is shorter than the others.
    is_closed: bool,
    to: Option<To>,
}

/// Where to, on sockets that are not connected.
#[derive(Clone, Copy, Debug)]
pub struct To {
    /// The client.
    pub client: SocketAddr,
    /// The address of ours that it knows, if there are several.
    pub ours: Option<IpAddr>,
}

/// Numbers, as it must be aligned.
type Control = [u64; CONTROL / 8];

/// What became of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that it did not take.
    pub lost: u64,
    /// Whether it said that nobody listens at the other end; then what is left is still in the batch.
    pub is_refused: bool,
}

impl SendBatch {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Forgets what is left: how many datagrams that was.
    pub fn clear(&mut self) -> u64 {
        self.messages.drain(..).map(|message| message.count as u64).sum()
    }

    /// Adds what is in a slot, for a flow. Slots must come in order.
    pub fn push(&mut self, received: &RecvBatch, slot: usize, group: u32, to: Option<To>) {
        let came = received.came(slot);
        let (len, count) = (came.len, came.count());
        if let Some(last) = self.messages.last_mut() {
            let fits = last.group == group
                && last.slots.end == slot
                && !last.is_closed
                && (came.segment == last.segment || (count == 1 && len < last.segment && len > 0))
                && last.count + count <= SEGMENTS_MAX
                && last.len + len <= LEN_MAX;
            if fits {
                last.slots.end += 1;
                last.len += len;
                last.count += count;
                last.is_closed = len % last.segment != 0;
                return;
            }
        }
        let is_closed = came.segment == 0 || len % came.segment != 0;
        let message = Message { group, slots: slot..slot + 1, len, segment: came.segment, count, is_closed, to };
        self.messages.push(message);
    }

    /// Sends all. What the kernel does not take is lost, as on any network.
    pub fn flush(&mut self, socket: impl AsFd, received: &RecvBatch) -> Flushed {
        let (socket, mut done, mut flushed) = (socket.as_fd(), 0, Flushed::default());
        while done < self.messages.len() {
            match self.send(socket, received, done) {
                Ok(sent) => {
                    for message in &self.messages[done..done + sent] {
                        flushed.datagrams += message.count as u64;
                        flushed.bytes += message.len as u64;
                    }
                    done += sent;
                }
                Err(Errno::INTR) => {}
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH)
                    if self.messages[done].to.is_none() =>
                {
                    self.messages.drain(..done);
                    flushed.is_refused = true;
                    return flushed;
                }
                Err(_) => {
                    // A device that cannot part them, or a way that takes only shorter packets.
                    let message = &self.messages[done];
                    if message.count > 1 {
                        send_each(socket, received, message, &mut flushed);
                    } else {
                        flushed.lost += 1;
                    }
                    done += 1;
                }
            }
        }
        self.messages.clear();
        flushed
    }

    /// Sends the messages from `first` on, in one call: how many went.
    fn send(&mut self, socket: BorrowedFd<'_>, received: &RecvBatch, first: usize) -> Result<usize, Errno> {
        let messages = &self.messages[first..];
        if let [Message { to, count: 1, slots, .. }] = messages {
            return send_one(socket, received.bytes(slots.start), *to).map(|_| 1);
        }
        self.addresses.clear();
        self.addresses.extend(messages.iter().filter_map(|message| Some(message.to?.client.into())));
        let mut addresses = self.addresses.iter();
        self.parts.clear();
        self.controls.clear();
        self.heads.clear();
        // Nothing moves while others point to it: as many as there can be.
        self.parts.reserve(SLOTS);
        self.controls.reserve(SLOTS);
        for message in messages {
            // SAFETY: all zeros are a message without a name, parts and control.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let header = &mut head.msg_hdr;
            if let Some(address) = message.to.and_then(|_| addresses.next()) {
                header.msg_name = address.as_ptr().cast_mut().cast();
                header.msg_namelen = address.len();
            }
            header.msg_iovlen = message.slots.len() as _;
            let first_part = self.parts.len();
            self.parts.extend(message.slots.clone().map(|slot| {
                let bytes = received.bytes(slot);
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            }));
            header.msg_iov = self.parts[first_part..].as_mut_ptr();
            let ours = message.to.and_then(|to| to.ours);
            if message.count > 1 || ours.is_some() {
                self.controls.push([0; CONTROL / 8]);
                let at = self.controls.len() - 1;
                header.msg_control = self.controls[at].as_mut_ptr().cast();
                header.msg_controllen = CONTROL as _;
                write_control(header, ours, (message.count > 1).then_some(message.segment as u16));
            }
            self.heads.push(head);
        }
        // SAFETY: each head points to a name, parts and a control with their lengths; none of them has moved since, and all
        // outlive the call, which only reads them.
        let n = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.heads.as_mut_ptr(), self.heads.len() as _, libc::MSG_DONTWAIT as _)
        };
        if n < 0 { Err(last_errno()) } else { Ok(n as usize) }
    }
}

/// Sends the datagrams of one message one by one.
#[cold]
fn send_each(socket: BorrowedFd<'_>, received: &RecvBatch, message: &Message, flushed: &mut Flushed) {
    let datagrams = message.slots.clone().flat_map(|slot| received.bytes(slot).chunks(message.segment));
    for datagram in datagrams {
        match send_one(socket, datagram, message.to) {
            Ok(_) => {
                flushed.datagrams += 1;
                flushed.bytes += datagram.len() as u64;
            }
            Err(_) => flushed.lost += 1,
        }
    }
}

/// Sends one datagram, by the shortest call that can.
fn send_one(socket: BorrowedFd<'_>, datagram: &[u8], to: Option<To>) -> Result<usize, Errno> {
    match to {
        None => rustix::net::send(socket, datagram, SendFlags::DONTWAIT),
        Some(To { client, ours: None }) => rustix::net::sendto(socket, datagram, SendFlags::DONTWAIT, &client),
        Some(To { client, ours: Some(ours) }) => send_from(socket, datagram, client, ours),
    }
}

fn send_from(socket: BorrowedFd<'_>, datagram: &[u8], client: SocketAddr, ours: IpAddr) -> Result<usize, Errno> {
    let address = SockAddr::from(client);
    let mut part = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    let mut control: Control = [0; CONTROL / 8];
    // SAFETY: all zeros are a message without a name, parts and control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = address.as_ptr().cast_mut().cast();
    header.msg_namelen = address.len();
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    write_control(&mut header, Some(ours), None);
    // SAFETY: the header points to a name, a part and a control with their lengths, which outlive the call.
    let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    usize::try_from(n).map_err(|_| last_errno())
}

/// Says from which address, and where to part; the header has a control of [`CONTROL`] bytes, all zero.
fn write_control(header: &mut libc::msghdr, ours: Option<IpAddr>, segment: Option<u16>) {
    let mut used = 0;
    // SAFETY: the control is aligned and has room for both: 40 bytes for the longer address, 24 for a number. Its zeros are
    // heads of no length, which is what CMSG_NXTHDR wants to find behind the last.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        match ours {
            Some(IpAddr::V4(ip)) => {
                let spec = libc::in_addr { s_addr: u32::from(ip).to_be() };
                let info =
                    libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: spec, ipi_addr: libc::in_addr { s_addr: 0 } };
                used += put(next, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
                next = libc::CMSG_NXTHDR(header, next);
            }
            Some(IpAddr::V6(ip)) => {
                let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
                used += put(next, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
                next = libc::CMSG_NXTHDR(header, next);
            }
            None => {}
        }
        if let Some(segment) = segment {
            used += put(next, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
    }
    header.msg_controllen = used as _;
}

/// Writes one control message; how many bytes it takes.
///
/// # Safety
/// There is room for a head and `data` at `at`.
unsafe fn put<T>(at: *mut libc::cmsghdr, level: libc::c_int, kind: libc::c_int, data: T) -> u32 {
    let len = size_of::<T>() as u32;
    // SAFETY: as the caller says.
    unsafe {
        (*at).cmsg_level = level;
        (*at).cmsg_type = kind;
        (*at).cmsg_len = libc::CMSG_LEN(len) as _;
        std::ptr::write_unaligned(libc::CMSG_DATA(at).cast::<T>(), data);
        libc::CMSG_SPACE(len)
    }
}
