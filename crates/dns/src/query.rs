//! Parsing of queries: a message becomes a [`Query`], or a [`Reject`]. Strict: a message that two readers
//! could understand differently is malformed.
//!
//! Sources: RFC 1035 section 4, RFC 6891 (EDNS), RFC 7871 (client subnet), RFC 7873 (cookies), RFC 9619 (one
//! question).

use domain::base::iana::{Class, Opcode, OptionCode, Rcode, Rtype};
use domain::base::name::ParsedName;
use domain::base::opt::{Cookie, Opt};
use domain::base::{Message, ParsedRecord};
use domain::dep::octseq::Parser;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Size of the header, in bytes; the question follows.
pub const HEADER: usize = 12;
/// Longest name, and longest label, in bytes (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 255;
const LABEL_MAX: u8 = 63;

/// A query with its single question.
#[derive(Debug)]
pub struct Query<'m> {
    /// Header in wire format, unchanged.
    pub header: &'m [u8],
    /// Question in wire format, unchanged: name, type and class.
    pub question: &'m [u8],
    /// Name of the question, in lower case.
    pub name: &'m Name,
    /// Type of the records asked for.
    pub qtype: Rtype,
    /// Class of the question; IN in practice.
    pub class: Class,
    /// EDNS data; `None` without an OPT record.
    pub edns: Option<Edns>,
}

/// Contents of the OPT record of a query.
#[derive(Debug)]
pub struct Edns {
    /// Largest datagram that the client accepts, in bytes.
    pub payload: u16,
    /// EDNS version; only 0 is supported.
    pub version: u8,
    /// True if the client wants signatures (DO bit).
    pub dnssec_ok: bool,
    /// Cookie of the client (RFC 7873).
    pub cookie: Option<Cookie>,
    /// Client network sent by a resolver (RFC 7871).
    pub subnet: Option<Subnet>,
}

/// Network of a client, as address and prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// First address of the network.
    pub address: IpAddr,
    /// Number of significant bits.
    pub prefix: u8,
}

/// Name in lower case and wire format.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_MAX + 1],
    len: u8,
}

impl Name {
    /// An empty name, to be filled by [`Query::parse`]: it is too large to pass by value.
    pub fn room() -> Name {
        Name { bytes: [0; NAME_MAX + 1], len: 0 }
    }

    /// Bytes in wire format, including the final 0.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Reads an uncompressed name, and returns its length; `None` if malformed. The first name of a message
    /// cannot contain a pointer, as no name precedes it.
    fn read(&mut self, wire: &[u8]) -> Option<usize> {
        const STEP: usize = 16;
        let mut len = 0;
        loop {
            let label = *wire.get(len)?;
            len += 1 + usize::from(label);
            if label > LABEL_MAX || len > NAME_MAX {
                return None;
            }
            if label == 0 {
                break;
            }
        }
        self.bytes[..len].copy_from_slice(&wire[..len]);
        // Label lengths are below any letter, so lowercasing leaves them alone. Steps of constant size
        // compile to vector instructions.
        for bytes in self.bytes.chunks_exact_mut(STEP).take(len.div_ceil(STEP)) {
            bytes.make_ascii_lowercase();
        }
        self.len = len as u8;
        Some(len)
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.as_slice().escape_ascii())
    }
}

/// Reason why a message gets no regular answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Reject {
    /// No answer: the message is not a query, or too short for a client to match an answer to it.
    Drop,
    /// An empty answer with this code.
    Code(Rcode),
}

const MALFORMED: Reject = Reject::Code(Rcode::FORMERR);

