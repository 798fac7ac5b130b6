//! Substitution formats of Envoy, `%...%`, as values of fields. See [`values`].

use crate::values::present;
use evenkeel_config::plan::{Expected, Template, escaped};
use std::sync::Arc;

/// Commands that become a variable of the plan. `true`: only in responses.
const VARIABLES: [(&str, &str, bool); 11] = [
    ("DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "client.ip", false),
    ("DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT", "client.ip", false),
    ("DOWNSTREAM_LOCAL_PORT", "port", false),
    ("DOWNSTREAM_TLS_VERSION", "tls.version", false),
    ("REQUESTED_SERVER_NAME", "tls.server_name", false),
    ("REQ(:METHOD)", "method", false),
    ("REQ(:AUTHORITY)", "host", false),
    ("REQ(:SCHEME)", "scheme", false),
    ("REQ(:PATH)", "request_uri", false),
    ("ROUTE_NAME", "route", true),
    ("UPSTREAM_CLUSTER", "pool", true),
];

/// Alternatives of a value, at most.
const ALTERNATIVES_MAX: usize = 8;

/// A value, and the fields of the request that it depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Fields that have to be there, or must not be.
    pub when: Vec<(Arc<str>, Expected)>,
    pub template: Template,
}

/// Alternatives of a format, of which at most one applies to a request: without any, Envoy has no value, and changes
/// nothing. `None` if it has a command without a counterpart.
pub fn values(format: &str, of_responses: bool) -> Option<Vec<Value>> {
    let mut all = vec![(Vec::new(), String::new(), false)];
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        each_text(&mut all, before);
        let (command, behind) = after.split_once('%')?;
        rest = behind;
        match command {
            "" => each_text(&mut all, "%"),
            command => {
                all = all
                    .into_iter()
                    .map(|one| extended(one, command, of_responses))
                    .collect::<Option<Vec<_>>>()?
                    .concat()
            }
        }
        if all.len() > ALTERNATIVES_MAX {
            return None;
        }
    }
    each_text(&mut all, rest);
    let made = all.into_iter().filter(|(_, _, has_text)| *has_text).map(|(when, source, _)| {
        Template::of_field(&source, of_responses).ok().map(|template| Value { when, template })
    });
    made.collect()
}

/// Conditions of an alternative, its source, and true if it is not empty.
type Alternative = (Vec<(Arc<str>, Expected)>, String, bool);

fn each_text(all: &mut [Alternative], text: &str) {
    for (_, source, has_text) in all {
        source.push_str(&escaped(text));
        *has_text |= !text.is_empty();
    }
}

/// An alternative with a command behind it.
fn extended(one: Alternative, command: &str, of_responses: bool) -> Option<Vec<Alternative>> {
    let (when, source, _) = &one;
    if let Some((_, variable, _)) = VARIABLES.iter().find(|(name, _, only)| *name == command && (of_responses || !only))
    {
        return Some(vec![(when.clone(), format!("{source}{{{variable}}}"), true)]);
    }
    let fields = command.strip_prefix("REQ(").and_then(|rest| rest.strip_suffix(')'))?;
    let mut alternatives = Vec::new();
    let mut absent = when.clone();
    for name in fields.split('?') {
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if !is_name {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let mut there = absent.clone();
        if crate::values::add(&mut there, &name, present(true)).is_ok() {
            alternatives.push((there, format!("{source}{{header.{name}}}"), true));
        }
        if crate::values::add(&mut absent, &name, present(false)).is_err() {
            return Some(alternatives);
        }
    }
    alternatives.push((absent, source.clone(), one.2));
    Some(alternatives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_values_with_the_fields_that_they_need() {
        let shown = |format: &str, of_responses: bool| {
            let all = values(format, of_responses)?;
            let each = all.iter().map(|value| {
                let when: Vec<_> =
                    value.when.iter().map(|(name, expected)| format!("{name}={:?}", expected.present)).collect();
                format!("{} {}", value.template, when.join(" ")).trim().to_owned()
            });
            Some(each.collect::<Vec<_>>())
        };
        let is = |format: &str, wanted: &[&str]| {
            assert_eq!(shown(format, false), Some(wanted.iter().map(ToString::to_string).collect()), "{format}");
        };
        is("100%%", &["100%"]);
        is("", &[]);
        is("%REQ(:METHOD)% {x}", &["{method} {{x}}"]);
        is("%REQ(X-A)%", &["{header.x-a} x-a=Some(true)"]);
        is("a-%REQ(X-A)%", &["a-{header.x-a} x-a=Some(true)", "a- x-a=Some(false)"]);
        is("%REQ(A?B)%", &["{header.a} a=Some(true)", "{header.b} a=Some(false) b=Some(true)"]);
        assert_eq!(shown("%ROUTE_NAME%", true), Some(vec!["{route}".to_owned()]));
        for other in ["%ROUTE_NAME%", "%REQ(A):3%", "%PROTOCOL%", "%"] {
            assert_eq!(shown(other, false), None, "{other}");
        }
    }
}
