//! Version 2 of QUIC (RFC 9369), for a state machine that knows version 1: the packets are the same, but for the types in
//! long headers, the keys, and the tag of a Retry.
//!
//! Types are translated where a datagram enters, and by the keys of packets with long headers, which see each packet that
//! leaves. So the state machine reads and writes types of version 1, and version 1 costs nothing more.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::BytesMut;
use quinn_proto::crypto::{CryptoError, KeyPair, Keys, PacketKey};
use quinn_proto::{ConnectionId, VarInt, coding::Codec};

/// Version 2 in a long header: no small number, so that nothing on the way takes versions for such.
pub const V2: u32 = 0x6b33_43cf;

/// Bits of the first byte of a long header that have its type: in version 1, Initial, 0-RTT, Handshake and Retry. The
/// types of version 2 are one higher, and a Retry has type 0.
const TYPE: u8 = 0x30;

/// Difference between the types of the versions.
const STEP: u8 = 0x10;

const INITIAL: u8 = 0;
const RETRY: u8 = 0x30;

/// Key and nonce of the tag of a Retry (RFC 9369 section 3.3.3).
const RETRY_KEY: [u8; 16] =
    [0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92];
const RETRY_NONCE: [u8; 12] = [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a];

/// True for a packet with a long header of version 2.
pub(super) fn is_v2(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| *first >= 0x80) && packet.get(1..5) == Some(&V2.to_be_bytes())
}

/// First byte of a long header of version 2 with the type that it has in version 1.
pub(super) fn to_v1(first: u8) -> u8 {
    first & !TYPE | first.wrapping_sub(STEP) & TYPE
}

/// First byte of a long header of version 1 with the type that it has in version 2.
pub(super) fn to_v2(first: u8) -> u8 {
    first & !TYPE | first.wrapping_add(STEP) & TYPE
}

/// Translates the packets of version 2 in a datagram that enters. Returns true if the first of them is.
///
/// A packet that follows with another version is left as it is, and so are all packets after it: the state machine drops
/// them.
pub(super) fn translate(datagram: &mut [u8]) -> bool {
    if !is_v2(datagram) {
        return false;
    }
    let mut rest = datagram;
    while is_v2(rest) {
        rest[0] = to_v1(rest[0]);
        let Some((_, next)) = len(rest).and_then(|len| rest.split_at_mut_checked(len)) else { break };
        rest = next;
    }
    true
}

/// Translates a Retry that leaves, which no key seals. Other packets are left as they are.
pub(super) fn translate_retry(packet: &mut [u8]) {
    if is_v2(packet) && packet[0] & TYPE == RETRY {
        packet[0] = to_v2(packet[0]);
    }
}

/// Length of a packet with a long header, with the type that it has in version 1, by its field of that name. `None` if it has
/// not such a field, or is cut.
fn len(packet: &[u8]) -> Option<usize> {
    let mut rest = packet.get(5..)?;
    for _ in 0..2 {
        let (id, after) = rest.split_first()?;
        rest = after.get(usize::from(*id)..)?;
    }
    let kind = packet[0] & TYPE;
    if kind == RETRY {
        return None;
    }
    if kind == INITIAL {
        let token = VarInt::decode(&mut rest).ok()?.into_inner();
        rest = rest.get(usize::try_from(token).ok()?..)?;
    }
    let len = usize::try_from(VarInt::decode(&mut rest).ok()?.into_inner()).ok()?;
    (packet.len() - rest.len()).checked_add(len)
}

/// Tag of a Retry. `packet` is the Retry without it, as the state machine has written it; `id` is the id that the client
/// chose.
pub(super) fn retry_tag(id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
    let mut pseudo = [&[id.len() as u8][..], id, packet].concat();
    let first = 1 + id.len();
    translate_retry(&mut pseudo[first..]);
    let key = UnboundKey::new(&AES_128_GCM, &RETRY_KEY).expect("the length of a key");
    let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
    let sealed = LessSafeKey::new(key).seal_in_place_separate_tag(nonce, Aad::from(&pseudo), &mut []);
    let mut tag = [0; 16];
    tag.copy_from_slice(sealed.expect("no bytes fit").as_ref());
    tag
}

/// Key of packets with long headers.
struct LongHeaders(Box<dyn PacketKey>);

impl PacketKey for LongHeaders {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        // The header is sealed, too, and protected only after this.
        if let Some(first) = buf.first_mut() {
            *first = to_v2(*first);
        }
        self.0.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        // Packets of another version must be dropped (RFC 9369 section 4.1).
        if !is_v2(header) {
            return Err(CryptoError);
        }
        let mut sent = header.to_vec();
        sent[0] = to_v2(sent[0]);
        self.0.decrypt(packet, &sent, payload)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

/// Key that translates the types of packets with long headers.
pub(super) fn of_long_headers(key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
    Box::new(LongHeaders(key))
}

/// Keys that translate the types of packets with long headers.
pub(super) fn all_of_long_headers(keys: Keys) -> Keys {
    let KeyPair { local, remote } = keys.packet;
    Keys { header: keys.header, packet: KeyPair { local: of_long_headers(local), remote: of_long_headers(remote) } }
}
