//! The QPACK decoder. Passes on each field as it is read.

use super::static_table::STATIC;
use super::{Decoded, Error, HeaderLimits};
use crate::multiplexed::integer::read_integer;
use crate::multiplexed::limits::Meter;
use crate::multiplexed::string::{read_string, trim};

/// Decoder of field blocks. Keeps only memory between blocks.
#[derive(Debug, Default)]
pub struct Decoder {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Decodes a complete block, and passes each field to `sink`. A block over the limits is read only as far as the
    /// first field beyond them.
    ///
    /// # Errors
    /// If the block is malformed, or refers to a dynamic table.
    pub fn decode(
        &mut self,
        block: &[u8],
        limits: HeaderLimits,
        sink: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Decoded, Error> {
        let mut meter = Meter::new(limits);
        let decoded = self.fields(block, &mut meter, sink);
        trim(&mut self.name);
        trim(&mut self.value);
        match decoded {
            Ok(()) | Err(Error::TooLarge) => Ok(meter.decoded()),
            Err(error) => Err(error),
        }
    }

    fn fields(
        &mut self,
        mut block: &[u8],
        meter: &mut Meter,
        sink: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let Decoder { name: name_room, value: value_room } = self;
        if read_integer(&mut block, 8)? != 0 {
            return Err(Error::Dynamic);
        }
        // A negative base is malformed (RFC 9204 section 4.5.1.2). Any other base is of no use here.
        if block.first().is_some_and(|first| first & 0x80 != 0) {
            return Err(Error::Dynamic);
        }
        read_integer(&mut block, 7)?;
        while let Some(&first) = block.first() {
            let (name, value) = match first {
                0xc0.. => {
                    let (name, value) = entry(read_integer(&mut block, 6)?)?;
                    (name, value.as_bytes())
                }
                0x50..=0x5f | 0x70..=0x7f => {
                    let (name, _) = entry(read_integer(&mut block, 4)?)?;
                    (name, read_string(&mut block, 7, value_room)?)
                }
                0x20..=0x3f => {
                    let name = read_string(&mut block, 3, name_room)?;
                    (name, read_string(&mut block, 7, value_room)?)
                }
                // Indexes of the dynamic table, before or behind the base.
                _ => return Err(Error::Dynamic),
            };
            if !meter.count(name, value)? {
                return Ok(());
            }
            sink(name, value);
        }
        Ok(())
    }
}

fn entry(index: usize) -> Result<(&'static [u8], &'static str), Error> {
    STATIC.get(index).map(|(name, value)| (name.as_bytes(), *value)).ok_or(Error::Index)
}
