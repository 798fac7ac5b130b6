//! Durations as Go writes them, which Traefik, Envoy and Caddy read.

/// Milliseconds of `10s`, `1m30s`, `0.5s`, `500ms`, `1d`; a number alone is in seconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let (mut total, mut rest) = (0.0_f64, text);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        let unit = match &rest[end..unit_end] {
            "ns" => 0.000_001,
            "us" | "\u{b5}s" => 0.001,
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[unit_end..];
    }
    // Far beyond every bound of a key, and exact.
    (total > 0.0 || text.starts_with('0')).then(|| total.round().min(1e15) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("0.5s", 500),
            ("250ms", 250),
            ("7", 7000),
            ("0s", 0),
            ("1d", 86_400_000),
        ] {
            assert_eq!(milliseconds(text), Some(ms), "{text}");
        }
        for broken in ["", "s", "1x", "-1s", "1..2s", "s1"] {
            assert_eq!(milliseconds(broken), None, "{broken}");
        }
        assert!(milliseconds("99999999999999999999999h").is_some());
    }
}
