//! Conformance of trace context to its formats.

use super::*;
use crate::head::Table;
use proptest::prelude::*;

const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
const ID: u64 = 0xb7ad_6b71_6920_3331;

fn came(fields: &[(&str, &str)]) -> Came {
    let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    read(&table.fields())
}

fn parent(fields: &[(&str, &str)]) -> Option<(u128, u64, bool, Sampled)> {
    let came = came(fields);
    came.parent.map(|span| (span.trace, span.span, span.is_random, came.sampled))
}

#[test]
fn a_traceparent_is_believed_if_all_of_it_is_right() {
    let of = |value: &str| parent(&[("Traceparent", value)]);
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(of(good), Some((TRACE, ID, false, Sampled::Yes)));
    assert_eq!(of(&good.replace("-01", "-00")), Some((TRACE, ID, false, Sampled::No)));
    assert_eq!(of(&good.replace("-01", "-03")), Some((TRACE, ID, true, Sampled::Yes)));
    assert_eq!(
        of(&good.replace("-01", "-fe")),
        Some((TRACE, ID, true, Sampled::No)),
        "flags of the future mean nothing"
    );
    assert!(of(&good.replace("00-", "01-")).is_some(), "a version of the future");
    assert!(of(&format!("cc-{}-what-else", &good[3..])).is_some());
    for bad in [
        "",
        "00",
        &good[..54],
        &format!("{good}-"),
        &format!("{good}-00"),
        &format!("01-{}x", &good[3..]),
        &good.replace("00-", "ff-"),
        &good.replace("00-", "0g-"),
        &good.to_uppercase(),
        &good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
        &good.replace("b7ad6b7169203331", &"0".repeat(16)),
        &good.replace("-b7", "_b7"),
        &good.replace("-01", "-0x"),
    ] {
        assert_eq!(of(bad), None, "{bad}");
    }
    assert_eq!(parent(&[("traceparent", good), ("TRACEPARENT", good)]), None, "two say nothing");
    assert_eq!(trace_id(good.as_bytes()), Some(&good.as_bytes()[3..35]));
    assert_eq!(trace_id(&good.as_bytes()[1..]), None);
}

#[test]
fn b3_is_read_in_one_field_and_in_several() {
    let (trace, id) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let short = &trace[16..];
    let of = |value: &str| parent(&[("b3", value)]);
    assert_eq!(of(&format!("{trace}-{id}")), Some((TRACE, ID, false, Sampled::Undecided)));
    assert_eq!(of(&format!("{trace}-{id}-1-05e3ac9a4f6e3b90")), Some((TRACE, ID, false, Sampled::Yes)));
    assert_eq!(of(&format!("{short}-{id}-d")), Some((TRACE & u128::from(u64::MAX), ID, false, Sampled::Debug)));
    for (word, sampled) in [("0", Sampled::No), ("1", Sampled::Yes), ("d", Sampled::Debug)] {
        assert_eq!((came(&[("B3", word)]).sampled, came(&[("B3", word)]).parent), (sampled, None));
    }
    for bad in [
        "",
        "x",
        "2",
        &format!("{trace}-"),
        &format!("{trace}-{id}-x"),
        &format!("{trace}-{id}-1-2"),
        &format!("0{trace}-{id}"),
    ] {
        assert_eq!(came(&[("b3", bad)]).by, None, "{bad}");
    }
    let all = [("X-B3-TraceId", trace), ("x-b3-spanid", id), ("X-B3-ParentSpanId", "05e3ac9a4f6e3b90")];
    let with = |more: (&'static str, &'static str)| parent(&[&all[..], &[more]].concat());
    assert_eq!(parent(&all), Some((TRACE, ID, false, Sampled::Undecided)));
    assert_eq!(with(("X-B3-Sampled", "1")), Some((TRACE, ID, false, Sampled::Yes)));
    assert_eq!(with(("X-B3-Sampled", "false")), Some((TRACE, ID, false, Sampled::No)));
    assert_eq!(with(("X-B3-Flags", "1")), Some((TRACE, ID, false, Sampled::Debug)));
    assert_eq!(with(("X-B3-Sampled", "maybe")), None);
    assert_eq!(came(&[("x-b3-sampled", "0")]).sampled, Sampled::No);
    assert_eq!(came(&all[..1]).by, None, "a trace without a span is none");
}

#[test]
fn the_first_format_that_can_be_believed_decides() {
    let w3c = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let b3 = ("b3", "00000000000000000000000000000001-0000000000000002-0");
    let both = came(&[b3, w3c, ("tracestate", "a=b")]);
    assert_eq!((both.by, both.sampled, both.parent.map(|span| span.span)), (Some(Format::W3c), Sampled::Yes, Some(ID)));
    assert!(both.formats.has(Format::B3) && both.formats.has(Format::W3c) && !both.formats.has(Format::B3Multi));
    let broken = came(&[b3, ("traceparent", "?")]);
    assert_eq!((broken.by, broken.sampled), (Some(Format::B3), Sampled::No));
    assert_eq!(came(&[("accept", "b3"), ("x-a", "b"), ("tea", "c")]), Came::default());
    let mut table: Table = [(&b"TraceState"[..], &b"a=b"[..]), (b"B3", b"0"), (b"x", b"y")].into_iter().collect();
    leave_out(&mut table.fields(), true);
    assert_eq!(table.iter().count(), 2);
    leave_out(&mut table.fields(), false);
    assert_eq!(table.iter().count(), 1);
}

fn formats() -> impl Strategy<Value = Formats> {
    (1u8..8).prop_map(Formats)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        formats in formats(),
        trace in 1u128..,
        span in 1u64..,
        is_random: bool,
        sampled in prop::sample::select(vec![Sampled::No, Sampled::Yes, Sampled::Debug]),
    ) {
        let mut lines = Vec::new();
        let written = Span { trace, span, is_random };
        write(formats, written, sampled, &mut lines);
        let mut table = Table::default();
        table.push_lines(&lines);
        let came = read(&table.fields());
        prop_assert_eq!(came.formats, formats);
        let by_w3c = formats.has(Format::W3c);
        prop_assert_eq!(came.parent, Some(Span { is_random: is_random && by_w3c, ..written }));
        let is_sampled = |sampled| sampled != Sampled::No;
        prop_assert_eq!(is_sampled(came.sampled), is_sampled(sampled));
        // The span has the same digits in all formats, so that it can be replaced by another.
        let places = memchr::memmem::find_iter(&lines, &digits(span)).count();
        prop_assert!(places >= formats.0.count_ones() as usize);
    }

    #[test]
    fn nothing_that_comes_does_harm(name in prop::sample::select(NAMES.to_vec()), value: Vec<u8>, text in "[0-9a-f-]{0,70}") {
        for value in [&value[..], text.as_bytes()] {
            let mut table = Table::default();
            table.push(name.as_bytes(), value);
            let came = read(&table.fields());
            prop_assert!(came.parent.is_none_or(|span| span.trace != 0 && span.span != 0));
        }
    }
}
