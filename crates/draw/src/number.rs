//! Numbers as text, with three significant digits and a suitable unit.

/// Formats with three significant digits, or all digits before the decimal point.
pub fn digits(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_string(),
        a if a < 0.0995 => format!("{x:.4}"),
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// Returns the factor and the unit that suit a number of seconds of this size.
pub fn scale_of_seconds(x: f64) -> (f64, &'static str) {
    match x.abs() {
        x if x >= 1.0 => (1.0, " s"),
        x if x >= 1e-3 || x == 0.0 => (1e3, " ms"),
        x if x >= 1e-6 => (1e6, " us"),
        _ => (1e9, " ns"),
    }
}

/// Formats a duration in seconds, as `106 ms`.
pub fn seconds(x: f64) -> String {
    let (scale, unit) = scale_of_seconds(x);
    format!("{}{unit}", digits(x * scale))
}

/// Formats seconds since 1970 as a time of day in UTC, `14:05` or `14:05:30`.
pub fn clock(x: f64) -> String {
    let second = x.rem_euclid(86_400.0) as u32;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

/// Formats an age in a single unit: `41s`, `3m`, `2h`, `5d`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats a count in few characters: `950`, `12.3k`, `4.56M`.
pub fn many(x: f64) -> String {
    match x.abs() {
        a if a >= 999_500.0 => format!("{}M", digits(x / 1e6)),
        a if a >= 9_995.0 => format!("{}k", digits(x / 1e3)),
        a if a >= 99.5 || a.fract() == 0.0 => format!("{x:.0}"),
        _ => digits(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_suit_their_figures() {
        assert_eq!([0.0, 0.106, 1.5, 2e-5].map(seconds), ["0 ms", "106 ms", "1.50 s", "20.0 us"]);
        assert_eq!([0.0, 3_900.0, 86_430.0].map(clock), ["00:00", "01:05", "00:00:30"]);
        assert_eq!([5, 150, 7300, 200_000].map(ago), ["5s", "2m", "2h", "2d"]);
        assert_eq!(
            [0.0, 7.0, 0.5, 950.4, 12_300.0, 4_560_000.0].map(many),
            ["0", "7", "0.50", "950", "12.3k", "4.56M"]
        );
    }
}
