//! Criteria of a match in the form in which requests are compared with them.

use crate::peer::hash_key::cookie;
use crate::peer::sender::{Seen, Sender};
use evenkeel_config::plan::{self, Cidr, Expression, Extent, Match, Scheme, checked_regex, without_case};
use evenkeel_wire::folding::folded;
use evenkeel_wire::head::{self, Request};
use evenkeel_wire::http1::kind::{Kind, kind};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Criteria of a match in addition to host and path. Without any, all requests match.
#[derive(Debug, Default)]
pub struct Criteria {
    wanted: Box<[Criterion]>,
    unwanted: Box<[Criterion]>,
}

#[derive(Debug)]
enum Criterion {
    EndsWith(Ending),
    Path(PathExpression),
    Methods(Box<[Box<str>]>),
    Value(Part, Box<str>, Expected),
    Clients(Box<[Cidr]>),
    Scheme(Scheme),
}

/// Part of a request that has named values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Header,
    Query,
    Cookie,
    Map,
}

#[derive(Debug)]
enum Expected {
    Equal(Box<[Box<str>]>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Contains(Box<str>),
    Regex(Found),
    Present(bool),
}

/// Text at the end of paths.
#[derive(Debug)]
struct Ending {
    text: Box<str>,
    ignore_case: bool,
}

#[derive(Debug)]
struct PathExpression {
    found: Found,
    ignore_case: bool,
}

/// Expression that a whole value or a part of it must match.
#[derive(Debug)]
struct Found {
    text: Arc<str>,
    extent: Extent,
    expression: Arc<Expression>,
}

impl Found {
    fn new((text, extent): (&Arc<str>, Extent)) -> Option<Found> {
        Some(Found { text: text.clone(), extent, expression: checked_regex(text, extent)? })
    }
}

impl Ending {
    fn is_of(&self, path: &[u8]) -> bool {
        path.ends_with(self.text.as_bytes())
            || self.ignore_case && folded(path).ends_with(&folded(self.text.as_bytes()))
    }
}

impl PathExpression {
    fn new((text, extent): (&Arc<str>, Extent), ignore_case: bool) -> Option<PathExpression> {
        let mut found = Found::new((text, extent))?;
        if ignore_case {
            found.expression = checked_regex(&without_case(text), extent)?;
        }
        Some(PathExpression { found, ignore_case })
    }

    fn is_match(&self, path: &[u8], steps: &Cell<u32>) -> bool {
        let is_match = |path: &[u8]| self.found.expression.is_match_within(path, steps);
        // The expression knows the letters of ASCII, and no escapes of others.
        is_match(path) || self.ignore_case && matches!(folded(path), Cow::Owned(folded) if is_match(&folded))
    }
}

impl Criteria {
    /// Compiles the criteria of a match that was checked. `ignore_case`: the setting of the listener, for paths.
    pub fn new(matching: &Match, ignore_case: bool) -> Criteria {
        let compiled = |criteria| compiled(criteria, ignore_case);
        Criteria { wanted: compiled(&matching.criteria), unwanted: compiled(&matching.not) }
    }

    /// True if the request meets all criteria. Nothing counts once the sender has no steps left.
    #[inline]
    pub fn meets(&self, seen: &Seen<'_, '_, '_>, sender: &Sender<'_>) -> bool {
        self.wanted.iter().all(|one| one.meets(seen, sender))
            && !self.unwanted.iter().any(|one| one.meets(seen, sender))
    }

