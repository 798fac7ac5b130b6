//! How does a request of HTTP/1 go to an endpoint that takes messages? Its body is taken out of its framing part by part, and the
//! response gets one: a length where that is known, chunks otherwise, and for HTTP/1.0 the end of the connection.

use crate::body::downstream::{ClientParts, Flow, Rest};
use crate::body::fault::Fault;
use crate::body::part::Part;
use crate::serve::h1::{H1, trailing};
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::chunked::{Keep, may_trail};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::response::Towards;
use evenkeel_wire::http1::translate::write_response;
use evenkeel_wire::http1::{Body, Version};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

/// What may wait to be written before more is asked for: heads.
const UNWRITTEN_MAX: usize = 4 * 1024;

/// One request on a connection that speaks HTTP/1, in parts.
pub struct H1Parts<'h> {
    h1: &'h H1,
    flow: Flow<'h>,
    /// What of the request's body is still to come.
    body: RefCell<Body>,
    /// What came and was not taken yet.
    came: RefCell<Buf>,
    going: RefCell<Going>,
    framing: Cell<Framing>,
    keep_alive: Cell<bool>,
}

/// What is to be written.
#[derive(Default)]
struct Going {
    /// Framing that goes before the next data.
    front: Vec<u8>,
    queue: VecDeque<Buf>,
}

/// How the client finds the end of the response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Its head says it.
    Stated,
    Chunks,
    Close,
}

impl<'h> H1Parts<'h> {
    /// The request of `flow`, of whose body this is still to come, and `came` already.
    pub fn new(h1: &'h H1, flow: Flow<'h>, body: Body, came: Buf) -> H1Parts<'h> {
        H1Parts {
            h1,
            flow,
            body: body.into(),
            came: came.into(),
            going: RefCell::default(),
            framing: Cell::new(Framing::Stated),
            keep_alive: Cell::new(flow.towards.keep_alive),
        }
    }

    /// Whether the client takes trailers.
    fn takes_trailers(&self) -> bool {
        self.h1.takes_trailers.get() && self.flow.towards.version == Version::V11
    }

    fn write(&self, bytes: &[u8]) {
        self.going.borrow_mut().front.extend_from_slice(bytes);
    }

    /// The framing of a final response.
    fn frame(&self, status: u16, fields: &Table, ends: bool) -> Stated {
        let flow = &self.flow;
        let length = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
        let length = length.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
        let is_bare = flow.asked.head || matches!(status, 204 | 304);
        let (stated, framing) = match length {
            _ if status == 101 => (Stated::Nothing, Framing::Close),
            // Behind a length there is no place for trailers, which the endpoint says will come.
            Some(_)
                if !is_bare && !ends && self.takes_trailers() && fields.iter().any(|(name, _)| name == b"trailer") =>
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
        self.framing.set(framing);
        // A response before the end of its request, and not one that goes on with it: the rest of the request is not read.
        let early = flow.body_due.get() && (status >= 300 || ends);
        if early || framing == Framing::Close || flow.is_ending() {
            self.keep_alive.set(false);
        }
        stated
    }
}

