//! Sealing and opening of single records: RFC 8446 section 5 for TLS 1.3, and RFC 5246, 5288 and 7905 for TLS
//! 1.2, for which rustls negotiates only AEAD ciphers.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use std::ops::Range;

/// Size of a record header, in bytes: type, version, length.
pub const HEADER: usize = 5;

/// Most plaintext in a record, in bytes.
pub const PLAIN_MAX: usize = 16 * 1024;

/// Largest record body, in bytes: the limit of TLS 1.2, which is above the limit of TLS 1.3.
pub const BODY_MAX: usize = PLAIN_MAX + 2048;

const TAG: usize = 16;
const NONCE: usize = 12;

/// Part of the nonce that TLS 1.2 with AES-GCM sends with each record, in bytes.
const EXPLICIT: usize = 8;

/// Content type of alerts: 21.
pub const ALERT: u8 = 21;
/// Content type of handshake messages.
pub const HANDSHAKE: u8 = 22;
/// Content type of application data.
pub const DATA: u8 = 23;

/// Error of a record that cannot be opened or sealed. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Modified in transit, or sealed with another key.
    BadMac,
    /// Larger than a record may be.
    Overflow,
    /// Message type that is not allowed here.
    Unexpected,
    /// Message that violates the encoding.
    Malformed,
    /// Message with an undefined value.
    Illegal,
    /// Renegotiation requested by the peer, which TLS 1.2 allows.
    Renegotiation,
    /// The key has reached its limit of use.
    Exhausted,
}

impl Fault {
    /// Code of the alert for the peer (RFC 8446 section 6).
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

    /// Sentence for logs and error messages.
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

/// End of the first record in `bytes`, which may lie beyond them. `None` if the header is incomplete.
pub fn end(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..HEADER)?;
    Some(HEADER + usize::from(u16::from_be_bytes([header[3], header[4]])))
}

/// Key of a direction, with its record counter.
pub struct Key {
    key: LessSafeKey,
    iv: [u8; NONCE],
    seq: u64,
    is_13: bool,
    /// Bytes of the nonce sent with each record.
    explicit: usize,
}

impl Key {
    /// Key from negotiated secrets, for TLS 1.3 if `is_13`, else for TLS 1.2.
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

    /// Number of records sealed or opened with the key.
    pub fn used(&self) -> u64 {
        self.seq
    }

    /// Size of a record in addition to its plaintext, in bytes.
    pub fn overhead(&self) -> usize {
        HEADER + self.explicit + usize::from(self.is_13) + TAG
    }

    fn nonce(&self) -> [u8; NONCE] {
        let mut nonce = self.iv;
        let seq = self.seq.to_be_bytes();
        nonce[NONCE - seq.len()..].iter_mut().zip(seq).for_each(|(n, s)| *n ^= s);
        nonce
    }

    /// Additional data of TLS 1.2: sequence number, type and version of the header, and length of the
    /// plaintext.
    fn aad_12(&self, header: [u8; HEADER], len: usize) -> [u8; 13] {
        let mut aad = [0; 13];
        aad[..8].copy_from_slice(&self.seq.to_be_bytes());
        aad[8..11].copy_from_slice(&header[..3]);
        aad[11..].copy_from_slice(&(len as u16).to_be_bytes());
        aad
    }

    /// Seals at most [`PLAIN_MAX`] bytes of `plain` into the front of `out`, which must have room for them
    /// and the [`overhead`](Self::overhead). Returns the size of the record.
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

    /// Bytes of `out` that [`open`](Self::open) needs for a record of this size.
    pub fn needs(&self, record: usize) -> usize {
        record.saturating_sub(HEADER + self.explicit + TAG)
    }

    /// Opens a single record into the front of `out`. Returns its content type and the range of its
    /// plaintext.
    pub fn open(&mut self, record: &[u8], out: &mut [u8]) -> Result<(u8, Range<usize>), Fault> {
        let (header, body) = record.split_at_checked(HEADER).ok_or(Fault::Malformed)?;
        let header: [u8; HEADER] = header.try_into().map_err(|_| Fault::Malformed)?;
        let (explicit, body) = body.split_at_checked(self.explicit).ok_or(Fault::Malformed)?;
        let len = body.len().checked_sub(TAG).ok_or(Fault::Malformed)?;
        let (cipher, tag) = body.split_at(len);
        // In TLS 1.3 this includes type and padding, so padding counts towards the limit (RFC 8446 section
        // 5.4).
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
        // The plaintext is followed by its type and any number of zeros.
        let at = out.iter().rposition(|&b| b != 0).ok_or(Fault::Unexpected)?;
        Ok((out[at], 0..at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    /// A sealing and an opening key for each cipher and version.
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
                // A replayed record does not match the expected sequence number.
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
            // The length field decides where the record ends, so callers have already used it.
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
                // A byte of data, its type, and padding. The type that sealing appends is another zero.
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
