//! Session resumption by tickets, sealed with keys that all workers share: random keys that rotate, or keys from files
//! that several instances have. A session is resumed only where clients have to prove the same as where it began.

use crate::clock::now;
use crate::pair::FileError;
use crate::proof;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::server::ProducesTickets;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a key file in bytes, as for HAProxy and NGINX: a name of 16 bytes, and 64 of key material.
const FILE: usize = 80;

/// Tolerated difference between the clocks of instances, in seconds.
const CLOCK_SKEW: i64 = 3600;

/// Lifetime of a ticket, in seconds.
const LIFETIME: u32 = 12 * 3600;

const NAME_LEN: usize = 16;

/// Prefix of the hash of the required proof. Changes with the format, so that tickets of another do not open.
pub const FORMAT: &[u8] = b"evenkeel ticket 2";

/// Maximum size of a session in bytes; a larger session gets no ticket. Most of it is the client's certificates, and
/// the client sends it back in its ClientHello, which is limited to 16 KiB.
const SESSION_MAX: usize = 8 * 1024;

/// Ticketer with keys from files.
#[derive(Debug)]
pub struct FromFiles {
    /// All keys open tickets; the first key seals.
    keys: Vec<Key>,
}

/// A key that seals tickets, and its name in them.
#[derive(Debug)]
pub struct Key {
    name: [u8; NAME_LEN],
    aead: LessSafeKey,
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Key> {
        let (name, _) = bytes.split_first_chunk::<NAME_LEN>()?;
        // Of all bytes, as any 32 of them alone may be known.
        let secret = Sha256::digest(bytes);
        let aead = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &secret).ok()?);
        Some(Key { name: *name, aead })
    }
}

/// Creates a ticketer with the keys of these files; without any, with random keys that rotate.
///
/// # Errors
/// A file has no key, or the system has no randomness.
pub fn tickets(files: &[PathBuf]) -> Result<Arc<dyn ProducesTickets>, FileError> {
    if files.is_empty() {
        return rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| {
            FileError::new(
                true,
                format!("cannot generate a random ticket key: {error}"),
                "the kernel returned no random bytes",
            )
        });
    }
    let keys = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(FromFiles { keys }))
}

/// Reads the key of a file.
///
/// # Errors
/// The file cannot be read, or does not have the length of a key.
pub fn read(path: &Path) -> Result<Key, FileError> {
    let help = format!("create it with: openssl rand {FILE} > {}", path.display());
    let bytes = std::fs::read(path)
        .map_err(|error| FileError::new(true, format!("cannot read {}: {error}", path.display()), help.clone()))?;
    let key = Key::new(&bytes).filter(|_| bytes.len() == FILE);
    key.ok_or_else(|| {
        FileError::new(true, format!("{} has {} bytes; a key has {FILE}", path.display(), bytes.len()), help)
    })
}

