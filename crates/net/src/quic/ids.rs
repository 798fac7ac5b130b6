//! Connection ids in the plain form of draft-ietf-quic-load-balancers: process and worker of a datagram can be read from its
//! id. The kernel does ([`steer`](super::steer)), and so can balancers in front.

use super::v2::V2;
use super::versions::V1;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use std::time::Duration;

/// Length of an id in bytes: configuration, server id, nonce.
pub const LEN: usize = 8;

/// Offset of the number of the process.
const GENERATION: usize = 1;

/// Offset of the number of the worker.
pub const WORKER: usize = 3;

/// Offset of the random bytes.
const NONCE: usize = 4;

/// Process and worker of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the process. Processes that replace each other differ in it.
    pub generation: u16,
    pub worker: u8,
}

impl Owner {
    /// Owner of the connection that a datagram is for, by the id in its header. `None` for datagrams whose id the client
    /// chose, and for those without a header.
    pub fn of(datagram: &[u8]) -> Option<Owner> {
        let id = match datagram.first()? {
            // A long header states version and length of the id. Initial and 0-RTT packets may have an id of the client.
            0x80.. => {
                let version = u32::from_be_bytes(*datagram.get(1..)?.first_chunk()?);
                let is_chosen = match datagram[0] & 0x30 {
                    0x00 => version == V1,
                    0x10 => matches!(version, V1 | V2),
                    0x20 => version == V2,
                    _ => false,
                };
                let len = usize::from(*datagram.get(5)?);
                if is_chosen || len != LEN {
                    return None;
                }
                datagram.get(6..6 + LEN)?
            }
            _ => datagram.get(1..=LEN)?,
        };
        Some(Owner { generation: u16::from_be_bytes([id[GENERATION], id[GENERATION + 1]]), worker: id[WORKER] })
    }
}

/// Generator of the ids of a worker.
pub struct Ids(pub Owner);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LEN];
        // Without randomness there is neither a key for TLS.
        aws_lc_rs::rand::fill(&mut id).expect("the kernel has random bytes");
        // Configuration 0; the rest of the first byte is random, as the length need not be known.
        id[0] &= 0x1f;
        id[GENERATION..WORKER].copy_from_slice(&self.0.generation.to_be_bytes());
        id[WORKER] = self.0.worker;
        ConnectionId::new(&id)
    }

    /// Ids of other owners are valid: those that live have been given their datagrams before, so that the client of such
    /// an id can be told that its connection is gone.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if id.len() == LEN && id[0] & 0xe0 == 0 { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

const _: () = assert!(NONCE < LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_owner_in_short_and_long_headers() {
        for owner in [Owner { generation: 0, worker: 0 }, Owner { generation: 0xbeef, worker: 255 }] {
            let id = Ids(owner).generate_cid();
            assert!(Ids(owner).validate(&id).is_ok());
            let short = [&[0x40][..], &id, b"rest"].concat();
            assert_eq!(Owner::of(&short), Some(owner));
            // A handshake packet has the id of the server.
            let long = |version: u32, kind: u8| {
                let packet = [&[0xc0 | kind << 4][..], &version.to_be_bytes(), &[LEN as u8], &id, b"rest"].concat();
                Owner::of(&packet)
            };
            assert_eq!([(V1, 2), (V2, 3)].map(|(version, kind)| long(version, kind)), [Some(owner); 2]);
            assert_eq!([(V1, 0), (V1, 1), (V2, 1), (V2, 2)].map(|(version, kind)| long(version, kind)), [None; 4]);
            for cut in 0..=LEN {
                assert_eq!(Owner::of(&short[..cut]), None);
            }
        }
    }
}
