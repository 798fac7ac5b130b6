//! What is one record, and how is it sealed and opened? As RFC 8446 section 5 has it for TLS 1.3, and RFC 5246, 5288 and 7905
//! for TLS 1.2, of which rustls agrees to AEAD ciphers only.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use std::ops::Range;

/// Bytes before each record: its type, a version, its length.
pub const HEADER: usize = 5;

/// The most plaintext in one record.
pub const PLAIN_MAX: usize = 16 * 1024;

/// The most that a record may have behind its header: what TLS 1.2 allows, which is more than TLS 1.3 does.
pub const BODY_MAX: usize = PLAIN_MAX + 2048;

const TAG: usize = 16;
const NONCE: usize = 12;

/// The part of a nonce that TLS 1.2 with AES-GCM sends with each record.
const EXPLICIT: usize = 8;

/// Types of records.
pub const ALERT: u8 = 21;
/// As above.
pub const HANDSHAKE: u8 = 22;
/// As above.
pub const DATA: u8 = 23;

/// A record that cannot be opened, or cannot be sealed. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was changed on its way, or sealed with another key.
    BadMac,
    /// It is larger than records may be.
    Overflow,
    /// Its type has no place here.
    Unexpected,
    /// A message in it breaks the rules.
    Malformed,
    /// A message in it has a value that there is not.
    Illegal,
    /// The peer wants to shake hands again, which TLS 1.2 allows.
    Renegotiation,
    /// A key has sealed as much as it may.
    Exhausted,
}

impl Fault {
    /// What the peer is told (RFC 8446 section 6).
    pub fn alert(self) -> u8 {
        match self {
            Fault::BadMac => 20,
            Fault::Overflow => 22,
            Fault::Unexpected => 10,
            Fault::Malformed => 50,
            Fault::Illegal => 47,
            Fault::Renegotiation => 100,
            Fault::Exhausted => 80,
        }
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Fault::BadMac => "a TLS record failed authentication",
            Fault::Overflow => "a TLS record is larger than 16 KiB",
            Fault::Unexpected => "unexpected TLS message",
            Fault::Malformed => "malformed TLS message",
            Fault::Illegal => "a TLS message has an illegal value",
            Fault::Renegotiation => "TLS renegotiation is not supported",
            Fault::Exhausted => "a TLS key reached its usage limit",
        }
    }
}

/// Where the first record of `bytes` ends, if its header is there. It may not have come yet.
pub fn end(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..HEADER)?;
    Some(HEADER + usize::from(u16::from_be_bytes([header[3], header[4]])))
}

/// The key of one direction.
pub struct Key {
    key: LessSafeKey,
    iv: [u8; NONCE],
    seq: u64,
    is_13: bool,
    /// Bytes of the nonce in each record.
    explicit: usize,
}

