//! Ages of responses (RFC 9111 sections 4.2.3 and 5.1).

use crate::moment::{Date, delta_seconds, whole_seconds};
use crate::reply::Reply;
use evenkeel_wire::head::Fields;

/// Reads `Age` in seconds: the first member of the first line. 0 if the field is missing or not a number.
pub fn stated(fields: &Fields<'_, '_>) -> u32 {
    let first = fields.first("age").and_then(|line| line.split(|b| *b == b',').next());
    first.and_then(|member| delta_seconds(member.trim_ascii())).unwrap_or(0)
}

/// Age of a response in seconds when it was received (RFC 9111 section 4.2.3, `corrected_initial_age`): the larger of
/// two ages. The first is its `Age` field plus the response time, the second follows from its `Date`.
///
/// `date`: its `Date`, if valid.
pub fn initial(reply: &Reply<'_, '_, '_>, date: Option<Date>) -> u32 {
    apparent(reply, date).max(corrected(reply)).min(crate::moment::SECONDS_MAX)
}

/// Age in seconds by the `Date` of a response and the wall clock of this cache, which may differ from the endpoint's.
pub fn apparent(reply: &Reply<'_, '_, '_>, date: Option<Date>) -> u32 {
    date.map_or(0, |date| whole_seconds(reply.arrived.since(date)))
}

/// Age in seconds by the `Age` of a response, and the time that it took.
pub fn corrected(reply: &Reply<'_, '_, '_>) -> u32 {
    stated(reply.fields).saturating_add(whole_seconds(reply.received.since(reply.sent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::{Moment, SECONDS_MAX};
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
        // The moments are of another clock than the dates.
        let (sent, received, arrived) = (Moment(7_000), Moment(10_000), Date::from_seconds(103));
        let of = |age: &str, date| {
            initial(&Reply { status: 200, fields: &table(&[age]).fields(), sent, received, arrived }, date)
        };
        assert_eq!(of("10", None), 13);
        assert_eq!(of("0", Some(Date::from_seconds(50))), 53);
        assert_eq!(of("60", Some(Date::from_seconds(50))), 63);
        // A date of the future makes nothing younger.
        assert_eq!(of("0", Some(Date::from_seconds(500))), 3);
        assert_eq!(of("2147483648", None), SECONDS_MAX);
    }
}
