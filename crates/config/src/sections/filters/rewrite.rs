//! `strip_prefix`, `rewrite`, `restore_prefix` and `send_host` of a route: the path and the host that endpoints get. See [`Rewrite`].

use super::headers;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, PathPattern, Template, Variable};
use crate::nearest::suggest;
use crate::sections::matching::RouteMatch;
use crate::source::Span;
use crate::table::{Absent, Key, Kind, Located, Section, Value, table};

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
            help: "Replaces the whole path. May contain variables and the parameters of the route's path: \
                `\"/items/{id}\"`.",
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
    let Some(rewrite) = rewrite else { return check_parameters(route, None, paths, findings) };
    match (rewrite.set("prefix"), rewrite.set("path")) {
        (None, None) => {
            findings
                .add(Code::Missing, rewrite.span, "rewrite has neither \"prefix\" nor \"path\"")
                .help("write rewrite = { prefix = \"/v2\" } or rewrite = { path = \"/index.html\" }");
        }
        (Some(prefix), Some(_)) => {
            let message = "\"prefix\" and \"path\" of rewrite exclude each other";
            rewrite.contradiction(prefix.span, message, "path", findings).help("keep one of the two");
        }
        (Some(prefix), None) if paths.iter().any(|path| matches!(path, PathPattern::Pattern(_))) => {
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
    check_parameters(route, Some(&rewrite), paths, findings);
}

/// Reports variables for parameters that the path of the route does not have.
fn check_parameters(route: &Section, rewrite: Option<&Section>, paths: &[PathPattern], findings: &mut Findings) {
    let of_rewrite = |key: &&str| {
        let set = rewrite?.set(key)?;
        Some((set.template()?, set.span))
    };
    let templates = headers::templates(route).into_iter().chain(["prefix", "path"].iter().filter_map(of_rewrite));
    // Each alternative has to have them.
    let mut known = paths.first().map(PathPattern::parameters).unwrap_or_default();
    paths.iter().skip(1).map(PathPattern::parameters).for_each(|others| known.retain(|name| others.contains(name)));
    let mut seen: Vec<(Span, String)> = Vec::new();
    for (template, span) in templates {
        for variable in template.variables() {
            let Variable::PathParameter(name) = variable else { continue };
            if known.iter().any(|known| **known == **name) || seen.iter().any(|(at, n)| *at == span && **n == **name) {
                continue;
            }
            seen.push((span, name.to_string()));
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let help = match known[..] {
                [] => format!("name it in the match, as path = \"/users/{{{name}}}\""),
                _ => suggest(name, &known),
            };
            let message = format!("the path of the route has no parameter \"{name}\"");
            findings.add(Code::BadTemplate, span, message).help(help);
        }
    }
}

impl Located {
    /// The template that this value is; `None` for others.
    pub(in crate::sections) fn template(&self) -> Option<Template> {
        if let Value::Formed(Formed::Template(template)) = &self.value { Some(template.clone()) } else { None }
    }

    /// The text that this value is; `None` for others.
    pub(in crate::sections) fn text(&self) -> Option<&str> {
        if let Value::Formed(Formed::Text(text)) = &self.value { Some(text) } else { None }
    }
}
