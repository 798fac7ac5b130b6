//! Rates of requests: `100/s`, `20/m`, `1000/h`.

use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;
use std::fmt;
use std::time::Duration;

/// Most requests of a rate, in whichever unit.
const REQUESTS_MAX: u32 = 1_000_000;

/// Units of time by letter, in seconds.
const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3_600)];

/// A number of requests in a second, a minute or an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestRate {
    /// Number of requests, at least 1.
    pub requests: u32,
    /// Time in which they may arrive.
    pub per: Duration,
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| *seconds == self.per.as_secs()).map_or("s", |(unit, _)| unit);
        write!(f, "{}/{unit}", self.requests)
    }
}

pub(super) fn read(text: &str) -> Result<RequestRate, Misfit> {
    let bad = |code, why: String, help: &str| {
        Err(Misfit::new(code, format!("{} is not a rate: {why}", quoted(text)), help.to_string()))
    };
    let forms = "write \"100/s\", \"20/m\" or \"1000/h\"";
    let Some((number, unit)) = text.split_once('/') else {
        return bad(Code::NotAllowed, "it has no unit".to_string(), forms);
    };
    let Some((_, seconds)) = UNITS.iter().find(|(letter, _)| *letter == unit.trim()) else {
        return bad(Code::NotAllowed, format!("{} is not a unit of time", quoted(unit)), forms);
    };
    let number = number.trim();
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    match number.replace('_', "").parse::<u32>() {
        Ok(requests) if digits && (1..=REQUESTS_MAX).contains(&requests) => {
            Ok(RequestRate { requests, per: Duration::from_secs(*seconds) })
        }
        _ if digits => bad(Code::OutOfRange, "its number is out of range".to_string(), "allowed: 1 to 1,000,000"),
        _ => bad(Code::NotAllowed, format!("{} is not a whole number", quoted(number)), forms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rates() {
        for (text, shown) in [("100/s", "100/s"), ("20/m", "20/m"), ("1_000/h", "1000/h"), ("1 / s", "1/s")] {
            assert_eq!(read(text).map(|rate| rate.to_string()), Ok(shown.to_string()));
        }
    }

    #[test]
    fn refuses_the_rest_with_a_fix() {
        for (text, help) in [
            ("", "100/s"),
            ("100", "100/s"),
            ("100/", "100/s"),
            ("100/d", "100/s"),
            ("1.5/s", "100/s"),
            ("-1/s", "100/s"),
            ("+1/s", "100/s"),
            ("_/s", "1 to 1,000,000"),
            ("0/s", "1 to 1,000,000"),
            ("1000001/s", "1 to 1,000,000"),
            ("99999999999/s", "1 to 1,000,000"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }
}
