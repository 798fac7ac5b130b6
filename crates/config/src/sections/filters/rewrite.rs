//! `strip_prefix`, `rewrite`, `restore_prefix` and `send_host` of a route: the path and the host that endpoints get. See [`Rewrite`].

use super::headers;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Extent, Form, Formed, GROUPS_MAX, PathPattern, Template, Variable, captures};
use crate::nearest::suggest;
use crate::sections::matching::{Match, RouteMatch, partial};
use crate::source::Span;
use crate::table::{Absent, Declared, Key, Kind, Located, Section, Value, table};
use std::collections::BTreeSet;
use std::sync::Arc;

table! {
    static REWRITE_TABLE = "rewrite of [[route]]",
        "Replaces the path that endpoints get. The rest of the path stays the same byte for byte, and the query is \
        kept. If the new path cannot be sent, or the replacement creates a segment `..`, encoded or not, the client \
        gets a 400.";

    /// Replacement of the path of a request.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Rewrite {
        /// Replacement of the prefix that the route matches.
        prefix: Option<Template> = Key {
            name: "prefix",
            kind: Kind::Text(Form::PathTemplate),
            absent: Absent::Means("the prefix is kept"),
            help: "Replaces the prefix that the route matches: with `match = { prefix = \"/api\" }` and `\"/v2\"`, \
                `/api/x` becomes `/v2/x`. On a route without a path, it is put before the path.",
            why: "",
        };
        /// Replacement of the whole path.
        path: Option<Template> = Key {
            name: "path",
            kind: Kind::Text(Form::PathTemplate),
            absent: Absent::Means("the path is kept"),
            help: "Replaces the whole path. May contain variables, the parameters of the route's path, and the groups of \
                its `regex` or `search`: `\"/items/{id}\"`, `\"/items/{1}\"`.",
            why: "",
        };
        /// Regular expression of the whole path, which [`Rewrite::to`] replaces.
        regex: Option<Arc<str>> = Key {
            name: "regex",
            kind: Kind::Text(Form::Regex),
            absent: Absent::Means("not compared"),
            help: "Regular expression that the whole path must match; `to` replaces the path. Other paths stay as they \
                are.",
            why: "",
        };
        /// Regular expression of parts of the path, each of which [`Rewrite::to`] replaces.
        search: Option<Arc<str>> = Key {
            name: "search",
            kind: Kind::Text(Form::Regex),
            absent: Absent::Means("not compared"),
            help: "Regular expression for parts of the path; `to` replaces each part that matches.",
            why: "",
        };
        /// Replacement of what `regex` or `search` matches.
        to: Option<Template> = Key {
            name: "to",
            kind: Kind::Text(Form::TargetTemplate),
            absent: Absent::Means("required with `regex` and `search`"),
            help: "Replaces what `regex` or `search` matches. `{1}` is the first group of the expression, and `{NAME}` \
                a group `(?P<NAME>...)`. With `regex`, it may have a query, which the client's query follows: \
                `\"/index.php?page={1}\"`. A question mark at the end drops the client's query.",
            why: "",
        };
    }
}

/// The key `strip_prefix` of routes.
pub(in crate::sections) const STRIP_PREFIX: Key = Key {
    name: "strip_prefix",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "Removes the matched prefix from the path: with `match = { prefix = \"/api\" }`, `/api/x` becomes `/x`. The \
        endpoint gets the prefix in `X-Forwarded-Prefix`.",
    why: "Most applications serve the paths that clients request.",
};

/// The key `strip_slashes` of routes.
pub(in crate::sections) const STRIP_SLASHES: Key = Key {
    name: "strip_slashes",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "If `strip_prefix` or `rewrite` produces a path that begins with several slashes, keeps only one slash: with \
        `match = { prefix = \"/api\" }`, `/api//x` becomes `/x`. Without this key, the endpoint gets `//x`.",
    why: "A path with one slash less may be another resource.",
};

/// The key `restore_prefix` of routes.
pub(in crate::sections) const RESTORE_PREFIX: Key = Key {
    name: "restore_prefix",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "Restores the prefix that `strip_prefix` or `rewrite.prefix` removed, in `Location`, `Content-Location`, \
        `Refresh`, `Link` and the path of cookies from endpoints: `Location: /x` becomes `/api/x`. Also removes the \
        prefix from `Destination`, which WebDAV clients send. Links that already begin with the client's prefix, or \
        name another host, are not changed.",
    why: "An application that reads its prefix from `X-Forwarded-Prefix` creates the right links itself.",
};

/// The key `rewrite` of routes.
pub(in crate::sections) const REWRITE: Key = Key {
    name: "rewrite",
    kind: Kind::Table(&REWRITE_TABLE),
    absent: Absent::Means("the path is not changed"),
    help: "Replaces the path that endpoints get.",
    why: "",
};

