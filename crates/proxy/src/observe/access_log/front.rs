//! How does a line begin? With as many bytes as every other, of which only what differs from the line before is
//! written.

use std::ops::Range;

/// The front of a line: when the request began, and its id.
pub struct Front {
    text: [u8; LEN],
    /// Since 1970, of the text.
    second: u64,
}

const LEN: usize = 71;

/// As it is at second 0.
const FIRST: &[u8; LEN] = b"{\"ts\":\"1970-01-01T00:00:00.000Z\",\"req_id\":\"0000000000000000\",\"client\":\"";

const YEAR: Range<usize> = 7..11;
const MONTH: Range<usize> = 12..14;
const DAY: Range<usize> = 15..17;
const HOUR: Range<usize> = 18..20;
const MINUTE: Range<usize> = 21..23;
const SECOND: Range<usize> = 24..26;
const MILLI: Range<usize> = 27..30;
const ID: Range<usize> = 43..59;

const DAY_SECONDS: u64 = 86_400;

impl Default for Front {
    fn default() -> Front {
        Front { text: *FIRST, second: 0 }
    }
}

impl Front {
    /// Becomes that of another line.
    pub fn set(&mut self, unix_ms: u64, request_id: u64) {
        let second = unix_ms / 1000;
        if second != self.second {
            self.set_second(second);
        }
        decimal(&mut self.text[MILLI], unix_ms % 1000);
        hex(&mut self.text[ID], request_id);
    }

    /// The text, which ends where the client's address is to follow.
    pub fn bytes(&self) -> &[u8; LEN] {
        &self.text
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

    /// Days since 1970 to a date as in Hinnant's `civil_from_days`.
    #[cold]
    fn set_day(&mut self, day: u64) {
        let z = day + 719_468;
        let (era, doe) = (z / 146_097, z % 146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        decimal(&mut self.text[YEAR], yoe + era * 400 + u64::from(month <= 2));
        decimal(&mut self.text[MONTH], month);
        decimal(&mut self.text[DAY], doy - (153 * mp + 2) / 5 + 1);
    }
}

/// The last digits of a number, as many as there is room for.
fn decimal(room: &mut [u8], mut n: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

fn hex(room: &mut [u8], n: u64) {
    for (digits, byte) in room.as_chunks_mut().0.iter_mut().zip(n.to_be_bytes()) {
        *digits = HEX[usize::from(byte)];
    }
}

/// Each byte in two digits.
const HEX: [[u8; 2]; 256] = {
    let (mut hex, mut i, digits) = ([[0; 2]; 256], 0, b"0123456789abcdef");
    while i < 256 {
        hex[i] = [digits[i >> 4], digits[i & 15]];
        i += 1;
    }
    hex
};

#[cfg(test)]
mod tests {
    use super::*;

    fn made(front: &mut Front, unix_ms: u64, request_id: u64) -> String {
        front.set(unix_ms, request_id);
        String::from_utf8(front.bytes().to_vec()).unwrap()
    }

    fn line(ts: &str, id: &str) -> String {
        format!("{{\"ts\":\"{ts}\",\"req_id\":\"{id}\",\"client\":\"")
    }

    /// Both ways over the ends of seconds, minutes, hours, days, months and years, as requests are logged at their end
    /// but told by their beginning.
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
                front.set(from, u64::MAX);
                assert_eq!(made(&mut front, to, 0xabc), line(text, "0000000000000abc"));
            }
        }
    }

    #[test]
    fn every_digit_of_an_id_is_written() {
        let mut front = Front::default();
        for id in [0, 9, 10, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX] {
            assert_eq!(made(&mut front, 0, id), line("1970-01-01T00:00:00.000Z", &format!("{id:016x}")));
        }
    }
}
