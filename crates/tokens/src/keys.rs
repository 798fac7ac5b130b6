//! Keys that sign tokens, from a JWK set (RFC 7517). A key of a kind that evenkeel does not use is passed over, as
//! section 5 asks for.

use crate::refused::Refused;
use crate::token::Token;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evenkeel_config::plan::JwtAlgorithm;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::Value;
use std::fmt;

/// Largest JWK set that is read, in bytes: a hundred keys with their certificates.
pub const SET_MAX: usize = 256 * 1024;

/// Most keys that are tried for a token that does not name its key: each costs a verification.
const TRIES_MAX: usize = 4;

/// Shortest modulus of an RSA key, in bits (RFC 7518 section 3.3).
const RSA_MIN: usize = 2048;

/// Longest modulus of an RSA key, in bits: the limit of the cryptographic library.
const RSA_MAX: usize = 8192;

/// Keys of an issuer that can be used to verify tokens.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Reasons for which keys of the set are not used, for the log.
    passed_over: Vec<String>,
}

/// Public or secret key of an issuer, with the limits of its use.
struct Key {
    kid: Option<Box<str>>,
    /// The only algorithm that the key may be used with, if it names any.
    only: Option<Algorithm>,
    kind: Kind,
    key: DecodingKey,
}

/// Kind of a key, which decides on its algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
    /// Secret key of this many bytes.
    Secret(usize),
}

impl KeySet {
    /// Reads a JWK set. `secret`: secret keys (`oct`) are used, too.
    ///
    /// # Errors
    /// The text is not a JWK set, or has no key that can be used.
    pub fn read(json: &[u8], secret: bool) -> Result<KeySet, String> {
        if json.len() > SET_MAX {
            return Err(format!("it is larger than {} KiB", SET_MAX / 1024));
        }
        let set: Value = serde_json::from_slice(json).map_err(|error| match error.classify() {
            // The text may be a secret key.
            serde_json::error::Category::Eof => "it is not JSON: it ends too early".to_string(),
            _ => format!("it is not JSON: line {}, column {}", error.line(), error.column()),
        })?;
        let Some(Value::Array(keys)) = set.get("keys") else {
            return Err("it is not a JWK set: it has no array \"keys\"".to_string());
        };
        let mut read = KeySet::default();
        for (at, key) in keys.iter().enumerate() {
            match Key::read(key, secret) {
                Ok(key) => read.keys.push(key),
                Err(why) => read.passed_over.push(match key.get("kid").and_then(Value::as_str) {
                    Some(kid) => format!("key {:?} {why}", kid.chars().take(64).collect::<String>()),
                    None => format!("key {} {why}", at + 1),
                }),
            }
        }
        match (read.keys.is_empty(), &*read.passed_over) {
            (true, []) => Err("it has no keys".to_string()),
            (true, why) => Err(format!("it has no key that can be used: {}", why.join("; "))),
            (false, _) => Ok(read),
        }
    }

    /// Number of keys that can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if no key can be used.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Reasons for which keys of the set are not used.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Verifies the signature of a token, with the key that it names or, if it names none, with each that fits.
    ///
    /// # Errors
    /// No key fits, or the signature is wrong.
    pub fn verify(&self, token: &Token<'_>) -> Result<(), Refused> {
        let algorithm = library_of(token.algorithm);
        let fit = |key: &&Key| key.fits(algorithm);
        let named: Vec<&Key> = match &token.kid {
            Some(kid) => {
                let of_name = |key: &&Key| key.kid.as_ref() == Some(kid);
                let named: Vec<_> = self.keys.iter().filter(of_name).filter(fit).collect();
                // A key without a name may be of any; a key with another name is not the token's.
                let unnamed = || self.keys.iter().filter(|key| key.kid.is_none()).filter(fit).collect();
                if self.keys.iter().any(|key| key.kid.as_ref() == Some(kid)) { named } else { unnamed() }
            }
            None => self.keys.iter().filter(fit).collect(),
        };
        if named.is_empty() {
            return Err(Refused::UnknownKey);
        }
        if named.len() > TRIES_MAX {
            return Err(Refused::Malformed("names no key, and too many fit"));
        }
        let signed = token.signed.as_bytes();
        let is_of = |key: &&Key| crypto::verify(token.signature, signed, &key.key, algorithm).unwrap_or(false);
        if named.iter().any(is_of) { Ok(()) } else { Err(Refused::Signature) }
    }
}

/// Lists names and kinds, and nothing of the keys.
impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| (&key.kid, key.kind))).finish()
    }
}

