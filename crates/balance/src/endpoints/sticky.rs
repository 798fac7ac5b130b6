//! Sticky sessions: a token, for a cookie, that names the endpoint of a session until it expires. It is signed, so that
//! clients cannot choose an endpoint, and the client keeps it, so that instances need no common table.
//!
//! The token names the endpoint by its [`EndpointId`]. That is not secret, as an address could be guessed from it, but
//! is of no use without access to the network behind. A client without a valid token, or whose endpoint is not eligible
//! now (it left, is ejected, or drains without keeping its sessions), gets an endpoint by an ordinary pick, and a new
//! token.

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Slot};

/// A keyed signature, such as HMAC-SHA-256 truncated to 16 bytes (RFC 2104, section 5). The shell implements it, with a
/// key that all instances share and that covers a label of the pool, so that a token is valid for this pool only.
pub trait Sign {
    /// Signs a message with the key.
    fn sign(&self, message: &[u8]) -> [u8; 16];
}

/// Length of a token: 28 bytes in hexadecimal.
pub const TOKEN_LEN: usize = 2 * BYTES;

/// Layout in bytes: endpoint (8), expiry (4), signature (16).
const BYTES: usize = 28;
const SIGNED: usize = 12;

/// Returns the token of a session at `endpoint` that is valid until `expires`, in seconds since 1970. The token is
/// ASCII.
pub fn token(endpoint: EndpointId, expires: u32, key: &impl Sign) -> [u8; TOKEN_LEN] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&endpoint.0.to_be_bytes());
    bytes[8..SIGNED].copy_from_slice(&expires.to_be_bytes());
    let signature = key.sign(&bytes[..SIGNED]);
    bytes[SIGNED..].copy_from_slice(&signature);
    std::array::from_fn(|i| b"0123456789abcdef"[usize::from(bytes[i / 2] >> (4 * (1 - i % 2)) & 15)])
}

/// Returns the endpoint that a token names; `None` if its signature is wrong or it has expired. `now`: seconds since
/// 1970.
pub fn endpoint(token: &[u8], now: u32, key: &impl Sign) -> Option<EndpointId> {
    let token: &[u8; TOKEN_LEN] = token.try_into().ok()?;
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(token.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    let (signed, signature) = bytes.split_at(SIGNED);
    // Compares all bytes even after a difference, so that the time does not reveal how many were right.
    let differ = key.sign(signed).iter().zip(signature).fold(0, |differ, (a, b)| differ | (a ^ b));
    let expires = u32::from_be_bytes(signed[8..].try_into().ok()?);
    let id = u64::from_be_bytes(signed[..8].try_into().ok()?);
    (differ == 0 && now < expires).then_some(EndpointId(id))
}

/// Finds where to start the session's next request ([`Balancer::start_at`](crate::Balancer::start_at)); `None` unless
/// its endpoint is eligible, or drains and keeps its sessions. O(n), a cost that only requests with a session pay.
pub fn slot(set: &EndpointSet, endpoint: EndpointId) -> Option<Slot> {
    set.members().iter().chain(set.draining()).find(|member| member.id == endpoint).map(|member| member.slot)
}

/// Value of a hexadecimal digit, in lower case only, so that each session has a single token.
fn digit(ascii: u8) -> Option<u8> {
    match ascii {
        b'0'..=b'9' => Some(ascii - b'0'),
        b'a'..=b'f' => Some(ascii - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::endpoint::{EndpointSpec, stable_hash};
    use crate::structures::rng::{Rng, mix};

    /// Not a secure signature, but every changed bit of a message changes it.
    struct Key(u64);

    impl Sign for Key {
        fn sign(&self, message: &[u8]) -> [u8; 16] {
            let half = |n: u64| mix(stable_hash(message) ^ mix(self.0 ^ n)).to_be_bytes();
            std::array::from_fn(|i| half((i / 8) as u64)[i % 8])
        }
    }

    #[test]
    fn a_token_names_its_endpoint_until_it_expires() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let (id, expires, key) = (EndpointId(rng.next_u64()), rng.next_u64() as u32, Key(rng.next_u64()));
            let token = token(id, expires, &key);
            assert!(token.is_ascii());
            assert_eq!(endpoint(&token, expires.saturating_sub(1), &key), (expires > 0).then_some(id));
            assert_eq!(endpoint(&token, expires, &key), None);
            assert_eq!(endpoint(&token, 0, &Key(key.0 ^ 1)), None, "another key");
        }
    }

    #[test]
    fn no_changed_byte_and_no_other_length_passes() {
        let (key, id) = (Key(7), EndpointId::of("a"));
        let good = token(id, u32::MAX, &key);
        for at in 0..TOKEN_LEN {
            for byte in (0..=255).filter(|&byte| byte != good[at]) {
                let mut bad = good;
                bad[at] = byte;
                assert_eq!(endpoint(&bad, 0, &key), None, "byte {at} is {byte}");
            }
            assert_eq!(endpoint(&good[..at], 0, &key), None, "cut to {at}");
        }
        assert_eq!(endpoint(&[&good[..], b"0"].concat(), 0, &key), None);
    }

    #[test]
    fn the_session_of_an_endpoint_that_left_or_drains_without_it_goes_elsewhere() {
        let specs = ["a", "b"].map(EndpointSpec::new);
        let set = |drain, keeps_sessions| {
            let [a, b] = specs.clone();
            EndpointSet::new(&[(Slot(3), a), (Slot(5), b.drain(drain).keeps_sessions(keeps_sessions))])
        };
        assert_eq!(slot(&set(false, false), EndpointId::of("b")), Some(Slot(5)));
        assert_eq!(slot(&set(true, true), EndpointId::of("b")), Some(Slot(5)));
        assert_eq!(slot(&set(true, false), EndpointId::of("b")), None);
        assert_eq!(slot(&set(false, false), EndpointId::of("c")), None);
    }
}
