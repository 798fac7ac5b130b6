//! Prefixes of paths that a rewrite has replaced, to put them back into links of the response.

use std::sync::Arc;

/// Prefixes of a request, for its response.
#[derive(Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Prefix of the client's path, without a slash at its end.
    outer: Box<str>,
    /// Prefix of the endpoint's path that stands for it.
    inner: Arc<str>,
    /// Host that the client sent.
    host: Box<[u8]>,
}

/// A path for clients, in two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored<'p> {
    pub outer: &'p [u8],
    pub rest: &'p [u8],
}

impl Prefixes {
    /// Prefixes of a request for `host`: of the client's path, and of the endpoint's in its place. Both are without a
    /// slash at their ends.
    pub fn new(outer: &str, inner: Arc<str>, host: &[u8]) -> Prefixes {
        Prefixes { outer: outer.into(), inner, host: host.into() }
    }

    /// Prefix of the client's path.
    pub fn outer(&self) -> &str {
        &self.outer
    }

    /// Host that the client sent.
    pub fn host(&self) -> &[u8] {
        &self.host
    }

    /// The path for clients, for one of the endpoint, which may have a query. `None` if it stays as it is: it is not
    /// below the endpoint's prefix, or has the client's already, as an application that knows its prefix writes it.
    pub fn path<'p>(&'p self, path: &'p [u8]) -> Option<Restored<'p>> {
        let is_path = matches!(path, [b'/', rest @ ..] if !matches!(rest, [b'/' | b'\\', ..]));
        if !is_path || *self.outer == *self.inner || !self.outer.is_empty() && below(path, &self.outer).is_some() {
            return None;
        }
        let rest = below(path, &self.inner)?;
        // The rest alone must not begin with what readers take for a host, and a whole path needs a slash.
        let rest = match (self.outer.is_empty(), rest) {
            (true, [b'/', b'/' | b'\\', ..]) => return None,
            (true, [] | [b'?' | b'#', ..]) => return None,
            _ => rest,
        };
        Some(Restored { outer: self.outer.as_bytes(), rest })
    }

    /// Scheme and host that stay, and the path for clients. `sent` is the host that the endpoint got: a URL with that and
    /// not the client's loses scheme and host, as clients cannot use it.
    pub fn location<'p>(&'p self, value: &'p [u8], sent: &[u8]) -> Option<(&'p [u8], Restored<'p>)> {
        let Some(start) = after_scheme(value) else { return Some((b"", self.path(value)?)) };
        let host = &value[start..];
        let host = &host[..host.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(host.len())];
        let end = start + host.len();
        let path = match &value[end..] {
            path @ [b'/', ..] => path,
            [] => b"/",
            _ => return None,
        };
        if host.eq_ignore_ascii_case(&self.host) {
            Some((&value[..end], self.path(path)?))
        } else if host.eq_ignore_ascii_case(sent) {
            let as_it_is = Restored { outer: b"", rest: path };
            let is_host = matches!(path, [b'/', b'/' | b'\\', ..]);
            self.path(path).or((!is_host).then_some(as_it_is)).map(|path| (&b""[..], path))
        } else {
            None
        }
    }
}

/// The rest of a path behind a prefix of whole segments.
fn below<'p>(path: &'p [u8], prefix: &str) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(prefix.as_bytes())?;
    matches!(rest, [] | [b'/' | b'?' | b'#', ..]).then_some(rest)
}

/// Index of the host in a URL of HTTP.
fn after_scheme(value: &[u8]) -> Option<usize> {
    ["http://", "https://"]
        .into_iter()
        .find(|scheme| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes())))
        .map(str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(outer: &str, inner: &str) -> Prefixes {
        Prefixes::new(outer, inner.into(), b"www.test")
    }

    #[test]
    fn locations_of_the_endpoint_get_the_prefix_and_others_stay() {
        let stripped = prefixes("/shop", "");
        let replaced = prefixes("/api", "/v2");
        let added = prefixes("", "/v2");
        for (prefixes, location, wanted) in [
            (&stripped, "/cart", "/shop/cart"),
            (&stripped, "/", "/shop/"),
            (&stripped, "/cart?a=/b#c", "/shop/cart?a=/b#c"),
            (&stripped, "http://www.test/cart", "http://www.test/shop/cart"),
            (&stripped, "https://WWW.test/cart", "https://WWW.test/shop/cart"),
            (&stripped, "http://app.internal:8080/cart", "/shop/cart"),
            (&stripped, "http://app.internal:8080", "/shop/"),
            (&stripped, "/shopping", "/shop/shopping"),
            (&replaced, "/v2/items", "/api/items"),
            (&replaced, "/v2", "/api"),
            (&replaced, "/v2?x", "/api?x"),
            (&replaced, "http://app.internal:8080/other", "/other"),
            (&added, "/v2/items", "/items"),
        ] {
            let made = prefixes.location(location.as_bytes(), b"app.internal:8080");
            let made = made.map(|(kept, path)| [kept, path.outer, path.rest].concat());
            assert_eq!(made.as_deref().map(String::from_utf8_lossy).as_deref(), Some(wanted), "{location}");
        }
        for (prefixes, location) in [
            (&stripped, "/shop/cart"),
            (&stripped, "/shop"),
            (&stripped, "cart"),
            (&stripped, ""),
            (&stripped, "?a"),
            (&stripped, "//other.test/cart"),
            (&stripped, "/\\other.test/cart"),
            (&stripped, "http://other.test/cart"),
            (&stripped, "http://www.test.other/cart"),
            (&stripped, "ftp://www.test/cart"),
            (&stripped, "http://www.test?a"),
            (&stripped, "http://app.internal:8080//other.test"),
            (&replaced, "/v3/items"),
            (&replaced, "/v22/items"),
            (&added, "/v2"),
            (&added, "/v2?x"),
            (&added, "/v2//other.test"),
        ] {
            assert_eq!(prefixes.location(location.as_bytes(), b"app.internal:8080"), None, "{location}");
        }
    }
}
