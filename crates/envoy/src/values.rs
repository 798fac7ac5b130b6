//! Expected values of fields, query parameters and cookies, and how two of a name stand to each other.

use crate::node::Node;
use evenkeel_config::plan::{Expected, Extent, captures, compile_regex};
use std::cell::Cell;
use std::sync::Arc;

/// Steps for which an expression may run on a text of the configuration.
const STEPS: u32 = 1_000_000;

/// Conditions that hold together, each with the name of its field, parameter or cookie.
pub type Named = Vec<(Arc<str>, Expected)>;

/// A value that has to be there, or must not.
pub fn present(is_there: bool) -> Expected {
    Expected { present: Some(is_there), ..Expected::default() }
}

/// Reads a `StringMatcher`.
///
/// # Errors
/// The condition that no value of a plan can have.
pub fn text_condition(node: &Node<'_>) -> Result<Expected, String> {
    let ignores_case = node.flag("ignore_case");
    let unset = Expected::default();
    if let Some(regex) = node.node("safe_regex") {
        return regex_condition(regex.text("regex").unwrap_or_default().to_owned());
    }
    let texts = ["exact", "prefix", "suffix", "contains"].map(|name| node.text(name));
    if ignores_case {
        let forms = [("", ""), ("", ".*"), (".*", ""), (".*", ".*")];
        let found = texts.iter().zip(forms).find_map(|(text, form)| text.map(|text| (text, form)));
        let (text, (before, behind)) = found.ok_or("it has no condition that can be kept")?;
        return regex_condition(format!("(?is){before}{}{behind}", escaped(text)));
    }
    let [exact, prefix, suffix, contains] = texts.map(|text| text.map(Arc::<str>::from));
    match (exact, prefix, suffix, contains) {
        (None, None, None, None) => Err("it has no condition that can be kept".to_owned()),
        (Some(exact), ..) => Ok(Expected { equal: vec![exact], ..unset }),
        (None, prefix, suffix, contains) => Ok(Expected { prefix, suffix, contains, ..unset }),
    }
}

/// Expression for a whole value.
///
/// # Errors
/// The text is not a regular expression.
pub fn regex_condition(regex: String) -> Result<Expected, String> {
    compile_regex(&regex).map_err(|why| format!("{regex:?} is not a regular expression: {why}"))?;
    Ok(Expected { regex: Some(regex.into()), ..Expected::default() })
}

/// Regular expression for a text.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() && c.is_ascii() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Regular expression for the integers from `start` to below `end`, with a sign and zeros in front as Envoy reads them.
/// `None` if there are none.
pub fn integers(start: i64, end: i64) -> Option<String> {
    let (start, last) = (i128::from(start), i128::from(end) - 1);
    let mut all = Vec::new();
    if last >= 0 && start <= last {
        all.push(format!("\\+?0*(?:{})", digits(start.max(0).unsigned_abs(), last.unsigned_abs())));
    }
    if start <= 0 && start <= last {
        all.push(format!("-0*(?:{})", digits(last.min(0).unsigned_abs(), start.unsigned_abs())));
    }
    (!all.is_empty()).then(|| all.join("|"))
}

/// Regular expression for the decimal numbers from `first` to `last`, in parts that differ in their last digits.
fn digits(first: u128, last: u128) -> String {
    let mut ends = std::collections::BTreeSet::from([last]);
    for tens in std::iter::successors(Some(10_u128), |tens| tens.checked_mul(10)).take(19) {
        ends.extend([first - first % tens + tens - 1].into_iter().filter(|end| *end < last));
        ends.extend((last + 1 - (last + 1) % tens).checked_sub(1).filter(|end| *end > first && *end < last));
    }
    let mut from = first;
    let mut parts = Vec::new();
    for end in ends {
        let pairs = from.to_string().into_bytes().into_iter().zip(end.to_string().into_bytes());
        let part = pairs.map(|(a, b)| match a == b {
            true => char::from(a).to_string(),
            false => format!("[{}-{}]", char::from(a), char::from(b)),
        });
        parts.push(part.collect::<String>());
        from = end + 1;
    }
    parts.join("|")
}

/// True if an expression matches a text.
pub fn fits(regex: &str, extent: Extent, text: &str) -> bool {
    captures(regex, extent).is_some_and(|regex| regex.find(text.as_bytes(), 0, &Cell::new(STEPS)).is_some())
}

/// True if a value is as expected.
pub fn meets(expected: &Expected, value: &str) -> bool {
    let Expected { equal, prefix, suffix, contains, regex, search, present } = expected;
    let has = |text: &Option<Arc<str>>, is: &dyn Fn(&str) -> bool| text.as_deref().is_none_or(is);
    (equal.is_empty() || equal.iter().any(|text| **text == *value))
        && has(prefix, &|text| value.starts_with(text))
        && has(suffix, &|text| value.ends_with(text))
        && has(contains, &|text| value.contains(text))
        && has(regex, &|text| fits(text, Extent::Whole, value))
        && has(search, &|text| fits(text, Extent::Part, value))
        && *present != Some(false)
}

/// True if every value that meets `one` meets `other`, as far as that can be seen.
pub fn implies(one: &Expected, other: &Expected) -> bool {
    let is_there = one.present != Some(false);
    one == other
        || is_there && other.present == Some(true)
        || !one.equal.is_empty() && one.equal.iter().all(|value| meets(other, value))
}

/// True if no value is known to meet both.
pub fn are_disjoint(one: &Expected, other: &Expected) -> bool {
    let none = |ours: &Expected, theirs: &Expected| {
        !ours.equal.is_empty() && ours.equal.iter().all(|value| !meets(theirs, value))
    };
    (one.present == Some(false)) != (other.present == Some(false)) || none(one, other) || none(other, one)
}