/// The key `send_host` of routes.
pub(in crate::sections) const SEND_HOST: Key = Key {
    name: "send_host",
    kind: Kind::Text(Form::SendHost),
    absent: Absent::Default("\"client\""),
    help: "Host that endpoints get. `client`: the host that the client sent. `endpoint`: the host of the endpoint's \
        configured address, with its port unless that is the default port of the scheme; set again for each try. Any \
        other value is a fixed host. `X-Forwarded-Host` always has the client's host.",
    why: "An application that creates links to itself needs the host that its clients use.",
};

/// Reports rewrites that exclude each other or do not fit the match, and parameters that the path does not have.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let paths = &RouteMatch::of_route(route).paths()[..];
    let rewrite = route.set("rewrite").map(|_| route.section("rewrite"));
    let strips = route.set("strip_prefix").filter(|_| route.flag("strip_prefix"));
    if let (Some(strips), Some(_)) = (strips, &rewrite) {
        let message = "\"strip_prefix\" and \"rewrite\" exclude each other";
        route
            .contradiction(strips.span, message, "rewrite", findings)
            .help("keep one of the two: rewrite = { prefix = \"/\" } removes the prefix, too");
    }
    let fits = paths.iter().all(|path| matches!(path, PathPattern::Prefix(_) | PathPattern::StartsWith(_)));
    if let Some(strips) = strips.filter(|_| !fits) {
        findings
            .add(Code::Contradiction, strips.span, "\"strip_prefix\" needs a prefix, and the route matches none")
            .help("write match = { prefix = \"/api\" }");
    }
    if let Some(slashes) = route.set("strip_slashes").filter(|_| route.flag("strip_slashes"))
        && strips.is_none()
        && rewrite.is_none()
    {
        let message = "\"strip_slashes\" has no effect: the route changes no path";
        findings
            .add(Code::Contradiction, slashes.span, message)
            .help("write strip_prefix = true or rewrite = { prefix = \"/v2\" }, or remove this key");
    }
    let replaces = rewrite.as_ref().and_then(|rewrite| rewrite.set("prefix")?.template());
    if let Some(restores) = route.set("restore_prefix").filter(|_| route.flag("restore_prefix")) {
        let help = "write strip_prefix = true, or rewrite = { prefix = \"/v2\" }, or remove this key";
        if replaces.as_ref().is_some_and(|prefix| prefix.variables().next().is_some()) {
            let message = "\"restore_prefix\" cannot know the prefix of the endpoint, which has variables";
            findings.add(Code::Contradiction, restores.span, message).help(help);
        } else if strips.is_none() && replaces.is_none() {
            let message = "\"restore_prefix\" has no prefix to restore: the route removes none";
            findings.add(Code::Contradiction, restores.span, message).help(help);
        }
    }
    check_parameters(route, findings);
    let Some(rewrite) = rewrite else { return };
    let ways: Vec<&str> = ["prefix", "path", "regex", "search"].into_iter().filter(|key| rewrite.has(key)).collect();
    match (&ways[..], rewrite.set("prefix")) {
        ([], _) => {
            findings
                .add(Code::Missing, rewrite.span, "rewrite has none of \"prefix\", \"path\", \"regex\" and \"search\"")
                .help("write rewrite = { prefix = \"/v2\" } or rewrite = { path = \"/index.html\" }");
        }
        ([first, second, ..], _) => {
            let message = format!("\"{first}\" and \"{second}\" of rewrite exclude each other");
            rewrite.contradiction(rewrite.span_of(first), message, second, findings).help("keep one of the two");
        }
        (_, Some(prefix)) if paths.iter().any(|path| matches!(path, PathPattern::Pattern(_))) => {
            findings
                .add(
                    Code::Contradiction,
                    prefix.span,
                    "\"prefix\" of rewrite needs a prefix, and the route matches a path",
                )
                .help("match by prefix instead of path, or write rewrite = { path = \"/x/{id}\" }");
        }
        _ => {}
    }
    check_expression(&rewrite, findings);
}

/// Reports an expression without a replacement or the other way round, and a query for a part of the path.
fn check_expression(rewrite: &Section, findings: &mut Findings) {
    let key = ["regex", "search"].into_iter().find(|key| rewrite.has(key));
    match (key, rewrite.set("to")) {
        (Some(key), None) => {
            findings
                .add(Code::Missing, rewrite.span_of(key), format!("\"{key}\" of rewrite has no \"to\""))
                .help("write rewrite = { regex = \"/a/(.*)\", to = \"/b/{1}\" }");
        }
        (None, Some(to)) => {
            findings
                .add(Code::Missing, to.span, "\"to\" of rewrite has no expression")
                .help("write rewrite = { regex = \"/a/(.*)\", to = \"/b/{1}\" }, or path instead of to");
        }
        (Some("regex"), Some(to)) if to.template().is_some_and(|to| !to.to_string().starts_with('/')) => {
            findings
                .add(
                    Code::BadPath,
                    to.span,
                    "\"to\" of rewrite replaces the whole path, and does not start with a slash",
                )
                .help("write to = \"/b/{1}\"; or search instead of regex, to replace a part of the path");
        }
        (Some("search"), Some(to)) if to.template().is_some_and(|to| to.split_query().1.is_some()) => {
            findings
                .add(Code::Contradiction, to.span, "\"to\" has a query, and \"search\" replaces parts of the path only")
                .help("write regex for the whole path: regex = \"/a/(.*)\"");
        }
        _ => {}
    }
    partial::check(rewrite, partial::Of::Path, findings);
}

