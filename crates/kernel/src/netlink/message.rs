//! Messages of netlink: a header, and a payload of the protocol. Errors that the kernel answers with.

use super::attributes::{Attributes, aligned};
use rustix::io::Errno;
use std::fmt;

/// Bytes of the header of a message.
const HEAD: usize = 16;
/// Kinds of message that belong to netlink itself.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Flags of an answer, `NLM_F_*` of linux/netlink.h.
const DUMP_INTERRUPTED: u16 = 0x10;
const CAPPED: u16 = 0x100;
const HAS_ATTRIBUTES: u16 = 0x200;
/// Attribute of an error: its text.
const ERROR_TEXT: u16 = 1;

/// Answer of the kernel to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u16,
    /// Header of the family, and attributes.
    pub payload: Vec<u8>,
}

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The kernel refuses the request, with its text if any.
    Refused(Errno, Option<String>),
    /// The socket fails, or has no answer in time.
    Socket(Errno),
    /// The answer is not well formed.
    Malformed,
    /// Rows may be missing or doubled: they changed while they were read.
    Interrupted,
}

impl Error {
    /// Returns true if the kernel answered with this number.
    pub fn is(&self, errno: Errno) -> bool {
        matches!(self, Error::Refused(refused, _) if *refused == errno)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(errno, None) => write!(f, "{errno}"),
            Error::Refused(errno, Some(text)) => write!(f, "{text} ({errno})"),
            Error::Socket(errno) => write!(f, "the netlink socket failed: {errno}"),
            Error::Malformed => f.write_str("the kernel's answer is not well formed"),
            Error::Interrupted => f.write_str("it changed while it was read"),
        }
    }
}

impl std::error::Error for Error {}

pub(super) fn write(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEAD + payload.len()).expect("payloads are made of attributes, which are bounded");
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes()); // the kernel knows the socket's port
    bytes.extend_from_slice(payload);
    bytes
}

/// Message in a datagram of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received<'b> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub payload: &'b [u8],
}

/// Meaning of a message for the request that it answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Content,
    /// The last message of the answer.
    End(Result<(), Error>),
}

impl Received<'_> {
    pub(super) fn meaning(&self) -> Meaning {
        match self.kind {
            // Acknowledgements are errors of number 0. A dump ends with the same number.
            ERROR | DONE => Meaning::End(self.result()),
            _ => Meaning::Content,
        }
    }

    /// Returns true if the kernel says that a dump is not consistent.
    pub(super) fn interrupted(&self) -> bool {
        self.flags & DUMP_INTERRUPTED != 0
    }

    fn result(&self) -> Result<(), Error> {
        let Some((number, rest)) = self.payload.split_first_chunk::<4>() else {
            // Old kernels end a dump without a number.
            return if self.kind == DONE { Ok(()) } else { Err(Error::Malformed) };
        };
        let number = i32::from_ne_bytes(*number);
        if number == 0 || self.kind == DONE && number > 0 {
            return Ok(());
        }
        // The kernel's numbers are negative values of errno.
        if !(-4095..0).contains(&number) {
            return Err(Error::Malformed);
        }
        Err(Error::Refused(Errno::from_raw_os_error(-number), self.text(rest)))
    }

    /// Returns the text of an error; `rest` follows the number.
    fn text(&self, rest: &[u8]) -> Option<String> {
        if self.flags & HAS_ATTRIBUTES == 0 {
            return None;
        }
        // An error repeats the request, or only its header; the end of a dump does not.
        let repeated = match self.kind {
            DONE => 0,
            _ if self.flags & CAPPED != 0 => HEAD,
            _ => u32::from_ne_bytes(*rest.first_chunk::<4>()?) as usize,
        };
        Some(Attributes::after(repeated, rest).first(ERROR_TEXT)?.text()?.to_owned())
    }
}

/// Messages of a datagram; `None` in place of the first malformed message, and then the end.
pub(super) struct Messages<'b>(pub &'b [u8]);

impl<'b> Iterator for Messages<'b> {
    type Item = Option<Received<'b>>;