    /// The first criterion that the request does not meet, in words.
    pub fn unmet(&self, request: &Request<'_, '_>, sender: &Sender<'_>) -> Option<String> {
        let meets = |one: &&Criterion| one.meets(&Seen::as_sent(request), sender);
        let wanted = self.wanted.iter().find(|one| !meets(one)).map(ToString::to_string);
        wanted.or_else(|| self.unwanted.iter().find(meets).map(|one| format!("not {one}")))
    }
}

fn compiled(criteria: &plan::Criteria, ignore_case: bool) -> Box<[Criterion]> {
    let text = |text: &Arc<str>| Box::from(&**text);
    let mut all = Vec::new();
    all.extend((!criteria.methods.is_empty()).then(|| Criterion::Methods(criteria.methods.iter().map(text).collect())));
    all.extend(criteria.scheme.map(Criterion::Scheme));
    let ends_with = criteria.ends_with.as_ref().map(|end| Ending { text: text(end), ignore_case });
    all.extend(ends_with.map(Criterion::EndsWith));
    let named = [
        (Part::Header, &criteria.headers),
        (Part::Query, &criteria.query),
        (Part::Cookie, &criteria.cookies),
        (Part::Map, &criteria.maps),
    ];
    for (part, values) in named {
        let value = |(name, value): &(_, plan::Expected)| Some(Criterion::Value(part, text(name), expected(value)?));
        all.extend(values.iter().filter_map(value));
    }
    all.extend((!criteria.clients.is_empty()).then(|| Criterion::Clients(criteria.clients.clone().into())));
    let of_path = criteria.of_path().filter_map(|found| PathExpression::new(found, ignore_case));
    all.extend(of_path.map(Criterion::Path));
    all.into()
}

fn expected(value: &plan::Expected) -> Option<Expected> {
    let plan::Expected { equal, prefix, suffix, contains, present, .. } = value;
    let text = |text: &Option<Arc<str>>| text.as_ref().map(|text| Box::from(&**text));
    if !equal.is_empty() {
        return Some(Expected::Equal(equal.iter().map(|one| Box::from(&**one)).collect()));
    }
    let affix = text(prefix).map(Expected::Prefix).or_else(|| text(suffix).map(Expected::Suffix));
    affix
        .or_else(|| text(contains).map(Expected::Contains))
        .or_else(|| value.expression().and_then(Found::new).map(Expected::Regex))
        .or_else(|| present.map(Expected::Present))
}

impl Criterion {
    fn meets(&self, seen: &Seen<'_, '_, '_>, sender: &Sender<'_>) -> bool {
        match self {
            Criterion::EndsWith(end) => end.is_of(seen.path),
            Criterion::Path(expression) => expression.is_match(seen.path, &sender.steps),
            Criterion::Methods(methods) => methods.iter().any(|method| **method == *seen.request.method),
            Criterion::Clients(networks) => networks.iter().any(|network| network.contains(sender.client)),
            Criterion::Scheme(scheme) => *scheme == sender.scheme,
            Criterion::Value(part, name, expected) => {
                let mut is_there = false;
                let mut test = |value: &[u8]| {
                    is_there = true;
                    expected.is(value, &sender.steps)
                };
                each_value(*part, name, seen, sender, &mut test)
                    || matches!(expected, Expected::Present(false)) && !is_there
            }
        }
    }
}

/// Expected fields of a response.
#[derive(Debug)]
pub struct Fields(Box<[(Box<str>, Expected)]>);

impl Fields {
    /// Compiles the expectations of a condition that was checked.
    pub fn new(all: &[(Arc<str>, plan::Expected)]) -> Fields {
        let one = |(name, value): &(Arc<str>, plan::Expected)| Some((Box::from(&**name), expected(value)?));
        Fields(all.iter().filter_map(one).collect())
    }

