//! Issuers of tests: keys made for a run, and the tokens that they sign.
//!
//! Tokens are put together here and signed by aws-lc-rs, not by the library that verifies them.

#![allow(dead_code, reason = "each binary of tests uses some of it")]

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// An issuer: a key, and the algorithm that it signs with.
pub struct Signer {
    pub kid: &'static str,
    pub algorithm: &'static str,
    key: Key,
}

enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Secret(Vec<u8>),
}

/// Seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs().cast_signed()
}

/// Text of base64url.
pub fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    /// Makes a key for this algorithm.
    pub fn new(algorithm: &'static str, kid: &'static str) -> Signer {
        Signer::sized(algorithm, kid, 64)
    }

    /// Makes a key; a secret one has this many bytes.
    pub fn sized(algorithm: &'static str, kid: &'static str, secret: usize) -> Signer {
        let ec = |of: &'static EcdsaSigningAlgorithm| Key::Ec(EcdsaKeyPair::generate(of).expect("a key"));
        let key = match &algorithm[..2] {
            "RS" | "PS" => Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")),
            "ES" if algorithm == "ES256" => ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES" => ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "Ed" => Key::Ed(Ed25519KeyPair::generate().expect("a key")),
            _ => Key::Secret((0..secret).map(|n| (n * 7 + 1) as u8).collect()),
        };
        Signer { kid, algorithm, key }
    }

    /// The key as it is published; of a secret key, the key itself.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.key {
            Key::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({ "kty": "RSA", "n": b64(public.n), "e": b64(public.e) })
            }
            Key::Ec(pair) => {
                let public = pair.public_key().as_ref();
                let (x, y) = public[1..].split_at(public.len() / 2);
                let curve = if self.algorithm == "ES256" { "P-256" } else { "P-384" };
                json!({ "kty": "EC", "crv": curve, "x": b64(x), "y": b64(y) })
            }
            Key::Ed(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key()) }),
            Key::Secret(secret) => json!({ "kty": "oct", "k": b64(secret) }),
        };
        jwk["kid"] = self.kid.into();
        jwk["alg"] = self.algorithm.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// Returns a JWK set with this key alone.
    pub fn set(&self) -> String {
        set(&[self])
    }

    /// Signs these claims under the usual header.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&json!({ "alg": self.algorithm, "kid": self.kid, "typ": "JWT" }).to_string(), &claims.to_string())
    }

    /// A token of `sub` for ten minutes.
    pub fn of(&self, sub: &str) -> String {
        self.token(&json!({ "sub": sub, "exp": now() + 600 }))
    }

    /// Signs any header and any claims.
    pub fn sign(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", b64(header), b64(claims));
        let signature = b64(self.signature(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn signature(&self, signed: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Key::Rsa(pair) => {
                let padding: &dyn aws_lc_rs::signature::RsaEncoding = match self.algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, signed, &mut signature).expect("it signs");
                signature
            }
            Key::Ec(pair) => pair.sign(&random, signed).expect("it signs").as_ref().to_vec(),
            Key::Ed(pair) => pair.sign(signed).as_ref().to_vec(),
            Key::Secret(secret) => {
                let algorithm = match self.algorithm {
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::sign(&hmac::Key::new(algorithm, secret), signed).as_ref().to_vec()
            }
        }
    }

    /// Bytes of the public key as an attacker might take them for a secret: in DER and in PEM, and the texts of the JWK.
    pub fn public_bytes(&self) -> Vec<Vec<u8>> {
        let der = match &self.key {
            Key::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Key::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Key::Ed(pair) => pair.public_key().as_ref().to_vec(),
            Key::Secret(_) => Vec::new(),
        };
        let base64 = base64::engine::general_purpose::STANDARD.encode(&der);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n").into_bytes();
        let jwk = self.jwk();
        let n = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap_or_default()).expect("base64url");
        vec![der, pem, self.set().into_bytes(), jwk.to_string().into_bytes(), n]
    }

    /// A signer whose secret is these bytes, under the name of this one.
    pub fn impostor(&self, secret: Vec<u8>) -> Signer {
        Signer { kid: self.kid, algorithm: "HS256", key: Key::Secret(secret) }
    }
}

/// Returns the JWK set of some issuers.
pub fn set(signers: &[&Signer]) -> String {
    json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() }).to_string()
}
