//! Keys that all workers, and processes that replace each other, have in common: for the tokens of stateless resets, by
//! which a client learns that its connection is gone, and for those by which it proves its address.

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use quinn_proto::crypto::HandshakeTokenKey;
use std::sync::Arc;

/// Keys of all endpoints of an instance.
#[derive(Clone)]
pub struct Keys {
    pub(super) reset: Arc<Key>,
    token: Arc<Prk>,
    token_v2: Arc<Prk>,
}

impl Keys {
    /// Keys that follow from a secret.
    pub fn of(secret: &[u8]) -> Keys {
        let secret = Key::new(HMAC_SHA256, secret);
        let of = |purpose: &[u8]| sign(&secret, purpose);
        let token = |purpose| Arc::new(Salt::new(HKDF_SHA256, b"evenkeel").extract(of(purpose).as_ref()));
        Keys {
            reset: Arc::new(Key::new(HMAC_SHA256, of(b"quic reset").as_ref())),
            token: token(b"quic address"),
            token_v2: token(b"quic address 2"),
        }
    }

    /// Key of the tokens by which clients prove their address.
    pub fn token(&self) -> Arc<dyn HandshakeTokenKey> {
        self.token.clone()
    }

    /// Key of the tokens of clients that speak version 2. A token is good only in the version in which it was issued
    /// (RFC 9369 section 5).
    pub(super) fn token_v2(&self) -> Arc<dyn HandshakeTokenKey> {
        self.token_v2.clone()
    }
}
