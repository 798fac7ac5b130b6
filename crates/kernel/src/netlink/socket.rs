//! Sockets of netlink: requests, and their answers.

use super::attributes::Payload;
use super::message::{self, Error, Meaning, Message, Messages};
pub use rustix::net::Protocol;
use rustix::net::netlink::SocketAddrNetlink;
pub use rustix::net::netlink::{GENERIC, NETFILTER, SOCK_DIAG};
use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size_force, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Flags of requests, `NLM_F_*` of linux/netlink.h.
pub(super) const REQUEST: u16 = 1;
pub const ACK: u16 = 4;
pub const DUMP: u16 = 0x300;
pub const REPLACE: u16 = 0x100;
pub const EXCL: u16 = 0x200;
pub const CREATE: u16 = 0x400;
pub const APPEND: u16 = 0x800;

/// Time without an answer after which a request has failed. The kernel answers within the system call, unless a module
/// is loaded for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Length of the buffer for answers: the kernel's datagrams of dumps are at most half as long.
const BUFFER: usize = 64 * 1024;
/// Bytes that any socket takes at once: the default of Linux is more than six times as much.
const SEND_USUAL: usize = 32 * 1024;
/// Reads of a dump that changes meanwhile.
const TRIES: usize = 5;

/// Socket to a protocol of netlink in the network namespace of the thread that opens it.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// # Errors
    /// The kernel has no such protocol, or no socket left.
    pub fn open(protocol: Protocol) -> Result<Socket, Error> {
        let open = || {
            let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
            bind(&fd, &SocketAddrNetlink::new(0, 0))?;
            // From now on, only the kernel can send to it.
            connect(&fd, &SocketAddrNetlink::new(0, 0))?;
            set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
            Ok(fd)
        };
        let fd = open().map_err(Error::Socket)?;
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            // Errors have no text without the first, and repeat the request without the second: neither is fatal.
            let _ = set_on(&fd, option);
        }
        Ok(Socket { fd, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Sends a request, and returns its answers: none for a request that is only acknowledged. With [`DUMP`] in
    /// `flags`, reads again if the answer changed meanwhile.
    ///
    /// # Errors
    /// The kernel refuses it, or the socket fails.
    pub fn request(&mut self, kind: u16, flags: u16, payload: &Payload) -> Result<Vec<Message>, Error> {
        let mut tries = 0;
        loop {
            let mut answers = Vec::new();
            let result = self.each(kind, flags, payload, &mut |kind, payload| {
                answers.push(Message { kind, payload: payload.to_vec() });
            });
            tries += 1;
            match result {
                Err(Error::Interrupted) if tries < TRIES => {}
                result => return result.map(|()| answers),
            }
        }
    }

    /// Sends a request, and calls `answer` with the kind and payload of each answer, for dumps that are long.
    ///
    /// # Errors
    /// Like [`request`](Self::request). [`Error::Interrupted`] comes after all answers.
    pub fn each(
        &mut self,
        kind: u16,
        flags: u16,
        payload: &Payload,
        answer: &mut dyn FnMut(u16, &[u8]),
    ) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        // A dump ends with a separate message.
        let ack = if flags & DUMP == DUMP { 0 } else { ACK };
        let request = message::write(kind, flags | REQUEST | ack, self.sequence, payload.bytes());
        let sent = rustix::io::retry_on_intr(|| send(&self.fd, &request, SendFlags::empty()));
        sent.map_err(Error::Socket)?;
        let mut interrupted = false;
        let sequence = self.sequence;
        loop {
            for message in Messages(self.receive()?) {
                let message = message.ok_or(Error::Malformed)?;
                // Answers to a request that was given up.
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.interrupted();
                match message.meaning() {
                    Meaning::Content => answer(message.kind, message.payload),
                    Meaning::End(Ok(())) if interrupted => return Err(Error::Interrupted),
                    Meaning::End(result) => return result,
                }
            }
        }
    }

    /// Sends messages whose sum may exceed the usual buffer of a socket.
    pub(super) fn send_large(&mut self, messages: &[u8]) -> Result<(), Error> {
        if messages.len() > SEND_USUAL {
            // The kernel takes half of it for itself.
            set_socket_send_buffer_size_force(&self.fd, messages.len()).map_err(Error::Socket)?;
        }
        let sent = rustix::io::retry_on_intr(|| send(&self.fd, messages, SendFlags::empty()));
        sent.map(drop).map_err(Error::Socket)
    }

    /// Waits for a datagram of the kernel.
    pub(super) fn receive(&mut self) -> Result<&[u8], Error> {
        let received = rustix::io::retry_on_intr(|| recv(&self.fd, &mut self.buffer[..], RecvFlags::TRUNC));
        let (_, len) = received.map_err(Error::Socket)?;
        self.buffer.get(..len).ok_or(Error::Malformed)
    }
}

/// Switches an option of netlink on, which rustix does not have.
fn set_on(fd: &OwnedFd, option: libc::c_int) -> std::io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open, and `on` is an int that lives during the call, of the length that is passed.
    let result = unsafe {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const on).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
