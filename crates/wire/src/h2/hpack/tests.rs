//! Blocks of fields, compared with the examples of RFC 7541.

use super::*;
use proptest::prelude::*;

const LIMITS: HeaderLimits = HeaderLimits { bytes: 1 << 20, fields: 1000 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, LIMITS, &mut |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut out);
    out
}

fn text(fields: &Fields) -> String {
    fields.iter().map(|(n, v)| format!("{}: {}\n", n.escape_ascii(), v.escape_ascii())).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

#[test]
fn the_requests_of_the_rfc_are_read() {
    // Appendix C.3 and C.4: the same three requests on a connection, in plain and in Huffman-coded strings.
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let short = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, short] {
        let mut decoder = Decoder::new(TABLE_SIZE);
        let read: Vec<String> = blocks.iter().map(|b| text(&decode(&mut decoder, &hex(b)).unwrap())).collect();
        let front = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
        assert_eq!(read[0], front);
        assert_eq!(read[1], format!("{front}cache-control: no-cache\n"));
        let last = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n";
        assert_eq!(read[2], format!("{last}custom-key: custom-value\n"));
    }
}

#[test]
fn the_responses_of_the_rfc_are_read_with_a_table_of_256_bytes() {
    // Appendix C.6: entries are evicted from the table.
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let mut decoder = Decoder::new(256);
    let read: Vec<String> = blocks.iter().map(|b| text(&decode(&mut decoder, &hex(b)).unwrap())).collect();
    assert!(read[0].starts_with(":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n"));
    assert!(read[1].starts_with(":status: 307\ncache-control: private\n"), "{}", read[1]);
    assert!(
        read[2]
            .contains("content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n")
    );
}

#[test]
fn what_comes_again_is_a_number_and_secrets_are_not_kept() {
    let mut encoder = Encoder::new();
    let fields = [(":status", "200"), ("server", "evenkeel"), ("content-length", "1024"), ("Authorization", "Basic x")];
    let first = encode(&mut encoder, &fields);
    let again = encode(&mut encoder, &fields);
    assert_eq!(again[..2], [0x88, 0x80 | 62]);
    assert!(again.len() < first.len());
    assert!(again.windows(2).any(|w| w == [0x1f, 23 - 15]), "never indexed: {again:x?}");
    let mut decoder = Decoder::new(TABLE_SIZE);
    assert_eq!(decode(&mut decoder, &first), decode(&mut decoder, &again));
}

#[test]
fn a_table_that_changes_its_size_stays_alike() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(TABLE_SIZE));
    for size in [4096, 0, 60, 4096, 8192, 100] {
        encoder.set_table_size_max(size);
        for _ in 0..2 {
            let block = encode(&mut encoder, &[("x-a", "1"), ("x-b", "2")]);
            assert_eq!(text(&decode(&mut decoder, &block).unwrap()), "x-a: 1\nx-b: 2\n", "{size}");
        }
    }
}

#[test]
fn a_block_that_makes_no_sense_is_refused() {
    for (block, why) in [
        (&[0x80][..], Error::Index),
        (&[0xbe], Error::Index),
        (&[0x7f], Error::Truncated),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0x00], Error::Integer),
        (&[0x40], Error::Truncated),
        (&[0x40, 0x01], Error::Truncated),
        (&[0x40, 0x01, b'a', 0x02, b'b'], Error::Truncated),
        (&[0x3f, 0xe2, 0x1f], Error::Size),
        (&[0x82, 0x20], Error::Size),
        (&[0x00, 0x81, 0x00, 0x00], Error::Huffman),
    ] {
        assert_eq!(decode(&mut Decoder::new(TABLE_SIZE), block).map(|f| text(&f)), Err(why), "{block:x?}");
    }
}

#[test]
fn more_than_the_limit_is_read_and_not_given_on() {
    let mut decoder = Decoder::new(TABLE_SIZE);
    // One large field, and its index again and again.
    let mut block = vec![0x40, 1, b'x', 0x7f, 0x81, 0x1e];
    block.extend([b'v'; 127 + 0x81 - 0x80 + (0x1e << 7)]);
    block.extend([0x80 | 62; 18]);
    let (mut given, limits) = (0, HeaderLimits { bytes: 10_000, fields: 100 });
    let decoded = decoder.decode(&block, limits, &mut |name, value| given += name.len() + value.len());
    assert_eq!((decoded, given <= 10_000), (Ok(Decoded { over: Some(Over::Bytes) }), true));
    assert_eq!(decode(&mut decoder, &[0x80 | 62]).unwrap()[0].1.len(), 3968);
    // A block that is far over the limits is not read to its end, by bytes or by fields.
    assert_eq!(decoder.decode(&[0x80 | 62; 1000], limits, &mut |_, _| {}), Err(Error::TooLarge));
    assert_eq!(decoder.decode(&[0x82; 807], limits, &mut |_, _| {}), Ok(Decoded { over: Some(Over::Fields) }));
    assert_eq!(decoder.decode(&[0x82; 808], limits, &mut |_, _| {}), Err(Error::TooLarge));
}

/// Browsers send each cookie as a separate field (RFC 9113 section 8.2.3).
#[test]
fn the_crumbs_of_a_cookie_are_one_field_of_the_bytes_that_it_has_when_joined() {
    let block: Vec<u8> =
        [&[0x82][..], &[0, 6, b'c', b'o', b'o', b'k', b'i', b'e', 3, b'a', b'=', b'1'].repeat(500)].concat();
    let joined = ":methodGETcookie".len() + 500 * "a=1".len() + 499 * "; ".len();
    for (bytes, over) in [(joined, None), (joined - 1, Some(Over::Bytes))] {
        let mut crumbs = 0;
        let limits = HeaderLimits { bytes, fields: 2 };
        let decoded =
            Decoder::new(TABLE_SIZE).decode(&block, limits, &mut |name, _| crumbs += usize::from(name == b"cookie"));
        assert_eq!((decoded, crumbs), (Ok(Decoded { over }), if over.is_none() { 500 } else { 499 }));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        blocks in prop::collection::vec(
            (0usize..3, prop::collection::vec(("[a-e]{1,2}|:status|cookie|content-length|accept", "[ -~]{0,30}"), 0..8)), 1..8)
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(TABLE_SIZE));
        for (resize, fields) in blocks {
            if resize > 0 {
                encoder.set_table_size_max([0, 80, 4096][resize]);
            }
            let fields: Fields = fields.into_iter().map(|(n, v)| (n.into_bytes(), v.into_bytes())).collect();
            let mut block = Vec::new();
            encoder.encode(fields.iter().map(|(n, v)| (&n[..], &v[..])), &mut block);
            prop_assert_eq!(decode(&mut decoder, &block), Ok(fields));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..4)) {
        let mut decoder = Decoder::new(TABLE_SIZE);
        for block in blocks {
            let _ = decode(&mut decoder, &block);
        }
    }
}
