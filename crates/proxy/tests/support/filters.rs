//! Filters that exist in tests only. One is built for a listener whose name begins with its name.

use evenkeel_net::event_loop::yield_now;
use evenkeel_proxy::row::{Build, LooksAt, Row, Stage};
use evenkeel_proxy::{Exchange, Filter, RequestHead, Response, ResponseHead, Resume, Verdict};

const HEADS: LooksAt = LooksAt { responses: true, bodies: false };
const BODIES: LooksAt = LooksAt { responses: false, bodies: true };

/// The filters of tests, in the order in which requests pass them.
pub static FILTERS: &[Row] = &[
    Row { name: "waits", stage: Stage::Listener, key: "", summary: "Waits.", looks_at: HEADS, build: waits },
    Row { name: "heads", stage: Stage::Route, key: "", summary: "Changes heads.", looks_at: HEADS, build: heads },
    Row { name: "parts", stage: Stage::Route, key: "", summary: "Wants bodies.", looks_at: BODIES, build: parts },
];

fn is_for(build: &Build<'_>, name: &str) -> bool {
    build.listener.name.starts_with(name)
}

/// Changes the heads of requests and responses.
struct Heads;

fn heads(build: &Build<'_>) -> Option<Box<dyn Filter>> {
    is_for(build, "heads").then(|| Box::new(Heads) as _)
}

impl Filter for Heads {
    fn request<'c>(&'c self, _: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
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

    fn response(&self, _: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        head.fields.leave_out("server");
        let of = if head.outcome.is_some() { "endpoint" } else { "here" };
        head.added.extend_from_slice(format!("X-Of: {of} {}\r\n", head.status).as_bytes());
    }
}

/// Lets some turns of the worker pass, and then answers or lets the request continue, as that asks.
struct Waits;

fn waits(build: &Build<'_>) -> Option<Box<dyn Filter>> {
    is_for(build, "waits").then(|| Box::new(Waits) as _)
}

impl Filter for Waits {
    fn request<'c>(&'c self, _: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let times: usize = head.request.field("x-wait").and_then(number).unwrap_or(1);
        if head.request.path() == "/forever" {
            return Verdict::Wait(Box::pin(std::future::pending()));
        }
        Verdict::Wait(Box::pin(async move {
            for _ in 0..times {
                yield_now().await;
            }
            let resume: Resume = Box::new(move |_, head| {
                if head.request.field("authorization").is_none() {
                    return Verdict::Answer(Response::new(401, "who are you?"));
                }
                head.edits.add("X-User", format!("after {times}").as_bytes());
                Verdict::Next
            });
            resume
        }))
    }

    fn response(&self, _: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        head.added.extend_from_slice(b"X-Waited: yes\r\n");
    }
}

fn number(value: &[u8]) -> Option<usize> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Has bodies pass in parts, and does nothing to them.
struct Parts;

fn parts(build: &Build<'_>) -> Option<Box<dyn Filter>> {
    is_for(build, "parts").then(|| Box::new(Parts) as _)
}

impl Filter for Parts {}