impl Key {
    /// As agreed: `is_13`, or else TLS 1.2.
    pub fn new(is_13: bool, (seq, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Key, Fault> {
        let (algorithm, key, iv, is_gcm) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, true),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, true),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, false),
            _ => return Err(Fault::Unexpected),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| Fault::Unexpected)?;
        let iv = iv.as_ref().try_into().map_err(|_| Fault::Unexpected)?;
        let explicit = if is_gcm && !is_13 { EXPLICIT } else { 0 };
        Ok(Key { key: LessSafeKey::new(key), iv, seq, is_13, explicit })
    }

    /// Records that it has sealed or opened.
    pub fn used(&self) -> u64 {
        self.seq
    }

    /// Bytes of a record besides its plaintext.
    pub fn overhead(&self) -> usize {
        HEADER + self.explicit + usize::from(self.is_13) + TAG
    }

    fn nonce(&self) -> [u8; NONCE] {
        let mut nonce = self.iv;
        let seq = self.seq.to_be_bytes();
        nonce[NONCE - seq.len()..].iter_mut().zip(seq).for_each(|(n, s)| *n ^= s);
        nonce
    }

    /// TLS 1.2 authenticates the number of the record, type and version of its header, and the length of the plaintext.
    fn aad_12(&self, header: [u8; HEADER], len: usize) -> [u8; 13] {
        let mut aad = [0; 13];
        aad[..8].copy_from_slice(&self.seq.to_be_bytes());
        aad[8..11].copy_from_slice(&header[..3]);
        aad[11..].copy_from_slice(&(len as u16).to_be_bytes());
        aad
    }

    /// Seals `plain`, of [`PLAIN_MAX`] at most, to the front of `out`: how many bytes. `out` has room for it and for the
    /// [`overhead`](Self::overhead).
    pub fn seal(&mut self, kind: u8, plain: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let len = self.overhead() + plain.len();
        let out = out.get_mut(..len).ok_or(Fault::Overflow)?;
        let nonce = self.nonce();
        let outer = if self.is_13 { DATA } else { kind };
        let [high, low] = ((len - HEADER) as u16).to_be_bytes();
        let header = [outer, 3, 3, high, low];
        let (front, body) = out.split_at_mut(HEADER + self.explicit);
        front[..HEADER].copy_from_slice(&header);
        front[HEADER..].copy_from_slice(&nonce[NONCE - self.explicit..]);
        let (cipher, behind) = body.split_at_mut(plain.len());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = if self.is_13 {
            self.key.seal_out_of_place_scatter(nonce, Aad::from(header), plain, cipher, &[kind], behind)
        } else {
            let aad = Aad::from(self.aad_12(header, plain.len()));
            self.key.seal_out_of_place_scatter(nonce, aad, plain, cipher, &[], behind)
        };
        sealed.map_err(|_| Fault::Exhausted)?;
        self.seq += 1;
        Ok(len)
    }

    /// Bytes of `out` that [`open`](Self::open) needs for a record of so many bytes.
    pub fn needs(&self, record: usize) -> usize {
        record.saturating_sub(HEADER + self.explicit + TAG)
    }

    /// Opens a record, which is all of `record`, to the front of `out`: its type, and where its plaintext is.
    pub fn open(&mut self, record: &[u8], out: &mut [u8]) -> Result<(u8, Range<usize>), Fault> {
        let (header, body) = record.split_at_checked(HEADER).ok_or(Fault::Malformed)?;
        let header: [u8; HEADER] = header.try_into().map_err(|_| Fault::Malformed)?;
        let (explicit, body) = body.split_at_checked(self.explicit).ok_or(Fault::Malformed)?;
        let len = body.len().checked_sub(TAG).ok_or(Fault::Malformed)?;
        let (cipher, tag) = body.split_at(len);
        // With TLS 1.3 this is plaintext, type and padding: too much padding is too much, too (RFC 8446 section 5.4).
        if len > PLAIN_MAX + usize::from(self.is_13) {
            return Err(Fault::Overflow);
        }
        let out = out.get_mut(..len).ok_or(Fault::Overflow)?;
        let mut nonce = self.nonce();
        nonce[NONCE - self.explicit..].copy_from_slice(explicit);
        let nonce = Nonce::assume_unique_for_key(nonce);
        if !self.is_13 {
            let aad = Aad::from(self.aad_12(header, len));
            self.key.open_separate_gather(nonce, aad, cipher, tag, out).map_err(|_| Fault::BadMac)?;
            self.seq += 1;
            return Ok((header[0], 0..len));
        }
        if header[0] != DATA {
            return Err(Fault::Unexpected);
        }
        self.key.open_separate_gather(nonce, Aad::from(header), cipher, tag, out).map_err(|_| Fault::BadMac)?;
        self.seq += 1;
        // Behind the plaintext its type, and as many zeros as the sender likes.
        let at = out.iter().rposition(|&b| b != 0).ok_or(Fault::Unexpected)?;
        Ok((out[at], 0..at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    /// A key of each kind, twice: one seals, one opens.
    fn pairs() -> Vec<(Key, Key)> {
        let iv = || Iv::new([7; NONCE]);
        let key_32 = || AeadKey::from([9; 32]);
        let mut pairs = Vec::new();
        for is_13 in [true, false] {
            let secrets: [fn(AeadKey, Iv) -> ConnectionTrafficSecrets; 2] = [
                |key, iv| ConnectionTrafficSecrets::Aes256Gcm { key, iv },
                |key, iv| ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
            ];
            for secrets in secrets {
                let key = || Key::new(is_13, (3, secrets(key_32(), iv()))).unwrap();
                pairs.push((key(), key()));
            }
        }
        pairs
    }

    #[test]
    fn what_is_sealed_opens_again_and_only_in_its_order() {
        for (mut seal, mut open) in pairs() {
            for n in [0, 1, 100, PLAIN_MAX] {
                let plain: Vec<u8> = (0..n).map(|i| i as u8).collect();
                let mut record = vec![0; n + seal.overhead()];
                let len = seal.seal(DATA, &plain, &mut record).unwrap();
                assert_eq!((len, end(&record)), (record.len(), Some(record.len())));
                let mut out = vec![0; open.needs(len)];
                let (kind, at) = open.open(&record, &mut out).unwrap();
                assert_eq!((kind, &out[at]), (DATA, &plain[..]));
                // The same record once more is not what is due.
                assert_eq!(open.open(&record, &mut out), Err(Fault::BadMac));
            }
        }
    }

    #[test]
    fn any_bit_that_is_changed_is_found() {
        for (mut seal, mut open) in pairs() {
            let mut record = vec![0; 4 + seal.overhead()];
            seal.seal(DATA, b"text", &mut record).unwrap();
            let mut out = [0; 64];
            // The length says where the record ends: who cuts it out has looked at it.
            for at in (0..record.len()).filter(|at| !(3..HEADER).contains(at)) {
                record[at] ^= 1;
                assert!(open.open(&record, &mut out).is_err(), "byte {at}");
                record[at] ^= 1;
            }
            assert!(open.open(&record, &mut out).is_ok());
        }
    }

    /// RFC 8446 section 5.4: "the full encoded TLSInnerPlaintext MUST NOT exceed 2^14 + 1 octets".
    #[test]
    fn padding_makes_a_record_no_larger_than_one_without() {
        for (at, (mut seal, mut open)) in pairs().into_iter().enumerate().filter(|(_, (seal, _))| seal.is_13) {
            let mut out = vec![0; BODY_MAX];
            for (padding, expected) in [(PLAIN_MAX - 1, Ok((DATA, 0..1))), (PLAIN_MAX, Err(Fault::Overflow))] {
                // A byte of data, its type, and padding; the type that sealing adds is one more zero.
                let mut inner = vec![b'x', DATA];
                inner.resize(1 + padding, 0);
                let mut record = vec![0; inner.len() + seal.overhead()];
                seal.seal(0, &inner, &mut record).unwrap();
                assert_eq!(open.open(&record, &mut out), expected, "key {at}, {padding} bytes of padding");
            }
        }
    }

    #[test]
    fn no_length_is_out_of_bounds() {
        for (mut seal, mut open) in pairs() {
            let mut out = vec![0; BODY_MAX];
            for n in 0..64 {
                assert!(open.open(&vec![DATA; n], &mut out).is_err());
            }
            assert_eq!(open.open(&vec![DATA; HEADER + BODY_MAX], &mut out), Err(Fault::Overflow));
            assert_eq!(seal.seal(DATA, b"no room", &mut [0; 20]), Err(Fault::Overflow));
        }
    }
}
