//! What is asked? One message to a [`Query`], or why it gets no proper answer. Reads strictly: a message that two readers
//! could take differently is malformed.
//!
//! Sources: RFC 1035 section 4, RFC 6891 (EDNS), RFC 7871 (client subnet), RFC 7873 (cookies), RFC 9619 (one question).

use domain::base::iana::{Class, Opcode, OptionCode, Rcode, Rtype};
use domain::base::name::ParsedName;
use domain::base::opt::{Cookie, Opt};
use domain::base::{Message, ParsedRecord};
use domain::dep::octseq::Parser;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header, behind which the question is.
pub const HEADER: usize = 12;
/// The longest name, and the longest label of one (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 255;
const LABEL_MAX: u8 = 63;

/// One question.
#[derive(Debug)]
pub struct Query<'m> {
    /// The header, as it came.
    pub header: &'m [u8],
    /// The question as it came: name, type and class.
    pub question: &'m [u8],
    /// The name in lower case.
    pub name: &'m Name,
    /// The type asked for.
    pub qtype: Rtype,
    /// The class.
    pub class: Class,
    /// What EDNS says, if it is there.
    pub edns: Option<Edns>,
}

/// What the OPT record of a query says.
#[derive(Debug)]
pub struct Edns {
    /// The largest datagram that the client takes.
    pub payload: u16,
    /// The version; only 0 is known.
    pub version: u8,
    /// Whether it wants signatures.
    pub dnssec_ok: bool,
    /// Its cookie.
    pub cookie: Option<Cookie>,
    /// The network of the client that a resolver asks for.
    pub subnet: Option<Subnet>,
}

/// A client's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its first address.
    pub address: IpAddr,
    /// How many bits of it count.
    pub prefix: u8,
}

/// A name in lower case and wire format.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_MAX + 1],
    len: u8,
}

impl Name {
    /// Room for one: its bytes are too many to be passed on by value.
    pub fn room() -> Name {
        Name { bytes: [0; NAME_MAX + 1], len: 0 }
    }

    /// Its bytes, the last of which is 0.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Reads the name that these bytes begin with; how long it is. It must be all there: in front of the first name is
    /// nothing that a pointer could point to.
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
        // Lengths of labels are below any letter. In steps of one size, which are one instruction for many bytes.
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

/// Why a message gets no proper answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Reject {
    /// No answer at all: the message is not a query, or too short for its answer to be matched to it.
    Drop,
    /// An empty answer with this code.
    Code(Rcode),
}

const MALFORMED: Reject = Reject::Code(Rcode::FORMERR);

impl<'m> Query<'m> {
    /// Reads one message. `name` is where its name will be.
    ///
    /// # Errors
    /// What the message gets instead.
    pub fn parse(bytes: &'m [u8], name: &'m mut Name) -> Result<Query<'m>, Reject> {
        let message = Message::from_slice(bytes).map_err(|_| Reject::Drop)?;
        // Never answered: two servers could keep each other busy for ever.
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
    // The meaning of other versions is not defined.
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

/// RFC 7871 section 6 and 7.1.2: exactly the bytes of the prefix, the rest of the last one 0, and a scope of 0. `None`: the
/// client asks for privacy, or the family of the address is unknown.
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
