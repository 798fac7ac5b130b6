//! Keys as the store sees them, and their keyed hashes.

use crate::key::Key;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A key: bytes that begin with a URL. Keys with the same URL can be purged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) url_len: usize,
}

impl<'k> KeyRef<'k> {
    /// Key whose first `url_len` bytes are its URL; more than there are counts as all.
    pub fn new(bytes: &'k [u8], url_len: usize) -> KeyRef<'k> {
        KeyRef { bytes, url_len: url_len.min(bytes.len()) }
    }

    /// All bytes, the URL first.
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// URL at the beginning of the key.
    pub fn url(&self) -> &'k [u8] {
        &self.bytes[..self.url_len]
    }
}

impl<'k> From<&'k Key> for KeyRef<'k> {
    fn from(key: &'k Key) -> KeyRef<'k> {
        KeyRef::new(key.bytes(), key.url().len())
    }
}

/// Hashes of a key: of its URL and of all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes {
    pub url: u64,
    pub key: u64,
}

/// Hash function with random keys: clients choose URLs, and must not be able to choose those that collide.
#[derive(Debug, Default)]
pub(super) struct Hashing(RandomState);

impl Hashing {
    pub fn url(&self, url: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(url);
        hasher.finish()
    }

    pub fn key(&self, key: &KeyRef<'_>) -> Hashes {
        let mut hasher = self.0.build_hasher();
        hasher.write(key.url());
        let url = hasher.finish();
        hasher.write(&key.bytes[key.url_len..]);
        Hashes { url, key: hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_url_share_its_hash_only() {
        let hashing = Hashing::default();
        let [a, b] = [&b"url/a"[..], b"url/b"].map(|bytes| hashing.key(&KeyRef::new(bytes, 3)));
        assert_eq!((a.url, b.url), (hashing.url(b"url"), hashing.url(b"url")));
        assert_ne!(a.key, b.key);
    }
}
