//! How is an answer written? Records behind the header and the question of the query, as long as they fit. Names that end
//! the asked one are pointers into it, so that its case stays as it was asked.

use crate::query::{HEADER, Query};
use domain::base::iana::{OptRcode, Rtype};
use std::net::IpAddr;

/// The class of all that we say.
const IN: u16 = 1;

/// Whose record it is.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'n> {
    /// The name that was asked for.
    Asked,
    /// The name that the last so many bytes of it are.
    End(usize),
    /// Another one, in wire format.
    Other(&'n [u8]),
}

/// The section of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What was asked for.
    Answer = 0,
    /// Who knows it, or why it is not there.
    Authority = 1,
    /// What will be asked for next.
    Additional = 2,
}

/// An answer in the making.
#[derive(Debug)]
pub struct Reply<'b> {
    out: &'b mut Vec<u8>,
    question: usize,
    limit: usize,
    counts: [u16; 3],
}

impl<'b> Reply<'b> {
    /// Header and question. `limit`: the most bytes it may have.
    pub fn to(query: &Query<'_>, limit: usize, out: &'b mut Vec<u8>) -> Reply<'b> {
        begin(query.header, out);
        out.extend_from_slice(query.question);
        out[5] = 1;
        let question = query.question.len();
        Reply { out, question, limit, counts: [0; 3] }
    }

    /// Says that we are the ones to ask.
    pub fn authoritative(&mut self) {
        self.out[2] |= 0x04;
    }

    /// The lower four bits of the code.
    pub fn code(&mut self, code: OptRcode) {
        self.out[3] = (self.out[3] & 0xf0) | (code.to_int() & 0x0f) as u8;
    }

    /// Adds a record whose data `data` writes. Whether it fits; if not, nothing is added.
    pub fn push(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Rtype,
        ttl: u32,
        data: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let begin = self.out.len();
        match owner {
            Owner::Asked => self.out.extend_from_slice(&pointer(HEADER)),
            // The question ends with its type and class.
            Owner::End(bytes) => self.out.extend_from_slice(&pointer(HEADER + self.question - 4 - bytes)),
            Owner::Other(name) => self.out.extend_from_slice(name),
        }
        let ([t0, t1], [c0, c1], [l0, l1, l2, l3]) =
            (rtype.to_int().to_be_bytes(), IN.to_be_bytes(), ttl.to_be_bytes());
        // In one piece with room for the length, as each piece asks whether there is room.
        self.out.extend_from_slice(&[t0, t1, c0, c1, l0, l1, l2, l3, 0, 0]);
        let data_at = self.out.len();
        data(self.out);
        if self.out.len() > self.limit {
            self.out.truncate(begin);
            return false;
        }
        let written = (self.out.len() - data_at) as u16;
        self.out[data_at - 2..data_at].copy_from_slice(&written.to_be_bytes());
        self.counts[section as usize] += 1;
        true
    }

    /// Adds an A or AAAA record. Whether it fits.
    pub fn push_address(&mut self, section: Section, owner: Owner<'_>, ttl: u32, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.push(section, owner, Rtype::A, ttl, |out| out.extend_from_slice(&ip.octets())),
            IpAddr::V6(ip) => self.push(section, owner, Rtype::AAAA, ttl, |out| out.extend_from_slice(&ip.octets())),
        }
    }

    /// Takes all records back, and asks the client to come by TCP.
    pub fn truncate(&mut self) {
        self.out.truncate(HEADER + self.question);
        self.out[2] |= 0x02;
        self.counts = [0; 3];
    }

    /// Ends it, with the OPT record if there is one.
    pub fn finish(mut self, opt: Option<OptRecord<'_>>) {
        if let Some(OptRecord { payload, code, dnssec_ok, options }) = opt {
            self.out.push(0);
            self.out.extend_from_slice(&Rtype::OPT.to_int().to_be_bytes());
            self.out.extend_from_slice(&payload.to_be_bytes());
            self.out.extend_from_slice(&[(code.to_int() >> 4) as u8, 0, u8::from(dnssec_ok) << 7, 0]);
            self.out.extend_from_slice(&(options.len() as u16).to_be_bytes());
            self.out.extend_from_slice(options);
            self.counts[Section::Additional as usize] += 1;
        }
        let counts = self.counts.map(u16::to_be_bytes);
        self.out[6..HEADER].copy_from_slice(counts.as_flattened());
    }
}

/// What is said by EDNS.
#[derive(Debug)]
pub struct OptRecord<'o> {
    /// The largest datagram that we take.
    pub payload: u16,
    /// The code, of which it has the upper bits.
    pub code: OptRcode,
    /// As it was asked.
    pub dnssec_ok: bool,
    /// Options in wire format.
    pub options: &'o [u8],
}

impl OptRecord<'_> {
    /// Bytes that it takes without options.
    pub const HEAD: usize = 11;
}

/// A header of an empty answer with a code, for what could not be read.
pub fn reject(message: &[u8], code: OptRcode, out: &mut Vec<u8>) {
    begin(&message[..HEADER], out);
    out[3] |= (code.to_int() & 0x0f) as u8;
}

/// Writes the header: id, opcode, RD and CD are those of the query.
fn begin(header: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let [id0, id1, flags0, flags1] = [header[0], header[1], 0x80 | (header[2] & 0x79), header[3] & 0x10];
    out.extend_from_slice(&[id0, id1, flags0, flags1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

fn pointer(to: usize) -> [u8; 2] {
    (0xc000 | to as u16).to_be_bytes()
}
