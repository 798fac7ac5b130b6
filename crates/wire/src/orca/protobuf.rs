//! Reports in protobuf: the wire format (varints, 64 bits, lengths), with only the fields of an `OrcaLoadReport`.
//! Fields of later versions are skipped.

use super::report::{Malformed, Metric, Taking};

/// Reads a message. If a field is repeated the last one counts, as in protobuf.
pub fn read(mut message: &[u8], taking: &mut Taking<'_>) -> Result<(), Malformed> {
    while !message.is_empty() {
        let (number, value) = field(&mut message)?;
        match (number, value) {
            (1, Value::Bits(bits)) => taking.take(Metric::Cpu, f64::from_bits(bits))?,
            (2, Value::Bits(bits)) => taking.take(Metric::Memory, f64::from_bits(bits))?,
            (3, Value::Varint) => {}
            (6 | 7, Value::Bits(bits)) => taking.take(Metric::Rate, f64::from_bits(bits))?,
            (9, Value::Bits(bits)) => taking.take(Metric::Application, f64::from_bits(bits))?,
            (4, Value::Bytes(entry)) => {
                let (_, value) = pair(entry)?;
                taking.take(Metric::Cost, value)?;
            }
            (5, Value::Bytes(entry)) => {
                let (_, value) = pair(entry)?;
                taking.take(Metric::Share, value)?;
            }
            (8, Value::Bytes(entry)) => {
                let (name, value) = pair(entry)?;
                taking.take(Metric::Named(name), value)?;
            }
            (1..=9, _) => return Err(Malformed::Protobuf),
            _ => {}
        }
    }
    Ok(())
}

/// Reads an entry of a `map<string, double>`. Omitted parts are empty, or 0.
fn pair(mut entry: &[u8]) -> Result<(&[u8], f64), Malformed> {
    let (mut name, mut number): (&[u8], f64) = (&[], 0.0);
    while !entry.is_empty() {
        match field(&mut entry)? {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bits(bits)) => number = f64::from_bits(bits),
            (1 | 2, _) => return Err(Malformed::Protobuf),
            _ => {}
        }
    }
    Ok((name, number))
}

enum Value<'m> {
    Varint,
    Bits(u64),
    Bytes(&'m [u8]),
    Short,
}

/// Takes the first field off: its number, which is never 0, and its value.
fn field<'m>(from: &mut &'m [u8]) -> Result<(u64, Value<'m>), Malformed> {
    let tag = varint(from)?;
    let value = match tag & 7 {
        0 => {
            varint(from)?;
            Value::Varint
        }
        1 => {
            let (bytes, rest) = from.split_first_chunk().ok_or(Malformed::Protobuf)?;
            *from = rest;
            Value::Bits(u64::from_le_bytes(*bytes))
        }
        2 => {
            let len = usize::try_from(varint(from)?).map_err(|_| Malformed::Protobuf)?;
            Value::Bytes(take(from, len)?)
        }
        5 => {
            take(from, 4)?;
            Value::Short
        }
        // Groups, which this type never had.
        _ => return Err(Malformed::Protobuf),
    };
    if tag >> 3 == 0 { Err(Malformed::Protobuf) } else { Ok((tag >> 3, value)) }
}

fn take<'m>(from: &mut &'m [u8], len: usize) -> Result<&'m [u8], Malformed> {
    let (taken, rest) = from.split_at_checked(len).ok_or(Malformed::Protobuf)?;
    *from = rest;
    Ok(taken)
}

/// Reads a varint: seven bits per byte, the lowest first, at most ten bytes.
fn varint(from: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(from, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed::Protobuf)
}
