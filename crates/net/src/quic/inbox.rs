//! Datagrams that came to the wrong worker, or to a process that replaces their owner. The one that receives them hands them
//! over by a Unix socket of their owner, whose name follows from the connection id.

use super::ids::Owner;
use super::owners::{Known, Owners};
use crate::event_loop::Source;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, recvmsg, sendto, socket_with,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Instant;

/// Datagrams of a sender, as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed<'b> {
    /// Address that the socket is bound to.
    pub at: SocketAddr,
    pub from: SocketAddr,
    /// Address of this machine that they were sent to, if the socket is bound to all of them.
    pub to: Option<IpAddr>,
    /// Length of each of them but the last.
    pub segment: usize,
    pub bytes: &'b [u8],
}

/// Bytes of an address: IP, port and scope.
const ADDRESS: usize = 16 + 2 + 4;

/// Bytes before the datagrams: two addresses, the address that they were sent to, and the segment.
const FRONT: usize = 2 * ADDRESS + 1 + 16 + 2;

/// Most bytes of datagrams that are handed over at once.
const BYTES_MAX: usize = 64 << 10;

fn put(addr: SocketAddr, out: &mut Vec<u8>) {
    let (ip, scope) = match addr {
        SocketAddr::V4(addr) => (addr.ip().to_ipv6_mapped(), u32::MAX),
        SocketAddr::V6(addr) => (*addr.ip(), addr.scope_id()),
    };
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&addr.port().to_be_bytes());
    out.extend_from_slice(&scope.to_be_bytes());
}

fn address(bytes: &[u8; ADDRESS]) -> SocketAddr {
    let (ip, rest) = bytes.split_first_chunk::<16>().expect("its length is constant");
    let (port, scope) =
        (u16::from_be_bytes([rest[0], rest[1]]), u32::from_be_bytes([rest[2], rest[3], rest[4], rest[5]]));
    let ip = Ipv6Addr::from(*ip);
    match ip.to_ipv4_mapped().filter(|_| scope == u32::MAX) {
        Some(ip) => (ip, port).into(),
        None => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

impl Handed<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put(self.at, out);
        put(self.from, out);
        out.push(u8::from(self.to.is_some_and(|to| to.is_ipv4())) | u8::from(self.to.is_some()) << 1);
        let to = match self.to.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        out.extend_from_slice(&to.octets());
        out.extend_from_slice(&(self.segment.min(usize::from(u16::MAX)) as u16).to_be_bytes());
        out.extend_from_slice(self.bytes);
    }

    fn read(bytes: &[u8]) -> Option<Handed<'_>> {
        let (at, rest) = bytes.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (flags, rest) = rest.split_first()?;
        let (to, rest) = rest.split_first_chunk::<16>()?;
        let (segment, bytes) = rest.split_first_chunk()?;
        let ip = Ipv6Addr::from(*to);
        let to = match flags {
            0 => None,
            2 => Some(IpAddr::V6(ip)),
            3 => Some(IpAddr::V4(ip.to_ipv4_mapped()?)),
            _ => return None,
        };
        let segment = usize::from(u16::from_be_bytes(*segment));
        (segment > 0).then(|| Handed { at: address(at), from: address(from), to, segment, bytes })
    }
}