    /// True if all fields are as expected, among those that are kept and the lines that were added.
    pub fn meet(&self, fields: &head::Fields<'_, '_>, added: &[u8], steps: &Cell<u32>) -> bool {
        self.0.iter().all(|(name, expected)| {
            let kept = fields.kept().filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
            let mut all = kept.map(|(_, value)| value).chain(values_in(added, name));
            match expected {
                Expected::Present(false) => all.next().is_none(),
                _ => all.any(|value| expected.is(value, steps)),
            }
        })
    }
}

/// Values of a field in lines, each with its line end.
fn values_in<'b>(lines: &'b [u8], name: &str) -> impl Iterator<Item = &'b [u8]> {
    let lines = lines.split_inclusive(|byte| *byte == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    });
    lines.filter(move |(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}

impl Expected {
    /// True if a value is as expected. `steps`: those left to regular expressions.
    fn is(&self, value: &[u8], steps: &Cell<u32>) -> bool {
        match self {
            Expected::Equal(all) => all.iter().any(|one| one.as_bytes() == value),
            Expected::Prefix(text) => value.starts_with(text.as_bytes()),
            Expected::Suffix(text) => value.ends_with(text.as_bytes()),
            Expected::Contains(text) => memchr::memmem::find(value, text.as_bytes()).is_some(),
            Expected::Regex(found) => found.expression.is_match_within(value, steps),
            Expected::Present(is) => *is,
        }
    }
}

/// Writes a list as `a, b`.
fn joined<T: fmt::Display>(all: &[T], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    all.iter().enumerate().try_for_each(|(at, one)| write!(f, "{}{one}", if at == 0 { "" } else { ", " }))
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Criterion::EndsWith(end) => write!(f, "ends_with {}", end.text),
            Criterion::Path(expression) => expression.found.fmt(f),
            Criterion::Methods(methods) => f.write_str("method ").and_then(|()| joined(methods, f)),
            Criterion::Clients(networks) => f.write_str("client ").and_then(|()| joined(networks, f)),
            Criterion::Scheme(Scheme::Http) => f.write_str("scheme http"),
            Criterion::Scheme(Scheme::Https) => f.write_str("scheme https"),
            Criterion::Value(part, name, expected) => {
                let part = match part {
                    Part::Header => "header",
                    Part::Query => "query",
                    Part::Cookie => "cookie",
                    Part::Map => "map",
                };
                write!(f, "{part} {name} {expected}")
            }
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.extent == Extent::Whole { "regex" } else { "search" };
        write!(f, "{key} {}", self.text)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Equal(all) => f.write_str("= ").and_then(|()| joined(all, f)),
            Expected::Prefix(text) => write!(f, "prefix {text}"),
            Expected::Suffix(text) => write!(f, "suffix {text}"),
            Expected::Contains(text) => write!(f, "contains {text}"),
            Expected::Regex(found) => found.fmt(f),
            Expected::Present(true) => f.write_str("present"),
            Expected::Present(false) => f.write_str("absent"),
        }
    }
}

/// Calls `test` with the values that count: every line of a field, the added lines last, the first of a query parameter or
/// cookie, and the value of a map. True if it returned true for any value.
pub fn each_value(
    part: Part,
    name: &str,
    seen: &Seen<'_, '_, '_>,
    sender: &Sender<'_>,
    mut test: impl FnMut(&[u8]) -> bool,
) -> bool {
    let Seen { request, added, .. } = *seen;
    match part {
        Part::Header if name.eq_ignore_ascii_case("host") => !request.host.is_empty() && test(request.host),
        Part::Header => header_values(request, name, sender.is_trusted).chain(values_in(added, name)).any(test),
        Part::Query => query_value(request.query().unwrap_or_default(), name).is_some_and(|value| test(&value)),
        Part::Cookie => cookie_value(request, name).is_some_and(test),
        Part::Map => sender.maps.is_some_and(|maps| maps.test(name, seen, &sender.steps, &mut test)),
    }
}

/// Fields of a name that routes see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visible {
    /// Fields that are forwarded.
    Kept,
    /// Fields as received. They are forwarded too, possibly in another spelling.
    Received,
    Nothing,
}

