//! Encoding of answers: records after the header and question of the query, as long as they fit. Names that
//! are suffixes of the question's name are pointers into it, which keeps the spelling of the query.

use crate::query::{HEADER, Query};
use domain::base::iana::{OptRcode, Rtype};
use std::net::IpAddr;

/// Class IN, of all records.
const IN: u16 = 1;

/// Owner name of a record, compressed if possible.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'n> {
    Asked,
    /// Suffix of the question's name, of this many bytes.
    End(usize),
    /// Another name, in wire format.
    Other(&'n [u8]),
}

/// Section of a message, after the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Records that answer the question.
    Answer = 0,
    /// Authority of the answer: SOA of a negative answer, or name servers.
    Authority = 1,
    /// Additional records that the client needs next.
    Additional = 2,
}

/// An answer under construction.
#[derive(Debug)]
pub struct Reply<'b> {
    out: &'b mut Vec<u8>,
    question: usize,
    limit: usize,
    counts: [u16; 3],
}

impl<'b> Reply<'b> {
    /// Starts an answer with header and question. `limit` is its largest size in bytes.
    pub fn to(query: &Query<'_>, limit: usize, out: &'b mut Vec<u8>) -> Reply<'b> {
        begin(query.header, out);
        out.extend_from_slice(query.question);
        out[5] = 1;
        let question = query.question.len();
        Reply { out, question, limit, counts: [0; 3] }
    }

    /// Sets the AA bit (authoritative answer).
    pub fn authoritative(&mut self) {
        self.out[2] |= 0x04;
    }

    /// Sets the lower four bits of the response code.
    pub fn code(&mut self, code: OptRcode) {
        self.out[3] = (self.out[3] & 0xf0) | (code.to_int() & 0x0f) as u8;
    }

    /// Adds a record whose data `data` writes. If it does not fit, returns false and adds nothing.
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
            // The question ends with type and class, 4 bytes.
            Owner::End(bytes) => self.out.extend_from_slice(&pointer(HEADER + self.question - 4 - bytes)),
            Owner::Other(name) => self.out.extend_from_slice(name),
        }
        let ([t0, t1], [c0, c1], [l0, l1, l2, l3]) =
            (rtype.to_int().to_be_bytes(), IN.to_be_bytes(), ttl.to_be_bytes());
        // A single slice including the length, because each append checks the capacity.
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

    /// Adds an A or AAAA record. False if it does not fit.
    pub fn push_address(&mut self, section: Section, owner: Owner<'_>, ttl: u32, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.push(section, owner, Rtype::A, ttl, |out| out.extend_from_slice(&ip.octets())),
            IpAddr::V6(ip) => self.push(section, owner, Rtype::AAAA, ttl, |out| out.extend_from_slice(&ip.octets())),
        }
    }

    /// Removes all records and sets the TC bit, so that the client retries over TCP.
    pub fn truncate(&mut self) {
        self.out.truncate(HEADER + self.question);
        self.out[2] |= 0x02;
        self.counts = [0; 3];
    }

    /// Completes the answer, with an OPT record if given.
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

/// OPT record of an answer (EDNS).
#[derive(Debug)]
pub struct OptRecord<'o> {
    /// Largest datagram that this server accepts, in bytes.
    pub payload: u16,
    /// Response code, of which the record holds the upper bits.
    pub code: OptRcode,
    /// DO bit, copied from the query.
    pub dnssec_ok: bool,
    pub options: &'o [u8],
}

impl OptRecord<'_> {
    /// Size without options, in bytes.
    pub const HEAD: usize = 11;
}

/// Writes an empty answer with a code, to a message that could not be parsed.
pub fn reject(message: &[u8], code: OptRcode, out: &mut Vec<u8>) {
    begin(&message[..HEADER], out);
    out[3] |= (code.to_int() & 0x0f) as u8;
}

/// Writes the header; id, opcode, RD and CD are copied from the query.
fn begin(header: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let [id0, id1, flags0, flags1] = [header[0], header[1], 0x80 | (header[2] & 0x79), header[3] & 0x10];
    out.extend_from_slice(&[id0, id1, flags0, flags1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

fn pointer(to: usize) -> [u8; 2] {
    (0xc000 | to as u16).to_be_bytes()
}
