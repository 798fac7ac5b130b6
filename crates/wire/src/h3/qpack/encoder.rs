//! The QPACK encoder. Fields of the static table are written as numbers, and their names too.

use super::static_table;
use crate::multiplexed::integer::write_integer;
use crate::multiplexed::secrets::is_secret;
use crate::multiplexed::static_index::hash;
use crate::multiplexed::string::{Lower, write_string};

/// Encoder of field blocks. Keeps only memory between blocks.
#[derive(Debug, Default)]
pub struct Encoder {
    lower: Lower,
}

/// Bit of a literal that no hop may index, by the position of a literal with a name from the static table.
const NEVER: u8 = 0x20;

impl Encoder {
    /// Appends the block of these fields. Names are written in lower case.
    pub fn encode<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
        // Required Insert Count and Base, which only matter with a dynamic table.
        out.extend_from_slice(&[0, 0]);
        for (name, value) in fields {
            field(self.lower.of(name), value, out);
        }
    }
}

fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let known = static_table::find(hash(name), name, value);
    let never = if is_secret(name, value) { NEVER } else { 0 };
    match known {
        Some((index, true)) if never == 0 => return write_integer(index, 0xc0, 6, out),
        Some((index, _)) => write_integer(index, 0x50 | never, 4, out),
        None => write_string(name, 0x20 | never >> 1, 3, out),
    }
    write_string(value, 0, 7, out);
}
