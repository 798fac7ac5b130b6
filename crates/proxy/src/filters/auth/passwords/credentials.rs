//! Names and passwords of requests: the value of `Authorization` as RFC 7617 defines it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Longest credentials, in bytes as the client encodes them.
pub const CREDENTIALS_MAX: usize = 1024;

/// Longest credentials, decoded.
const DECODED_MAX: usize = CREDENTIALS_MAX / 4 * 3;

/// Name and password of a request, zeroed when they are dropped.
pub struct Credentials {
    decoded: Zeroizing<[u8; DECODED_MAX]>,
    /// Index of the first colon, which ends the name.
    colon: usize,
    len: usize,
}

impl Credentials {
    /// Reads the value of `Authorization`.
    ///
    /// # Errors
    /// The reason why it has no name and password, in words.
    pub fn read(value: &[u8]) -> Result<Credentials, &'static str> {
        let (scheme, rest) = value.split_at_checked(5).unwrap_or((value, b""));
        if !scheme.eq_ignore_ascii_case(b"basic") || !rest.starts_with(b" ") {
            return Err("the credentials are not of the scheme Basic");
        }
        let spaces = rest.iter().take_while(|b| **b == b' ').count();
        let encoded = &rest[spaces..];
        if encoded.len() > CREDENTIALS_MAX {
            return Err("the credentials are longer than 1024 bytes");
        }
        let mut decoded = Zeroizing::new([0; DECODED_MAX]);
        // Strict: with padding, and without bits that the last character leaves over.
        let len = STANDARD.decode_slice(encoded, &mut *decoded).map_err(|_| "the credentials are not base64")?;
        let text = &decoded[..len];
        if text.iter().any(u8::is_ascii_control) {
            return Err("the credentials have control characters");
        }
        match text.iter().position(|b| *b == b':') {
            None => Err("the credentials have no colon"),
            Some(0) => Err("the credentials have no name"),
            Some(colon) => Ok(Credentials { decoded, colon, len }),
        }
    }

    /// Name of the user, at least 1 byte.
    pub fn name(&self) -> &[u8] {
        &self.decoded[..self.colon]
    }

    /// Password, which may be empty and may have colons.
    pub fn password(&self) -> &[u8] {
        &self.decoded[self.colon + 1..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(value: &str) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
        Credentials::read(value.as_bytes()).map(|read| (read.name().to_vec(), read.password().to_vec()))
    }

    #[test]
    fn the_example_of_the_rfc_is_read() {
        let aladdin = Ok((b"Aladdin".to_vec(), b"open sesame".to_vec()));
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        assert_eq!(read("bAsIc   QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        // RFC 7617 section 2.1, in UTF-8.
        assert_eq!(read("Basic dGVzdDoxMjPCow=="), Ok((b"test".to_vec(), "123£".into())));
        assert_eq!(read("Basic YTo="), Ok((b"a".to_vec(), Vec::new())));
        assert_eq!(read("Basic YTpiOmM6"), Ok((b"a".to_vec(), b"b:c:".to_vec())));
    }

    #[test]
    fn everything_else_is_refused() {
        for (value, why) in [
            ("", "Basic"),
            ("Basic", "Basic"),
            ("BasicYTpi", "Basic"),
            ("Basic\tYTpi", "Basic"),
            ("Bearer YTpi", "Basic"),
            ("Basi\u{e9} YTpi", "Basic"),
            ("Basic ", "colon"),
            ("Basic YWI=", "colon"),
            ("Basic OmE=", "name"),
            ("Basic Og==", "name"),
            ("Basic YTo", "base64"),
            ("Basic YTo==", "base64"),
            ("Basic YTp=", "base64"),
            ("Basic YTo=,", "base64"),
            ("Basic YTo= ", "base64"),
            ("Basic YTpi YTpi", "base64"),
            ("Basic YTpi, Basic YTpi", "base64"),
            ("Basic YTo_", "base64"),
            ("Basic a:b", "base64"),
            ("Basic YTpiAA==", "control"),
            ("Basic YQo6Yg==", "control"),
            ("Basic YTpifw==", "control"),
        ] {
            let refused = read(value).expect_err(value);
            assert!(refused.contains(why), "{value}: {refused}");
        }
    }

    #[test]
    fn the_longest_credentials_are_read_and_longer_ones_refused() {
        let longest = STANDARD.encode([&b"a:"[..], &[b'x'; DECODED_MAX - 2]].concat());
        assert_eq!(longest.len(), CREDENTIALS_MAX);
        assert_eq!(read(&format!("Basic {longest}")), Ok((b"a".to_vec(), vec![b'x'; DECODED_MAX - 2])));
        assert!(read(&format!("Basic {longest}YTpi")).expect_err("too long").contains("longer"));
        assert!(read(&format!("Basic {}", "A".repeat(100_000))).expect_err("too long").contains("longer"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(name in "[^:\\p{Cc}]{1,60}", password in "\\P{Cc}{0,60}", spaces in 1..5_usize) {
            let encoded = STANDARD.encode(format!("{name}:{password}"));
            let value = format!("Basic{}{encoded}", " ".repeat(spaces));
            prop_assert_eq!(read(&value), Ok((name.into_bytes(), password.into_bytes())));
        }

        /// Two texts of the same credentials would be two keys for whatever is in front or behind.
        #[test]
        fn no_other_text_is_read_as_the_same(encoded in "[A-Za-z0-9+/]{2,40}={0,2}") {
            if let Ok((name, password)) = read(&format!("Basic {encoded}")) {
                prop_assert_eq!(STANDARD.encode([&name[..], b":", &password].concat()), encoded);
            }
        }

        #[test]
        fn any_bytes_have_an_answer(value in prop::collection::vec(any::<u8>(), 0..1200)) {
            let _ = Credentials::read(&value);
            let _ = Credentials::read(&[&b"Basic "[..], &value].concat());
        }
    }
}
