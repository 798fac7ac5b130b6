//! Blocks of fields, compared with the examples of RFC 9204.

use super::*;
use proptest::prelude::*;

const LIMITS: HeaderLimits = HeaderLimits { bytes: 1 << 20, fields: 1000 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode_within(limits: HeaderLimits, block: &[u8]) -> Result<(Fields, Option<Over>), Error> {
    let mut fields = Vec::new();
    let mut sink = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
    let decoded = Decoder::default().decode(block, limits, &mut sink)?;
    Ok((fields, decoded.over))
}

fn decode(block: &[u8]) -> Result<Fields, Error> {
    decode_within(LIMITS, block).map(|(fields, _)| fields)
}

fn encode(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::default().encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut out);
    out
}

fn text(fields: &Fields) -> String {
    fields.iter().map(|(n, v)| format!("{}: {}\n", String::from_utf8_lossy(n), String::from_utf8_lossy(v))).collect()
}

#[test]
fn the_block_of_the_rfc_without_a_dynamic_table_is_read() {
    // Appendix B.1.
    let block = [&[0x00, 0x00, 0x51, 0x0b][..], b"/index.html"].concat();
    assert_eq!(text(&decode(&block).unwrap()), ":path: /index.html\n");
}

#[test]
fn blocks_with_a_dynamic_table_are_refused() {
    // Appendix B.2 and B.4.
    for block in [&[0x03, 0x81, 0x10, 0x11][..], &[0x05, 0x00, 0x80, 0xc1, 0x81]] {
        assert_eq!(decode(block), Err(Error::Dynamic), "{block:x?}");
    }
}

#[test]
fn a_block_that_makes_no_sense_is_refused() {
    for (block, why) in [
        (&[][..], Error::Truncated),
        (&[0x00], Error::Truncated),
        // A negative base.
        (&[0x00, 0x80], Error::Dynamic),
        // References to a dynamic table: a field, a name, and both behind the base.
        (&[0x00, 0x00, 0x80], Error::Dynamic),
        (&[0x00, 0x00, 0x40, 0x00], Error::Dynamic),
        (&[0x00, 0x00, 0x10], Error::Dynamic),
        (&[0x00, 0x00, 0x00, 0x00], Error::Dynamic),
        // Index 99.
        (&[0x00, 0x00, 0xff, 0x24], Error::Index),
        (&[0x00, 0x00, 0x5f, 0x54, 0x00], Error::Index),
        (&[0x00, 0x00, 0x51], Error::Truncated),
        (&[0x00, 0x00, 0x51, 0x02, b'/'], Error::Truncated),
        (&[0x00, 0x00, 0x22, b'a'], Error::Truncated),
        (&[0x00, 0x00, 0x21, b'a'], Error::Truncated),
        (&[0x00, 0x00, 0x51, 0x81, 0x00], Error::Huffman),
        (&[0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00], Error::Integer),
    ] {
        assert_eq!(decode(block), Err(why), "{block:x?}");
    }
    // Any base that is not negative.
    assert_eq!(text(&decode(&[0x00, 0x7f, 0x05, 0xd1]).unwrap()), ":method: GET\n");
}

#[test]
fn known_fields_are_numbers_and_secrets_are_never_indexed() {
    assert_eq!(
        encode(&[(":method", "GET"), (":status", "500"), ("X-Frame-Options", "deny")]),
        [0, 0, 0xd1, 0xff, 8, 0xff, 34]
    );
    // The name from the table, the value coded where that is shorter.
    assert_eq!(encode(&[("age", "&")]), [0, 0, 0x52, 1, b'&']);
    assert_eq!(encode(&[("date", "000")]), [0, 0, 0x56, 0x82, 0x00, 0x01]);
    assert_eq!(encode(&[("&", "")]), [0, 0, 0x21, b'&', 0]);
    assert_eq!(encode(&[("000", "")]), [0, 0, 0x2a, 0x00, 0x01, 0]);
    // Names longer than a prefix has room for.
    assert_eq!(encode(&[("&&&&&&&&", "")])[..4], [0, 0, 0x27, 1]);
    assert_eq!(encode(&[("authorization", "&")]), [0, 0, 0x7f, 84 - 15, 1, b'&']);
    assert_eq!(encode(&[("cookie", "&")]), [0, 0, 0x75, 1, b'&']);
    assert_eq!(encode(&[("proxy-authorization", "&")])[2] & 0xf0, 0x30);
}

