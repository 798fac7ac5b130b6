//! Times of nginx.conf: bare numbers are seconds.

/// Milliseconds of `60`, `10s`, `500ms`, `1m30s`, `1h 30m`; `None` if it is something else.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest[end..].trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_seconds() {
        for (text, ms) in [
            ("60", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("1d", Some(86_400_000)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(milliseconds(text), ms, "{text}");
        }
    }
}
