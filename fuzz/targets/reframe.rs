//! Forwarded messages have a single reading: whatever arrives on a connection, the forwarded part reads as
//! the same messages with the same ends and content, and forwarding it again changes nothing.
#![no_main]

mod naive;
#[path = "../../crates/wire/tests/wire/mod.rs"]
mod wire;

use evenkeel_wire::http1::Limits;
use evenkeel_wire::http1::response::RequestContext;
use libfuzzer_sys::fuzz_target;
use wire::{Connection, Relayed, Stands, pieces};

const LIMITS: Limits = Limits { head: 1024, fields: 24 };
/// For forwarded messages: some more fields.
const AFTER: Limits = Limits { head: 4096, fields: 48 };

fuzz_target!(|bytes: &[u8]| {
    let [_, cuts, _] = naive::cuts(bytes);
    reads_as_itself(bytes, &cuts, Connection::requests);
    for (head, upgrade) in [(false, false), (true, false), (false, true)] {
        reads_as_itself(bytes, &cuts, |limits| {
            Connection::responses(vec![RequestContext { head, upgrade }; 8], limits)
        });
    }
});

fn reads_as_itself(bytes: &[u8], cuts: &[usize], new: impl Fn(Limits) -> Connection) {
    let read = |bytes: &[u8], limits| new(limits).read(pieces(bytes, cuts));
    let once = read(bytes, LIMITS);
    let twice = read(&once.out, AFTER);
    assert_eq!(once.content, twice.content, "{}", once.out.escape_ascii());
    assert_eq!(once.ends.len(), twice.ends.len(), "{}", once.out.escape_ascii());
    assert_eq!(twice.stands, stands_after(&once), "{}", once.out.escape_ascii());
    // The first pass may add a `Host` field, with which the message reads differently.
    let thrice = read(&twice.out, AFTER);
    assert!(thrice.out == twice.out, "{}\nthen: {}", twice.out.escape_ascii(), thrice.out.escape_ascii());
}

/// A message refused in its head is not forwarded at all; if refused in its body, the forwarded part has no
/// end.
fn stands_after(once: &Relayed) -> Stands {
    match once.stands {
        Stands::RefusedHead(_) => Stands::Head,
        Stands::RefusedBody(_) => Stands::Body,
        stands => stands,
    }
}
