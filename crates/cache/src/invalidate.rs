//! Requests that end the life of stored responses (RFC 9111 section 4.4).

use evenkeel_wire::head::{Fields, Request};

/// True if a response to this method may change stored responses: any method that is not known to be safe.
pub fn is_unsafe(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}

/// Returns the targets, each a path with its query at the host of the request, whose stored responses are dropped when
/// a response with this status and these fields is received: the target of the request, and the targets of `Location`
/// and `Content-Location` if they name the same origin. Empty if the method is safe or the response is an error.
///
/// This concerns every key with such a URL ([`crate::key::Key::url`]). A response that is still under way from the
/// endpoint is not stored either.
pub fn invalidated(request: &Request<'_, '_>, is_https: bool, status: u16, fields: &Fields<'_, '_>) -> Vec<String> {
    if !is_unsafe(request.method) || !(200..400).contains(&status) {
        return Vec::new();
    }
    let mut targets = vec![request.target.to_owned()];
    for name in ["location", "content-location"] {
        let reference = fields.first(name).and_then(|value| std::str::from_utf8(value).ok());
        let target = reference.and_then(|reference| resolve(reference, request, is_https));
        targets.extend(target.filter(|target| !targets.contains(target)).into_iter().collect::<Vec<_>>());
    }
    targets
}

/// Target that a reference names, if it is of the origin of the request (RFC 3986 section 5.2).
fn resolve(reference: &str, request: &Request<'_, '_>, is_https: bool) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let base = request.path();
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let with = |path: String| match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    if path.is_empty() {
        // Only a query, or the request's own URL.
        return Some(if query.is_some() { with(base.to_owned()) } else { request.target.to_owned() });
    }
    if let Some(after) = authority(path, is_https) {
        let (host, path) = after?.split_at(after?.find('/').unwrap_or(after?.len()));
        if !is_same_host(host.as_bytes(), request.host, is_https) {
            return None;
        }
        return Some(with(if path.is_empty() { "/".to_owned() } else { without_dots(path) }));
    }
    if path.starts_with('/') {
        return Some(with(without_dots(path)));
    }
    let folder = &base[..base.rfind('/')? + 1];
    Some(with(without_dots(&format!("{folder}{path}"))))
}

/// Rest of a reference after the `//` before its host; `None` if it has no scheme and no host, `Some(None)` if its
/// scheme differs from the request's.
fn authority(path: &str, is_https: bool) -> Option<Option<&str>> {
    if let Some(after) = path.strip_prefix("//") {
        return Some(Some(after));
    }
    let first = path.split('/').next().unwrap_or_default();
    let (scheme, _) = first.split_once(':')?;
    let is_same = scheme.eq_ignore_ascii_case(if is_https { "https" } else { "http" });
    Some(path[scheme.len() + 1..].strip_prefix("//").filter(|_| is_same))
}

fn is_same_host(a: &[u8], b: &[u8], is_https: bool) -> bool {
    let normal = |host| crate::key::normal_host(is_https, host);
    normal(a) == normal(b)
}

/// Removes the segments `.` and `..` of an absolute path (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn of(method: &str, status: u16, fields: &[(&str, &str)]) -> Vec<String> {
        let mut fields: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let mut none = Table::default();
        let request = Request { method, target: "/a/b?c", host: b"Example:80", fields: none.fields() };
        invalidated(&request, false, status, &fields.fields())
    }

    #[test]
    fn only_an_unsafe_method_that_succeeds_invalidates() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"] {
            assert_eq!(of(method, 200, &[]), ["/a/b?c"], "{method}");
            assert_eq!(of(method, 303, &[]), ["/a/b?c"], "{method}");
            assert!(of(method, 404, &[]).is_empty() && of(method, 500, &[]).is_empty(), "{method}");
        }
        assert!(of("GET", 200, &[]).is_empty() && of("OPTIONS", 200, &[]).is_empty());
    }

    #[test]
    fn references_are_resolved_within_the_origin() {
        for (reference, target) in [
            ("d", Some("/a/d")),
            ("./d?e#f", Some("/a/d?e")),
            ("../d", Some("/d")),
            ("../../../d/..", Some("/")),
            ("/d/./e/", Some("/d/e/")),
            ("?e", Some("/a/b?e")),
            ("http://example/d", Some("/d")),
            ("HTTP://EXAMPLE.:80", Some("/")),
            ("//example/d?e", Some("/d?e")),
            ("https://example/d", None),
            ("http://other/d", None),
            ("//other/d", None),
            ("http:d", None),
            ("mailto:a@example", None),
        ] {
            let targets = of("POST", 201, &[("Location", reference)]);
            assert_eq!(targets.get(1).map(String::as_str), target, "{reference}");
        }
        assert_eq!(of("POST", 201, &[("Location", ""), ("Content-Location", "/x")]), ["/a/b?c", "/x"]);
    }
}
