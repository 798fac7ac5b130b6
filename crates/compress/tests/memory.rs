//! Memory that compressors take, as the process has it: no more than what is stated. A test of its own, as it measures the process.

use evenkeel_compress::coding::{Coding, Effort};
use evenkeel_compress::encoder::{Encoder, Op, Room, memory_of};

/// Compressors that exist at once, for a difference that is larger than what else moves.
const ENCODERS: u64 = 12;

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// Text that repeats itself here and there.
fn body() -> Vec<u8> {
    let (mut state, mut all) = (1_u64, Vec::new());
    while all.len() < 200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.extend(format!("<p class=\"c{}\">word {}</p>", state >> 61, state >> 40).bytes());
    }
    all
}

#[test]
fn compressors_take_no_more_than_is_stated() {
    let (body, mut to) = (body(), vec![0; 32 << 10]);
    let rooms =
        [(Room::Usual, 200_000), (Room::Small, 100_000), (Room::Fitted(14), 16_000), (Room::Fitted(16), 65_000)];
    for coding in Coding::ALL {
        for (effort, (room, len)) in
            [Effort::Fast, Effort::Usual, Effort::Best].into_iter().flat_map(|effort| rooms.map(|room| (effort, room)))
        {
            let level = coding.level(effort);
            let before = resident();
            let all: Vec<Encoder> = (0..ENCODERS)
                .map(|_| {
                    let mut encoder = Encoder::new(coding, level, room);
                    for (mut from, op) in [(&body[..len], Op::Go), (&[][..], Op::Flush)] {
                        loop {
                            let step = encoder.step(from, &mut to, op).expect("it compresses");
                            from = &from[step.taken..];
                            if step.is_done {
                                break;
                            }
                        }
                    }
                    encoder
                })
                .collect();
            let (taken, stated) = (resident().saturating_sub(before) / ENCODERS, memory_of(coding, level, room));
            println!("{coding} {level} {room:?}: {} of {} KiB", taken >> 10, stated >> 10);
            assert!(taken <= stated + stated / 8, "{coding} {level} {room:?}: {taken} of {stated} bytes");
            // What was freed would be used again, and not be counted.
            std::mem::forget(all);
        }
    }
}