#[test]
fn a_block_over_the_limit_is_read_up_to_the_limit() {
    let block = encode(&[(":method", "GET"), ("a", "1"), ("b", "2")]);
    for (bytes, fields, read, over) in [
        (14, 3, 3, None),
        (13, 3, 2, Some(Over::Bytes)),
        (14, 2, 2, Some(Over::Fields)),
        (10, 0, 0, Some(Over::Fields)),
        (0, 9, 0, Some(Over::Bytes)),
    ] {
        let (given, is_over) = decode_within(HeaderLimits { bytes, fields }, &block).unwrap();
        assert_eq!((given.len(), is_over), (read, over), "{bytes} bytes, {fields} fields");
    }
    // Nothing behind the limit is read, and few bytes that mean many cost nothing.
    let block = [&[0, 0][..], &[0xd1; 10_000], &[0x80]].concat();
    assert_eq!(decode_within(HeaderLimits { bytes: 1000, fields: 100 }, &block).unwrap().0.len(), 100);
}

/// Blocks of ls-qpack (pylsqpack 1.0.0) with a table of 0 bytes.
#[test]
fn blocks_of_another_encoder_are_read() {
    const BLOCKS: [(&str, &str); 2] = [
        (
            "0000d1d7508cf1e3c2e5f23a6ba0ab90f4ff518c60d5485f2bce9a68ff07007fdddf5f5099d07f66a281b0dae053fafc087ed4ce6aadf2a7979c89c6bf\
             bf559a4150831ea8001132d36e3af3e38c92165fb51339692c120ecebf2f07f2b12d424f4ad3947216c5aa1d25901a9dc745a550f2a883d255282d53267f",
            ":method: GET\n:scheme: https\n:authority: www.example.com\n:path: /index.html?a=1\naccept: */*\n\
             accept-encoding: gzip, deflate, br\nuser-agent: Mozilla/5.0 (X11; Linux x86_64)\n\
             cookie: session=0123456789abcdef; theme=dark\nx-custom-header-name: a value of some length\n",
        ),
        (
            "0000ff06f454830804d7faff232ef2b169ad3ebf005f44909d983f9b8d34cff3f6a52381e71a003f",
            ":status: 421\ncontent-type: text/html; charset=utf-8\ncontent-length: 1024\n\
             strict-transport-security: max-age=31536000; includesubdomains; preload\nx-frame-options: sameorigin\n\
             x-empty: \nalt-svc: h3=\":443\"; ma=86400\n",
        ),
    ];
    for (block, expected) in BLOCKS {
        let bytes: Vec<u8> =
            (0..block.len() / 2).map(|i| u8::from_str_radix(&block[2 * i..2 * i + 2], 16).unwrap()).collect();
        assert_eq!(text(&decode(&bytes).unwrap()), expected);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        fields in prop::collection::vec(
            ("[a-e&]{1,9}|:status|cookie|content-length|accept|authorization|content-type", "[ -~]{0,200}|200|text/css|\\*/\\*"), 0..8)
    ) {
        let block = encode(&fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect::<Vec<_>>());
        let fields: Fields = fields.into_iter().map(|(n, v)| (n.into_bytes(), v.into_bytes())).collect();
        prop_assert_eq!(decode(&block), Ok(fields));
        // A block that is cut between fields is a block, and elsewhere an error.
        for cut in 0..block.len() {
            let _ = decode(&block[..cut]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(block in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = decode(&[&[0, 0], &block[..]].concat());
        let _ = decode(&block);
    }
}