impl ProducesTickets for FromFiles {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        key.aead
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&key.name), &mut sealed)
            .ok()?;
        Some([&key.name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.keys.iter().find(|key| key.name == *name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = key.aead.open_in_place(nonce, Aad::from(&key.name), &mut sealed).ok()?.len();
        sealed.truncate(len);
        Some(sealed)
    }
}

/// Ticketer bound to the required proof of clients. Tickets for another proof do not open: otherwise a client could
/// resume a session where a certificate is required that it never showed, or that was revoked since. Nor do tickets
/// past their lifetime, even if the key is still in use, or past the validity of the certificates that the client has
/// shown.
#[derive(Debug)]
pub struct Bound {
    keys: Arc<dyn ProducesTickets>,
    proof: [u8; 32],
    /// True if clients are asked for certificates.
    asks: bool,
}

impl Bound {
    /// Seals with `keys`, for clients that have to prove `proof`.
    pub fn new(keys: Arc<dyn ProducesTickets>, proof: [u8; 32], asks: bool) -> Bound {
        Bound { keys, proof, asks }
    }

    fn seal(&self, plain: &[u8], now: i64) -> Option<Vec<u8>> {
        // Without a known end of the client's certificates there is no ticket.
        let until = if self.asks { proof::until()? } else { i64::MAX };
        if plain.len() > SESSION_MAX {
            return None;
        }
        self.keys.encrypt(&[&self.proof[..], &now.to_be_bytes(), &until.to_be_bytes(), plain].concat())
    }

    fn open(&self, ticket: &[u8], now: i64) -> Option<Vec<u8>> {
        let plain = self.keys.decrypt(ticket)?;
        let (made, rest) = plain.strip_prefix(&self.proof)?.split_first_chunk()?;
        let (until, session) = rest.split_first_chunk()?;
        let until = i64::from_be_bytes(*until);
        let age = now.checked_sub(i64::from_be_bytes(*made))?;
        // Negative ages come from instances whose clocks are ahead.
        let is_good = (-CLOCK_SKEW..=i64::from(self.lifetime())).contains(&age) && now <= until;
        is_good.then(|| {
            // The ticket that follows must not be valid for longer.
            proof::bound(until);
            session.to_vec()
        })
    }
}

impl ProducesTickets for Bound {
    fn enabled(&self) -> bool {
        self.keys.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.keys.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, now())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::Proof;

    fn keys(seeds: &[u8]) -> FromFiles {
        FromFiles { keys: seeds.iter().map(|seed| Key::new(&[*seed; FILE]).expect("a key")).collect() }
    }

    #[test]
    fn a_ticket_opens_where_its_key_is() {
        let ticket = keys(&[1]).encrypt(b"session").expect("sealed");
        assert_eq!(keys(&[2, 1]).decrypt(&ticket).as_deref(), Some(&b"session"[..]), "the key is older there");
        assert_eq!(keys(&[2]).decrypt(&ticket), None);
        for at in 0..ticket.len() {
            let mut other = ticket.clone();
            other[at] ^= 1;
            assert_eq!(keys(&[1]).decrypt(&other), None, "byte {at}");
            assert_eq!(keys(&[1]).decrypt(&ticket[..at]), None);
        }
        assert_ne!(keys(&[1]).encrypt(b"session"), Some(ticket), "each is another");
    }

    #[test]
    fn a_session_is_resumed_only_where_clients_prove_the_same() {
        let keys: Arc<dyn ProducesTickets> = Arc::new(keys(&[1]));
        let [one, same, other] = [1, 1, 2].map(|proof| Bound::new(keys.clone(), [proof; 32], false));
        let ticket = one.encrypt(b"session").expect("sealed");
        assert_eq!(same.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(other.decrypt(&ticket), None);
        assert_eq!(one.decrypt(&keys.encrypt(b"short").expect("sealed")), None);
        assert_eq!(one.decrypt(&keys.encrypt(&[1; 32]).expect("sealed")), None);
    }

    #[test]
    fn a_ticket_is_good_for_half_a_day() {
        let bound = Bound::new(Arc::new(keys(&[1])), [0; 32], false);
        let ticket = bound.seal(b"session", 1_000_000).expect("sealed");
        let half_a_day = 12 * 3600;
        for (later, is_good) in
            [(0, true), (half_a_day, true), (half_a_day + 1, false), (-CLOCK_SKEW, true), (-CLOCK_SKEW - 1, false)]
        {
            assert_eq!(bound.open(&ticket, 1_000_000 + later).is_some(), is_good, "{later}");
        }
    }

    #[test]
    fn a_session_ends_with_what_its_client_has_shown() {
        let bound = Bound::new(Arc::new(keys(&[1])), [0; 32], true);
        let first = Proof::default();
        let ticket = first.within(|| {
            proof::bound(1_000);
            bound.seal(b"session", 500).expect("sealed")
        });
        let second = Proof::default();
        assert_eq!(second.within(|| bound.open(&ticket, 1_000)).as_deref(), Some(&b"session"[..]));
        assert_eq!(Proof::default().within(|| bound.open(&ticket, 1_001)), None);
        // The next ticket inherits the limit, though no certificate was shown.
        let next = second.within(|| bound.seal(b"session", 900)).expect("sealed");
        assert_eq!(Proof::default().within(|| bound.open(&next, 1_001)), None);
        // Without a known limit there is no ticket.
        assert_eq!(bound.seal(b"session", 500), None);
    }

    #[test]
    fn a_session_that_would_fill_a_hello_has_no_ticket() {
        let bound = Bound::new(Arc::new(keys(&[1])), [0; 32], false);
        assert!(bound.encrypt(&[0; SESSION_MAX]).is_some());
        assert_eq!(bound.encrypt(&[0; SESSION_MAX + 1]), None);
    }

    #[test]
    fn a_file_has_eighty_bytes() {
        let path = std::env::temp_dir().join(format!("evenkeel-ticket-{}", std::process::id()));
        for (len, is_well) in [(0, false), (48, false), (80, true), (81, false)] {
            std::fs::write(&path, vec![7; len]).expect("a file");
            assert_eq!(tickets(std::slice::from_ref(&path)).is_ok(), is_well, "{len}");
        }
        std::fs::remove_file(&path).expect("it is there");
        assert!(tickets(&[path]).is_err_and(|error| error.help.contains("openssl rand 80")));
    }
}
