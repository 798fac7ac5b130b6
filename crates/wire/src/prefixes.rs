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

    /// The path for clients, from a path of the endpoint, which may have a query. `None` if it stays as it is: it is
    /// not below the endpoint's prefix, or has the client's already, as an application that knows its prefix writes it.
    pub fn path<'p>(&'p self, path: &'p [u8]) -> Option<Restored<'p>> {
        let is_path = matches!(path, [b'/', rest @ ..] if !matches!(rest, [b'/' | b'\\', ..]));
        if !is_path || *self.outer == *self.inner || !self.outer.is_empty() && below(path, &self.outer).is_some() {
            return None;
        }
        let rest = below(path, &self.inner)?;
        // The rest alone must not begin like a host, and a whole path needs a slash.
        let rest = match (self.outer.is_empty(), rest) {
            (true, [b'/', b'/' | b'\\', ..]) => return None,
            (true, [] | [b'?' | b'#', ..]) => return None,
            _ => rest,
        };
        Some(Restored { outer: self.outer.as_bytes(), rest })
    }

    /// Scheme and host that stay, and the path for clients. `sent` is the host that the endpoint got: a URL with that
    /// and not the client's loses scheme and host, as clients cannot use it.
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
        if host.is_empty() {
            None
        } else if host.eq_ignore_ascii_case(&self.host) {
            Some((&value[..end], self.path(path)?))
        } else if host.eq_ignore_ascii_case(sent) {
            let as_it_is = Restored { outer: b"", rest: path };
            let is_host = matches!(path, [b'/', b'/' | b'\\', ..]);
            self.path(path).or((!is_host).then_some(as_it_is)).map(|path| (&b""[..], path))
        } else {
            None
        }
    }

    /// Appends the value of a `Link` field (RFC 8288) with each target as [`location`](Self::location) makes it.
    /// Returns false, and appends nothing, if all targets stay.
    pub fn links(&self, value: &[u8], sent: &[u8], out: &mut Vec<u8>) -> bool {
        let (start, mut at, mut changed, mut is_quoted) = (out.len(), 0, false, false);
        while let Some(&byte) = value.get(at) {
            let target = match byte {
                b'"' => {
                    is_quoted = !is_quoted;
                    None
                }
                b'\\' if is_quoted => {
                    out.extend_from_slice(&value[at..(at + 2).min(value.len())]);
                    at += 2;
                    continue;
                }
                b'<' if !is_quoted => memchr::memchr(b'>', &value[at..]).map(|len| &value[at + 1..at + len]),
                _ => None,
            };
            out.push(byte);
            at += 1;
            if let Some(target) = target {
                changed |= self.push(target, sent, out);
                at += target.len();
            }
        }
        if !changed {
            out.truncate(start);
        }
        changed
    }

    /// Appends the value of a `Refresh` field, with its URL as [`location`](Self::location) makes it. Returns false,
    /// and appends nothing, if it stays.
    pub fn refresh(&self, value: &[u8], sent: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(at) = value.windows(4).position(|word| word.eq_ignore_ascii_case(b"url=")) else { return false };
        let is_parameter = value[..at].trim_ascii_end().last().is_some_and(|b| matches!(b, b';' | b','));
        let begin = at + 4 + usize::from(matches!(value.get(at + 4), Some(b'"' | b'\'')));
        let quote = if begin > at + 4 { value.get(at + 4) } else { None };
        let url = value[begin..].split(|b| Some(b) == quote).next().unwrap_or_default();
        let start = out.len();
        out.extend_from_slice(&value[..begin]);
        if !is_parameter || !self.push(url, sent, out) {
            out.truncate(start);
            return false;
        }
        out.extend_from_slice(&value[begin + url.len()..]);
        true
    }

    /// Appends a reference as [`location`](Self::location) makes it, or as it is. Returns true if it changed.
    fn push(&self, reference: &[u8], sent: &[u8], out: &mut Vec<u8>) -> bool {
        let made = self.location(reference, sent);
        match made {
            Some((kept, Restored { outer, rest })) => {
                [kept, outer, rest].into_iter().for_each(|part| out.extend_from_slice(part))
            }
            None => out.extend_from_slice(reference),
        }
        made.is_some()
    }

    /// The path for the endpoint, for a reference by the client, as WebDAV has it in `Destination` (RFC 4918 section
    /// 10.3): a path, or a URL of the host that the client named. `None` if it stays as it is.
    pub fn destination<'p>(&'p self, value: &'p [u8]) -> Option<Restored<'p>> {
        let path = match after_scheme(value) {
            None => value,
            Some(start) => {
                let len = value[start..].iter().position(|b| matches!(b, b'/' | b'?' | b'#'))?;
                let is_own = len > 0 && value[start..start + len].eq_ignore_ascii_case(&self.host);
                is_own.then_some(&value[start + len..])?
            }
        };
        let rest = below(path, &self.outer).filter(|_| path.starts_with(b"/"))?;
        match (self.inner.is_empty(), rest) {
            (true, [] | [b'?' | b'#', ..] | [b'/', b'/' | b'\\', ..]) => None,
            _ => Some(Restored { outer: self.inner.as_bytes(), rest }),
        }
    }
}

