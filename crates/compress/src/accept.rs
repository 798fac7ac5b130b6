//! `Accept-Encoding` of requests (RFC 9110 section 12.5.3): which coding a client prefers.

use crate::coding::Coding;

/// Weight of 1 in thousandths, the highest that there is.
const WHOLE: u16 = 1000;

/// Codings that a request accepts, with their weights in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weights {
    /// Weights of [`Coding::ALL`], for those that are named.
    codings: [Option<u16>; 3],
    /// Weight of a coding without `q`: thousandths, as weights have at most three digits.
    any: Option<u16>,
    /// Weight of no coding at all.
    identity: Option<u16>,
}

/// Coding for a response to a request with these values of `Accept-Encoding`: the coding with the highest weight, among
/// equals the first in `order`. `None` if the client names none of them or prefers none, and also if it accepts nothing
/// at all: it then gets the response as it is, rather than an error.
pub fn preferred<'v>(values: impl Iterator<Item = &'v [u8]>, order: &[Coding]) -> Option<Coding> {
    let weights = Weights::read(values);
    let mut best: Option<(Coding, u16)> = None;
    for &coding in order {
        let weight = weights.codings[coding as usize].or(weights.any).unwrap_or(0);
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((coding, weight));
        }
    }
    let (coding, weight) = best?;
    (weight >= weights.identity.unwrap_or(0)).then_some(coding)
}

impl Weights {
    fn read<'v>(values: impl Iterator<Item = &'v [u8]>) -> Weights {
        let mut weights = Weights::default();
        for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            let (name, parameters) = match member.iter().position(|byte| *byte == b';') {
                Some(at) => (&member[..at], &member[at + 1..]),
                None => (member, &b""[..]),
            };
            // A coding with a malformed weight is not taken for accepted.
            let Some(weight) = weight(parameters) else { continue };
            let of_name = match name.trim_ascii() {
                b"*" => &mut weights.any,
                name if name.eq_ignore_ascii_case(b"identity") => &mut weights.identity,
                name => match Coding::named(name) {
                    Some(coding) => &mut weights.codings[coding as usize],
                    None => continue,
                },
            };
            // Of a coding that is named twice, or by two names, the higher weight counts.
            *of_name = Some(of_name.unwrap_or(0).max(weight));
        }
        weights
    }
}

/// Weight in thousandths (RFC 9110 section 12.4.2); 1 if there are no parameters.
fn weight(parameters: &[u8]) -> Option<u16> {
    let parameters = parameters.trim_ascii();
    if parameters.is_empty() {
        return Some(WHOLE);
    }
    let value = parameters.strip_prefix(b"q=").or_else(|| parameters.strip_prefix(b"Q="))?;
    let (first, digits) = match value {
        [first @ (b'0' | b'1')] => (*first, &b""[..]),
        [first @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (*first, digits),
        _ => return None,
    };
    let mut weight = u16::from(first - b'0') * WHOLE;
    for (digit, unit) in digits.iter().zip([100, 10, 1]) {
        weight += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit;
    }
    (weight <= WHOLE).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Zstd};

    fn chosen(values: &[&str]) -> Option<Coding> {
        preferred(values.iter().map(|value| value.as_bytes()), &[Zstd, Gzip, Brotli])
    }

    #[test]
    fn the_highest_weight_counts_and_of_equal_ones_the_order_of_the_server() {
        for (value, coding) in [
            ("gzip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Gzip)),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", Some(Brotli)),
            ("GZip ; Q=0.5", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("x-gzip;q=0, gzip", Some(Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=0.000", None),
            ("gzip;q=0.001", Some(Gzip)),
            ("zstd;q=0.2, gzip;q=0.3,br;q=0.25", Some(Gzip)),
            ("*", Some(Zstd)),
            ("*, zstd;q=0", Some(Gzip)),
            ("*;q=0, br", Some(Brotli)),
            ("deflate", None),
            ("", None),
            (" , ,", None),
        ] {
            assert_eq!(chosen(&[value]), coding, "{value}");
        }
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&["br;q=0.5", "gzip;q=0.6"]), Some(Gzip), "several lines are one list");
    }

    #[test]
    fn a_client_that_prefers_no_coding_gets_none_and_one_that_accepts_nothing_gets_no_error() {
        assert_eq!(chosen(&["identity, gzip;q=0.5"]), None);
        assert_eq!(chosen(&["identity;q=0.5, gzip;q=0.5"]), Some(Gzip));
        assert_eq!(chosen(&["identity;q=0, gzip;q=0.1"]), Some(Gzip));
        assert_eq!(chosen(&["identity;q=1, *;q=0"]), None);
        assert_eq!(chosen(&["identity;q=0, *;q=0"]), None);
    }

    #[test]
    fn a_malformed_weight_is_not_taken_for_accepted() {
        for value in [
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=0.1234",
            "gzip;q=-1",
            "gzip;level=1",
            "gzip;q=0.a",
            "gzip;;",
        ] {
            assert_eq!(chosen(&[value]), None, "{value}");
        }
    }
}