    fn next(&mut self) -> Option<Option<Received<'b>>> {
        if self.0.is_empty() {
            return None;
        }
        let message = read(self.0);
        self.0 = match &message {
            Some(message) => self.0.get(aligned(HEAD + message.payload.len())..).unwrap_or_default(),
            None => &[],
        };
        Some(message)
    }
}

fn read(bytes: &[u8]) -> Option<Received<'_>> {
    let head = bytes.first_chunk::<HEAD>()?;
    let long = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let short = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let payload = bytes.get(HEAD..usize::try_from(long(0)).ok()?)?;
    Some(Received { kind: short(4), flags: short(6), sequence: long(8), payload })
}

#[cfg(test)]
mod tests {
    use super::super::attributes::Payload;
    use super::*;
    use proptest::prelude::*;

    fn only(bytes: &[u8]) -> Received<'_> {
        let mut messages = Messages(bytes);
        let message = messages.next().expect("there is one").expect("it is well formed");
        assert!(messages.next().is_none());
        message
    }

    /// Writes the answer to a request of 20 bytes.
    fn refusal(kind: u16, flags: u16, number: i32, repeated: &[u8], text: &str) -> Vec<u8> {
        let mut attributes = Payload::new(&[]);
        attributes.push_text(ERROR_TEXT, text);
        write(kind, flags, 1, &[&number.to_ne_bytes(), repeated, attributes.bytes()].concat())
    }

    #[test]
    fn an_acknowledgement_is_no_error() {
        let bytes = write(ERROR, 0, 5, &[&0i32.to_ne_bytes()[..], &[0; 16]].concat());
        assert_eq!(only(&bytes).sequence, 5);
        assert_eq!(only(&bytes).meaning(), Meaning::End(Ok(())));
    }

    #[test]
    fn an_error_has_the_text_of_the_kernel() {
        let request = write(0x20, 5, 1, &[1, 1, 0, 0]);
        let refused = |text: &str| Meaning::End(Err(Error::Refused(Errno::NOENT, Some(text.to_owned()))));
        let whole = refusal(ERROR, HAS_ATTRIBUTES, -2, &request, "no such family");
        assert_eq!(only(&whole).meaning(), refused("no such family"));
        let capped = refusal(ERROR, HAS_ATTRIBUTES | CAPPED, -2, &request[..HEAD], "no such scheduler");
        assert_eq!(only(&capped).meaning(), refused("no such scheduler"));
        let dump = refusal(DONE, HAS_ATTRIBUTES, -2, &[], "no such table");
        assert_eq!(only(&dump).meaning(), refused("no such table"));
        let silent = refusal(ERROR, CAPPED, -2, &request[..HEAD], "not marked");
        assert_eq!(only(&silent).meaning(), Meaning::End(Err(Error::Refused(Errno::NOENT, None))));
    }

    #[test]
    fn a_number_that_is_no_errno_is_malformed() {
        for number in [1, -4096, i32::MIN, i32::MAX] {
            let bytes = write(ERROR, 0, 1, &number.to_ne_bytes());
            assert_eq!(only(&bytes).meaning(), Meaning::End(Err(Error::Malformed)), "{number}");
        }
    }

    proptest! {
        #[test]
        fn messages_survive(sent in prop::collection::vec((16u16.., any::<u16>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..9)) {
            let mut bytes = Vec::new();
            for (kind, flags, sequence, payload) in &sent {
                bytes.extend(write(*kind, *flags, *sequence, payload));
                bytes.resize(aligned(bytes.len()), 0);
            }
            let read: Vec<_> = Messages(&bytes).map(|message| message.expect("well formed"))
                .map(|message| (message.kind, message.flags, message.sequence, message.payload.to_vec())).collect();
            prop_assert_eq!(read, sent);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(kind in 0u16..5, flags in any::<u16>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for message in Messages(&bytes).flatten() {
                let _ = message.meaning();
            }
            let _ = only(&write(kind, flags, 0, &bytes)).meaning();
        }
    }
}
