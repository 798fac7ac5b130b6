//! Wire format of UDP probes. Questions and answers both have 40 bytes, so that an endpoint cannot be used to amplify
//! traffic. The layout is in docs/reference/load-probe.md.

use evenkeel_balance::LoadReport;

/// Length of a question and of an answer, in bytes.
pub const LEN: usize = 40;

const MAGIC: [u8; 4] = *b"EKLP";
const VERSION: u8 = 1;
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// A question, with the nonce that the answer must repeat.
    Question(u64),
    /// The answer to the question with this nonce.
    Answer(u64, LoadReport),
}

pub fn write(datagram: &Datagram) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    match datagram {
        Datagram::Question(nonce) => {
            bytes[5] = QUESTION;
            bytes[8..16].copy_from_slice(&nonce.to_be_bytes());
        }
        Datagram::Answer(nonce, load) => {
            bytes[5] = ANSWER;
            bytes[8..16].copy_from_slice(&nonce.to_be_bytes());
            bytes[20..24].copy_from_slice(&load.in_flight.to_be_bytes());
            bytes[24..32].copy_from_slice(&load.latency_ns.to_be_bytes());
            bytes[32..].copy_from_slice(&load.stamp.to_be_bytes());
        }
    }
    bytes
}

/// Reads a datagram; `None` for anything that [`write`] would not have written.
pub fn read(bytes: &[u8]) -> Option<Datagram> {
    let bytes: &[u8; LEN] = bytes.try_into().ok()?;
    let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
    let datagram = match bytes[5] {
        QUESTION => Datagram::Question(number(8)),
        ANSWER => {
            let in_flight = u32::try_from(number(16)).ok()?;
            Datagram::Answer(number(8), LoadReport { in_flight, latency_ns: number(24), stamp: number(32) })
        }
        _ => return None,
    };
    (write(&datagram) == *bytes).then_some(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let load = LoadReport { in_flight: 3, latency_ns: 0x0102, stamp: 0x0a0b };
        let mut want = *b"EKLP\x01\x02\0\0\x11\x22\x33\x44\x55\x66\x77\x88\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\x0a\x0b";
        assert_eq!(write(&Datagram::Answer(0x1122_3344_5566_7788, load)), want);
        want[5] = 1;
        want[16..].fill(0);
        assert_eq!(write(&Datagram::Question(0x1122_3344_5566_7788)), want);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(nonce: u64, in_flight: u32, latency_ns: u64, stamp: u64) {
            let answer = Datagram::Answer(nonce, LoadReport { in_flight, latency_ns, stamp });
            prop_assert_eq!(read(&write(&answer)), Some(answer));
            prop_assert_eq!(read(&write(&Datagram::Question(nonce))), Some(Datagram::Question(nonce)));
        }

        #[test]
        fn one_changed_byte_is_another_number_or_nothing(at in 0usize..LEN, to: u8, nonce: u64) {
            let mut bytes = write(&Datagram::Question(nonce));
            bytes[at] = to;
            let read = read(&bytes);
            prop_assert!(read.is_none() || read.map(|datagram| write(&datagram)) == Some(bytes));
        }

        #[test]
        fn any_other_length_is_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(bytes.len() == LEN || read(&bytes).is_none());
        }
    }
}
