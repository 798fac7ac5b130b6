//! Dates (RFC 9110 section 5.6.7) in their three formats, in any case.

use crate::moment::Date;

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The formats after the day of the week: `D` is a digit of the day, `N` a letter of the month, `Y` a digit of the year,
/// `h`, `m` and `s` digits of the time, `_` a digit of the day or a space; anything else is itself, in any case.
const FORMATS: [(&str, bool); 3] =
    [(", DD NNN YYYY hh:mm:ss GMT", true), (", DD-NNN-YY hh:mm:ss GMT", false), (" NNN _D hh:mm:ss YYYY", true)];

/// Reads a date. `None` if it is in none of the three formats, or before 1970.
///
/// Words may be in any case, and the day of the week may be wrong, as some senders write it. Everything else is as
/// strict as the format: a misread date may keep a response for years.
pub fn read(value: &[u8]) -> Option<Date> {
    let (weekday, rest) = value.split_at(value.iter().position(|b| !b.is_ascii_alphabetic())?);
    let (format, is_short) = FORMATS.iter().find(|(format, _)| is_in(rest, format.as_bytes()))?;
    let name = |day: &'static str| if *is_short { &day[..3] } else { day };
    DAYS.into_iter().find(|day| weekday.eq_ignore_ascii_case(name(day).as_bytes()))?;
    let (mut day, mut letters, mut year, mut time) = (0, [0; 3], 0, [0; 3]);
    let mut next_letter = letters.iter_mut();
    for (known, byte) in format.bytes().zip(rest) {
        let number = match known {
            b'D' | b'_' => &mut day,
            b'Y' => &mut year,
            b'h' => &mut time[0],
            b'm' => &mut time[1],
            b's' => &mut time[2],
            b'N' => {
                *next_letter.next()? = *byte;
                continue;
            }
            _ => continue,
        };
        // A one-digit day has a space before it.
        *number = 10 * *number + if *byte == b' ' { 0 } else { u64::from(byte - b'0') };
    }
    let month = MONTHS.iter().position(|month| letters.eq_ignore_ascii_case(month.as_bytes()))?;
    let year = match year {
        // Two digits are of the years next to now (RFC 9110 section 5.6.7), which this century is for long.
        year @ 0..70 if !is_short => 2000 + year,
        year if !is_short => 1900 + year,
        year => year,
    };
    let [hours, minutes, seconds] = time;
    let is_valid =
        year >= 1970 && (1..=length(year, month)).contains(&day) && hours < 24 && minutes < 60 && seconds <= 60;
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let days = 365 * year.saturating_sub(1970) + leaps(year.max(1970) - 1) - leaps(1969);
    let days = days + (0..month).map(|month| length(year, month)).sum::<u64>() + day.saturating_sub(1);
    is_valid.then(|| Date::from_seconds(((days * 24 + hours) * 60 + minutes) * 60 + seconds))
}

/// Reads the lines of a field with a single date. `None` if they differ, or are not a date.
pub fn read_lines<'b>(mut lines: impl Iterator<Item = &'b [u8]>) -> Option<Date> {
    let first = lines.next()?;
    if lines.all(|line| line == first) { read(first) } else { None }
}

/// True if every byte fits the format at its position.
fn is_in(text: &[u8], format: &[u8]) -> bool {
    let is_one = |(byte, known): (&u8, &u8)| match known {
        b'D' | b'Y' | b'h' | b'm' | b's' => byte.is_ascii_digit(),
        b'N' => byte.is_ascii_alphabetic(),
        b'_' => byte.is_ascii_digit() || *byte == b' ',
        known => byte.eq_ignore_ascii_case(known),
    };
    text.len() == format.len() && text.iter().zip(format).all(is_one)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days of a month, counted from 0.
fn length(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Returns a date as fields have it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn write(date: Date) -> String {
    // Years of more than four digits have no format.
    let seconds = date.seconds().min(253_402_300_799);
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_formats_in_any_case_are_the_same_date() {
        let date = Date::from_seconds(784_111_777);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "SUN, 06 nOv 1994 08:49:37 gmt",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Mon, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(read(text.as_bytes()), Some(date), "{text}");
        }
        assert_eq!(write(date), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn what_is_nearly_a_date_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Xyz 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in 0..146_097 {
            let date = Date::from_seconds(day * 86_400 + day % 86_400);
            assert_eq!(read(write(date).as_bytes()), Some(date));
        }
    }

    #[test]
    fn years_of_two_digits_are_next_to_now() {
        assert_eq!(read(b"Thursday, 18-Aug-50 02:01:18 GMT"), read(b"Thu, 18 Aug 2050 02:01:18 GMT"));
        assert_eq!(read(b"Thursday, 18-Aug-94 02:01:18 GMT"), read(b"Thu, 18 Aug 1994 02:01:18 GMT"));
        assert_eq!(read(b"Tue Feb 29 00:00:60 2000"), Some(Date::from_seconds(951_782_460)));
    }

    #[test]
    fn the_last_year_is_9999() {
        assert_eq!(write(Date::from_seconds(u64::MAX / 1000)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
