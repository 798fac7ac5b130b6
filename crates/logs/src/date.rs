//! Dates of a log: as in Apache, NGINX and HAProxy, and in ISO 8601.

use crate::number::{integer, span};
use crate::time::{SECOND_NS, Time};

const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// Years that are read: later ones would not fit in 64 bits of nanoseconds.
const YEAR_MAX: u64 = 2500;

/// Reads `06/Feb/2009:12:14:14`, with a fraction of the second and a zone if there are any:
/// `06/Feb/2009:12:14:14.655 +0100`. Without a zone, the date is read as UTC.
pub fn apache(text: &[u8]) -> Option<Time> {
    let (date, rest) = text.split_at_checked(20)?;
    if [date[2], date[6], date[11]] != *b"//:" {
        return None;
    }
    let day = days(integer(&date[7..11])?, u64::from(month(&date[3..6])?), integer(&date[..2])?)?;
    let (fraction, zone) = match rest.iter().position(|b| *b == b' ') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    moment(day, &date[12..], fraction, zone)
}

/// Reads `2026-11-20T10:00:00.123Z`: the fraction may have any number of digits, and the zone is `Z`, `+01:00`,
/// `+0100` or missing.
pub fn iso(text: &[u8]) -> Option<Time> {
    let (date, rest) = text.split_at_checked(19)?;
    if [date[4], date[7]] != *b"--" || !matches!(date[10], b'T' | b' ') {
        return None;
    }
    let day = days(integer(&date[..4])?, integer(&date[5..7])?, integer(&date[8..10])?)?;
    let zone = rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(rest.len());
    moment(day, &date[11..], &rest[..zone], &rest[zone..])
}

/// Number of a month from 1, by the three letters of its name.
pub fn month(name: &[u8]) -> Option<u8> {
    let at = MONTHS.chunks_exact(3).position(|month| month == name)?;
    Some(at as u8 + 1)
}

/// Moment of a time of day such as `12:14:14`, a fraction such as `.655`, and a zone.
fn moment(day: u64, clock: &[u8], fraction: &[u8], zone: &[u8]) -> Option<Time> {
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = clock else { return None };
    let [hour, minute, second] = [[h1, h2], [m1, m2], [s1, s2]].map(|digits| integer(&digits));
    // 60 is a leap second.
    let (hour, minute) = (hour.filter(|h| *h < 24)?, minute.filter(|m| *m < 60)?);
    let second = (day * 24 + hour) * 3600 + minute * 60 + second.filter(|s| *s <= 60)?;
    let east = offset(zone)?;
    let second = second.checked_add_signed(-east)?;
    let part = match fraction.split_first() {
        None => span(b"0", SECOND_NS)?,
        Some((b'.' | b',', digits)) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            let mut text = *b"0.000000000";
            let digits = &digits[..digits.len().min(9)];
            text[2..2 + digits.len()].copy_from_slice(digits);
            span(&text[..2 + digits.len()], SECOND_NS)?
        }
        Some(_) => return None,
    };
    Some(Time { ns: second * u64::from(SECOND_NS) + part.ns, resolution_ns: part.resolution_ns })
}

/// Seconds east of Greenwich.
fn offset(zone: &[u8]) -> Option<i64> {
    let (hours, minutes) = match zone {
        b"" | b"Z" | b"z" => return Some(0),
        [_, h1, h2, m1, m2] | [_, h1, h2, b':', m1, m2] => (integer(&[*h1, *h2])?, integer(&[*m1, *m2])?),
        _ => return None,
    };
    let seconds = (hours * 3600 + minutes * 60) as i64;
    match zone[0] {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// Days since 1970. The algorithm counts years from March, so that the leap day is the last day of a year.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=YEAR_MAX).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_795_132_800; // 2026-11-20T00:00:00Z

    #[test]
    fn dates_of_apache_have_fractions_and_zones() {
        let read = |text: &str| apache(text.as_bytes()).map(|t| (t.ns / 1_000_000, t.resolution_ns));
        assert_eq!(read("20/Nov/2026:00:00:00 +0000"), Some((NOON * 1000, SECOND_NS)));
        assert_eq!(read("20/Nov/2026:01:30:00.250 +0130"), Some((NOON * 1000 + 250, 1_000_000)));
        assert_eq!(read("19/Nov/2026:16:00:00 -0800"), Some((NOON * 1000, SECOND_NS)));
        assert_eq!(read("01/Jan/1970:00:00:00.000"), Some((0, 1_000_000)));
        for text in [
            "",
            "20/Nov/2026",
            "20/Nox/2026:00:00:00",
            "32/Nov/2026:00:00:00",
            "20/Nov/2026:24:00:00",
            "20/Nov/1969:00:00:00",
            "01/Jan/1970:00:00:00 +0100",
            "20/Nov/2026:00:00:00 0000",
            "20/Nov/2026:00:00:00.",
            "20/Nov/2026:00:00:00x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn dates_of_iso_8601_have_any_precision() {
        let read = |text: &str| iso(text.as_bytes()).map(|t| (t.ns, t.resolution_ns));
        let ns = NOON * 1_000_000_000;
        assert_eq!(read("2026-11-20T00:00:00Z"), Some((ns, SECOND_NS)));
        assert_eq!(read("2026-11-20T00:00:00.1234567Z"), Some((ns + 123_456_700, 100)));
        assert_eq!(read("2026-11-20T01:00:00.123456789123+01:00"), Some((ns + 123_456_789, 1)));
        assert_eq!(read("2026-11-20 00:00:00+0000"), Some((ns, SECOND_NS)));
        assert_eq!(read("2026-11-20T00:00:00+1"), None);
    }

    #[test]
    fn every_day_has_its_number() {
        let mut expected = 0;
        for year in 1970..=2500_u64 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, 28 + u64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 1..=length {
                    assert_eq!(days(year, month, day), Some(expected), "{year}-{month}-{day}");
                    expected += 1;
                }
            }
        }
    }
}
