//! Conformance of PROXY headers to the protocol, in any split.

use super::*;
use proptest::prelude::*;

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = (rest.len() as u16).to_be_bytes();
    [v2::SIGNATURE, &[command, family], &len, rest].concat()
}

fn addresses(source: &str, destination: &str) -> Option<Addresses> {
    let addr = |text: &str| text.parse().expect("an address");
    Some(Addresses { source: addr(source), destination: addr(destination) })
}

#[test]
fn reads_what_the_protocol_allows() {
    let four = [192, 0, 2, 1, 192, 0, 2, 9, 0xdc, 0x04, 0x01, 0xbb];
    let six: Vec<u8> = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat();
    let six = [&six[..], &[0, 1, 0, 2]].concat();
    let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(107 - 16));
    for (bytes, want) in [
        (b"PROXY TCP4 192.0.2.1 192.0.2.9 56324 443\r\n".to_vec(), addresses("192.0.2.1:56324", "192.0.2.9:443")),
        (
            b"PROXY TCP6 2001:db8::1 2001:db8::2 0 65535\r\n".to_vec(),
            addresses("[2001:db8::1]:0", "[2001:db8::2]:65535"),
        ),
        (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n".to_vec(), addresses("[::ffff:192.0.2.1]:1", "[::1]:2")),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (longest.into_bytes(), None),
        (v2(0x21, 0x11, &four), addresses("192.0.2.1:56324", "192.0.2.9:443")),
        (v2(0x21, 0x12, &four), addresses("192.0.2.1:56324", "192.0.2.9:443")),
        (v2(0x21, 0x21, &six), addresses("[2001:db8::1]:1", "[2001:db8::1]:2")),
        (v2(0x21, 0x31, &[7; 216]), None),
        (v2(0x21, 0x00, &[]), None),
        (v2(0x20, 0x00, &[]), None),
        (v2(0x20, 0xff, &[9; 5]), None),
        (
            v2(0x21, 0x11, &[&four[..], &[4, 0, 2, 0, 0, 0x20, 0, 0]].concat()),
            addresses("192.0.2.1:56324", "192.0.2.9:443"),
        ),
    ] {
        let header = Header { len: bytes.len(), addresses: want };
        assert_eq!(read(&bytes), Ok(Some(header)), "{}", bytes.escape_ascii());
        assert_eq!(read(&[&bytes[..], b"GET / HTTP/1.1\r\n"].concat()), Ok(Some(header)), "whatever follows");
        for short in 0..bytes.len() {
            assert_eq!(read(&bytes[..short]), Ok(None), "{}", bytes[..short].escape_ascii());
        }
    }
}

