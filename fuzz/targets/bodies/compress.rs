//! Compression of responses: any value of `Accept-Encoding` has an answer, tags lead back to those of the endpoint, and a
//! body decodes to what it was, however it is cut and whenever it is flushed.
#![no_main]

use evenkeel_compress::accept::preferred;
use evenkeel_compress::coding::Coding;
use evenkeel_compress::encoder::{Encoder, Op, Room};
use evenkeel_compress::tags::{coded, for_endpoint, not_modified, plain};
use libfuzzer_sys::fuzz_target;
use std::io::Read;

fuzz_target!(|bytes: &[u8]| {
    let (Some((&[first, second, cut], rest)), all) = (bytes.split_first_chunk::<3>(), Coding::ALL) else { return };
    accepts(rest);
    for coding in all {
        if let Some(tag) = coded(rest, coding) {
            assert_eq!(plain(&tag, coding).as_deref(), Some(rest));
            assert_eq!(not_modified(rest, coding, &tag), Some(tag));
        }
    }
    if let Some(sent) = for_endpoint(rest, &all) {
        assert!(sent.len() > rest.len() / 2);
    }
    let coding = all[usize::from(first) % all.len()];
    let level = second.clamp(*coding.levels().start(), *coding.levels().end());
    let room = if first > 127 { Room::Small } else { Room::Usual };
    let mut encoder = Encoder::new(coding, level, room);
    let (mut out, mut to) = (Vec::new(), vec![0; usize::from(cut) + 1]);
    let mut give = |mut from: &[u8], op| loop {
        let step = encoder.step(from, &mut to, op).expect("it compresses");
        out.extend_from_slice(&to[..step.written]);
        from = &from[step.taken..];
        if step.is_done {
            return;
        }
        assert!(step.taken + step.written > 0, "no progress");
    };
    for piece in rest.chunks(usize::from(cut) * 7 + 1) {
        give(piece, Op::Go);
        if piece.first().is_some_and(|byte| byte % 3 == 0) {
            give(&[], Op::Flush);
        }
    }
    give(&[], Op::End);
    let mut read = Vec::new();
    match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut read).map(drop),
        Coding::Brotli => brotli::Decompressor::new(&out[..], 4096).read_to_end(&mut read).map(drop),
        Coding::Zstd => zstd::stream::read::Decoder::new(&out[..]).and_then(|mut of| of.read_to_end(&mut read)).map(drop),
    }
    .expect("it decodes");
    assert!(read == rest);
});

/// Checks that a preferred coding is named, alone or by a star, and accepted in another order too.
fn accepts(value: &[u8]) {
    let [a, b, c] = Coding::ALL;
    let chosen = preferred([value].into_iter(), &[a, b, c]);
    assert_eq!(chosen.is_some(), preferred([value].into_iter(), &[c, b, a]).is_some());
    if let Some(coding) = chosen {
        let lower = value.to_ascii_lowercase();
        assert!(lower.contains(&b'*') || lower.windows(coding.name().len()).any(|at| at == coding.name().as_bytes()));
        assert_eq!(preferred([value, &b" , "[..]].into_iter(), &[coding]), Some(coding));
    }
}