impl Key {
    fn read(json: &Value, secret: bool) -> Result<Key, &'static str> {
        let jwk: Jwk = serde_json::from_value(json.clone()).map_err(|_| "is not a JWK that evenkeel knows")?;
        if jwk.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
            return Err("is not for signatures (use)");
        }
        let verifies = |all: &Vec<KeyOperations>| all.contains(&KeyOperations::Verify);
        if !jwk.common.key_operations.as_ref().is_none_or(verifies) {
            return Err("is not for verification (key_ops)");
        }
        let only = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string().parse::<Algorithm>());
        let only = only.transpose().map_err(|_| "has an alg that evenkeel does not know")?;
        let kind = kind(&jwk, secret)?;
        let key = DecodingKey::from_jwk(&jwk).map_err(|_| "is not well-formed")?;
        let kid = jwk.common.key_id.map(String::into_boxed_str);
        let key = Key { kid, only, kind, key };
        match only.is_some_and(|only| !key.fits(only)) {
            true => Err("has an alg that its kty, crv or length does not fit"),
            false => Ok(key),
        }
    }

    /// True if tokens with this algorithm can be verified with the key. A public key is never used as a secret.
    fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512};
        let fits = match (self.kind, algorithm) {
            (Kind::Rsa, RS256 | RS384 | RS512 | PS256 | PS384 | PS512) => true,
            (Kind::P256, ES256) | (Kind::P384, ES384) | (Kind::Ed25519, EdDSA) => true,
            // A secret must be as long as the hash (RFC 7518 section 3.2).
            (Kind::Secret(len), HS256) => len >= 32,
            (Kind::Secret(len), HS384) => len >= 48,
            (Kind::Secret(len), HS512) => len >= 64,
            _ => false,
        };
        fits && self.only.is_none_or(|only| only == algorithm)
    }
}

fn kind(jwk: &Jwk, secret: bool) -> Result<Kind, &'static str> {
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| "is not well-formed");
    match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let (modulus, exponent) = (bytes(&rsa.n)?, bytes(&rsa.e)?);
            let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
            let bits =
                modulus.get(zeros).map_or(0, |first| (modulus.len() - zeros) * 8 - first.leading_zeros() as usize);
            // The library takes exponents of 3 to 2^33 - 1.
            match (RSA_MIN..=RSA_MAX).contains(&bits) && !exponent.is_empty() {
                true => Ok(Kind::Rsa),
                false => Err("is an RSA key of under 2048 or over 8192 bits"),
            }
        }
        AlgorithmParameters::EllipticCurve(ec) => {
            let (kind, len) = match ec.curve {
                EllipticCurve::P256 => (Kind::P256, 32),
                EllipticCurve::P384 => (Kind::P384, 48),
                _ => return Err("is of a curve that evenkeel does not use"),
            };
            // Coordinates have their full length (RFC 7518 section 6.2.1.2).
            match bytes(&ec.x)?.len() == len && bytes(&ec.y)?.len() == len {
                true => Ok(kind),
                false => Err("is not well-formed"),
            }
        }
        AlgorithmParameters::OctetKeyPair(pair) => match pair.curve {
            EllipticCurve::Ed25519 if bytes(&pair.x)?.len() == 32 => Ok(Kind::Ed25519),
            EllipticCurve::Ed25519 => Err("is not well-formed"),
            _ => Err("is of a curve that evenkeel does not use"),
        },
        AlgorithmParameters::OctetKey(_) if !secret => Err("is a secret key, which only a file may have"),
        AlgorithmParameters::OctetKey(key) => match bytes(&key.value)?.len() {
            len @ 32.. => Ok(Kind::Secret(len)),
            _ => Err("is a secret key of under 32 bytes"),
        },
        _ => Err("is of a kty that evenkeel does not know"),
    }
}

fn library_of(algorithm: JwtAlgorithm) -> Algorithm {
    match algorithm {
        JwtAlgorithm::Rs256 => Algorithm::RS256,
        JwtAlgorithm::Rs384 => Algorithm::RS384,
        JwtAlgorithm::Rs512 => Algorithm::RS512,
        JwtAlgorithm::Ps256 => Algorithm::PS256,
        JwtAlgorithm::Ps384 => Algorithm::PS384,
        JwtAlgorithm::Ps512 => Algorithm::PS512,
        JwtAlgorithm::Es256 => Algorithm::ES256,
        JwtAlgorithm::Es384 => Algorithm::ES384,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
        JwtAlgorithm::Hs256 => Algorithm::HS256,
        JwtAlgorithm::Hs384 => Algorithm::HS384,
        JwtAlgorithm::Hs512 => Algorithm::HS512,
    }
}
