//! Connection ids of QUIC that an endpoint has chosen, in datagrams of its clients (RFC 8999). With the server id of an
//! endpoint in it (draft-ietf-quic-load-balancers, without encryption), the id leads to its endpoint when the address of the
//! client has changed.

/// Longest connection id, in bytes.
const ID_MAX: usize = 20;

/// Bit of the first byte that marks a long header.
const LONG: u8 = 0x80;

/// Versions 1 and 2 of QUIC, and their types of packets to which clients give an id: Initial and 0-RTT.
const CHOSEN: [([u8; 4], [u8; 2]); 2] = [([0, 0, 0, 1], [0, 1]), ([0x6b, 0x33, 0x43, 0xcf], [1, 2])];

/// Bits of the first byte that say which configuration the id follows; all of them: none.
const UNROUTABLE: u8 = 0xe0;

/// Bytes of the connection id behind its first byte, or more, as short headers do not state its length. `None` if the
/// endpoint has not chosen the id.
pub fn of(datagram: &[u8]) -> Option<&[u8]> {
    let first = *datagram.first()?;
    let id = if first & LONG == 0 {
        let rest = &datagram[1..];
        &rest[..rest.len().min(ID_MAX)]
    } else {
        let version = datagram.get(1..5)?;
        let (_, types) = CHOSEN.iter().find(|(known, _)| known == version)?;
        if types.contains(&(first >> 4 & 3)) {
            return None;
        }
        let len = usize::from(*datagram.get(5)?);
        datagram.get(6..6 + len)?
    };
    let (config, rest) = id.split_first()?;
    (config & UNROUTABLE != UNROUTABLE).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_endpoints_are_found_and_those_of_clients_are_not() {
        let long = |first: u8, version: [u8; 4]| [&[first][..], &version, &[4, 1, 2, 3, 4, 0], b"rest"].concat();
        assert_eq!(of(b"\x40\x01abcdefghijklmnopqrstuvwxyz"), Some(&b"abcdefghijklmnopqrs"[..]));
        assert_eq!(of(b"\x40\x01ab"), Some(&b"ab"[..]));
        assert_eq!(of(b"\x40\xe1ab"), None, "it follows no configuration");
        for (version, types) in CHOSEN {
            for kind in 0..4 {
                let id = of(&long(0xc0 | kind << 4, version)).map(<[u8]>::to_vec);
                assert_eq!(id, (!types.contains(&kind)).then(|| vec![2, 3, 4]), "{version:?} {kind}");
            }
        }
        assert_eq!(of(&long(0xe0, [0, 0, 0, 9])), None, "another version");
        let whole = long(0xe0, [0, 0, 0, 1]);
        for cut in 0..10 {
            assert_eq!(of(&whole[..cut]), None);
        }
    }
}
