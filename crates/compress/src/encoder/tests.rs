//! Round trips of bodies: they decode to the original, however the body is cut and whenever it is flushed.

use super::*;
use flate2::{Decompress, FlushDecompress};
use proptest::prelude::*;
use zstd_safe::{DCtx, OutBuffer};

/// Decodes the whole of a body, or as much as its bytes so far allow.
fn decoded(coding: Coding, bytes: &[u8], length: usize) -> Vec<u8> {
    let mut room = vec![0; length + 64];
    let n = match coding {
        Coding::Gzip => {
            let mut inner = Decompress::new_gzip(15);
            inner.decompress(bytes, &mut room, FlushDecompress::None).expect("it is gzip");
            inner.total_out() as usize
        }
        Coding::Zstd => {
            let mut to = OutBuffer::around(&mut room[..]);
            let mut from = zstd_safe::InBuffer::around(bytes);
            let mut inner = DCtx::create();
            while from.pos() < bytes.len() && to.pos() < length + 64 {
                inner.decompress_stream(&mut to, &mut from).expect("it is Zstandard");
            }
            to.pos()
        }
        Coding::Brotli => {
            let mut all = ::brotli::DecompressorWriter::new(Vec::new(), length + 64);
            std::io::Write::write_all(&mut all, bytes).expect("it is Brotli");
            std::io::Write::flush(&mut all).expect("it is Brotli");
            return all.get_ref().clone();
        }
    };
    room.truncate(n);
    room
}

/// Gives the encoder bytes with a purpose until all is done, with this much room for each step.
fn give(encoder: &mut Encoder, mut from: &[u8], op: Op, room: usize, out: &mut Vec<u8>) {
    let mut to = vec![0; room];
    loop {
        let step = encoder.step(from, &mut to, op).expect("it compresses");
        out.extend_from_slice(&to[..step.written]);
        from = &from[step.taken..];
        if step.is_done {
            assert!(from.is_empty());
            return;
        }
        assert!(step.taken + step.written > 0, "{op:?}: no progress");
    }
}

/// Text that repeats itself here and there.
fn body(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut all = Vec::with_capacity(len + 16);
    while all.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 61 {
            0 => all.extend((state >> 24).to_le_bytes()),
            n => all.extend(format!("<p class=\"c{n}\">word {}</p>", state >> 52).bytes()),
        }
    }
    all.truncate(len);
    all
}

/// Change to the compressor of a body before the next piece.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    Make,
    GiveUp,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![Just(Change::None), Just(Change::Make), Just(Change::GiveUp)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_body_decodes_to_what_it_was(
        at in 0usize..3,
        level in 0u8..10,
        rooms in prop::collection::vec(0usize..4, 8),
        cuts in prop::collection::vec((0usize..40_000, any::<bool>(), change()), 0..8),
        room in 1usize..5_000,
        seed in any::<u64>(),
    ) {
        let coding = Coding::ALL[at];
        let level = level.clamp(*coding.levels().start(), *coding.levels().end());
        let rooms = rooms.into_iter().map(|at| [Room::Usual, Room::Small, Room::Fitted(3), Room::Fitted(16)][at]);
        let mut rooms = rooms.cycle();
        let mut encoder = Encoder::without_compressor(coding, level);
        let whole = body(cuts.iter().map(|(len, ..)| len).sum(), seed);
        let (mut out, mut sent) = (Vec::new(), 0);
        for (len, flushes, change) in cuts {
            match change {
                Change::None => {}
                Change::Make => drop(encoder.make(rooms.next().expect("without end"))),
                Change::GiveUp => drop(encoder.give_up().expect("it flushes")),
            }
            give(&mut encoder, &whole[sent..sent + len], Op::Go, room, &mut out);
            sent += len;
            if flushes {
                give(&mut encoder, &[], Op::Flush, room, &mut out);
                prop_assert!(decoded(coding, &out, sent) == whole[..sent], "after a flush at {sent}");
                let before = out.len();
                give(&mut encoder, &[], Op::Flush, room, &mut out);
                prop_assert!(out.len() - before <= 16, "a second flush has nothing to write");
            }
        }
        give(&mut encoder, &[], Op::End, room, &mut out);
        prop_assert!(decoded(coding, &out, sent) == whole);
    }
}

