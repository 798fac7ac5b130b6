//! Routes in the order of Envoy, where the first that matches wins, as routes of a plan, where the most specific wins. See
//! [`settle`].

use crate::pairs::{are_apart, both, braced, covers, takes_all};
use evenkeel_config::plan::{Match, PathPattern};
use std::cmp::Ordering;

/// Matches of a virtual host, at most: each pair of them is compared.
const MATCHES_MAX: usize = 20_000;

/// A match, with the position of its route.
pub type Placed = (Match, usize);

/// Gets the positions of two matches that cannot be kept in their order, with the reason.
pub type Clash<'c> = &'c mut dyn FnMut(usize, usize, String) -> Result<(), String>;

/// Returns matches by which the plan chooses, for each request, the first of `matches` that fits. Positions decide
/// between equally specific matches.
///
/// A match is left out if an earlier match takes all its requests. If a later match is more specific than an earlier
/// match, the requests that fit both get an additional match, which leads where the earlier match does.
///
/// # Errors
/// Two matches whose order cannot be kept, if `clash` refuses them; too many matches.
pub fn settle(matches: Vec<Match>, clash: Clash<'_>) -> Result<Vec<Placed>, String> {
    let mut settled = Vec::new();
    for (position, matching) in matches.into_iter().enumerate() {
        insert(&mut settled, matching, position, clash)?;
    }
    Ok(settled)
}

fn insert(settled: &mut Vec<Placed>, matching: Match, position: usize, clash: Clash<'_>) -> Result<(), String> {
    let earlier = |(_, other): &&Placed| *other < position;
    let is_needless =
        |(other, of): &Placed| *of < position && takes_all(other, &matching) || *other == matching && *of == position;
    if settled.iter().any(is_needless) {
        return Ok(());
    }
    let mut joined = Vec::new();
    for (other, of) in settled.iter().filter(earlier) {
        if are_apart(other, &matching) || specificity(other, &matching) != Ordering::Less {
            continue;
        }
        match both(other, &matching) {
            Ok(both) => joined.push((both, *of)),
            Err(why) => clash(*of, position, why)?,
        }
    }
    for (both, of) in joined {
        insert(settled, both, of, clash)?;
    }
    if settled.len() >= MATCHES_MAX {
        return Err(format!("there are more than {MATCHES_MAX} matches to compare"));
    }
    settled.push((matching, position));
    Ok(())
}

/// Compares two matches that have requests in common: `Greater` if the plan prefers the first.
fn specificity(one: &Match, other: &Match) -> Ordering {
    if are_one_place(&one.path, &other.path) {
        return one.rank().cmp(&other.rank());
    }
    match (covers(&one.path, &other.path), covers(&other.path, &one.path)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => one.rank().cmp(&other.rank()),
    }
}