/// Reports variables for parameters and groups that neither the path of the route nor its expression has.
fn check_parameters(route: &Section, findings: &mut Findings) {
    let matching = RouteMatch::of_route(route);
    let (rewrite, redirect) = (route.section("rewrite"), route.section("redirect"));
    let mut templates = headers::templates(route);
    for (owner, keys) in [(&rewrite, &["prefix", "path", "to"][..]), (&redirect, &["to", "host", "prefix", "path"])] {
        templates.extend(keys.iter().filter_map(|key| {
            let set = owner.set(key)?;
            Some((set.template()?, set.span))
        }));
    }
    let own = Rewrite::of(&rewrite).found().and_then(|(text, extent, _)| captures(text, extent));
    let mut seen: Vec<(Span, String)> = Vec::new();
    // Only expressions whose groups are named are compiled for them.
    let mut known = None;
    for (template, span) in templates {
        let is_to = rewrite.set("to").is_some_and(|to| to.span == span);
        for variable in template.variables() {
            let Variable::PathParameter(name) = variable else { continue };
            let known = known.get_or_insert_with(|| parameters(&matching));
            let is_own = is_to && own.as_ref().is_some_and(|own| own.group(name).is_some());
            let is_known = is_own || known.iter().any(|known| **known == **name);
            if is_known || seen.iter().any(|(at, n)| *at == span && **n == **name) {
                continue;
            }
            seen.push((span, name.to_string()));
            let names = own.iter().filter(|_| is_to).flat_map(|own| own.names()).collect::<Vec<_>>();
            let known: BTreeSet<&str> =
                known.iter().chain(&names).map(String::as_str).filter(|name| *name != "0").collect();
            let known: Vec<&str> = known.into_iter().collect();
            let is_number = name.bytes().all(|b| b.is_ascii_digit());
            let help = match known[..] {
                [] if is_number => "write a group in parentheses in regex or search of the match".to_owned(),
                _ if is_number => format!("allowed: {}", known.join(", ")),
                [] => format!("name it in the match, as path = \"/users/{{{name}}}\""),
                _ => suggest(name, &known),
            };
            let message = match is_number {
                true => format!("no expression for the path has a group {name}"),
                false => format!("the path of the route has no parameter \"{name}\""),
            };
            findings.add(Code::BadTemplate, span, message).help(help);
        }
    }
}

/// Names of the parameters of the path, and of the groups of its expressions, that each alternative of a match has.
fn parameters(matching: &RouteMatch) -> Vec<String> {
    let of = |matching: &Match| {
        let groups = matching.criteria.of_path().filter_map(|(text, extent)| captures(text, extent));
        let groups = groups.flat_map(|groups| {
            let numbers = (0..GROUPS_MAX).map(|number| number.to_string());
            groups
                .names()
                .into_iter()
                .chain(numbers.filter(|number| groups.group(number).is_some()).collect::<Vec<_>>())
        });
        matching.path.parameters().into_iter().chain(groups).collect::<Vec<_>>()
    };
    let mut alternatives = matching.alternatives().into_iter();
    let mut known = alternatives.next().map(|first| of(&first)).unwrap_or_default();
    alternatives.map(|one| of(&one)).for_each(|others| known.retain(|name| others.contains(name)));
    known
}

impl Rewrite {
    /// Expression and its replacement; `None` without an expression.
    pub fn found(&self) -> Option<(&Arc<str>, Extent, &Template)> {
        let whole = self.regex.as_ref().map(|text| (text, Extent::Whole));
        let (text, extent) = whole.or_else(|| self.search.as_ref().map(|text| (text, Extent::Part)))?;
        Some((text, extent, self.to.as_ref()?))
    }
}

impl Located {
    /// The template that this value is; `None` for others.
    pub(in crate::sections) fn template(&self) -> Option<Template> {
        if let Value::Formed(Formed::Template(template)) = &self.value { Some(template.clone()) } else { None }
    }

    /// The templates that this value is or has, each with its place.
    pub(in crate::sections) fn templates(&self) -> Vec<(Template, Span)> {
        match &self.value {
            Value::List(list) => list.iter().filter_map(|one| Some((one.template()?, one.span))).collect(),
            _ => self.template().map(|template| (template, self.span)).into_iter().collect(),
        }
    }

    /// The text that this value is; `None` for others.
    pub(in crate::sections) fn text(&self) -> Option<&str> {
        if let Value::Formed(Formed::Text(text)) = &self.value { Some(text) } else { None }
    }
}
