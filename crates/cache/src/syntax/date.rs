//! Dates (RFC 9110 section 5.6.7) in their three formats, in any case.

use crate::moment::Moment;

/// Length of the longest date: `Wednesday, 06-Nov-94 08:49:37 GMT`.
const LONGEST: usize = 33;

/// Reads a date. `None` if it is in none of the three formats, or before 1970.
///
/// Words may be in any case, as some senders write them; everything else is as strict as the format, as a date that is
/// misread may keep a response for years.
pub fn read(value: &[u8]) -> Option<Moment> {
    let mut text = [0; LONGEST];
    let text = text.get_mut(..value.len())?;
    text.copy_from_slice(value);
    let mut in_word = false;
    for byte in text.iter_mut() {
        byte.make_ascii_lowercase();
        if !in_word {
            byte.make_ascii_uppercase();
        }
        in_word = byte.is_ascii_alphabetic();
    }
    if let Some(zone) = text.last_chunk_mut::<3>().filter(|zone| **zone == *b"Gmt") {
        *zone = *b"GMT";
    }
    let time = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Moment::from_seconds(since.as_secs()))
}

/// Returns the date of a moment as fields have it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn write(moment: Moment) -> String {
    // Years of more than four digits have no format.
    let seconds = moment.seconds().min(253_402_300_799);
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_formats_in_any_case_are_the_same_moment() {
        let moment = Some(Moment::from_seconds(784_111_777));
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "SUN, 06 nOv 1994 08:49:37 gmt",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(read(text.as_bytes()), moment, "{text}");
        }
        assert_eq!(write(moment.unwrap()), "Sun, 06 Nov 1994 08:49:37 GMT");
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
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_last_year_is_9999() {
        assert_eq!(write(Moment::from_seconds(u64::MAX / 1000)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
