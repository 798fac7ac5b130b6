//! Records of anything that can be stored are read as they were written, and nothing else is read.

use super::*;
use crate::freshness::Source;
use crate::key::{KeyRules, Place};
use crate::moment::{Date, Moment, SECONDS_MAX};
use crate::store::{Fate, Target};
use crate::stored::{Stored, Terms, push_line};
use evenkeel_wire::head::{Request, Table};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn key(user: Option<&str>, path: &str) -> (Box<[u8]>, usize) {
    let mut fields = Table::default();
    let request = Request { method: "GET", target: path, host: b"shop.example", fields: fields.fields() };
    let place = Place { route: "shop", pool: "web", user: user.map(str::as_bytes), ..Place::default() };
    let key = KeyRules::default().key(&request, &place).expect("a plain request");
    (key.bytes().into(), key.url().len())
}

fn terms() -> impl Strategy<Value = Terms> {
    let times = (0..4_000_000_000_000_u64, 0..4_000_000_000_000_u64, any::<Option<u32>>());
    let seconds = (0..=SECONDS_MAX, 0..=SECONDS_MAX, any::<u32>(), any::<u32>());
    (times, seconds, select(&Source::ALL[..]), any::<[bool; 4]>()).prop_map(|(times, seconds, source, flags)| Terms {
        received: Moment(times.0),
        date: Date(times.1),
        is_dated: flags[3],
        last_modified: times.2.map(|ms| Date(ms.into())),
        initial_age: seconds.0,
        lifetime: seconds.1,
        source,
        stale_while_revalidate: seconds.2,
        stale_if_error: seconds.3,
        no_cache: flags[0],
        must_revalidate: flags[1],
        immutable: flags[2],
    })
}

fn record() -> impl Strategy<Value = ResponseRecord> {
    let fields = vec(("[a-z-]{1,9}", "[ -~]{0,20}"), 0..5);
    let varying = vec(("[a-z-]{1,9}", proptest::option::of("[ -~]{0,9}")), 0..3);
    let others = (vec("[!-~]{1,12}", 0..4), any::<Option<u32>>(), any::<u32>(), 200..600_u16);
    let path = ("/[!-\"$-~]{0,20}", proptest::option::of("[a-z]{0,5}"));
    (path, terms(), fields, varying, others).prop_map(|((path, user), terms, fields, varying, others)| {
        let (key, url_len) = key(user.as_deref(), &path);
        let mut lines = Vec::new();
        fields.iter().for_each(|(name, value)| {
            push_line(&mut lines, name.as_bytes(), value.as_bytes());
        });
        let line = |(name, value): &(String, Option<String>)| match value {
            Some(value) => format!("{name}: {value}\n"),
            None => format!("{name}\n"),
        };
        let varying: String = varying.iter().map(line).collect();
        let (tags, stale, hits, status) = others;
        let tags: String = tags.iter().map(|tag| format!("{tag}\n")).collect();
        let stored = Stored::new(status, terms, lines, varying.as_bytes(), tags.as_bytes());
        ResponseRecord { key, url_len, stored, stale_from: stale.map(|ms| Moment(ms.into())), hits }
    })
}

fn write(record: &ResponseRecord) -> Vec<u8> {
    ResponseRecord::write(&record.key, record.url_len, &record.stored, record.stale_from, record.hits)
}

