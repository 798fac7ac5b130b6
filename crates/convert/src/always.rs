//! Differences between each program and evenkeel that no configuration removes: the head of each report, and a table of
//! docs/guide/convert.md.

use crate::recognise::From;

/// Differences from all programs.
const ALL: [&str; 3] = [
    "endpoints get X-Forwarded-For, -Proto and -Host, which replace those of clients, and CDN-Loop against loops",
    "fields of connections (Connection, Keep-Alive, TE) and the framing of bodies are evenkeel's own",
    "errors and redirects of evenkeel's own have a line of text, not a page; a request for a password states its charset",
];

/// Paths, for programs that normalise them.
const PATHS: &str = "a path that chooses another route by another reading, such as /x/..%2fadmin, gets a 400";

/// Returns the differences from a program, each in a single line.
pub fn always(from: From) -> impl Iterator<Item = &'static str> {
    let own: &[&str] = match from {
        From::Haproxy => &[
            "names of fields keep their case, where HAProxy writes them in lower case",
            "hosts are compared without their port, a final dot and their case",
            "an endpoint that cannot be reached gives a 502, where HAProxy sends a 503",
            "a path with .. or // that is rewritten or redirected gets a 400",
            "of several lines of a field, values have the first, where HAProxy has the last",
            "a question mark without a query is not compared, and a field without a value is not sent",
        ],
        From::Nginx => &[
            PATHS,
            "a path with `//`, `/.` or `%` whose readings choose one route passes as it was sent, also to variables, groups and maps",
            "a refusal by a limit has Retry-After and RateLimit fields; what access lists and passwords refuse does not count",
            "X-Accel fields of endpoints have no effect, but X-Accel-Redirect to a location with `internal` that proxies",
            "Server and Date are the endpoint's, where NGINX writes its own",
            "values have the host as it was sent, where NGINX writes it in lower case and without a final dot",
            "where NGINX looks for a file, a method gets a 404 and not a 405, and a body may be of any size",
            "texts of responses have a charset, and a type that does not depend on the end of the path",
            "endpoints get X-Forwarded-Prefix where a path is shortened; a question mark without a query may be lost",
        ],
        From::Traefik => &[
            PATHS,
            "a path that no other reading makes that of another route is rewritten and forwarded as sent, where Traefik normalises it",
            "endpoints get X-Forwarded-Prefix where a path is shortened, and no X-Replaced-Path",
            "changes to fields of responses are made to evenkeel's own errors, too; an empty path at endpoints is /",
        ],
        From::Caddy => &[
            PATHS,
            "a path that another reading makes the path of another route is forwarded in normal form, and a rewrite of one with `..` gets a 400",
            "Server is the endpoint's, and Via is not added, where Caddy writes both",
            "a request that no site answers gets a 404, where Caddy sends an empty 200",
            "`*.example.com` takes names with more labels, too, and a name with a final dot is the name without it",
            "changes to fields of responses are made to evenkeel's own errors, too; an empty field is not sent",
            "a redirect names its scheme and host; a body that is too large gets a 413; endpoints get X-Forwarded-Prefix",
        ],
        From::Envoy => &[
            PATHS,
            "Server is the endpoint's, and x-envoy fields and X-Request-Id are not added, where Envoy writes them",
            "hosts are compared without port and final dot; normalised paths are forwarded, redirected and written into fields as sent, unless readings choose different routes",
            "the path in values of fields has no question mark that nothing follows",
        ],
    };
    ALL.iter().chain(own).copied()
}
