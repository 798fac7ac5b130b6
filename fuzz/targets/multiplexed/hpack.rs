//! Our HPACK decoder compared with that of loona on any blocks, and encoded blocks that both must read.
#![no_main]

use evenkeel_wire::h2::hpack::{Decoder, Encoder, Error, HeaderLimits};
use libfuzzer_sys::fuzz_target;
use loona_hpack::decoder::DecoderError;

const ALL: HeaderLimits = HeaderLimits { bytes: usize::MAX, fields: usize::MAX };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

// The first byte sets the size of the tables, and the rest is blocks: a length each, and that many bytes.
fuzz_target!(|bytes: &[u8]| {
    let [size, rest @ ..] = bytes else { return };
    let size = usize::from(*size) * 32;
    let mut coded = Coded::new(size);
    let mut ours = Decoder::new(size);
    let mut theirs = loona_hpack::Decoder::new();
    theirs.set_max_allowed_table_size(size.max(4096));
    theirs.set_max_table_size(size.min(4096));
    theirs.set_max_allowed_table_size(size);
    let mut rest = rest;
    while let [len, more @ ..] = rest {
        let (block, more) = more.split_at(usize::from(*len).min(more.len()));
        rest = more;
        let (read, other) = (decode(&mut ours, block), theirs.decode(block));
        match (read, other) {
            (Ok(fields), Ok(others)) => {
                assert_eq!(fields, others);
                coded.check(&fields, block.len());
            }
            (Err(_), Err(_)) => return,
            // The RFC requires a size update before all fields, and permits one without fields.
            (Err(Error::Size), Ok(_)) | (Ok(_), Err(DecoderError::SizeUpdateAtEnd)) => return,
            (read, other) => panic!("{read:?}, {other:?} of {block:02x?}"),
        }
    }
});

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, ALL, &mut |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

/// The other direction: decoded fields are encoded again and again, with one table.
struct Coded {
    encoder: Encoder,
    ours: Decoder,
    theirs: loona_hpack::Decoder<'static>,
}

impl Coded {
    fn new(size: usize) -> Coded {
        let mut encoder = Encoder::new();
        encoder.set_table_size_max(size);
        Coded { encoder, ours: Decoder::new(size.max(4096)), theirs: loona_hpack::Decoder::new() }
    }

    fn check(&mut self, fields: &Fields, table_size: usize) {
        let lower = |(name, value): &(Vec<u8>, Vec<u8>)| (name.to_ascii_lowercase(), value.clone());
        let expected: Fields = fields.iter().map(lower).collect();
        // A block without fields would only contain a size update.
        if expected.is_empty() {
            return;
        }
        let mut block = Vec::new();
        self.encoder.encode(fields.iter().map(|(name, value)| (&**name, &**value)), &mut block);
        assert_eq!(decode(&mut self.ours, &block).as_ref(), Ok(&expected));
        assert_eq!(self.theirs.decode(&block).as_ref().ok(), Some(&expected));
        // The next block starts with this size.
        self.encoder.set_table_size_max(16 * table_size);
    }
}
