//! Directives of a cache: any bytes are read, the case of names and unknown directives beside them change nothing, and a
//! response that is stored for them is never fresh after it was stale.
#![no_main]

use evenkeel_cache::decide::{Decision, decide};
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::Policy;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::syntax::directives::Directives;
use evenkeel_wire::head::{Request, Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let of = |line: &[u8]| Directives::of_response([line].into_iter());
    let read = of(bytes);
    let lower = Directives { unstored: Vec::new(), ..of(&bytes.to_ascii_lowercase()) };
    assert_eq!(lower, Directives { unstored: Vec::new(), ..read.clone() });
    assert_eq!(of(&[b"unknown, other=\"max-age=1, no-store\", ", bytes].concat()), read);

    let fields = bytes.split(|b| *b == b'\n').zip(["cache-control", "expires", "age", "date", "vary", "etag"]);
    let mut response: Table = fields.map(|(value, name)| (name.as_bytes(), value.trim_ascii())).collect();
    let mut none = Table::default();
    let request = Request { method: "GET", target: "/", host: b"a", fields: none.fields() };
    let now = Moment(1_700_000_000_000);
    let reply = Reply { status: 200, fields: &response.fields(), sent: now, received: now, arrived: Date(now.0) };
    let Ok(stored) = storable(&request, &Lookup::default(), &reply, &Policy::default()) else { return };
    let is_fresh = |seconds: u32| decide(&stored, &Lookup::default(), now.plus(seconds)) == Decision::Fresh;
    let times = [0, 1, 59, 60, 3600, 1 << 30, 1 << 31, u32::MAX].map(is_fresh);
    assert!(times.is_sorted_by_key(|is_fresh| !is_fresh), "{times:?}");
});
