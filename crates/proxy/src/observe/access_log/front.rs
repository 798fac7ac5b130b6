//! The front of a line. It has a fixed length unless the id came from a proxy, so only the bytes that differ from the
//! previous line are rewritten.

use super::quoted::quoted;
use crate::observe::request_id::{RequestId, hex};
use evenkeel_net::clock::civil;
use std::ops::Range;

/// The front of a JSON line: the time when the request began, and its id.
pub struct Front {
    text: [u8; LEN],
    /// Seconds since 1970, as in the text.
    second: u64,
    /// The random half of the id, as in the text.
    origin: u64,
}

const LEN: usize = 87;

/// Start of a line for Unix time 0.
const FIRST: &[u8; LEN] =
    b"{\"ts\":\"1970-01-01T00:00:00.000Z\",\"req_id\":\"00000000000000000000000000000000\",\"client\":\"";

const YEAR: Range<usize> = 7..11;
const MONTH: Range<usize> = 12..14;
const DAY: Range<usize> = 15..17;
const HOUR: Range<usize> = 18..20;
const MINUTE: Range<usize> = 21..23;
const SECOND: Range<usize> = 24..26;
const MILLI: Range<usize> = 27..30;
const ORIGIN: Range<usize> = 43..59;
const NUMBER: Range<usize> = 59..75;

const DAY_SECONDS: u64 = 86_400;

impl Default for Front {
    fn default() -> Front {
        Front { text: *FIRST, second: 0, origin: 0 }
    }
}

impl Front {
    /// Sets the time and the id.
    pub fn set(&mut self, unix_ms: u64, request_id: &RequestId) {
        let second = unix_ms / 1000;
        if second != self.second {
            self.set_second(second);
        }
        decimal(&mut self.text[MILLI], unix_ms % 1000);
        if let RequestId::Made { origin, number } = request_id {
            if *origin != self.origin {
                hex(&mut self.text[ORIGIN], *origin);
                self.origin = *origin;
            }
            hex(&mut self.text[NUMBER], *number);
        }
    }

    /// Appends the front; the client's address must follow. [`set`](Self::set) must have had the same `request_id`.
    #[inline]
    pub fn write(&self, request_id: &RequestId, out: &mut Vec<u8>) {
        match request_id {
            RequestId::Made { .. } => out.extend_from_slice(&self.text),
            RequestId::Taken(text) => self.write_taken(text, out),
        }
    }

    /// Writes the front with an id that a proxy sent.
    #[cold]
    fn write_taken(&self, id: &str, out: &mut Vec<u8>) {
        // `quoted` writes the quotes too, so the quotes of the text are omitted.
        out.extend_from_slice(&self.text[..ORIGIN.start - 1]);
        quoted(out, id.as_bytes());
        out.extend_from_slice(&self.text[NUMBER.end + 1..]);
    }

    #[cold]
    fn set_second(&mut self, second: u64) {
        let day = second / DAY_SECONDS;
        if day != self.second / DAY_SECONDS {
            self.set_day(day);
        }
        self.second = second;
        decimal(&mut self.text[HOUR], second / 3600 % 24);
        decimal(&mut self.text[MINUTE], second / 60 % 60);
        decimal(&mut self.text[SECOND], second % 60);
    }

    #[cold]
    fn set_day(&mut self, day: u64) {
        let (year, month, day) = civil(day);
        decimal(&mut self.text[YEAR], year);
        decimal(&mut self.text[MONTH], month);
        decimal(&mut self.text[DAY], day);
    }
}

/// Writes the last decimal digits of a number, as many as `room` holds.
fn decimal(room: &mut [u8], mut n: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(front: &mut Front, unix_ms: u64, request_id: &RequestId) -> String {
        front.set(unix_ms, request_id);
        let mut out = Vec::new();
        front.write(request_id, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn id(origin: u64, number: u64) -> RequestId {
        RequestId::Made { origin, number }
    }

    fn line(ts: &str, id: &str) -> String {
        format!("{{\"ts\":\"{ts}\",\"req_id\":\"{id}\",\"client\":\"")
    }

    /// Steps in both directions over the ends of seconds, minutes, hours, days, months and years: requests are logged
    /// at their end, with the time of their beginning.
    #[test]
    fn what_was_written_before_leaves_no_trace() {
        let times = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (999, "1970-01-01T00:00:00.999Z"),
            (1_000, "1970-01-01T00:00:01.000Z"),
            (59_999, "1970-01-01T00:00:59.999Z"),
            (60_000, "1970-01-01T00:01:00.000Z"),
            (3_599_999, "1970-01-01T00:59:59.999Z"),
            (3_600_000, "1970-01-01T01:00:00.000Z"),
            (86_399_999, "1970-01-01T23:59:59.999Z"),
            (86_400_000, "1970-01-02T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (1_795_132_800_001, "2026-11-20T00:00:00.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ];
        let mut front = Front::default();
        for (from, _) in times {
            for (to, text) in times {
                front.set(from, &id(u64::MAX, u64::MAX));
                assert_eq!(made(&mut front, to, &id(1, 0xabc)), line(text, "00000000000000010000000000000abc"));
            }
        }
    }

    #[test]
    fn every_digit_of_an_id_is_written() {
        let mut front = Front::default();
        for n in [0, 9, 10, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX] {
            let text = format!("{:016x}{n:016x}", !n);
            assert_eq!(made(&mut front, 0, &id(!n, n)), line("1970-01-01T00:00:00.000Z", &text));
        }
    }

    #[test]
    fn an_id_that_was_taken_over_stands_as_it_came_and_leaves_no_trace() {
        let mut front = Front::default();
        let taken = RequestId::take(br#"a"b\c"#).unwrap();
        assert_eq!(made(&mut front, 0, &taken), line("1970-01-01T00:00:00.000Z", r#"a\"b\\c"#));
        assert_eq!(made(&mut front, 0, &id(0, 7)), line("1970-01-01T00:00:00.000Z", &format!("{:032x}", 7)));
    }
}