/// Adds a condition that has to hold, too.
///
/// # Errors
/// The name has another condition that cannot be joined with it.
pub fn add(all: &mut Named, name: &str, expected: Expected) -> Result<(), String> {
    let Some((_, other)) = all.iter_mut().find(|(other, _)| **other == *name) else {
        all.push((name.into(), expected));
        return Ok(());
    };
    if implies(other, &expected) {
        return Ok(());
    }
    if implies(&expected, other) {
        *other = expected;
        return Ok(());
    }
    let values = [&*other, &expected].into_iter().find(|one| !one.equal.is_empty()).map(|one| &one.equal);
    let common: Vec<_> =
        values.into_iter().flatten().filter(|value| meets(other, value) && meets(&expected, value)).cloned().collect();
    if common.is_empty() {
        return Err(format!("{name:?} has two conditions"));
    }
    *other = Expected { equal: common, ..Expected::default() };
    Ok(())
}

/// Adds a condition that must not hold either.
///
/// # Errors
/// The name has another condition that cannot be joined with it.
pub fn exclude(all: &mut Named, name: &str, expected: Expected) -> Result<(), String> {
    let Some((_, other)) = all.iter_mut().find(|(other, _)| **other == *name) else {
        all.push((name.into(), expected));
        return Ok(());
    };
    if implies(&expected, other) {
        return Ok(());
    }
    if implies(other, &expected) {
        *other = expected;
        return Ok(());
    }
    if !other.equal.is_empty() && !expected.equal.is_empty() {
        other.equal.extend(expected.equal);
        return Ok(());
    }
    match (expression(other), expression(&expected)) {
        (Some(ours), Some(theirs)) => {
            *other = Expected { regex: Some(format!("{ours}|{theirs}").into()), ..Expected::default() };
            Ok(())
        }
        _ => Err(format!("{name:?} has two conditions")),
    }
}

/// Regular expression for the values that are as expected; `None` if it is about more than a value.
fn expression(expected: &Expected) -> Option<String> {
    let Expected { equal, prefix, suffix, contains, regex, search, present } = expected;
    match (equal.as_slice(), prefix, suffix, contains, regex, search, present) {
        ([_, ..], None, None, None, None, None, None) => {
            Some(equal.iter().map(|text| escaped(text)).collect::<Vec<_>>().join("|"))
        }
        ([], Some(text), None, None, None, None, None) => Some(format!("(?s:{}.*)", escaped(text))),
        ([], None, Some(text), None, None, None, None) => Some(format!("(?s:.*{})", escaped(text))),
        ([], None, None, Some(text), None, None, None) => Some(format!("(?s:.*{}.*)", escaped(text))),
        ([], None, None, None, Some(text), None, None) => Some(format!("(?:{text})")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(values: &[&str]) -> Expected {
        Expected { equal: values.iter().map(|value| Arc::from(*value)).collect(), ..Expected::default() }
    }

    fn regex(text: &str) -> Expected {
        Expected { regex: Some(text.into()), ..Expected::default() }
    }

    #[test]
    fn integers_of_a_range_are_an_expression() {
        for (start, end) in [(1, 5), (0, 1), (0, 100), (-3, 3), (-120, -7), (98, 1203), (7, 8)] {
            let regex = integers(start, end).expect("a range");
            for number in -1300..1300_i64 {
                let fits = fits(&regex, Extent::Whole, &number.to_string());
                assert_eq!(fits, (start..end).contains(&number), "{number} of {start}..{end}: {regex}");
            }
            let odd = [format!("+{}", start.max(0)), format!("00{}", start.max(0)), "-0".to_owned()];
            let wanted = end > 0;
            assert_eq!(fits(&regex, Extent::Whole, &odd[0]), wanted, "{regex}");
            assert_eq!(fits(&regex, Extent::Whole, &odd[1]), wanted, "{regex}");
            assert_eq!(fits(&regex, Extent::Whole, &odd[2]), start <= 0 && end > 0, "{regex}");
            assert!(!fits(&regex, Extent::Whole, "") && !fits(&regex, Extent::Whole, "x"));
        }
        assert_eq!((integers(5, 5), integers(5, 1)), (None, None));
        assert!(fits(&integers(i64::MIN, i64::MAX).expect("all"), Extent::Whole, "9223372036854775806"));
    }

    #[test]
    fn two_conditions_of_a_name_are_joined_where_they_can_be() {
        let joined = |one: Expected, other: Expected| {
            let mut all = vec![("x".into(), one)];
            add(&mut all, "x", other).map(|()| all[0].1.clone())
        };
        assert_eq!(joined(present(true), equal(&["a"])), Ok(equal(&["a"])));
        assert_eq!(joined(equal(&["a", "b"]), regex("b|c")), Ok(equal(&["b"])));
        assert!(joined(regex("a.*"), regex(".*b")).is_err());
        let excluded = |one: Expected, other: Expected| {
            let mut all = vec![("x".into(), one)];
            exclude(&mut all, "x", other).map(|()| all[0].1.clone())
        };
        assert_eq!(excluded(present(true), equal(&["a"])), Ok(present(true)));
        assert_eq!(excluded(equal(&["a"]), equal(&["b"])), Ok(equal(&["a", "b"])));
        let prefix = Expected { prefix: Some("b.".into()), ..Expected::default() };
        assert_eq!(excluded(regex("a|c"), prefix), Ok(regex("(?:a|c)|(?s:b\\..*)")));
        assert!(are_disjoint(&equal(&["a"]), &regex("b")) && !are_disjoint(&equal(&["a"]), &regex("a|b")));
    }
}
