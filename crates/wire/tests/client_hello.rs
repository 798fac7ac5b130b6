//! ClientHellos in any split into reads and records, and with any other content: the server and the protocols that they
//! name are found, and only invalid ones are refused.

use evenkeel_wire::tls_hello::Unread::{self, Malformed, TooLong};
use evenkeel_wire::tls_hello::{Hello, LEN_MAX, read};
use proptest::collection::vec;
use proptest::prelude::*;

fn with_len8(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

fn with_len16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &with_len16(content)].concat()
}

fn named(name: &[u8]) -> Vec<u8> {
    extension(0, &with_len16(&[&[0][..], &with_len16(name)].concat()))
}

fn alpn(protocols: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = protocols.iter().flat_map(|p| with_len8(p)).collect();
    extension(16, &with_len16(&list))
}

/// Returns a ClientHello with these extensions, without its records.
fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let body = [
        &[3, 3][..],
        &[7; 32],
        &with_len8(&[1; 32]),
        // The first of them is GREASE.
        &with_len16(&[0x0a, 0x0a, 0x13, 0x01]),
        &with_len8(&[0]),
        &with_len16(&extensions.concat()),
    ]
    .concat();
    [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
}

/// Wraps a message in records of at most `most` bytes.
fn records(message: &[u8], most: usize) -> Vec<u8> {
    message.chunks(most).flat_map(|part| [&[22, 3, 1][..], &with_len16(part)].concat()).collect()
}

fn hello(name: Option<&str>, protocols: &[&str]) -> Hello {
    let alpn = protocols.iter().map(|p| p.as_bytes().into()).collect();
    Hello { server_name: name.map(str::to_string), alpn }
}

/// Returns the first result of any prefix, which must be that of the whole and of everything that could follow.
fn answer(bytes: &[u8]) -> Result<Option<Hello>, Unread> {
    let first = (0..=bytes.len()).map(|n| read(&bytes[..n])).find(|answer| *answer != Ok(None)).unwrap_or(Ok(None));
    assert_eq!(first, read(bytes));
    if first != Ok(None) {
        assert_eq!(first, read(&[bytes, b"and more"].concat()));
    }
    first
}

#[test]
fn finds_the_name_and_the_protocols_among_what_it_does_not_know() {
    let grease = || extension(0x1a1a, b"");
    let ech = extension(0xfe0d, &[0; 200]);
    let extensions = [grease(), named(b"DB.Example.com."), ech, alpn(&[b"\x0a\x0a", b"h2"]), extension(0x2a2a, b"\0")];
    let bytes = records(&message(&extensions), 1 << 14);
    let mut wanted = hello(Some("db.example.com"), &["\n\n", "h2"]);
    assert_eq!(answer(&bytes), Ok(Some(wanted.clone())));
    wanted.alpn.clear();
    wanted.server_name = None;
    assert_eq!(answer(&records(&message(&[grease()]), 3)), Ok(Some(wanted)));
}

#[test]
fn what_is_no_client_hello_is_refused_as_soon_as_that_is_clear() {
    let good = message(&[named(b"a.example")]);
    let twice = message(&[named(b"a.example"), named(b"b.example")]);
    let not_a_name = message(&[named(b"a b")]);
    let empty_name = message(&[named(b"")]);
    let no_protocol = message(&[alpn(&[])]);
    let mut short = good.clone();
    short[3] -= 1;
    for bad in [twice, not_a_name, empty_name, no_protocol, short] {
        assert_eq!(answer(&records(&bad, 100)), Err(Malformed));
    }
    assert_eq!(read(b"G"), Err(Malformed), "HTTP without TLS");
    assert_eq!(read(b"\x16\x02"), Err(Malformed), "not TLS");
    assert_eq!(read(&[22, 3, 1, 0, 0]), Err(Malformed), "an empty record");
    assert_eq!(read(&[22, 3, 1, 0x40, 1]), Err(Malformed), "a record that is too long");
    assert_eq!(read(&[22, 3, 1, 0, 9, 2]), Err(Malformed), "another message");
    assert_eq!(read(&[22, 3, 1, 0, 9, 1, 1, 0, 1]), Err(TooLong), "a message of 65,537 bytes");
    assert_eq!(read(&[22, 3, 1, 0, 9, 1, 1, 0, 0]), Ok(None));
}

#[test]
fn a_client_hello_is_whole_within_its_limit_or_refused() {
    let padded = |n| records(&message(&[extension(21, &vec![0; n]), named(b"a.example")]), 1 << 14);
    let most = (0..LEN_MAX).rev().find(|n| padded(*n).len() <= LEN_MAX).expect("there is room");
    let found = Ok(Some(hello(Some("a.example"), &[])));
    for n in [0, 1 << 14, 1 << 15, most] {
        assert_eq!((read(&padded(n)), read(&padded(n)[..padded(n).len() - 1])), (found.clone(), Ok(None)), "{n}");
    }
    let over = padded(most + 1);
    assert_eq!(
        (read(&over), read(&over[..LEN_MAX]), read(&over[..LEN_MAX - 1])),
        (Err(TooLong), Err(TooLong), Ok(None))
    );
    // With a single byte per record, most of it is headers.
    let bytes = records(&message(&[named(b"a.example")]), 1);
    assert_eq!(read(&bytes), Ok(Some(hello(Some("a.example"), &[]))));
}

proptest! {
    #[test]
    fn any_split_into_records_and_reads_says_the_same(
        name in "[a-z]{1,20}\\.[a-z]{2,5}",
        protocols in vec("[a-z0-9./]{1,9}", 0..4),
        unknown in vec((30u16..0xffff, vec(any::<u8>(), 0..40)), 0..6),
        most in 1usize..300,
    ) {
        let mut extensions: Vec<_> = unknown.iter().map(|(kind, content)| extension(*kind, content)).collect();
        extensions.insert(extensions.len() / 2, named(name.as_bytes()));
        let protocols: Vec<&str> = protocols.iter().map(String::as_str).collect();
        if !protocols.is_empty() {
            extensions.push(alpn(&protocols.iter().map(|p| p.as_bytes()).collect::<Vec<_>>()));
        }
        prop_assert_eq!(answer(&records(&message(&extensions), most)), Ok(Some(hello(Some(&name), &protocols))));
    }

    #[test]
    fn a_byte_that_is_changed_never_makes_prefixes_disagree(at in any::<proptest::sample::Index>(), to in any::<u8>()) {
        let mut bytes = records(&message(&[named(b"a.example"), alpn(&[b"h2"])]), 40);
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = answer(&bytes);
    }
}
