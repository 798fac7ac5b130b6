//! Comparison of two matches: true if no request can match both.

use crate::form::{Extent, checked_regex};
use crate::sections::matching::{Criteria, Expected, Match};
use std::sync::Arc;

/// True if no request matches both. False where that is not certain.
pub(super) fn are_disjoint(a: &Match, b: &Match) -> bool {
    differ(&a.criteria, &b.criteria) || excludes(&a.not, &b.criteria) || excludes(&b.not, &a.criteria)
}

/// True if two criteria exclude each other.
fn differ(a: &Criteria, b: &Criteria) -> bool {
    let apart = |a: &[Arc<str>], b: &[Arc<str>]| !a.is_empty() && !b.is_empty() && a.iter().all(|one| !b.contains(one));
    let clients = || {
        let meet = a.clients.iter().any(|one| b.clients.iter().any(|other| one.overlaps(other)));
        !a.clients.is_empty() && !b.clients.is_empty() && !meet
    };
    let ends = || match (&a.ends_with, &b.ends_with) {
        (Some(a), Some(b)) => !a.ends_with(&**b) && !b.ends_with(&**a),
        _ => false,
    };
    apart(&a.methods, &b.methods)
        || a.scheme.zip(b.scheme).is_some_and(|(a, b)| a != b)
        || ends()
        || clients()
        || values_differ(&a.headers, &b.headers, true)
        || values_differ(&a.query, &b.query, false)
        || values_differ(&a.cookies, &b.cookies, false)
        || values_differ(&a.maps, &b.maps, false)
}

type Named = [(Arc<str>, Expected)];

fn values_differ(a: &Named, b: &Named, any_case: bool) -> bool {
    let same = |a: &str, b: &str| if any_case { a.eq_ignore_ascii_case(b) } else { a == b };
    a.iter().any(|(name, one)| b.iter().any(|(other, two)| same(name, other) && contradict(one, two)))
}

/// True if no value is as both expect.
fn contradict(a: &Expected, b: &Expected) -> bool {
    let is_absent = |expected: &Expected| expected.present == Some(false);
    let never = |values: &Expected, other: &Expected| {
        !values.equal.is_empty() && values.equal.iter().all(|value| !fits(value, other))
    };
    is_absent(a) != is_absent(b) || never(a, b) || never(b, a)
}

/// True if the value is as expected.
fn fits(value: &str, expected: &Expected) -> bool {
    let all =
        |text: &Option<Arc<str>>, test: fn(&str, &str) -> bool| text.as_ref().is_none_or(|text| test(value, text));
    (expected.equal.is_empty() || expected.equal.iter().any(|one| **one == *value))
        && all(&expected.prefix, |value, text| value.starts_with(text))
        && all(&expected.suffix, |value, text| value.ends_with(text))
        && all(&expected.contains, |value, text| value.contains(text))
        && all(&expected.regex, |value, text| matches(value, text, Extent::Whole))
        && all(&expected.search, |value, text| matches(value, text, Extent::Part))
}

fn matches(value: &str, expression: &str, extent: Extent) -> bool {
    checked_regex(expression, extent).is_some_and(|regex| regex.is_match(value.as_bytes()))
}

/// True if `not` rules out every request that `wanted` requires.
fn excludes(not: &Criteria, wanted: &Criteria) -> bool {
    let within =
        |wanted: &[Arc<str>], not: &[Arc<str>]| !wanted.is_empty() && wanted.iter().all(|one| not.contains(one));
    let clients = || {
        !wanted.clients.is_empty()
            && wanted.clients.iter().all(|one| not.clients.iter().any(|net| net.contains_network(one)))
    };
    let named = |wanted: &Named, not: &Named| wanted.iter().any(|one| not.contains(one));
    within(&wanted.methods, &not.methods)
        || (wanted.scheme.is_some() && wanted.scheme == not.scheme)
        || (wanted.ends_with.is_some() && wanted.ends_with == not.ends_with)
        || (wanted.regex.is_some() && wanted.regex == not.regex)
        || (wanted.search.is_some() && wanted.search == not.search)
        || clients()
        || named(&wanted.headers, &not.headers)
        || named(&wanted.query, &not.query)
        || named(&wanted.cookies, &not.cookies)
        || named(&wanted.maps, &not.maps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Form, Formed};

    fn expected(equal: &[&str]) -> Expected {
        Expected { equal: equal.iter().map(|value| (*value).into()).collect(), ..Expected::default() }
    }

    fn header(name: &str, value: Expected) -> Match {
        let criteria = Criteria { headers: vec![(name.into(), value)], ..Criteria::default() };
        Match { criteria, ..Match::all() }
    }

    fn client(network: &str) -> Match {
        let Ok(Formed::Network(network)) = Form::Network.read(network) else { panic!("{network}") };
        Match { criteria: Criteria { clients: vec![network], ..Criteria::default() }, ..Match::all() }
    }

    #[test]
    fn matches_are_disjoint_if_a_value_cannot_be_both() {
        let regex = |text: &str| Expected { regex: Some(text.into()), ..Expected::default() };
        let present = |is: bool| Expected { present: Some(is), ..Expected::default() };
        let rows = [
            (header("x", expected(&["1"])), header("X", expected(&["2"])), true),
            (header("x", expected(&["1", "2"])), header("x", expected(&["2"])), false),
            (header("x", expected(&["1"])), header("y", expected(&["2"])), false),
            (header("x", expected(&["a1"])), header("x", regex("b.*")), true),
            (header("x", expected(&["b1"])), header("x", regex("b.*")), false),
            (header("x", present(true)), header("x", present(false)), true),
            (header("x", expected(&["1"])), header("x", present(true)), false),
            (client("10.0.0.0/8"), client("10.1.0.0/16"), false),
            (client("10.0.0.0/16"), client("10.1.0.0/16"), true),
            (Match { not: client("10.0.0.0/8").criteria, ..Match::all() }, client("10.1.0.0/16"), true),
            (Match { not: client("10.1.0.0/16").criteria, ..Match::all() }, client("10.0.0.0/8"), false),
            (Match::all(), Match::all(), false),
        ];
        for (a, b, disjoint) in rows {
            assert_eq!((are_disjoint(&a, &b), are_disjoint(&b, &a)), (disjoint, disjoint), "{a:?} {b:?}");
        }
    }
}
