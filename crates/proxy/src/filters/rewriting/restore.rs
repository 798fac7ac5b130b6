//! Filter that puts the prefix that a rewrite removed back into responses: into `Location` and `Content-Location`, and,
//! through [`cookies`](crate::filters::headers::cookies), into the path of cookies.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::template::parameters::Parameters;
use evenkeel_config::plan::SendHost;
use evenkeel_wire::http1::fields::append;
use std::borrow::Cow;
use std::sync::Arc;

struct Restore {
    matched: Parameters,
    /// Prefix of paths at endpoints, without a slash at its end.
    inner: Arc<str>,
    send_host: SendHost,
}

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

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let route = from.route.as_ref()?.plan;
    let rewritten = route.rewrite.as_ref().and_then(|rewrite| rewrite.prefix.as_ref());
    let inner = rewritten.map(ToString::to_string).unwrap_or_default();
    route.restore_prefix.then(|| {
        Box::new(Restore {
            matched: Parameters::of_route(route),
            inner: inner.trim_end_matches('/').into(),
            send_host: route.send_host.clone(),
        }) as _
    })
}

impl Filter for Restore {
    /// Keeps the prefixes, as the head may be gone when the response comes.
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let path = head.request.path();
        let outer = path.split_at(self.matched.prefix_len(path).unwrap_or(0)).0.trim_end_matches('/');
        // Readers take what follows two slashes for a host, and the client chose it.
        if !matches!(outer.as_bytes(), [b'/', b'/' | b'\\', ..]) && outer.bytes().all(|b| b.is_ascii_graphic()) {
            let host = head.request.host.into();
            cx.prefixes = Some(Box::new(Prefixes { outer: outer.into(), inner: self.inner.clone(), host }));
        }
        Verdict::Next
    }

    /// Changes the responses of endpoints only.
    fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(prefixes) = cx.prefixes.as_deref().filter(|_| head.outcome.is_some()) else { return };
        let bytes = head.fields.bytes;
        let mut sent = None;
        for row in head.fields.rows.iter_mut().filter(|row| !row.dropped) {
            let name = row.name(bytes);
            if !name.eq_ignore_ascii_case(b"location") && !name.eq_ignore_ascii_case(b"content-location") {
                continue;
            }
            let sent = sent.get_or_insert_with(|| self.sent_host(cx, prefixes));
            if let Some((kept, path)) = prefixes.location(row.value(bytes), sent) {
                append(&[name, b": ", kept, path.outer, path.rest, b"\r\n"], head.added);
                row.dropped = true;
            }
        }
    }

    fn did(&self, cx: &Exchange<'_>) -> Cow<'static, str> {
        cx.prefixes.as_ref().map_or("".into(), |prefixes| format!("prefix of links {}", prefixes.outer).into())
    }
}

impl Restore {
    /// The host that the endpoint got.
    fn sent_host(&self, cx: &Exchange<'_>, prefixes: &Prefixes) -> Vec<u8> {
        match (&self.send_host, cx.pool, &cx.endpoint) {
            (SendHost::Fixed(host), ..) => host.as_bytes().to_vec(),
            (SendHost::Endpoint, Some(pool), Some(endpoint)) => {
                let mut host = Vec::new();
                pool.write_host(endpoint, &mut host);
                host
            }
            _ => prefixes.host.to_vec(),
        }
    }
}

/// A path for clients, in two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored<'p> {
    pub outer: &'p [u8],
    pub rest: &'p [u8],
}

impl Prefixes {
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
    fn location<'p>(&'p self, value: &'p [u8], sent: &[u8]) -> Option<(&'p [u8], Restored<'p>)> {
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
impl Prefixes {
    /// Prefixes of a request for `www.test`.
    pub fn for_test(outer: &str, inner: &str) -> Prefixes {
        Prefixes { outer: outer.into(), inner: inner.into(), host: b"www.test"[..].into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_of_the_endpoint_get_the_prefix_and_others_stay() {
        let stripped = Prefixes::for_test("/shop", "");
        let replaced = Prefixes::for_test("/api", "/v2");
        let added = Prefixes::for_test("", "/v2");
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
