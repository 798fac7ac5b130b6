//! The sans-io engine, driven as by the live proxy, but with bytes that arrive in any pieces. Shared by the property
//! test and the fuzzers.
// Each of them uses only a part of it.
#![allow(dead_code)]

use evenkeel_wire::endpoint_head::{self, EndpointHead, HeadParts};
use evenkeel_wire::head::Edits;
use evenkeel_wire::http1::chunked::{Keep, Taken};
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::{Body, Limits, Reject, Request, Response, Room, Version};
use evenkeel_wire::http1::{has_head, head_len};

/// Host for requests that name none.
pub const HOST: &[u8] = b"web";

/// Returns the head of a request as sent to an endpoint, with nothing added.
pub fn written(request: &Request<'_, '_>) -> Vec<u8> {
    let mut edits = Edits::default();
    if request.host.is_empty() {
        edits.set_host(HOST);
    }
    let connection = endpoint_head::Connection::of(request.upgrade, request.body_may_be_overlooked());
    let head = HeadParts::of(request).edited(&edits, [b"", b""]);
    let mut out = Vec::new();
    EndpointHead { head, added: [b"", b""], connection, scheme: "http", length: "", wants_trailers: false }
        .write(&mut out);
    out
}

/// A client that keeps its connection.
pub const KEPT: Towards = Towards { version: Version::V11, keep_alive: true };

/// State of a connection after all bytes received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stands {
    /// Between two messages, or inside a head.
    #[default]
    Head,
    /// Inside the body of a message.
    Body,
    /// All further bytes belong to the last message: until close, or after a switch.
    Open,
    /// Refused in a head: nothing of the message was forwarded.
    RefusedHead(Reject),
    /// Refused in a body, of which a part may have been forwarded.
    RefusedBody(Reject),
}

/// Result of the bytes of one direction of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Bytes that were forwarded.
    pub out: Vec<u8>,
    /// Content of the bodies, without any framing.
    pub content: Vec<u8>,
    /// Position of the end of each message in the received bytes.
    pub ends: Vec<usize>,
    /// State after the last byte.
    pub stands: Stands,
}

impl Relayed {
    /// True if `finer`, from the same bytes in smaller pieces, is the same to both peers. Of a body that is refused,
    /// smaller pieces may have forwarded more.
    pub fn agrees_with(&self, finer: &Relayed) -> bool {
        let same = self.stands == finer.stands && self.ends == finer.ends;
        match self.stands {
            Stands::RefusedBody(_) => {
                same && finer.out.starts_with(&self.out) && finer.content.starts_with(&self.content)
            }
            _ => same && self.out == finer.out && self.content == finer.content,
        }
    }
}

/// A connection's bytes in one direction.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    limits: Limits,
    /// Bytes received and not used yet.
    held: Vec<u8>,
    used: usize,
    body: Body,
    pub relayed: Relayed,
}

#[derive(Debug)]
enum Side {
    Requests,
    /// Contexts of the requests, in order; after the last, the default.
    Responses(std::vec::IntoIter<RequestContext>, Option<RequestContext>),
}

impl Connection {
    /// Returns the direction from a client.
    pub fn requests(limits: Limits) -> Connection {
        Connection::new(Side::Requests, limits)
    }

    /// Returns the direction from an endpoint that got these requests.
    pub fn responses(asked: Vec<RequestContext>, limits: Limits) -> Connection {
        Connection::new(Side::Responses(asked.into_iter(), None), limits)
    }

    fn new(side: Side, limits: Limits) -> Connection {
        Connection { side, limits, held: vec![], used: 0, body: Body::EMPTY, relayed: Relayed::default() }
    }

    /// Processes the pieces in which the bytes arrive.
    pub fn read<'a>(mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Relayed {
        for piece in pieces {
            self.held.extend_from_slice(piece);
            if let Err(refused) = self.go_on() {
                self.relayed.stands = refused;
                break;
            }
        }
        self.relayed
    }

    fn go_on(&mut self) -> Result<(), Stands> {
        loop {
            match self.relayed.stands {
                Stands::Head => {
                    let len = head_len(&self.held, &self.limits);
                    self.check_reading(len);
                    let Some(len) = len.map_err(Stands::RefusedHead)? else {
                        return Ok(());
                    };
                    self.relayed.stands = self.head(len).map_err(Stands::RefusedHead)?;
                    self.take(len);
                }
                Stands::Body => {
                    let Taken { used, kept, .. } = self.body_bytes().map_err(Stands::RefusedBody)?;
                    self.relayed.out.extend_from_slice(&self.held[..kept]);
                    self.take(used);
                    if !self.body.is_done() {
                        return Ok(());
                    }
                    self.relayed.ends.push(self.used);
                    self.relayed.stands = Stands::Head;
                }
                _ => {
                    self.relayed.out.append(&mut self.held);
                    return Ok(());
                }
            }
        }
    }

    /// Checks that the parser and the search for a head's end agree.
    fn check_reading(&self, len: Result<Option<usize>, Reject>) {
        let (held, limits) = (&self.held, &self.limits);
        let mut room = Room::new();
        let read = match self.side {
            Side::Requests => Request::read(held, &mut room, limits).map(|r| r.map(|r| r.head_len)),
            Side::Responses(..) => {
                Response::read(held, &mut room, RequestContext::default(), limits).map(|r| r.map(|r| r.head_len()))
            }
        };
        match (len, read) {
            (Ok(Some(_)), Err(_)) => {}
            (len, read) => assert_eq!(len, read),
        }
        assert_eq!(has_head(held, limits), len != Ok(None));
    }

    fn take(&mut self, n: usize) {
        self.held.drain(..n);
        self.used += n;
    }

    fn head(&mut self, len: usize) -> Result<Stands, Reject> {
        let (head, out) = (&self.held[..len], &mut self.relayed.out);
        let mut room = Room::new();
        match &mut self.side {
            Side::Requests => {
                let request = Request::read(head, &mut room, &self.limits)?.expect("its end was found");
                out.extend(written(&request));
                self.body = request.body.clone();
            }
            Side::Responses(all, now) => {
                let asked = now.take().or_else(|| all.next()).unwrap_or_default();
                let response = Response::read(head, &mut room, asked, &self.limits)?.expect("its end was found");
                match response.all_but(KEPT) {
                    Some(stretch) => out.extend([&head[..stretch.start], &head[stretch.end..]].concat()),
                    None => response.write(KEPT, b"", out),
                }
                self.body = response.body.clone();
                if response.is_interim() {
                    *now = Some(asked);
                    return Ok(Stands::Head);
                }
                if response.status == 101 {
                    return Ok(Stands::Open);
                }
            }
        }
        Ok(if self.body == Body::UntilClose { Stands::Open } else { Stands::Body })
    }

    fn body_bytes(&mut self) -> Result<Taken, Reject> {
        // Both ways to read a body must agree: the one that forwards it and the one that unpacks it.
        let (mut unpacking, mut content) = (self.body.clone(), self.held.clone());
        let unpacked = unpacking.advance(&mut content, Keep::Content);
        let taken = self.body.advance(&mut self.held, Keep::Framed);
        assert_eq!(unpacked.map(|u| u.used), taken.map(|t| t.used));
        assert!(taken.is_err() || self.body == unpacking);
        content.truncate(unpacked.map_or(0, |u| u.kept));
        self.relayed.content.append(&mut content);
        taken
    }
}

/// Returns `bytes` cut at `cuts`, which may be in any order and are taken modulo the length.
pub fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect()
}