#[test]
fn a_whole_body_decodes_to_what_it_was_and_is_none_if_it_becomes_no_smaller() {
    for coding in Coding::ALL {
        for len in [200, 16 << 10, 300_000] {
            let from = body(len, 3);
            let coded = whole(coding, &from).expect("text becomes smaller");
            assert!(coded.len() < len && decoded(coding, &coded, len) == from, "{coding} {len}");
            let mut streamed = Vec::new();
            let mut encoder = Encoder::new(coding, coding.level(Default::default()), Room::Usual);
            give(&mut encoder, &from, Op::End, 32 << 10, &mut streamed);
            assert!(coded.len() <= streamed.len(), "{coding} {len}: {} of {}", coded.len(), streamed.len());
        }
        for from in [&b""[..], b"a", b"x9!", &whole(coding, &body(300_000, 1)).expect("it is text")] {
            assert_eq!(whole(coding, from), None, "{coding} {}", from.len());
        }
    }
}

#[test]
fn a_body_without_a_compressor_has_its_coding_nevertheless() {
    for coding in Coding::ALL {
        for len in [0, 1, 63, 16 << 10, 100_000] {
            for room in [1, 70, 32 << 10] {
                let (from, mut out) = (body(len, 5), Vec::new());
                let mut encoder = Encoder::without_compressor(coding, coding.level(Default::default()));
                give(&mut encoder, &from, Op::Go, room, &mut out);
                give(&mut encoder, &[], Op::End, room, &mut out);
                assert!(decoded(coding, &out, len) == from, "{coding} {len} {room}");
                assert!(out.len() <= len + 40 + len / 1000 || room < 100, "{coding} {len}: {}", out.len());
            }
        }
    }
}

#[test]
fn a_compressor_that_is_given_up_at_the_end_loses_nothing() {
    for coding in Coding::ALL {
        let (from, mut out) = (body(100_000, 9), Vec::new());
        let mut encoder = Encoder::new(coding, coding.level(Default::default()), Room::Usual);
        give(&mut encoder, &from, Op::Go, 1000, &mut out);
        let mut to = [0; 10];
        let step = encoder.step(&[], &mut to, Op::End).expect("it compresses");
        assert!(!step.is_done);
        out.extend_from_slice(&to[..step.written]);
        assert!(encoder.give_up().expect("it ends") > 0 && !encoder.has_compressor() && !encoder.make(Room::Small));
        give(&mut encoder, &[], Op::End, 1000, &mut out);
        assert!(decoded(coding, &out, from.len()) == from, "{coding}");
    }
}

#[test]
fn only_brotli_gets_no_second_compressor() {
    for coding in Coding::ALL {
        let mut encoder = Encoder::new(coding, coding.level(Default::default()), Room::Usual);
        give(&mut encoder, b"hello", Op::Go, 100, &mut Vec::new());
        encoder.give_up().expect("it flushes");
        assert_eq!(encoder.make(Room::Small), coding != Coding::Brotli);
    }
}

#[test]
fn a_compressor_that_was_left_in_the_middle_begins_anew() {
    for coding in Coding::ALL {
        for round in 0..3 {
            let mut left = Encoder::new(coding, coding.level(Default::default()), Room::Usual);
            give(&mut left, &body(5_000, round), Op::Go, 100, &mut Vec::new());
            drop(left);
            let mut encoder = Encoder::new(coding, coding.level(Default::default()), Room::Usual);
            let mut out = Vec::new();
            give(&mut encoder, b"hello", Op::End, 1000, &mut out);
            assert_eq!(decoded(coding, &out, 5), b"hello", "{coding}");
        }
    }
}

#[test]
fn a_flush_ends_in_any_room() {
    let all = body(3000, 7);
    for (coding, room) in Coding::ALL.into_iter().flat_map(|coding| (1..10).map(move |room| (coding, room))) {
        let (mut encoder, mut out) = (Encoder::new(coding, *coding.levels().start(), Room::Usual), Vec::new());
        for piece in all.chunks(1000) {
            give(&mut encoder, piece, Op::Go, room, &mut out);
            give(&mut encoder, &[], Op::Flush, room, &mut out);
        }
        assert!(decoded(coding, &out, all.len()) == all, "{coding:?} with room of {room}");
        give(&mut encoder, b"more", Op::Flush, room, &mut out);
        give(&mut encoder, &[], Op::End, room, &mut out);
        let whole = [&all[..], b"more"].concat();
        assert!(decoded(coding, &out, whole.len()) == whole, "{coding:?} with room of {room}");
    }
}
