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
}

impl Keys {
    /// Keys that follow from a secret.
    pub fn of(secret: &[u8]) -> Keys {
        let secret = Key::new(HMAC_SHA256, secret);
        let of = |purpose: &[u8]| sign(&secret, purpose);
        let token = Salt::new(HKDF_SHA256, b"evenkeel").extract(of(b"quic address").as_ref());
        Keys { reset: Arc::new(Key::new(HMAC_SHA256, of(b"quic reset").as_ref())), token: Arc::new(token) }
    }

    /// Key of the tokens by which clients prove their address.
    pub fn token(&self) -> Arc<dyn HandshakeTokenKey> {
        self.token.clone()
    }
}