#[test]
fn refuses_whatever_is_not_exactly_that() {
    let four = [192, 0, 2, 1, 192, 0, 2, 9, 0xdc, 0x04, 0x01, 0xbb];
    let line = |rest: &str| format!("PROXY {rest}\r\n").into_bytes();
    for (bytes, why) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Malformed::Signature),
        (b"proxy TCP4 ".to_vec(), Malformed::Signature),
        (b"\r\n\r\n\0\r\nQUIX".to_vec(), Malformed::Signature),
        (format!("PROXY UNKNOWN {}", "f".repeat(93)).into_bytes(), Malformed::TooLong),
        (b"PROXY UNKNOWN\n".to_vec(), Malformed::Line),
        (line("UNKNOWNX"), Malformed::Line),
        (line("TCP5 1.2.3.4 1.2.3.4 1 2"), Malformed::Line),
        (line("TCP4  1.2.3.4 1.2.3.4 1 2"), Malformed::Line),
        (line("TCP4 1.2.3.4 1.2.3.4 1"), Malformed::Line),
        (line("TCP4 1.2.3.4 1.2.3.4 1 2 3"), Malformed::Line),
        (line("TCP4 1.2.3.4 1.2.3.4 1 2 "), Malformed::Line),
        (line("TCP4 01.2.3.4 1.2.3.4 1 2"), Malformed::Address),
        (line("TCP4 ::1 ::1 1 2"), Malformed::Address),
        (line("TCP6 1.2.3.4 1.2.3.4 1 2"), Malformed::Address),
        (line("TCP4 1.2.3.4 1.2.3.4 +1 2"), Malformed::Address),
        (line("TCP4 1.2.3.4 1.2.3.4 01 2"), Malformed::Address),
        (line("TCP4 1.2.3.4 1.2.3.4 65536 2"), Malformed::Address),
        (line("TCP4 1.2.3.4 1.2.3.\u{e9} 1 2"), Malformed::Address),
        (v2(0x11, 0x11, &four), Malformed::Command),
        (v2(0x22, 0x11, &four), Malformed::Command),
        (v2(0x21, 0x41, &four), Malformed::Family),
        (v2(0x21, 0x13, &four), Malformed::Family),
        (v2(0x21, 0x11, &four[..11]), Malformed::Length),
        (v2(0x21, 0x21, &four), Malformed::Length),
        (v2(0x21, 0x31, &[0; 215]), Malformed::Length),
        (v2(0x21, 0x11, &[&four[..], &[4]].concat()), Malformed::Length),
        (v2(0x21, 0x11, &[&four[..], &[4, 0, 1]].concat()), Malformed::Length),
        (v2(0x21, 0x11, &[&four[..], &[3, 0, 3, 0, 0, 0]].concat()), Malformed::Length),
        (v2(0x21, 0x11, &[&four[..], &[3, 0, 4, 0, 0, 0, 0]].concat()), Malformed::Checksum),
        (v2(0x20, 0x00, &vec![0; LEN_MAX - 15]), Malformed::TooLong),
    ] {
        assert_eq!(read(&bytes), Err(why), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_checksum_that_fits_is_taken_and_any_other_byte_is_not() {
    let header = |crc: [u8; 4]| {
        v2(0x21, 0x11, &[&[127, 0, 0, 1, 127, 0, 0, 1, 0x12, 0x34, 0x56, 0x78, 3, 0, 4], &crc[..]].concat())
    };
    let bytes = header([0x30, 0x22, 0xa0, 0x61]);
    let want = Header { len: bytes.len(), addresses: addresses("127.0.0.1:4660", "127.0.0.1:22136") };
    assert_eq!(read(&bytes), Ok(Some(want)));
    for at in 16..bytes.len() - 7 {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_eq!(read(&other), Err(Malformed::Checksum), "byte {at}");
    }
    assert_eq!(read(&header([0x61, 0xa0, 0x22, 0x30])), Err(Malformed::Checksum));
}

#[test]
fn a_header_may_have_no_addresses() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let mut bytes = Vec::new();
        write(version, None, &mut bytes);
        assert_eq!(read(&bytes), Ok(Some(Header { len: bytes.len(), addresses: None })));
    }
}

fn any_addresses() -> impl Strategy<Value = Addresses> {
    (any::<[SocketAddr; 2]>()).prop_map(|[source, destination]| {
        let plain = |addr: SocketAddr| SocketAddr::new(addr.ip(), addr.port());
        Addresses { source: plain(source), destination: plain(destination) }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(addresses in any_addresses(), second in any::<bool>()) {
        let version = if second { ProxyVersion::V2 } else { ProxyVersion::V1 };
        let mut bytes = Vec::new();
        write(version, Some(addresses), &mut bytes);
        let header = read(&bytes).expect("it is good").expect("it is whole");
        prop_assert_eq!(header.len, bytes.len());
        let canonical = |a: SocketAddr| (a.ip().to_canonical(), a.port());
        let read = header.addresses.expect("it has addresses");
        prop_assert_eq!(canonical(read.source), canonical(addresses.source));
        prop_assert_eq!(canonical(read.destination), canonical(addresses.destination));
    }

    /// The first result of any prefix is the result, however the bytes are split into reads.
    #[test]
    fn reads_the_same_in_any_split(
        addresses in any_addresses(),
        second in any::<bool>(),
        flaw in proptest::option::of((any::<u8>(), any::<proptest::sample::Index>())),
        behind in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = Vec::new();
        write(if second { ProxyVersion::V2 } else { ProxyVersion::V1 }, Some(addresses), &mut bytes);
        if let Some((byte, at)) = flaw {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.extend(behind);
        let whole = read(&bytes);
        for len in 0..bytes.len() {
            match read(&bytes[..len]) {
                Ok(None) => {}
                answer => prop_assert_eq!(answer, whole, "after {} bytes", len),
            }
        }
    }
}

#[test]
fn a_connection_of_our_own_has_no_client() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let mut bytes = Vec::new();
        write_local(version, &mut bytes);
        assert_eq!(read(&bytes), Ok(Some(Header { len: bytes.len(), addresses: None })), "{version:?}");
    }
}
