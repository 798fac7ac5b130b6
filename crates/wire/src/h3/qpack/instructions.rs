//! Instructions of the peer's encoder and decoder (RFC 9204 section 4). Without dynamic tables hardly any make sense,
//! and none changes anything.

/// Set Dynamic Table Capacity with a capacity of 0.
const NO_TABLE: u8 = 0x20;

/// True if these bytes of an encoder stream are instructions that are allowed: no insertion, and no capacity above 0.
pub fn are_encoder_instructions(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == NO_TABLE)
}

/// Position in a decoder stream.
#[derive(Debug, Default)]
pub struct DecoderInstructions {
    /// Bytes of an integer that is incomplete; 0 between instructions.
    begun: u8,
}

/// Most bytes of an integer of 62 bits.
const INTEGER_MAX: u8 = 10;

impl DecoderInstructions {
    /// Reads instructions, which may be cut anywhere. Returns the number of those that end here; `None` if one is not
    /// allowed. Only Stream Cancellation is: nothing was inserted that could be acknowledged.
    pub fn read(&mut self, bytes: &[u8]) -> Option<u32> {
        let mut ended = 0;
        for &byte in bytes {
            let is_last = match self.begun {
                0 if byte & 0xc0 != 0x40 => return None,
                0 => byte & 0x3f != 0x3f,
                INTEGER_MAX => return None,
                _ => byte & 0x80 == 0,
            };
            if is_last {
                (self.begun, ended) = (0, ended + 1);
            } else {
                self.begun += 1;
            }
        }
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_may_only_set_a_capacity_of_0() {
        assert!(are_encoder_instructions(&[0x20, 0x20]));
        // A capacity of 1 and of 31, an insertion with the name of a table, one with a literal name, a duplicate.
        for bytes in [&[0x21][..], &[0x3f, 0x00], &[0xc1], &[0x41, b'a', 0], &[0x00]] {
            assert!(!are_encoder_instructions(bytes), "{bytes:x?}");
        }
    }

    #[test]
    fn a_decoder_may_only_cancel_streams() {
        for (bytes, ended) in [
            (&[0x44, 0x48][..], Some(2)),
            (&[0x7f, 0x81, 0x01, 0x40], Some(2)),
            (&[0x7f, 0x81], Some(0)),
            (&[0x84], None),
            (&[0x01], None),
            (&[0x00], None),
            (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00], None),
        ] {
            assert_eq!(DecoderInstructions::default().read(bytes), ended, "{bytes:x?}");
            let mut cut = DecoderInstructions::default();
            let each = bytes.chunks(1).map(|byte| cut.read(byte)).sum::<Option<u32>>();
            assert_eq!(each, ended, "{bytes:x?}, a byte at a time");
        }
    }
}