impl<'m> Query<'m> {
    /// Parses a message. `name` provides the memory for its name.
    ///
    /// # Errors
    /// The response that the client gets instead of an answer.
    pub fn parse(bytes: &'m [u8], name: &'m mut Name) -> Result<Query<'m>, Reject> {
        let message = Message::from_slice(bytes).map_err(|_| Reject::Drop)?;
        // Never answered, or two servers could keep each other busy forever.
        if message.header().qr() {
            return Err(Reject::Drop);
        }
        if message.header().opcode() != Opcode::QUERY {
            return Err(Reject::Code(Rcode::NOTIMP));
        }
        let counts = message.header_counts();
        if counts.qdcount() != 1 || counts.ancount() != 0 || message.header().tc() {
            return Err(MALFORMED);
        }
        let (header, behind) = bytes.split_at(HEADER);
        let at = name.read(behind).ok_or(MALFORMED)?;
        let Some([t0, t1, c0, c1]) = behind[at..].first_chunk() else { return Err(MALFORMED) };
        let question = &behind[..at + 4];
        let mut parser = Parser::from_ref(bytes);
        parser.advance(HEADER + question.len()).map_err(|_| MALFORMED)?;
        let mut edns = None;
        for _ in 0..u32::from(counts.nscount()) + u32::from(counts.arcount()) {
            let record = ParsedRecord::parse(&mut parser).map_err(|_| MALFORMED)?;
            if record.rtype() == Rtype::OPT {
                if edns.is_some() {
                    return Err(MALFORMED);
                }
                edns = Some(read_edns(&record)?);
            }
        }
        let (qtype, class) = (u16::from_be_bytes([*t0, *t1]).into(), u16::from_be_bytes([*c0, *c1]).into());
        Ok(Query { header, question, name, qtype, class, edns })
    }
}

fn read_edns(record: &ParsedRecord<'_, [u8]>) -> Result<Edns, Reject> {
    let owner: ParsedName<_> = record.owner();
    if !owner.is_root() {
        return Err(MALFORMED);
    }
    let ttl = record.ttl().as_secs();
    let mut edns = Edns {
        payload: record.class().to_int(),
        version: (ttl >> 16) as u8,
        dnssec_ok: ttl & 0x8000 != 0,
        cookie: None,
        subnet: None,
    };
    let opt = record.to_record::<Opt<_>>().map_err(|_| MALFORMED)?.ok_or(MALFORMED)?;
    // Options of other versions are undefined.
    if edns.version != 0 {
        return Ok(edns);
    }
    for option in opt.data().iter::<domain::base::opt::UnknownOptData<_>>() {
        let option = option.map_err(|_| MALFORMED)?;
        let data: &[u8] = option.as_slice();
        match option.code() {
            OptionCode::COOKIE if edns.cookie.is_none() => {
                let mut parser = Parser::from_ref(data);
                let cookie = Cookie::parse(&mut parser).map_err(|_| MALFORMED)?;
                if parser.remaining() > 0 {
                    return Err(MALFORMED);
                }
                edns.cookie = Some(cookie);
            }
            OptionCode::CLIENT_SUBNET => edns.subnet = read_subnet(data)?,
            _ => {}
        }
    }
    Ok(edns)
}

/// Parses a client subnet (RFC 7871 sections 6 and 7.1.2): exactly the bytes of the prefix, zeros after it,
/// and scope 0. `None` if the client asks for privacy, or for an unknown address family.
fn read_subnet(data: &[u8]) -> Result<Option<Subnet>, Reject> {
    let [high, low, prefix, scope, address @ ..] = data else { return Err(MALFORMED) };
    let max = match u16::from_be_bytes([*high, *low]) {
        1 => 32,
        2 => 128,
        _ => return Ok(None),
    };
    if *prefix > max || *scope != 0 || address.len() != usize::from(*prefix).div_ceil(8) {
        return Err(MALFORMED);
    }
    if let Some(last) = address.last()
        && prefix % 8 != 0
        && last << (prefix % 8) != 0
    {
        return Err(MALFORMED);
    }
    let mut bits = [0; 16];
    bits[..address.len()].copy_from_slice(address);
    let address = if max == 32 {
        IpAddr::from(Ipv4Addr::new(bits[0], bits[1], bits[2], bits[3]))
    } else {
        IpAddr::from(Ipv6Addr::from(bits))
    };
    Ok((*prefix > 0).then_some(Subnet { address, prefix: *prefix }))
}
