//! Sending of many datagrams per call (`sendmmsg(2)`), with equally long datagrams of a flow as a single message
//! (`UDP_SEGMENT`) that passes through the stack once and is split at its end.

use super::message::{CONTROL, Control, Name, write_control};
use super::recv_batch::{Came, RecvBatch, last_errno};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Most datagrams in a message: the limit of kernels before 6.10.
const SEGMENTS_MAX: usize = 64;

/// Most bytes in a message: the largest payload of a datagram over IPv4.
const LEN_MAX: usize = 65_507;

/// Source of the bytes to send: the slots of a [`RecvBatch`] as received, or a place where answers to them
/// were written.
pub trait Payloads {
    fn payload(&self, slot: usize) -> &[u8];
}

impl Payloads for RecvBatch {
    #[inline]
    fn payload(&self, slot: usize) -> &[u8] {
        self.bytes(slot)
    }
}

impl Payloads for [Vec<u8>] {
    fn payload(&self, slot: usize) -> &[u8] {
        &self[slot]
    }
}

/// Datagrams to send. Only refers to their bytes, and holds the destinations.
#[derive(Default)]
pub struct SendBatch {
    messages: Vec<Message>,
    // Built for each call; kept only to reuse their memory.
    names: Vec<Name>,
    parts: Vec<libc::iovec>,
    controls: Vec<Control>,
    heads: Vec<libc::mmsghdr>,
}

/// Datagrams to an address, sent as a message.
struct Message {
    group: u32,
    slots: Range<usize>,
    len: usize,
    segment: usize,
    count: usize,
    /// True if its last datagram is shorter than the others, so that none can follow.
    is_closed: bool,
    to: Option<To>,
}

/// Destination on a socket that is not connected.
#[derive(Clone, Copy, Debug)]
pub struct To {
    pub client: SocketAddr,
    /// Our address that the client used, if there are several.
    pub ours: Option<IpAddr>,
    /// Interface of a link-local address of ours; 0 = the route decides.
    pub interface: u32,
}

impl To {
    /// Our address with its interface.
    fn ours(self) -> Option<(IpAddr, u32)> {
        self.ours.map(|ip| (ip, self.interface))
    }
}

/// Result of [`SendBatch::flush`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Bytes that the kernel accepted.
    pub bytes: u64,
    /// Datagrams that the kernel did not accept.
    pub lost: u64,
    /// True if no socket listens at the other end; unsent datagrams then remain in the batch.
    pub is_refused: bool,
}

impl SendBatch {
    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Discards all datagrams, and returns their number.
    pub fn clear(&mut self) -> u64 {
        self.messages.drain(..).map(|message| message.count as u64).sum()
    }