impl ClientParts for H1Parts<'_> {
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        let (mut body, mut came) = (self.body.borrow_mut(), self.came.borrow_mut());
        loop {
            if body.is_done() {
                let trailers = if let Body::Chunked(chunked) = &mut *body { chunked.take_trailers() } else { None };
                let table = trailing(&trailers.unwrap_or_default());
                return Poll::Ready(Ok(if table.is_empty() { Part::End } else { Part::Trailers(table) }));
            }
            if came.is_empty() {
                let read = ready!(self.h1.transport.poll_read_into(cx, Buf::take));
                let (n, buf) = read.map_err(|_| Fault::ClientGone)?;
                if n == 0 {
                    return Poll::Ready(if body.may_end() { Ok(Part::End) } else { Err(Fault::ClientGone) });
                }
                *came = buf;
            }
            let taken = came.take_body(0, &mut body, Keep::Content).map_err(Fault::Request)?;
            self.flow.count_in(taken.used - taken.kept);
            if taken.kept > 0 {
                let behind = if taken.kept < came.len() { came.split_behind(taken.kept) } else { Buf::none() };
                return Poll::Ready(Ok(Part::Data(std::mem::replace(&mut came, behind))));
            }
        }
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let going = self.going.borrow();
        if going.queue.is_empty() && going.front.len() <= UNWRITTEN_MAX {
            return Poll::Ready(Ok(()));
        }
        drop(going);
        self.poll_flush(cx)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let mut going = self.going.borrow_mut();
        let going = &mut *going;
        loop {
            if let Some(buf) = going.queue.front_mut() {
                while !buf.is_empty() {
                    let n = ready!(self.h1.transport.poll_write(cx, buf.filled())).map_err(|_| Fault::ClientGone)?;
                    buf.consume(n);
                }
                going.queue.pop_front();
                continue;
            }
            if going.front.is_empty() {
                return self.h1.transport.poll_flush(cx).map_err(|_| Fault::ClientGone);
            }
            let n = ready!(self.h1.transport.poll_write(cx, &going.front)).map_err(|_| Fault::ClientGone)?;
            going.front.drain(..n);
        }
    }

    fn send_head(&self, mut status: u16, mut fields: Table, ends: bool) {
        let version = self.flow.towards.version;
        if (200..300).contains(&status)
            && let Some(accept) = self.h1.websocket.take()
        {
            // A tunnel of HTTP/2 begins with a success, one of HTTP/1 with a switch.
            status = 101;
            accept.push(&mut fields);
            self.flow.status.set(status);
        }
        let is_interim = status < 200 && status != 101;
        if is_interim && version == Version::V10 {
            return;
        }
        let framing = if is_interim { Stated::Nothing } else { self.frame(status, &fields, ends) };
        let towards = Towards { version, keep_alive: self.keep_alive.get() };
        let core = self.flow.core;
        let mut head = core.scratch();
        write_response(status, &fields, framing, towards, &mut head);
        self.write(&head);
        core.give_back(head);
        // Where only the close tells the client of the end, a cut must not look like one.
        if self.framing.get() == Framing::Close {
            self.h1.transport.reset_on_close(true);
        }
    }

    fn send(&self, part: Part) {
        match (part, self.framing.get()) {
            (Part::Data(mut buf), framing) => {
                let is_chunk = framing == Framing::Chunks;
                if is_chunk {
                    self.write(format!("{:x}\r\n", buf.len()).as_bytes());
                }
                let mut going = self.going.borrow_mut();
                let going = &mut *going;
                if !buf.replace_front(0, &going.front) {
                    for piece in going.front.chunks(evenkeel_net::buffer::CAPACITY) {
                        going.queue.push_back(Buf::holding(piece));
                    }
                }
                going.front.clear();
                let fits = !is_chunk || buf.extend(b"\r\n");
                going.queue.push_back(buf);
                if !fits {
                    going.front.extend_from_slice(b"\r\n");
                }
            }
            (Part::Trailers(trailers), Framing::Chunks) => {
                self.write(b"0\r\n");
                for (name, value) in trailers.iter().filter(|(name, _)| self.takes_trailers() && may_trail(name)) {
                    [name, b": ", value, b"\r\n"].into_iter().for_each(|bytes| self.write(bytes));
                }
                self.write(b"\r\n");
                // The end was just said.
                self.framing.set(Framing::Stated);
            }
            (Part::Trailers(_), _) => {}
            (Part::End, Framing::Chunks) => self.write(b"0\r\n\r\n"),
            (Part::End, Framing::Close) => self.h1.transport.reset_on_close(false),
            (Part::End, Framing::Stated) => {}
        }
    }

    fn into_rest(self) -> Option<Rest> {
        let (body, behind) = (self.body.into_inner(), self.came.into_inner());
        Some(Rest { body, behind, keep_alive: self.keep_alive.get() })
    }
}
