//! Decimal numbers of a log.

use crate::time::Span;

/// Digits that a fraction may have beyond which they are below a nanosecond.
const FRACTION_MAX: usize = 18;

/// Reads an unsigned integer. `None` for other text, and above `u64::MAX`.
pub fn integer(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |n, b| n.checked_mul(10)?.checked_add(digit(*b)?))
}

fn digit(b: u8) -> Option<u64> {
    b.is_ascii_digit().then(|| u64::from(b - b'0'))
}

/// Reads a number. `None` for infinity and `NaN`.
pub fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Reads a number of units, such as `0.012` seconds. Its resolution is the unit of its last digit, at least 1 ns.
pub fn span(text: &[u8], unit_ns: u32) -> Option<Span> {
    let point = text.iter().position(|b| !b.is_ascii_digit());
    let (whole, fraction) = match point {
        None => (text, &b""[..]),
        Some(at) if text[at] == b'.' => (&text[..at], &text[at + 1..]),
        Some(_) => return scientific(text, unit_ns),
    };
    let ns = integer(whole)?.checked_mul(u64::from(unit_ns))?;
    if fraction.is_empty() {
        return Some(Span { ns, resolution_ns: unit_ns });
    }
    if !fraction.iter().all(u8::is_ascii_digit) {
        return scientific(text, unit_ns);
    }
    let part = &fraction[..fraction.len().min(FRACTION_MAX)];
    let scale = 10_u64.pow(part.len() as u32);
    let part_ns = u128::from(integer(part)?) * u128::from(unit_ns) / u128::from(scale);
    let resolution_ns = (u64::from(unit_ns) / scale).max(1) as u32;
    Some(Span { ns: ns.checked_add(part_ns as u64)?, resolution_ns })
}

/// Reads a number with an exponent. Its resolution is 1 ns, as its digits do not state any.
#[cold]
fn scientific(text: &[u8], unit_ns: u32) -> Option<Span> {
    let is_number = text.first()?.is_ascii_digit() && text.iter().any(|b| matches!(b, b'e' | b'E'));
    let ns = float(text).filter(|_| is_number)? * f64::from(unit_ns);
    (ns < u64::MAX as f64).then_some(Span { ns: ns.round() as u64, resolution_ns: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MILLISECOND_NS, SECOND_NS};

    #[test]
    fn a_span_has_the_resolution_of_its_digits() {
        let read = |text: &str, unit| span(text.as_bytes(), unit).map(|s| (s.ns, s.resolution_ns));
        assert_eq!(read("0.012", SECOND_NS), Some((12_000_000, MILLISECOND_NS)));
        assert_eq!(read("7", MILLISECOND_NS), Some((7_000_000, MILLISECOND_NS)));
        assert_eq!(read("1.234", MILLISECOND_NS), Some((1_234_000, 1_000)));
        assert_eq!(read("0.0000000019", SECOND_NS), Some((1, 1)));
        assert_eq!(read("1795132800.123456", SECOND_NS), Some((1_795_132_800_123_456_000, 1_000)));
        assert_eq!(read("1.5e-05", SECOND_NS), Some((15_000, 1)));
        assert_eq!(read("3.", SECOND_NS), Some((3_000_000_000, SECOND_NS)));
    }

    #[test]
    fn other_text_is_not_a_number() {
        for text in ["", "-", "-1", ".", ".5", "1.-", "1 ", "0x1", "inf", "NaN", "1e999", "99999999999999999999", "1,5"]
        {
            assert_eq!(span(text.as_bytes(), SECOND_NS), None, "{text}");
        }
        assert_eq!(integer(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer(b"18446744073709551616"), None);
        assert_eq!((float(b"0.25"), float(b"nan"), float(b"x")), (Some(0.25), None, None));
    }
}
