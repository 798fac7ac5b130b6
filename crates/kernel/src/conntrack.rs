//! Connection tracking of the kernel, over ctnetlink: entries are read and deleted by their marks.

use crate::driver::Fault;
use crate::netlink::{Attribute, Attributes, DUMP, Error, NETFILTER, Payload, Socket};
use crate::service::Transport;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};

/// Subsystem of ctnetlink, and its messages.
const SUBSYSTEM: u16 = 1 << 8;
const GET: u16 = SUBSYSTEM | 1;
const DELETE: u16 = SUBSYSTEM | 2;

/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_MARK: u16 = 8;
const CTA_ID: u16 = 12;
const CTA_MARK_MASK: u16 = 21;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_TCP_STATE: u16 = 1;

/// Bit of the kind of an attribute that holds others.
const NESTED: u16 = 1 << 15;

/// Bits of an entry's status.
const SEEN_REPLY: u32 = 1 << 1;
const DST_NAT: u32 = 1 << 5;

/// State of TCP from the end of the handshake until either side ends the connection. A client that only began, as in a
/// flood, is not in it.
const ESTABLISHED: u8 = 3;

/// Entry of connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub mark: u32,
    /// `None` for protocols other than TCP and UDP.
    pub transport: Option<Transport>,
    /// Destination as the client sees it.
    pub to: SocketAddr,
    status: u32,
    /// State of TCP; 0 for others.
    state: u8,
}

impl Entry {
    /// True if the destination is translated.
    pub fn is_translated(&self) -> bool {
        self.status & DST_NAT != 0
    }

    /// True for a TCP connection from its handshake until either side ends it, and for a flow of datagrams that was
    /// answered.
    pub fn is_open(&self) -> bool {
        match self.transport {
            Some(Transport::Tcp) => self.state == ESTABLISHED,
            Some(Transport::Udp) => self.status & SEEN_REPLY != 0,
            None => false,
        }
    }

    /// True for a connection of TCP that the other side has never answered.
    pub fn is_unanswered(&self) -> bool {
        self.transport == Some(Transport::Tcp) && self.status & SEEN_REPLY == 0
    }

    fn parse(payload: &[u8]) -> Option<Entry> {
        let all = Attributes::after(HEADER, payload);
        let original = all.first(CTA_TUPLE_ORIG)?.nested();
        let (ip, protocol) = (original.first(CTA_TUPLE_IP)?.nested(), original.first(CTA_TUPLE_PROTO)?.nested());
        let v4 = |of: Attribute<'_>| <[u8; 4]>::try_from(of.bytes).ok().map(IpAddr::from);
        let v6 = |of: Attribute<'_>| <[u8; 16]>::try_from(of.bytes).ok().map(IpAddr::from);
        let to = ip.first(CTA_IP_V4_DST).and_then(v4).or_else(|| ip.first(CTA_IP_V6_DST).and_then(v6))?;
        let port = protocol.first(CTA_PROTO_DST_PORT).and_then(|port| port.u16_be()).unwrap_or_default();
        let transport = match protocol.first(CTA_PROTO_NUM)?.u8()? {
            6 => Some(Transport::Tcp),
            17 => Some(Transport::Udp),
            _ => None,
        };
        let number = |kind| all.first(kind).and_then(|attribute| attribute.u32_be()).unwrap_or_default();
        let tcp =
            || all.first(CTA_PROTOINFO)?.nested().first(CTA_PROTOINFO_TCP)?.nested().first(CTA_PROTOINFO_TCP_STATE);
        Some(Entry {
            mark: number(CTA_MARK),
            transport,
            to: SocketAddr::new(to, port),
            status: number(CTA_STATUS),
            state: tcp().and_then(|state| state.u8()).unwrap_or_default(),
        })
    }
}

/// Connection tracking of the network namespace.
#[derive(Debug, Default)]
pub struct Conntrack(Option<Socket>);

impl Conntrack {
    /// Calls `on` with each entry whose mark equals `mark.0` in the bits of `mark.1`.
    ///
    /// # Errors
    /// The kernel refuses to say.
    pub fn each(&mut self, mark: Option<(u32, u32)>, mut on: impl FnMut(Entry)) -> Result<(), Fault> {
        self.dump(mark, |payload| Entry::parse(payload).into_iter().for_each(&mut on))
    }

    /// Deletes the entries that `ends` accepts, of those with this mark. Returns their number.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn delete(&mut self, mark: Option<(u32, u32)>, ends: impl Fn(&Entry) -> bool) -> Result<usize, Fault> {
        let mut requests = Vec::new();
        self.dump(mark, |payload| {
            if !Entry::parse(payload).is_some_and(|entry| ends(&entry)) {
                return;
            }
            let family = payload.first().copied().unwrap_or_default();
            let (all, mut request) = (Attributes::after(HEADER, payload), Payload::new(&[family, 0, 0, 0]));
            // The id shows that it is still this entry, and not a new entry of the same addresses.
            for kind in [CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_ID] {
                let Some(attribute) = all.first(kind) else { continue };
                if kind == CTA_ID {
                    request.push(kind, attribute.bytes);
                } else {
                    request.push(kind | NESTED, attribute.bytes);
                }
            }
            requests.push(request);
        })?;
        let mut deleted = 0;
        for request in requests {
            match self.socket()?.request(DELETE, 0, &request) {
                Ok(_) => deleted += 1,
                // It has ended by itself.
                Err(error) if error.is(Errno::NOENT) => {}
                Err(error) => return Err(Fault::new("delete an entry of connection tracking", error)),
            }
        }
        Ok(deleted)
    }

    fn dump(&mut self, mark: Option<(u32, u32)>, mut on: impl FnMut(&[u8])) -> Result<(), Fault> {
        let mut request = Payload::new(&[0; HEADER]);
        if let Some((mark, mask)) = mark {
            request.push_u32_be(CTA_MARK, mark).push_u32_be(CTA_MARK_MASK, mask);
        }
        match self.socket()?.each(GET, DUMP, &request, &mut |_, payload| on(payload)) {
            // Entries that came or went meanwhile may be missing, or be there twice.
            Ok(()) | Err(Error::Interrupted) => Ok(()),
            Err(error) => Err(Fault::new("read connection tracking", error)),
        }
    }

    fn socket(&mut self) -> Result<&mut Socket, Fault> {
        match &mut self.0 {
            Some(socket) => Ok(socket),
            none => {
                let socket = Socket::open(NETFILTER).map_err(|error| Fault::new("open a socket of netlink", error))?;
                Ok(none.insert(socket))
            }
        }
    }
}
