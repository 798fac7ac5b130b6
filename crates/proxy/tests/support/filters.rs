//! Filters for tests. A filter is built for listeners whose name begins with its name.

use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::yield_now;
use evenkeel_proxy::row::{Build, Key, LooksAt, Row, Stage};
use evenkeel_proxy::{
    BodyFilter, Ended, Exchange, Filter, Own, Pace, Pure, RequestHead, Response, ResponseHead, Step, Unfit, Verdict,
};
use evenkeel_wire::head::{Request, Table};
use std::cell::Cell;

const HEADS: LooksAt = LooksAt { responses: true, bodies: false, open_bodies: false, copied_bodies: false };
const BODIES: LooksAt = LooksAt { responses: false, bodies: true, open_bodies: false, copied_bodies: false };

/// The filters, in the order in which requests pass them.
pub static FILTERS: &[Row] = &[
    Row {
        name: "waits",
        stage: Stage::Listener,
        key: Key::Always,
        summary: "Waits.",
        looks_at: HEADS,
        resources: &[],
        build: waits,
    },
    Row {
        name: "heads",
        stage: Stage::Route,
        key: Key::Always,
        summary: "Changes heads.",
        looks_at: HEADS,
        resources: &[],
        build: heads,
    },
    Row {
        name: "bodies",
        stage: Stage::Route,
        key: Key::Always,
        summary: "Changes bodies.",
        looks_at: BODIES,
        resources: &[],
        build: bodies,
    },
    Row {
        name: "replaces",
        stage: Stage::Route,
        key: Key::Always,
        summary: "Replaces.",
        looks_at: HEADS,
        resources: &[],
        build: replaces,
    },
    Row {
        name: "parts",
        stage: Stage::Route,
        key: Key::Always,
        summary: "Wants bodies.",
        looks_at: BODIES,
        resources: &[],
        build: parts,
    },
    Row {
        name: "panics",
        stage: Stage::Route,
        key: Key::Always,
        summary: "Panics.",
        looks_at: BODIES,
        resources: &[],
        build: panics,
    },
];

fn is_for(build: &Build<'_>, name: &str) -> bool {
    build.listener.name.starts_with(name)
}

/// Changes the heads of requests and responses.
struct Heads;

fn heads(build: &Build<'_>) -> Option<Step> {
    is_for(build, "heads").then(|| Box::new(Heads) as _)
}

impl Filter for Heads {
    type State = ();

    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if head.request.path() == "/refused" {
            return Verdict::Answer(Response::new(403, "not here").with("X-Why", "filter"));
        }
        let target = format!("/under{}", head.request.target);
        head.edits.set_target(&target);
        head.edits.set_host(b"endpoint.example");
        head.request.fields.leave_out("x-secret");
        head.edits.add("X-Seen", b"yes");
        Verdict::Next
    }

    fn response(&self, _: &mut Own<()>, _: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        head.fields.leave_out("server");
        let of = if head.outcome.is_some() { "endpoint" } else { "here" };
        head.added.extend_from_slice(format!("X-Of: {of} {}\r\n", head.status).as_bytes());
    }
}

impl Pure for Heads {}

/// Waits for some turns of the worker, and then answers or continues, as the request's fields ask.
struct Waits;

fn waits(build: &Build<'_>) -> Option<Step> {
    is_for(build, "waits").then(|| Box::new(Waits) as _)
}

impl Filter for Waits {
    type State = ();

    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let times: usize = head.request.field("x-wait").and_then(number).unwrap_or(1);
        if head.request.path() == "/forever" {
            return Verdict::Wait(Box::pin(std::future::pending()));
        }
        let turns = async move {
            for _ in 0..times {
                yield_now().await;
            }
        };
        Waits::wait(turns, move |(), _, _, head| {
            if head.request.field("authorization").is_none() {
                return Verdict::Answer(Response::new(401, "who are you?"));
            }
            head.edits.add("X-User", format!("after {times}").as_bytes());
            Verdict::Next
        })
    }

    fn response(&self, _: &mut Own<()>, _: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        head.added.extend_from_slice(b"X-Waited: yes\r\n");
    }
}