    /// Adds the datagrams of a slot, for the flow `group`. Slots must be added in order.
    pub fn push(&mut self, slot: usize, came: &Came, group: u32, to: Option<To>) {
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

    /// Adds a single datagram of `len` bytes from a slot.
    pub fn push_one(&mut self, slot: usize, len: usize, to: To) {
        let message =
            Message { group: 0, slots: slot..slot + 1, len, segment: len, count: 1, is_closed: true, to: Some(to) };
        self.messages.push(message);
    }

    /// Sends all datagrams, with bytes from `payloads`. Those that the kernel does not accept are lost, as on
    /// any network.
    pub fn flush<P: Payloads + ?Sized>(&mut self, socket: impl AsFd, payloads: &P) -> Flushed {
        let (socket, mut done, mut flushed) = (socket.as_fd(), 0, Flushed::default());
        while done < self.messages.len() {
            match self.send(socket, payloads, done) {
                Ok(sent) => {
                    for message in &self.messages[done..done + sent] {
                        flushed.datagrams += message.count as u64;
                        flushed.bytes += message.len as u64;
                    }
                    done += sent;
                }
                Err(Errno::INTR) => {}
                // The socket's send buffer is full, for the remaining datagrams too.
                Err(Errno::AGAIN) => {
                    flushed.lost += self.messages.drain(done..).map(|message| message.count as u64).sum::<u64>();
                }
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH)
                    if self.messages[done].to.is_none() =>
                {
                    self.messages.drain(..done);
                    flushed.is_refused = true;
                    return flushed;
                }
                Err(_) => {
                    // The device cannot segment them, or the path has a smaller MTU.
                    let message = &self.messages[done];
                    if message.count > 1 {
                        send_each(socket, payloads, message, &mut flushed);
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

    /// Sends the messages from `first` on in a single call, and returns the number accepted.
    fn send<P: Payloads + ?Sized>(
        &mut self,
        socket: BorrowedFd<'_>,
        payloads: &P,
        first: usize,
    ) -> Result<usize, Errno> {
        if let [Message { to, count: 1, slots, .. }] = &self.messages[first..] {
            return send_one(socket, payloads.payload(slots.start), *to).map(|_| 1);
        }
        self.build(payloads, first);
        // SAFETY: each header points to a name, iovecs and a control buffer with their lengths; none has
        // changed since, and all outlive the call, which only reads them.
        let n = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.heads.as_mut_ptr(), self.heads.len() as _, libc::MSG_DONTWAIT as _)
        };
        if n < 0 { Err(last_errno()) } else { Ok(n as usize) }
    }

    /// Builds the headers of the messages from `first` on.
    fn build<P: Payloads + ?Sized>(&mut self, payloads: &P, first: usize) {
        let messages = &self.messages[first..];
        self.names.clear();
        self.parts.clear();
        self.controls.clear();
        self.heads.clear();
        // Everything that headers point to is complete first, so that it is neither moved nor borrowed
        // afterwards.
        for message in messages {
            self.names.extend(message.to.map(|to| Name::of(to.client)));
            self.parts.extend(message.slots.clone().map(|slot| {
                let bytes = payloads.payload(slot);
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            }));
            if message.has_control() {
                self.controls.push([0; CONTROL / 8]);
            }
        }
        let (mut names, mut parts) = (self.names.as_mut_ptr(), self.parts.as_mut_ptr());
        let mut controls = self.controls.as_mut_ptr();
        for message in messages {
            // SAFETY: all zeros are a message without name, iovecs and control buffer.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let header = &mut head.msg_hdr;
            if let Some(to) = message.to {
                header.msg_name = names.cast();
                header.msg_namelen = Name::len(to.client);
                names = names.wrapping_add(1);
            }
            header.msg_iov = parts;
            header.msg_iovlen = message.slots.len() as _;
            parts = parts.wrapping_add(message.slots.len());
            if message.has_control() {
                header.msg_control = controls.cast();
                header.msg_controllen = CONTROL as _;
                controls = controls.wrapping_add(1);
                let ours = message.to.and_then(To::ours);
                write_control(header, ours, (message.count > 1).then_some(message.segment as u16));
            }
            self.heads.push(head);
        }
    }
}

impl Message {
    /// True if the message needs a control buffer.
    fn has_control(&self) -> bool {
        self.count > 1 || self.to.is_some_and(|to| to.ours.is_some())
    }
}

/// Sends the datagrams of a message separately.
#[cold]
fn send_each<P: Payloads + ?Sized>(socket: BorrowedFd<'_>, payloads: &P, message: &Message, flushed: &mut Flushed) {
    let datagrams = message.slots.clone().flat_map(|slot| payloads.payload(slot).chunks(message.segment));
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

/// Sends a datagram with the cheapest call that can.
fn send_one(socket: BorrowedFd<'_>, datagram: &[u8], to: Option<To>) -> Result<usize, Errno> {
    match to {
        None => rustix::net::send(socket, datagram, SendFlags::DONTWAIT),
        Some(To { client, ours: None, .. }) => rustix::net::sendto(socket, datagram, SendFlags::DONTWAIT, &client),
        Some(to) => send_from(socket, datagram, to),
    }
}

fn send_from(socket: BorrowedFd<'_>, datagram: &[u8], to: To) -> Result<usize, Errno> {
    let mut name = Name::of(to.client);
    let mut part = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    let mut control: Control = [0; CONTROL / 8];
    // SAFETY: all zeros are a message without name, iovecs and control buffer.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = Name::len(to.client);
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    write_control(&mut header, to.ours(), None);
    // SAFETY: the header points to a name, an iovec and a control buffer with their lengths, which outlive
    // the call.
    let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    usize::try_from(n).map_err(|_| last_errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a header as the kernel would: the bytes, and kind and length of each control message.
    fn read(head: &libc::msghdr) -> (Vec<u8>, Vec<(libc::c_int, usize)>) {
        let (mut bytes, mut controls) = (Vec::new(), Vec::new());
        // SAFETY: the header points to iovecs and a control buffer with the lengths it states.
        unsafe {
            for part in std::slice::from_raw_parts(head.msg_iov, head.msg_iovlen as _) {
                bytes.extend_from_slice(std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len));
            }
            let mut next = libc::CMSG_FIRSTHDR(head);
            while !next.is_null() {
                controls.push(((*next).cmsg_type, (*next).cmsg_len as usize));
                next = libc::CMSG_NXTHDR(head, next);
            }
        }
        (bytes, controls)
    }

    /// Under Miri this also checks that no pointer outlives its borrow.
    #[test]
    fn heads_lead_to_the_bytes_the_addresses_and_the_controls_of_their_message() {
        let payloads: Vec<Vec<u8>> = (0..6).map(|slot| vec![slot; 4]).collect();
        let came = |len| Came { len, segment: 4, from: None, to: None, interface: 0, is_cut: false };
        let to = |port, ours: Option<&str>| To {
            client: if port == 2 { ([0, 0, 0, 0, 0, 0, 0, 1], port).into() } else { ([192, 0, 2, 1], port).into() },
            ours: ours.map(|ip| ip.parse().unwrap()),
            interface: 0,
        };
        let mut batch = SendBatch::default();
        for _ in 0..2 {
            batch.push(0, &came(4), 1, Some(to(1, Some("192.0.2.9"))));
            batch.push(1, &came(4), 1, Some(to(1, Some("192.0.2.9"))));
            batch.push(2, &came(4), 2, None);
            batch.push(3, &came(4), 2, None);
            batch.push_one(4, 4, to(2, Some("2001:db8::1")));
            batch.push_one(5, 4, to(3, None));
            batch.build(&payloads[..], 0);
            let (pktinfo, pktinfo6) = (16 + size_of::<libc::in_pktinfo>(), 16 + size_of::<libc::in6_pktinfo>());
            let segment = (libc::UDP_SEGMENT, 16 + size_of::<u16>());
            let expected = [
                (vec![0, 0, 0, 0, 1, 1, 1, 1], vec![(libc::IP_PKTINFO, pktinfo), segment], Some(1)),
                (vec![2, 2, 2, 2, 3, 3, 3, 3], vec![segment], None),
                (vec![4; 4], vec![(libc::IPV6_PKTINFO, pktinfo6)], Some(2)),
                (vec![5; 4], vec![], Some(3)),
            ];
            assert_eq!(batch.heads.len(), expected.len());
            for (head, (bytes, controls, port)) in batch.heads.iter().zip(expected) {
                assert_eq!(read(&head.msg_hdr), (bytes, controls));
                let name = head.msg_hdr.msg_name.cast::<libc::sockaddr_in>();
                // SAFETY: a name is an address of either kind, and both have the port in the same place.
                let named = (!name.is_null()).then(|| u16::from_be(unsafe { (*name).sin_port }));
                let len = [0, size_of::<libc::sockaddr_in>(), size_of::<libc::sockaddr_in6>()];
                let kind = port.map_or(0, |port| if port == 2 { 2 } else { 1 });
                assert_eq!(head.msg_hdr.msg_namelen as usize, len[kind]);
                assert_eq!(named, port);
            }
            assert_eq!(batch.clear(), 6);
        }
    }
}