/// The rest of a path behind a prefix of whole segments.
fn below<'p>(path: &'p [u8], prefix: &str) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(prefix.as_bytes())?;
    matches!(rest, [] | [b'/' | b'?' | b'#', ..]).then_some(rest)
}

/// Index of the host in a URL of HTTP, with or without a scheme.
fn after_scheme(value: &[u8]) -> Option<usize> {
    ["http://", "https://", "//"]
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
            (&stripped, "//www.test/cart", "//www.test/shop/cart"),
            (&stripped, "//App.internal:8080/cart", "/shop/cart"),
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
            (&stripped, "///cart"),
            (&stripped, "//"),
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

    #[test]
    fn targets_of_links_and_refreshes_get_the_prefix() {
        let stripped = prefixes("/shop", "");
        let made = |value: &str, of: fn(&Prefixes, &[u8], &[u8], &mut Vec<u8>) -> bool| {
            let mut out = b"> ".to_vec();
            let changed = of(&stripped, value.as_bytes(), b"app.internal:8080", &mut out);
            assert_eq!(changed, out.len() > 2, "{value}");
            String::from_utf8(out).expect("text")[2..].to_owned()
        };
        for (value, wanted) in [
            ("</a.css>; rel=preload", "</shop/a.css>; rel=preload"),
            ("<//www.test/a>, <http://app.internal:8080/b>;x", "<//www.test/shop/a>, </shop/b>;x"),
            ("<a>; title=\"</b>\\\"</c>\", </d>", "<a>; title=\"</b>\\\"</c>\", </shop/d>"),
            ("</shop/a>, </b>", "</shop/a>, </shop/b>"),
            ("</shop/a>; rel=next", ""),
            ("<http://other.test/a>", ""),
            ("</a", ""),
            ("", ""),
        ] {
            assert_eq!(made(value, Prefixes::links), wanted, "{value}");
        }
        for (value, wanted) in [
            ("5; url=/cart", "5; url=/shop/cart"),
            ("0;URL='/cart?a=b';x", "0;URL='/shop/cart?a=b';x"),
            ("3, url=\"http://app.internal:8080/\"", "3, url=\"/shop/\""),
            ("5", ""),
            ("5; url=", ""),
            ("5; url=/shop/cart", ""),
            ("5; curl=/cart", ""),
            ("5; url=http://other.test/", ""),
        ] {
            assert_eq!(made(value, Prefixes::refresh), wanted, "{value}");
        }
    }

    #[test]
    fn a_destination_loses_the_prefix() {
        let (stripped, replaced, added) = (prefixes("/shop", ""), prefixes("/api", "/v2"), prefixes("", "/v2"));
        for (prefixes, value, wanted) in [
            (&stripped, "/shop/new", "/new"),
            (&stripped, "https://WWW.test/shop/new?a", "/new?a"),
            (&stripped, "//www.test/shop/", "/"),
            (&replaced, "http://www.test/api/new", "/v2/new"),
            (&replaced, "/api", "/v2"),
            (&added, "/new", "/v2/new"),
        ] {
            let made = prefixes.destination(value.as_bytes()).map(|made| [made.outer, made.rest].concat());
            assert_eq!(made.as_deref(), Some(wanted.as_bytes()), "{value}");
        }
        for value in [
            "/shop",
            "/shop//other.test",
            "/shopping/new",
            "/new",
            "http://other.test/shop/new",
            "http://www.test",
            "new",
            "",
        ] {
            assert_eq!(stripped.destination(value.as_bytes()), None, "{value}");
        }
    }
}
