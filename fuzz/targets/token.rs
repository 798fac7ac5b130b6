//! Tokens and the keys that sign them: no bytes panic, what is read as a token is its own spelling, and none that was made
//! up is valid.
#![no_main]

use evenkeel_tokens::{Claims, KeySet, Token};
use libfuzzer_sys::fuzz_target;

/// A key of RFC 8037, appendix A, with which no input is signed.
const KEYS: &[u8] =
    br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

fuzz_target!(|bytes: &[u8]| {
    let _ = Claims::read(bytes);
    let _ = KeySet::read(bytes, true);
    let Ok(token) = Token::read(bytes) else { return };
    assert_eq!(format!("{}.{}", token.signed, token.signature).as_bytes(), bytes);
    let _ = token.claims();
    let keys = KeySet::read(KEYS, false).expect("a good key");
    // The example of RFC 8037 is the one token with this key that was ever published.
    assert!(keys.verify(&token).is_err() || token.claims().is_err());
});
