//! Readings of a path: at most so many, each once, as sent first; the normal form and what a naive decoder reads are
//! among them, and a path with a single reading is its own normal form or has escapes that stay. A reading without regard
//! to case is found in each case of its letters.
#![no_main]

use evenkeel_wire::folding::{folded, matched_len};
use evenkeel_wire::readings::{READINGS_MAX, Readings, has_several, normalised};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

fuzz_target!(|bytes: &[u8]| {
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    // Other targets are refused before they are routed.
    if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic()) {
        return;
    }
    let (mut readings, mut all) = (Readings::of(path), Vec::new());
    loop {
        match readings.read_next() {
            Ok(Some(reading)) => all.push(String::from_utf8(reading.to_vec()).expect("ASCII")),
            Ok(None) => break,
            Err(_) => return assert!(has_several(path)),
        }
    }
    assert_eq!(all[0], path);
    assert!(all.len() <= READINGS_MAX && all.len() == readings.found());
    assert!(has_several(path) || all.len() == 1, "{all:?}");
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    let normal = normalised(path);
    assert!(all.contains(&normal), "{normal}: {all:?}");
    assert_eq!(normalised(&normal), normal);
    let plain = path.replace("%2f", "/").replace("%2F", "/").replace("%2e", ".").replace("%2E", ".");
    if !plain.contains('%') {
        assert!(all.contains(&plain), "{plain}: {all:?}");
    }
    for reading in &all {
        assert!(reading.starts_with('/') && reading.len() <= path.len());
        let folded = String::from_utf8(folded(reading.as_bytes()).into_owned()).expect("ASCII");
        for other in [folded.clone(), reading.to_ascii_lowercase(), reading.to_ascii_uppercase()] {
            assert_eq!(self::folded(other.as_bytes()), folded.as_bytes(), "{other}");
            assert_eq!(matched_len(&other, reading, true), Some(other.len()), "{other} {reading}");
        }
    }
});
