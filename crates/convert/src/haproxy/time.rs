//! Times of haproxy.cfg: bare numbers are milliseconds.

/// Milliseconds of `10s`, `500`, `1m`; `None` if it is something else.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match &text[end..] {
        "us" => return Some(number.div_ceil(1000)),
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_milliseconds() {
        for (text, ms) in [
            ("5000", Some(5000)),
            ("5s", Some(5000)),
            ("1m", Some(60_000)),
            ("10us", Some(1)),
            ("0", Some(0)),
            ("x", None),
            ("5x", None),
        ] {
            assert_eq!(milliseconds(text), ms, "{text}");
        }
    }
}
