//! Durations (`"1m30s"`) and sizes (`"32KiB"`). A unit is always required, because readers disagree on the
//! meaning of a bare number.

use std::time::Duration;

const TIME: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const SIZE: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Parses `"250ms"`, `"1.5s"` or `"1m30s"` (units descending) into nanoseconds.
///
/// # Errors
/// A sentence that describes the fault in the text.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    let mut rest = text;
    let mut total = 0u64;
    let mut smaller_than = u64::MAX;
    if text.is_empty() {
        return Err("it is empty".to_string());
    }
    while !rest.is_empty() {
        let (digits, unit, after) = part(rest)?;
        // "µs" with the micro sign or the Greek letter.
        let name = if matches!(unit, "µs" | "μs") { "us" } else { unit };
        let Some(&(_, each)) = TIME.iter().find(|(u, _)| *u == name) else {
            return Err(no_unit(unit, TIME));
        };
        if each >= smaller_than {
            return Err("its units must descend, each at most once".to_string());
        }
        smaller_than = each;
        total = times(digits, each).and_then(|ns| total.checked_add(ns)).ok_or("it is too long")?;
        rest = after;
    }
    Ok(total)
}

/// Parses `"32KiB"` or `"1MB"` into bytes.
///
/// # Errors
/// A sentence that describes the fault in the text.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (digits, unit, after) = part(text)?;
    if !after.is_empty() {
        return Err("one number and one unit are allowed".to_string());
    }
    let Some(&(_, each)) = SIZE.iter().find(|(u, _)| *u == unit) else {
        return Err(no_unit(unit, SIZE));
    };
    times(digits, each).ok_or_else(|| "it is too big".to_string())
}

/// The size that a text of another program means: `1m`, `10mb`, `64k`, `1048576`. A letter alone is a power of 1024.
pub(crate) fn size_meant(text: &str) -> Option<String> {
    let (digits, unit, after) = part(text.trim()).ok()?;
    let unit = match &*unit.to_ascii_lowercase() {
        "" | "b" => return after.is_empty().then(|| times(digits, 1).map(size_text)).flatten(),
        "k" | "kib" | "ki" => "KiB",
        "m" | "mib" | "mi" => "MiB",
        "g" | "gib" | "gi" => "GiB",
        "kb" => "KB",
        "mb" => "MB",
        "gb" => "GB",
        _ => return None,
    };
    let meant = format!("{digits}{unit}");
    (after.is_empty() && size(&meant).is_ok()).then_some(meant)
}

fn no_unit(unit: &str, units: &[(&str, u64)]) -> String {
    let known: Vec<&str> = units.iter().map(|(u, _)| *u).collect();
    let what = if unit.is_empty() { "it has no unit".to_string() } else { format!("\"{unit}\" is not a unit") };
    format!("{what}; units: {}", known.join(", "))
}

/// Splits `"1.5s2ms"` into `("1.5", "s", "2ms")`.
fn part(text: &str) -> Result<(&str, &str, &str), String> {
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_ends);
    if number.is_empty() {
        return Err("it must start with digits".to_string());
    }
    let unit_ends = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_ends);
    Ok((number, unit.trim(), rest))
}

/// Multiplies a decimal number by `each`, exactly, and truncates. `None` if it is not a number or too large.
fn times(number: &str, each: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().ok()?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u128>().ok()? * u128::from(each) / scale;
    whole.checked_mul(each)?.checked_add(u64::try_from(part).ok()?)
}

/// Formats a duration as in a file: `"5m"`, `"90s"`, `"250ms"`.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if ns == 0 {
        return "0s".to_string();
    }
    let fits = TIME.iter().find(|(unit, each)| *unit != "d" && ns.is_multiple_of(*each)).unwrap_or(&("ns", 1));
    format!("{}{}", ns / fits.1, fits.0)
}

/// Formats a size as in a file: `"32KiB"`.
pub fn size_text(bytes: u64) -> String {
    let fits = SIZE.iter().find(|(unit, each)| unit.ends_with("iB") && bytes > 0 && bytes.is_multiple_of(*each));
    fits.map_or_else(|| format!("{bytes}B"), |(unit, each)| format!("{}{unit}", bytes / each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("250ms", 250_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("7ns", 7),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
        }
        for text in
            ["", "10", "s", "-1s", "10 parsecs", "30s1m", "1s1s", "1..5s", ".s", "99999999999d", "1.0000000001s"]
        {
            assert!(duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reads_sizes() {
        assert_eq!(size("32KiB"), Ok(32_768));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("1.5 KiB"), Ok(1_536));
        assert_eq!(size("0B"), Ok(0));
        for text in ["", "32", "KiB", "32K", "1KB2B", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for ns in [0, 1, 999, 1_000, 90_000_000_000, 86_400_000_000_000, 1_500_000_001, u64::MAX] {
            assert_eq!(duration_ns(&duration_text(Duration::from_nanos(ns))), Ok(ns));
        }
        for bytes in [0, 1, 1_000, 32_768, 1 << 20, 1_000_000] {
            assert_eq!(size(&size_text(bytes)), Ok(bytes));
        }
    }
}
