//! A token as it is sent: header, claims and signature in base64url (JWS compact serialization, RFC 7515 section 7.1).

use crate::claims::Claims;
use crate::refused::Refused;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_config::plan::JwtAlgorithm;

/// Longest token that is read, in bytes: half of the head that a client may send by default.
pub const TOKEN_MAX: usize = 8 * 1024;

/// A token whose header was read. Nothing of it is verified.
#[derive(Debug)]
pub struct Token<'t> {
    /// Header and claims as they were signed.
    pub signed: &'t str,
    /// Signature in base64url.
    pub signature: &'t str,
    pub algorithm: JwtAlgorithm,
    /// Name of the key that signed it.
    pub kid: Option<Box<str>>,
    claims: &'t str,
}

impl<'t> Token<'t> {
    /// Reads the header of a token.
    ///
    /// # Errors
    /// The text is not a signed token, or a token that requires features that evenkeel does not know.
    pub fn read(text: &'t [u8]) -> Result<Token<'t>, Refused> {
        if text.len() > TOKEN_MAX {
            return Err(Refused::Malformed("is longer than 8 KiB"));
        }
        let text = std::str::from_utf8(text).map_err(|_| Refused::Malformed("is not base64url"))?;
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Refused::Malformed("does not have three parts"));
        };
        let read = Claims::read(&decode(header)?).map_err(|_| Refused::Malformed("has a header that is not JSON"))?;
        if read.has("crit") {
            return Err(Refused::Malformed("has a crit in its header, of which nothing is known"));
        }
        let Some(algorithm) = read.text("alg") else { return Err(Refused::Malformed("has no alg in its header")) };
        let algorithm = JwtAlgorithm::of_name(algorithm).ok_or(Refused::Algorithm)?;
        let kid = match read.has("kid") {
            true => Some(read.text("kid").ok_or(Refused::Malformed("has a kid that is not a string"))?.into()),
            false => None,
        };
        Ok(Token { signed: &text[..header.len() + 1 + claims.len()], signature, algorithm, kid, claims })
    }

    /// Reads the claims.
    ///
    /// # Errors
    /// The claims are not a JSON object, or have a name twice.
    pub fn claims(&self) -> Result<Claims, Refused> {
        Claims::read(&decode(self.claims)?).map_err(|why| {
            Refused::Malformed(match why {
                "has a name twice" => "has a claim twice",
                _ => "has claims that are not a JSON object",
            })
        })
    }
}

/// Decodes a part. Padding and bits that stand for nothing are refused, so that a token has a single spelling.
fn decode(part: &str) -> Result<Vec<u8>, Refused> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Malformed("is not base64url"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_is_read_without_being_believed() {
        let text = token(r#"{"alg":"RS256","kid":"a","typ":"JWT","jku":"https://evil.example"}"#, r#"{"sub":"x"}"#);
        let token = Token::read(text.as_bytes()).expect("good");
        assert_eq!((token.algorithm, token.kid.as_deref(), token.signature), (JwtAlgorithm::Rs256, Some("a"), "c2ln"));
        assert_eq!(format!("{}.{}", token.signed, token.signature), text);
        assert_eq!(token.claims().expect("good").text("sub"), Some("x"));
    }

    #[test]
    fn tokens_that_are_unsigned_or_require_what_is_unknown_are_refused() {
        for (header, refused) in [
            (r#"{"alg":"none"}"#, Refused::Algorithm),
            (r#"{"alg":"None"}"#, Refused::Algorithm),
            (r#"{"alg":"rs256"}"#, Refused::Algorithm),
            (r#"{"alg":""}"#, Refused::Algorithm),
            (r#"{"alg":"RS256","alg":"none"}"#, Refused::Malformed("has a header that is not JSON")),
            (r#"{"alg":["RS256"]}"#, Refused::Malformed("has no alg in its header")),
            (r#"{"typ":"JWT"}"#, Refused::Malformed("has no alg in its header")),
            (r#"["RS256"]"#, Refused::Malformed("has a header that is not JSON")),
            (
                r#"{"alg":"RS256","crit":["exp"]}"#,
                Refused::Malformed("has a crit in its header, of which nothing is known"),
            ),
            (
                r#"{"alg":"RS256","crit":null}"#,
                Refused::Malformed("has a crit in its header, of which nothing is known"),
            ),
            (
                r#"{"alg":"RS256","b64":false,"crit":["b64"]}"#,
                Refused::Malformed("has a crit in its header, of which nothing is known"),
            ),
            (r#"{"alg":"RS256","kid":7}"#, Refused::Malformed("has a kid that is not a string")),
        ] {
            assert_eq!(Token::read(token(header, "{}").as_bytes()).err(), Some(refused), "{header}");
        }
    }

    #[test]
    fn texts_that_are_no_tokens_are_refused() {
        let good = token(r#"{"alg":"RS256"}"#, "{}");
        for text in [
            "",
            ".",
            "..",
            "a.b",
            "a.b.c.d",
            "a.b.c.d.e",
            &format!("{good}."),
            &format!(" {good}"),
            &good.replace("e30", "e30="),
            &format!("{}.e30.x", "A".repeat(TOKEN_MAX)),
            "\u{e4}.e30.x",
        ] {
            let read = Token::read(text.as_bytes()).and_then(|token| token.claims());
            assert!(matches!(read, Err(Refused::Malformed(_))), "{text}");
        }
        // The last character stands for bits that are not zero, or for a single byte's half.
        assert!(Token::read(good.replace("e30", "e31").as_bytes()).expect("a good header").claims().is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Token::read(&bytes).and_then(|token| token.claims());
        }

        #[test]
        fn no_header_panics(header in "\\PC{0,60}", claims in "\\PC{0,60}") {
            let _ = Token::read(token(&header, &claims).as_bytes()).and_then(|token| token.claims());
        }
    }
}