/// Name of the socket of an owner. `instance` is shared only by processes that replace each other.
fn name(instance: u64, owner: Owner) -> io::Result<SocketAddrUnix> {
    let name = format!("evenkeel-quic-{instance:016x}-{:04x}-{:02x}", owner.generation, owner.worker);
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

fn unix() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// Socket by which a worker hands datagrams over.
pub struct Outbox {
    socket: OwnedFd,
    instance: u64,
    message: Vec<u8>,
    owners: Owners,
}

impl Outbox {
    /// Opens a socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(instance: u64) -> io::Result<Outbox> {
        Ok(Outbox { socket: unix()?, instance, message: Vec::new(), owners: Owners::new(Instant::now()) })
    }

    /// Hands datagrams over. Returns false if their owner is gone. They are lost, as they would be in the network, if its
    /// socket is full, or if too many owners that are not known were named lately.
    pub fn hand(&mut self, owner: Owner, datagrams: Handed<'_>) -> bool {
        let now = Instant::now();
        match self.owners.known(owner, now) {
            Known::Ask => {}
            Known::Gone => return false,
            Known::Doubtful => return true,
        }
        let Ok(name) = name(self.instance, owner) else { return false };
        self.message.clear();
        datagrams.write(&mut self.message);
        match sendto(&self.socket, &self.message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &name) {
            Err(Errno::CONNREFUSED | Errno::NOENT) => {
                self.owners.note(owner, false, now);
                false
            }
            Ok(_) => {
                self.owners.note(owner, true, now);
                true
            }
            // Any other error says nothing about the owner, whose connection must not be reset for it.
            Err(_) => true,
        }
    }
}

/// Socket at which a worker receives datagrams from others.
pub struct Inbox {
    source: Source<Arc<OwnedFd>>,
    bytes: Vec<u8>,
}

impl Inbox {
    /// Opens the socket of an owner.
    ///
    /// # Errors
    /// Another process has its name, or no descriptor is left.
    pub fn new(instance: u64, owner: Owner) -> io::Result<Inbox> {
        let socket = unix()?;
        set_socket_passcred(&socket, true)?;
        bind(&socket, &name(instance, owner)?)?;
        Ok(Inbox { source: Source::new(Arc::new(socket))?, bytes: vec![0; FRONT + BYTES_MAX] })
    }

    /// Waits for datagrams, and passes all that are there to `take`.
    pub async fn receive(&mut self, mut take: impl FnMut(Handed<'_>)) {
        self.source.readable().await;
        loop {
            match receive(&*self.source, &mut self.bytes) {
                Ok(Some(len)) => {
                    if let Some(handed) = Handed::read(&self.bytes[..len]) {
                        take(handed);
                    }
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return self.source.note_empty(),
            }
        }
    }
}

/// Receives a message. `None` if another user has sent it.
fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> Result<Option<usize>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::DONTWAIT)?;
    let own = rustix::process::geteuid();
    let is_own = control.drain().any(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => sender.uid == own || sender.uid.is_root(),
        _ => false,
    });
    Ok(is_own.then_some(received.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_arrives_as_it_is() {
        let addresses: [SocketAddr; 4] = ["10.0.0.1:443", "[::1]:8443", "[fe80::1%7]:1", "[::ffff:10.0.0.1]:2"]
            .map(|text| text.parse().expect(text));
        for at in addresses {
            for from in addresses {
                for to in [None, Some(at.ip()), Some(from.ip())] {
                    let handed = Handed { at, from, to, segment: 1200, bytes: b"datagrams" };
                    let mut bytes = Vec::new();
                    handed.write(&mut bytes);
                    assert_eq!(bytes.len(), FRONT + 9);
                    assert_eq!(Handed::read(&bytes), Some(handed));
                    (0..FRONT).for_each(|cut| assert_eq!(Handed::read(&bytes[..cut]), None));
                }
            }
        }
    }

    #[test]
    fn an_owner_gets_its_datagrams_and_without_one_they_are_refused() {
        let instance = u64::from(std::process::id());
        let (there, gone) = (Owner { generation: 1, worker: 0 }, Owner { generation: 1, worker: 1 });
        let addr = ([127, 0, 0, 1], 1).into();
        let handed = Handed { at: addr, from: addr, to: None, segment: 3, bytes: b"abcde" };
        let done = crate::event_loop::run(async {
            let mut inbox = Inbox::new(instance, there).expect("a socket");
            assert!(Inbox::new(instance, there).is_err(), "its name is taken");
            let mut outbox = Outbox::new(instance).expect("a socket");
            assert!(outbox.hand(there, handed) && outbox.hand(there, handed));
            assert!(!outbox.hand(gone, handed));
            let mut came = 0;
            inbox.receive(|other| came += usize::from(other == handed)).await;
            came
        });
        assert_eq!(done.expect("an event loop"), 2);
    }
}