/// Reads a whole record, as readers of files and streams do.
fn read(bytes: &[u8]) -> Result<(Frame, &[u8], &[u8]), Broken> {
    let (frame, rest) = bytes.split_first_chunk().ok_or(Broken::Magic)?;
    let frame = Frame::read(frame)?;
    let (head, body) = rest.split_at_checked(frame.head_len as usize).ok_or(Broken::Sum)?;
    frame.check_head(head)?;
    frame.check_body(body)?;
    Ok((frame, head, body))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_response_is_read_as_it_was_written(record in record(), body in vec(any::<u8>(), 0..50), number: u64) {
        let head = write(&record);
        let frame = Frame::of(Kind::Response, number, &head, &body).expect("a short one");
        let bytes = [&frame.bytes()[..], &head, &body].concat();
        prop_assert_eq!(frame.record_len(), bytes.len() as u64);
        let (known, head, read_body) = read(&bytes).expect("what was written");
        prop_assert_eq!((known, read_body), (frame, &body[..]));
        prop_assert_eq!(ResponseRecord::read(head), Ok(record));
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_noticed(record in record(), body in vec(any::<u8>(), 0..50), at: usize, bit in 0..8_u32) {
        let head = write(&record);
        let frame = Frame::of(Kind::Response, 7, &head, &body).expect("a short one");
        let mut bytes = [&frame.bytes()[..], &head, &body].concat();
        let at = at % bytes.len();
        prop_assert!(read(&bytes[..at]).is_err());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_a_head_that_is_written_so_or_refused(record in record(), at: usize, byte: u8, noise in vec(any::<u8>(), 0..60)) {
        let mut head = write(&record);
        let at = at % head.len();
        head[at] = byte;
        for bytes in [&head[..], &head[..at], &noise] {
            if let Ok(known) = ResponseRecord::read(bytes) {
                prop_assert_eq!(write(&known), bytes);
            }
            if let Ok(known) = PurgeRecord::read(bytes) {
                prop_assert_eq!(known.write(), bytes);
            }
            if let Ok(known) = Dropped::read(bytes) {
                prop_assert_eq!(known.write(), bytes);
            }
        }
    }
}

#[test]
fn purges_are_read_as_they_were_written() {
    let text: Box<[u8]> = (*b"http://shop.example/a\0").into();
    for scope in [
        Scope::Url(text.clone()),
        Scope::Log(Target::Prefix(text.clone())),
        Scope::Log(Target::Tag(text)),
        Scope::Log(Target::All),
    ] {
        for fate in [Fate::Removed, Fate::Stale] {
            let purge = PurgeRecord { scope: scope.clone(), fate, at: Moment(7) };
            assert_eq!(PurgeRecord::read(&purge.write()), Ok(purge));
        }
    }
    let (key, url_len) = key(None, "/a");
    let dropped = Dropped { key, url_len, varying: (*b"accept: a\n").into() };
    assert_eq!(Dropped::read(&dropped.write()), Ok(dropped));
}

#[test]
fn a_record_of_another_version_is_named() {
    let frame = Frame::of(Kind::End, 7, b"", b"").expect("a short one");
    let mut bytes = frame.bytes();
    bytes[3] = VERSION + 1;
    let refused = Frame::read(&bytes).expect_err("another version");
    assert_eq!(refused, Broken::Version(VERSION + 1));
    assert_eq!(refused.to_string(), "record of format 3; this build reads format 2");
    // Only responses have bodies: none is skipped unread.
    let frame = Frame::of(Kind::Purge, 7, b"", b"body").expect("a short one");
    assert_eq!(Frame::read(&frame.bytes()), Err(Broken::Frame));
}

#[test]
fn what_could_not_have_been_stored_is_refused() {
    let (key, url_len) = key(None, "/a");
    let terms = crate::stored::tests::TERMS;
    let of = |status: u16, lines: &[u8], varying: &[u8], tags: &[u8]| {
        let stored = Stored::new(status, terms, lines.to_vec(), varying, tags);
        ResponseRecord::read(&ResponseRecord::write(&key, url_len, &stored, None, 0)).map(|_| ())
    };
    assert_eq!(of(200, b"a: b\r\n", b"a: b\nc\n", b"x\n"), Ok(()));
    let long = [b'x'; 257];
    let many = "x\n".repeat(257);
    for (status, lines, varying, tags) in [
        (101, &b""[..], &b""[..], &b""[..]),
        (600, b"", b"", b""),
        (200, b"a: b\n", b"", b""),
        (200, b"a: b", b"", b""),
        (200, b"a:b\r\n", b"", b""),
        (200, b"a b: c\r\n", b"", b""),
        (200, b"a: b\r\n\r\n", b"", b""),
        (200, b"", b"a", b""),
        (200, b"", b"a:b\n", b""),
        (200, b"", b": b\n", b""),
        (200, b"", b"", b"x"),
        (200, b"", b"", b"\n"),
        (200, b"", b"", &[&long[..], b"\n"].concat()),
        (200, b"", b"", many.as_bytes()),
    ] {
        assert_eq!(of(status, lines, varying, tags), Err(Broken::Content), "{status} {lines:?} {varying:?} {tags:?}");
    }
    for (wrong, length) in [(&key[..url_len], url_len), (&key[..], url_len - 1), (&key[..], key.len() + 1), (b"", 0)] {
        let head = ResponseRecord::write(wrong, length, &Stored::new(200, terms, Vec::new(), b"", b""), None, 0);
        assert_eq!(ResponseRecord::read(&head), Err(Broken::Content), "{wrong:?} {length}");
    }
}
