//! Batches of nfnetlink: requests that the kernel carries out all or none.

use super::attributes::Payload;
use super::message::{self, Error, Meaning, Messages};
use super::socket::{ACK, NETFILTER, REQUEST, Socket};

/// Messages around the requests of a batch, `NFNL_MSG_BATCH_*` of linux/netfilter/nfnetlink.h.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

/// Place of the flags in the header of a message.
const FLAGS_AT: usize = 6;

/// Bytes of a request before its attributes, `struct nfgenmsg`.
const FAMILY_HEAD: usize = 4;

/// Requests to a subsystem of nfnetlink.
#[derive(Debug)]
pub struct Batch {
    subsystem: u8,
    bytes: Vec<u8>,
    /// Place of the last request, and its number: requests count from 1, the messages around them have 0.
    last: usize,
    requests: u32,
}

/// Error of the kernel for a batch, of which it has carried nothing out.
#[derive(Debug)]
pub struct Refused<'b> {
    pub error: Error,
    /// Kind of the first request that is refused, without its subsystem, and its attributes; `None` if the batch is as
    /// a whole.
    pub request: Option<(u8, &'b [u8])>,
}

impl Batch {
    /// Begins a batch to a subsystem, `NFNL_SUBSYS_*`.
    pub fn new(subsystem: u8) -> Batch {
        let begin = message::write(BEGIN, REQUEST, 0, &header(0, subsystem));
        Batch { subsystem, bytes: begin, last: 0, requests: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Adds a request. `family`: `NFPROTO_*`.
    pub fn push(&mut self, kind: u8, flags: u16, family: u8, attributes: &Payload) {
        self.last = self.bytes.len();
        self.requests += 1;
        let kind = u16::from(self.subsystem) << 8 | u16::from(kind);
        let payload = [&header(family, 0), attributes.bytes()].concat();
        self.bytes.extend(message::write(kind, flags | REQUEST, self.requests, &payload));
    }

    /// Has the kernel carry the requests out.
    ///
    /// # Errors
    /// The kernel refuses a request, and has carried none out; the socket fails.
    pub fn commit(&mut self) -> Result<(), Refused<'_>> {
        let end = message::write(END, REQUEST, 0, &header(0, self.subsystem));
        self.send(&end)
    }

    /// Has the kernel test the requests, and change nothing.
    ///
    /// # Errors
    /// Like [`commit`](Self::commit).
    pub fn check(&mut self) -> Result<(), Refused<'_>> {
        // The kernel undoes a batch without an end.
        self.send(&[])
    }

    fn send(&mut self, end: &[u8]) -> Result<(), Refused<'_>> {
        if self.is_empty() {
            return Ok(());
        }
        // The answer to the last request is the last answer.
        let flags = FLAGS_AT + self.last;
        if let Some(low) = self.bytes.get_mut(flags..flags + 2) {
            let with_ack = u16::from_ne_bytes([low[0], low[1]]) | ACK;
            low.copy_from_slice(&with_ack.to_ne_bytes());
        }
        let len = self.bytes.len();
        self.bytes.extend_from_slice(end);
        let result = exchange(&self.bytes, self.requests);
        self.bytes.truncate(len);
        result.map_err(|(number, error)| Refused { error, request: number.and_then(|number| self.request(number)) })
    }

    /// Request with this number.
    fn request(&self, number: u32) -> Option<(u8, &[u8])> {
        let found = Messages(&self.bytes).flatten().find(|message| message.sequence == number && number > 0)?;
        Some((found.kind as u8, found.payload.get(FAMILY_HEAD..)?))
    }
}

/// Header of a request, `struct nfgenmsg`. `resource`: the subsystem for the messages around a batch.
fn header(family: u8, resource: u8) -> [u8; FAMILY_HEAD] {
    [family, 0, 0, resource]
}

/// Sends a batch, and waits for the answer to its last request. Returns the first error, with the number of its
/// request.
fn exchange(batch: &[u8], last: u32) -> Result<(), (Option<u32>, Error)> {
    // A separate socket, on which no answers to earlier batches can arrive.
    let mut socket = Socket::open(NETFILTER).map_err(|error| (None, error))?;
    socket.send_large(batch).map_err(|error| (None, error))?;
    let mut first = None;
    loop {
        let datagram = match socket.receive() {
            Ok(datagram) => datagram,
            // More errors than the socket holds.
            Err(error) => return Err(first.unwrap_or((None, error))),
        };
        for message in Messages(datagram) {
            let message = message.ok_or((None, Error::Malformed))?;
            let result = match message.meaning() {
                Meaning::End(result) => result,
                Meaning::Content => continue,
            };
            if let Err(error) = result {
                let number = Some(message.sequence).filter(|number| *number > 0);
                first.get_or_insert((number, error));
            }
            // An error of the batch as a whole, such as a lack of permission, ends it without further answers.
            if message.sequence == last || message.sequence == 0 {
                return first.map_or(Ok(()), Err);
            }
        }
    }
}
