//! An HTTP/1 request for an endpoint that takes messages: the body is unframed part by part, and the response is
//! framed: with a length if it is known, in chunks otherwise, and until the close for HTTP/1.0.

use crate::body::downstream::{ClientParts, Flow, Rest};
use crate::body::fault::Fault;
use crate::body::framing::{Framing, Reader, Unread, Writer};
use crate::body::part::Part;
use crate::serve::h1::H1;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::response::Towards;
use evenkeel_wire::http1::translate::write_response;
use evenkeel_wire::http1::{Body, Version};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, ready};

/// A request on an HTTP/1 client connection, seen in parts.
pub struct H1Parts<'h> {
    h1: &'h H1,
    flow: Flow<'h>,
    reader: RefCell<Reader>,
    writer: RefCell<Writer>,
    keep_alive: Cell<bool>,
}

impl<'h> H1Parts<'h> {
    /// Begins a request. `body` is the rest of its body, and `came` the bytes of it that were already read.
    pub fn new(h1: &'h H1, flow: Flow<'h>, body: Body, came: Buf) -> H1Parts<'h> {
        H1Parts {
            h1,
            flow,
            reader: Reader::new(body, came).into(),
            writer: Writer::new(Framing::Stated).into(),
            keep_alive: Cell::new(flow.towards.keep_alive),
        }
    }

    /// True if trailers can be sent to the client: it allows them and the response may be chunked.
    fn takes_trailers(&self) -> bool {
        self.h1.takes_trailers.get() && self.flow.towards.version == Version::V11
    }

    /// Chooses the framing of a final response, and states it.
    fn frame(&self, status: u16, fields: &Table, ends: bool) -> Stated {
        let flow = &self.flow;
        let length = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
        let length = length.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
        let is_bare = flow.asked.head || matches!(status, 204 | 304);
        let (stated, framing) = match length {
            _ if status == 101 => (Stated::Nothing, Framing::Tunnel),
            // A length leaves no place for the trailers that the endpoint announces.
            Some(_)
                if !is_bare
                    && !ends
                    && self.takes_trailers()
                    && fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"trailer")) =>
            {
                (Stated::Chunked, Framing::Chunks)
            }
            _ if status == 204 => (Stated::Nothing, Framing::Stated),
            Some(length) => (Stated::Length(length), Framing::Stated),
            None if is_bare => (Stated::Nothing, Framing::Stated),
            None if ends => (Stated::Length(0), Framing::Stated),
            None if flow.towards.version == Version::V10 => (Stated::Nothing, Framing::Close),
            None => (Stated::Chunked, Framing::Chunks),
        };
        self.writer.borrow_mut().begin(framing, &self.h1.transport);
        // A final response before the end of its request, unless it is a success that may need the rest: the rest is
        // not read. If the client need not send the rest, its next bytes could be either.
        let early = flow.body_due.get() && (status >= 300 || ends || flow.awaits_continue.get());
        if early || matches!(framing, Framing::Close | Framing::Tunnel) || flow.is_ending() {
            self.keep_alive.set(false);
        }
        stated
    }
}

impl ClientParts for H1Parts<'_> {
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        let on_framing = |n| self.flow.count_in(n);
        let part = ready!(self.reader.borrow_mut().poll_part(&self.h1.transport, cx, on_framing));
        Poll::Ready(part.map_err(|unread| match unread {
            Unread::Closed => Fault::ClientGone,
            Unread::Malformed(reject) => Fault::Request(reject),
        }))
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.writer.borrow_mut().poll_room(&self.h1.transport, cx).map_err(|_| Fault::ClientGone)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.writer.borrow_mut().poll_flush(&self.h1.transport, cx).map_err(|_| Fault::ClientGone)
    }

    fn send_head(&self, mut status: u16, mut fields: Table, ends: bool) -> u16 {
        let version = self.flow.towards.version;
        if (200..300).contains(&status)
            && let Some(accept) = self.h1.websocket.take()
        {
            // HTTP/2 accepts a tunnel with a 2xx, HTTP/1 with a switch of protocols.
            status = 101;
            accept.push(&mut fields);
        }
        let is_interim = status < 200 && status != 101;
        if is_interim && version == Version::V10 {
            return status;
        }
        let framing = if is_interim { Stated::Nothing } else { self.frame(status, &fields, ends) };
        let towards = Towards { version, keep_alive: self.keep_alive.get() };
        let mut head = self.flow.core.scratch();
        write_response(status, &fields, framing, towards, &mut head);
        self.writer.borrow_mut().push(&head);
        self.flow.core.give_back(head);
        status
    }

    fn send(&self, part: Part) {
        self.writer.borrow_mut().send(part, self.takes_trailers());
    }

    fn begin_tunnel(&self) {
        self.reader.borrow_mut().begin(Body::UntilClose);
    }

    fn into_rest(self) -> Option<Rest> {
        let Reader { body, came, .. } = self.reader.into_inner();
        Some(Rest { body, behind: came, keep_alive: self.keep_alive.get() })
    }
}
