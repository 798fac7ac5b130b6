//! The HPACK decoder. Passes on each field as it is read, and keeps only entries of its table.

use super::table::{TABLE_SIZE, Table};
use crate::multiplexed::integer::{Error, read_integer};
use crate::multiplexed::limits::{Decoded, HeaderLimits, Meter};
use crate::multiplexed::string::{read_string, trim};

/// Decoder of the blocks of a direction.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Largest table that the peer was allowed.
    size_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Returns a decoder whose peer may use a table of `size_max` bytes.
    pub fn new(size_max: usize) -> Decoder {
        let table = Table::new(TABLE_SIZE.min(size_max));
        Decoder { table, size_max, name: Vec::new(), value: Vec::new() }
    }

    /// Sets how large a table the peer may use.
    pub fn set_table_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        if self.table.max() > size_max {
            self.table.set_max(size_max);
        }
    }

    /// Decodes a complete block, and passes each field to `sink`. A block over the limits is decoded to its end, as both
    /// tables have to stay in step.
    ///
    /// # Errors
    /// If the block is malformed, or many times larger than the limits.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        limits: HeaderLimits,
        sink: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Decoded, Error> {
        let Decoder { table, size_max, name: name_room, value: value_room } = self;
        let (mut meter, mut may_resize) = (Meter::new(limits), true);
        let mut give = |name: &[u8], value: &[u8]| {
            if meter.count(name, value)? {
                sink(name, value);
            }
            Ok(())
        };
        while let Some(&first) = block.first() {
            if first & 0xe0 == 0x20 {
                let size = read_integer(&mut block, 5)?;
                if !may_resize || size > *size_max {
                    return Err(Error::Size);
                }
                table.set_max(size);
                continue;
            }
            may_resize = false;
            if first & 0x80 != 0 {
                let index = read_integer(&mut block, 7)?;
                let (name, value) = table.get(index).ok_or(Error::Index)?;
                give(name, value)?;
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let index = read_integer(&mut block, if is_kept { 6 } else { 4 })?;
            let is_indexed = index > 0;
            let literal = if is_indexed { &[][..] } else { read_string(&mut block, 7, name_room)? };
            let value = read_string(&mut block, 7, value_room)?;
            if is_indexed {
                let (name, _) = table.get(index).ok_or(Error::Index)?;
                give(name, value)?;
                if is_kept {
                    // The entry that the name refers to may be evicted for this field.
                    name_room.clear();
                    name_room.extend_from_slice(name);
                    table.add(name_room, value);
                }
            } else {
                give(literal, value)?;
                if is_kept {
                    table.add(literal, value);
                }
            }
        }
        trim(name_room);
        trim(value_room);
        Ok(meter.decoded())
    }
}
