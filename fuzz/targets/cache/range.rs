//! Ranges of bytes: any value cuts a body as a naive reader does, who looks at each byte of it alone.
#![no_main]

use evenkeel_cache::range::{Slice, slice};
use libfuzzer_sys::fuzz_target;

const LENGTH: u64 = 100;

fuzz_target!(|bytes: &[u8]| {
    let cut = slice(Some(bytes), LENGTH);
    if let Slice::Part(part) = &cut {
        assert!(part.start < part.end && part.end <= LENGTH);
    }
    assert_eq!(cut, naive(bytes));
    assert_eq!(slice(Some(bytes), 0), Slice::Whole);
});

fn naive(bytes: &[u8]) -> Slice {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some(range) = text.strip_prefix("bytes=").map(|range| range.trim_matches(|c: char| c.is_ascii_whitespace()))
    else {
        return Slice::Whole;
    };
    let Some((first, last)) = range.split_once('-') else { return Slice::Whole };
    // Longer numbers are all behind the end.
    let number = |text: &str| text.chars().all(|c| c.is_ascii_digit()).then(|| text.parse::<u64>().unwrap_or(u64::MAX));
    let (Some(a), Some(b)) = (number(first), number(last)) else { return Slice::Whole };
    let is_in = |at: u64| match (first.is_empty(), last.is_empty()) {
        (false, false) => a <= at && at <= b,
        (false, true) => a <= at,
        (true, _) => !last.is_empty() && at.saturating_add(b) >= LENGTH,
    };
    if first.is_empty() && last.is_empty() || !first.is_empty() && !last.is_empty() && a > b {
        return Slice::Whole;
    }
    let inside: Vec<u64> = (0..LENGTH).filter(|at| is_in(*at)).collect();
    match inside[..] {
        [] => Slice::Unsatisfiable,
        [first, ..] => Slice::Part(first..first + inside.len() as u64),
    }
}