/// True for `prefix = "/a"` and `starts_with = "/a/"`: of the paths below `/a`, the plan prefers neither.
fn are_one_place(one: &PathPattern, other: &PathPattern) -> bool {
    use PathPattern::{Prefix, StartsWith};
    match (one, other) {
        (Prefix(path), StartsWith(start)) | (StartsWith(start), Prefix(path)) => {
            braced(start).strip_suffix('/') == Some(path.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::matching;
    use crate::schema::ROUTE_MATCH;
    use crate::testing::encoded;
    use crate::wire::resource;
    use serde_json::{Value, json};

    fn read(json: &Value) -> Match {
        let bytes = encoded(&ROUTE_MATCH, json);
        matching(&resource(&bytes, &ROUTE_MATCH).expect("a message")).expect("a match")
    }

    fn settled(all: &[Value]) -> Vec<(String, usize)> {
        let settled = settle(all.iter().map(read).collect(), &mut |_, _, why| Err(why)).expect("an order");
        let shown = |matching: &Match| {
            let headers: String = matching.criteria.headers.iter().map(|(name, _)| format!(" {name}")).collect();
            let regex = if matching.criteria.regex.is_some() { " regex" } else { "" };
            let methods: String = matching.criteria.methods.iter().map(|method| format!(" {method}")).collect();
            format!("{:?}{methods}{headers}{regex}", matching.path)
        };
        settled.iter().map(|(matching, position)| (shown(matching), *position)).collect()
    }

    fn has(name: &str) -> Value {
        json!([{ "name": name, "present_match": true }])
    }

    #[test]
    fn routes_from_the_most_specific_to_the_least_stay_as_they_are() {
        let all = [
            json!({ "path": "/api/x" }),
            json!({ "prefix": "/api/", "headers": has("canary") }),
            json!({ "prefix": "/api/" }),
            json!({ "prefix": "/" }),
        ];
        assert_eq!(settled(&all).iter().map(|(_, position)| *position).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_route_whose_requests_an_earlier_one_takes_is_left_out() {
        let all = [json!({ "prefix": "/" }), json!({ "prefix": "/api" }), json!({ "path": "/x", "headers": has("a") })];
        assert_eq!(settled(&all), [("Any".to_owned(), 0)]);
        let all = [json!({ "path_separated_prefix": "/api" }), json!({ "path": "/api/x" }), json!({ "path": "/apix" })];
        assert_eq!(settled(&all).len(), 2);
    }

    #[test]
    fn an_earlier_route_takes_its_requests_from_a_later_one_that_is_more_specific() {
        let all = [
            json!({ "prefix": "/", "headers": has("canary") }),
            json!({ "prefix": "/api/" }),
            json!({ "prefix": "/" }),
        ];
        let wanted = [("Any canary", 0), ("StartsWith(\"/api/\") canary", 0), ("StartsWith(\"/api/\")", 1), ("Any", 2)];
        assert_eq!(settled(&all), wanted.map(|(text, position)| (text.to_owned(), position)));
    }

    #[test]
    fn a_prefix_by_segment_is_as_specific_as_its_text_with_a_slash() {
        let all = [json!({ "prefix": "/api/" }), json!({ "path_separated_prefix": "/api", "headers": has("a") })];
        let wanted = [("StartsWith(\"/api/\")", 0), ("StartsWith(\"/api/\") a", 0), ("Prefix(\"/api\") a", 1)];
        assert_eq!(settled(&all), wanted.map(|(text, position)| (text.to_owned(), position)));
    }

    #[test]
    fn three_routes_that_meet_lead_where_the_first_one_does() {
        let all = [
            json!({ "prefix": "/", "headers": has("a") }),
            json!({ "safe_regex": { "regex": "/.*x" } }),
            json!({ "prefix": "/api/" }),
        ];
        let settled = settled(&all);
        assert!(settled.contains(&("StartsWith(\"/api/\") a regex".to_owned(), 0)), "{settled:?}");
    }

    #[test]
    fn paths_that_begin_differently_have_no_request_in_common() {
        let count = |regex: &str, prefix: &str| {
            settled(&[json!({ "safe_regex": { "regex": regex } }), json!({ "prefix": prefix })]).len()
        };
        for (regex, prefix) in [("/users/[0-9]+", "/healthz"), ("^/ab?c", "/b")] {
            assert_eq!(count(regex, prefix), 2, "{regex} {prefix}");
        }
        for (regex, prefix) in [
            ("/users/[0-9]+", "/us"),
            ("/ab?c", "/ac"),
            ("/a|/b", "/b"),
            ("/a{0}b", "/b"),
            ("/ab*", "/a"),
            ("(?i)/A", "/a"),
        ] {
            assert_eq!(count(regex, prefix), 3, "{regex} {prefix}");
        }
    }

    #[test]
    fn an_order_that_no_match_can_keep_is_an_error() {
        let regex = |text: &str, method: &str| json!({ "safe_regex": { "regex": text }, "headers": [{ "name": ":method", "exact_match": method }] });
        // A match holds two expressions for paths.
        let path = |start: &str| json!({ "name": ":path", "prefix_match": start });
        let mut later = regex("/.*b", "GET");
        later["headers"] = json!([{ "name": ":method", "exact_match": "GET" }, path("/a")]);
        let all = [json!({ "safe_regex": { "regex": "/a.*" }, "headers": [path("/ab")] }), later];
        let refuse = |earlier: usize, later: usize, _| Err(format!("{earlier} {later}"));
        assert_eq!(settle(all.iter().map(read).collect(), &mut { refuse }), Err("0 1".to_owned()));
        // Other methods have no request in common.
        let apart = [regex("/a.*", "POST"), regex("/.*b", "GET")];
        assert!(settle(apart.iter().map(read).collect(), &mut { refuse }).is_ok());
    }

    #[test]
    fn routes_that_are_equally_specific_keep_their_positions() {
        let all = [json!({ "prefix": "/x", "headers": has("a") }), json!({ "prefix": "/x", "headers": has("b") })];
        assert_eq!(settled(&all).iter().map(|(_, position)| *position).collect::<Vec<_>>(), [0, 1]);
    }
}