impl Pure for Waits {}

fn number(value: &[u8]) -> Option<usize> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Replaces 304, 404 and 502 by a response of as many bytes as the request asks for.
struct Replaces(Cell<usize>);

fn replaces(build: &Build<'_>) -> Option<Step> {
    is_for(build, "replaces").then(|| Box::new(Replaces(Cell::new(0))) as _)
}

impl Filter for Replaces {
    type State = ();

    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        self.0.set(head.request.field("x-size").and_then(number).unwrap_or(0));
        Verdict::Next
    }

    fn response(&self, _: &mut Own<()>, _: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if matches!(head.status, 304 | 404 | 502) {
            let page = Response::page("text/plain", vec![b'x'; self.0.get()]);
            head.instead = Some(page.with("X-Instead-Of", &head.status.to_string()).into());
        }
        head.added.extend_from_slice(format!("X-Of: {}\r\n", head.status).as_bytes());
    }
}

impl Pure for Replaces {}

/// Makes bodies pass in parts, unchanged.
struct Parts;

fn parts(build: &Build<'_>) -> Option<Step> {
    build.listener.name.ends_with("parts").then(|| Box::new(Parts) as _)
}

impl Filter for Parts {
    type State = ();
}

impl Pure for Parts {}

/// Panics at a `!` in the body of a response.
struct Panics;

fn panics(build: &Build<'_>) -> Option<Step> {
    is_for(build, "panics").then(|| Box::new(Panics) as _)
}

impl Filter for Panics {
    type State = ();

    fn response_body(
        &self,
        _: &mut Own<()>,
        _: &Exchange<'_>,
        _: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        Some(Box::new(Panics))
    }
}

impl Pure for Panics {}

impl BodyFilter for Panics {
    fn keeps_length(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        assert!(!from.filled().contains(&b'!'), "the test wants a panic");
        let len = to.extend_some(from.filled());
        from.consume(len);
        Ok(Pace::On)
    }
}

/// Doubles each byte of a body, and appends the number of bytes that came, also in a trailer. A body with a `!` is
/// rejected.
struct Bodies;

fn bodies(build: &Build<'_>) -> Option<Step> {
    is_for(build, "bodies").then(|| Box::new(Bodies) as _)
}

impl Filter for Bodies {
    type State = ();

    fn request_body(&self, _: &mut Own<()>, _: &Exchange<'_>, _: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>> {
        Some(Box::new(Twice { came: 0 }))
    }

    fn response_body(
        &self,
        _: &mut Own<()>,
        _: &Exchange<'_>,
        _: &ResponseHead<'_, '_, '_>,
    ) -> Option<Box<dyn BodyFilter>> {
        Some(Box::new(Twice { came: 0 }))
    }
}

impl Pure for Bodies {}

struct Twice {
    came: usize,
}

impl BodyFilter for Twice {
    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        let len = from.len().min(to.spare().len() / 2);
        let taken = &from.filled()[..len];
        if taken.contains(&b'!') {
            return Err(Unfit { status: 422, why: "it is too loud" });
        }
        let room = to.spare();
        for (at, byte) in taken.iter().enumerate() {
            room[2 * at..][..2].fill(*byte);
        }
        to.fill(2 * len);
        from.consume(len);
        self.came += len;
        Ok(Pace::On)
    }

    fn end(&mut self, to: &mut Buf, trailers: &mut Table) -> Result<Ended, Unfit> {
        assert!(to.extend(format!("<{}>", self.came).as_bytes()), "it is empty");
        trailers.push(b"x-came", self.came.to_string().as_bytes());
        Ok(Ended::Whole)
    }
}