/// Values of a field, without those that no endpoint gets: a client must not choose a route by a field that the endpoint
/// of the route knows nothing of.
fn header_values<'b>(request: &Request<'_, 'b>, name: &str, is_trusted: bool) -> impl Iterator<Item = &'b [u8]> {
    let visible = match kind(name.as_bytes()) {
        Kind::Other | Kind::Loop | Kind::Expect | Kind::Upgrade => Visible::Kept,
        Kind::Host | Kind::ContentLength | Kind::TransferEncoding => Visible::Received,
        // Forwarded with an upgrade only.
        Kind::Connection => {
            let switches = request.fields.kept().any(|(name, _)| kind(name) == Kind::Upgrade);
            if switches { Visible::Received } else { Visible::Nothing }
        }
        // Of the fields about clients, only trusted proxies are believed, and none about certificates.
        Kind::Forwarded if is_trusted && !name.to_ascii_lowercase().contains("client-cert") => Visible::Received,
        Kind::Forwarded | Kind::HopByHop | Kind::KeepAlive | Kind::Lookalike => Visible::Nothing,
    };
    let bytes = request.fields.bytes;
    let rows = request.fields.rows.iter().filter(move |row| match visible {
        Visible::Kept => !row.dropped,
        Visible::Received => true,
        Visible::Nothing => false,
    });
    let named = rows.filter(move |row| row.name(bytes).eq_ignore_ascii_case(name.as_bytes()));
    named.map(move |row| row.value(bytes))
}

/// First value of a query parameter, decoded.
pub fn query_value<'q>(query: &'q str, name: &str) -> Option<Cow<'q, [u8]>> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (*decoded(key) == *name.as_bytes()).then(|| decoded(value))
    })
}

/// Returns the first value of a cookie, without spaces around it.
pub fn cookie_value<'b>(request: &Request<'_, 'b>, name: &str) -> Option<&'b [u8]> {
    header_values(request, "cookie", false).find_map(|line| cookie(line, name.as_bytes()))
}

/// Decodes percent escapes and plus signs of a query. Other text stays as it is.
fn decoded(text: &str) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Cow::Borrowed(text.as_bytes());
    }
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let escape = if byte == b'%' { digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))) } else { None };
        out.push(match (byte, escape) {
            (_, Some((high, low))) => (high << 4 | low) as u8,
            (b'+', None) => b' ',
            _ => byte,
        });
        at += if escape.is_some() { 3 } else { 1 };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn with<R>(target: &str, fields: &[(&str, &str)], test: impl FnOnce(&Request<'_, '_>) -> R) -> R {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        test(&Request { method: "GET", target, host: b"a", fields: table.fields() })
    }

    #[test]
    fn the_first_parameter_counts_decoded_and_the_first_cookie() {
        for (query, value) in [
            ("a=1&b=2", Some("2")),
            ("b=x%20y+z&b=2", Some("x y z")),
            ("%62=1", Some("1")),
            ("b", Some("")),
            ("b=%zz%2", Some("%zz%2")),
            ("ab=1", None),
            ("", None),
        ] {
            assert_eq!(query_value(query, "b").as_deref(), value.map(str::as_bytes), "{query}");
        }
        let cookies = [("cookie", "a=1; bb=0"), ("Cookie", "b = 2;b=3")];
        with("/", &cookies, |request| assert_eq!(cookie_value(request, "b"), Some(&b"2"[..])));
        with("/", &[("cookie", "b;c")], |request| assert_eq!(cookie_value(request, "b"), None));
    }

    #[test]
    fn any_line_of_a_field_may_be_as_expected_and_absence_may_be_expected() {
        let value = |expected| Criterion::Value(Part::Header, "x".into(), expected);
        let sender = Sender::new(std::net::Ipv4Addr::LOCALHOST.into(), Scheme::Http);
        let fields = [("X", "1"), ("x", "ab")];
        let meets = |expected, fields: &[(&str, &str)]| {
            with("/", fields, |request| value(expected).meets(&Seen::as_sent(request), &sender))
        };
        assert!(meets(Expected::Equal(["ab".into()].into()), &fields) && meets(Expected::Suffix("b".into()), &fields));
        assert!(!meets(Expected::Prefix("b".into()), &fields) && meets(Expected::Contains("b".into()), &fields));
        assert!(meets(Expected::Present(true), &fields) && !meets(Expected::Present(false), &fields));
        assert!(!meets(Expected::Present(true), &[]) && meets(Expected::Present(false), &[]));
    }
}
