//! Ages of responses (RFC 9111 sections 4.2.3 and 5.1).

use crate::moment::{Moment, delta_seconds, whole_seconds};
use evenkeel_wire::head::Fields;

/// Reads `Age` in seconds: the first member of the first line. 0 if the field is missing or not a number.
pub fn stated(fields: &Fields<'_, '_>) -> u32 {
    let first = fields.first("age").and_then(|line| line.split(|b| *b == b',').next());
    first.and_then(|member| delta_seconds(member.trim_ascii())).unwrap_or(0)
}

/// Age of a response in seconds when it was received (RFC 9111 section 4.2.3, `corrected_initial_age`): the larger of
/// two ages. The first is its `Age` field plus the response time, the second follows from its `Date`.
///
/// `date`: its `Date`, if valid. `sent`, `received`: when the request was sent and the head of the response was
/// received.
pub fn initial(fields: &Fields<'_, '_>, date: Option<Moment>, sent: Moment, received: Moment) -> u32 {
    let apparent = date.map_or(0, |date| whole_seconds(received.since(date)));
    let corrected = stated(fields).saturating_add(whole_seconds(received.since(sent)));
    apparent.max(corrected).min(crate::moment::SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::SECONDS_MAX;
    use evenkeel_wire::head::Table;

    fn table(lines: &[&str]) -> Table {
        lines.iter().map(|line| (&b"Age"[..], line.as_bytes())).collect()
    }

    #[test]
    fn the_first_number_is_the_age() {
        for (lines, seconds) in [
            (&[][..], 0),
            (&["7"], 7),
            (&["7, 0"], 7),
            (&["0, 7"], 0),
            (&["7", "0"], 7),
            (&["2147483649"], SECONDS_MAX),
            (&["-7"], 0),
            (&["7.0"], 0),
            (&["abc"], 0),
            (&["7;a=b"], 0),
        ] {
            assert_eq!(stated(&table(lines).fields()), seconds, "{lines:?}");
        }
    }

    #[test]
    fn the_initial_age_is_the_larger_of_two() {
        let (sent, received) = (Moment::from_seconds(100), Moment::from_seconds(103));
        let of = |age: &str, date| initial(&table(&[age]).fields(), date, sent, received);
        assert_eq!(of("10", None), 13);
        assert_eq!(of("0", Some(Moment::from_seconds(50))), 53);
        assert_eq!(of("60", Some(Moment::from_seconds(50))), 63);
        // A date of the future makes nothing younger.
        assert_eq!(of("0", Some(Moment::from_seconds(500))), 3);
        assert_eq!(of("2147483648", None), SECONDS_MAX);
    }
}
