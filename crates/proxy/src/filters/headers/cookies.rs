//! Filter for the cookies of endpoints: sets their attributes `Secure`, `HttpOnly` and `SameSite`, and puts the prefix
//! that a rewrite removed back into their path.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, ResponseHead};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_config::plan::{CookieAttributes, SameSite};
use evenkeel_wire::http1::fields::append;
use evenkeel_wire::prefixes::Prefixes;
use std::borrow::Cow;

struct Cookies {
    set: CookieAttributes,
    /// True if the path is the endpoint's.
    restores: bool,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    let (set, restores) = (route.filters.cookies.clone(), route.filters.restore_prefix);
    (set != CookieAttributes::default() || restores).then(|| Box::new(Cookies { set, restores }) as _)
}

impl Filter for Cookies {
    type State = ();

    /// Changes the cookies of endpoints only.
    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if !head.is_of_endpoint(cx) {
            return;
        }
        let bytes = head.fields.bytes;
        let prefixes = cx.facts.prefixes.as_deref().filter(|_| self.restores);
        for row in head.fields.rows.iter_mut() {
            if row.dropped || !row.name(bytes).eq_ignore_ascii_case(b"set-cookie") {
                continue;
            }
            let start = head.added.len();
            append(&[b"Set-Cookie: "], head.added);
            if write(row.value(bytes), &self.set, prefixes, head.added) {
                head.added.extend_from_slice(b"\r\n");
                row.dropped = true;
            } else {
                head.added.truncate(start);
            }
        }
    }

    fn did(&self, _: Option<&()>, _: &Exchange<'_>) -> Cow<'static, str> {
        if self.restores { "path of the endpoint's cookies" } else { "attributes of the endpoint's cookies" }.into()
    }
}

impl Pure for Cookies {}

/// Appends a cookie with the attributes, and with the path for clients. Returns false if it has them already.
fn write(cookie: &[u8], set: &CookieAttributes, prefixes: Option<&Prefixes>, out: &mut Vec<u8>) -> bool {
    let (mut secure, mut http_only, mut same_site) = (set.secure, set.http_only, set.same_site);
    let mut changes = false;
    for (at, part) in cookie.split(|b| *b == b';').enumerate() {
        let name = part.split(|b| *b == b'=').next().unwrap_or_default().trim_ascii();
        if at > 0 {
            secure &= !name.eq_ignore_ascii_case(b"secure");
            http_only &= !name.eq_ignore_ascii_case(b"httponly");
            if name.eq_ignore_ascii_case(b"samesite")
                && let Some(set) = set.same_site
            {
                let value = part.splitn(2, |b| *b == b'=').nth(1).unwrap_or_default().trim_ascii();
                // The first attribute with the right value stays, and all others are removed.
                if same_site.is_some() && value.eq_ignore_ascii_case(set.as_str().as_bytes()) {
                    same_site = None;
                } else {
                    changes = true;
                    continue;
                }
            }
            out.push(b';');
            if name.eq_ignore_ascii_case(b"path")
                && let Some(prefixes) = prefixes
            {
                let value = part.splitn(2, |b| *b == b'=').nth(1).unwrap_or_default().trim_ascii();
                if let Some(path) = prefixes.path(value) {
                    // A path with a slash at its end does not match the path without it.
                    let rest = if path.rest == b"/" && !path.outer.is_empty() { b"" } else { path.rest };
                    append(&[b" Path=", path.outer, rest], out);
                    changes = true;
                    continue;
                }
            }
        }
        out.extend_from_slice(part);
    }
    let same_site: &[u8] = match same_site {
        None => b"",
        Some(SameSite::Lax) => b"; SameSite=Lax",
        Some(SameSite::Strict) => b"; SameSite=Strict",
        Some(SameSite::None) => b"; SameSite=None",
    };
    append(&[if secure { b"; Secure" } else { b"" }, if http_only { b"; HttpOnly" } else { b"" }, same_site], out);
    changes || secure || http_only || !same_site.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_added_where_they_are_missing_and_same_site_is_replaced() {
        let all = CookieAttributes { secure: true, http_only: true, same_site: Some(SameSite::Lax) };
        let strict = CookieAttributes { same_site: Some(SameSite::Strict), ..CookieAttributes::default() };
        for (cookie, set, wanted) in [
            ("a=1", &all, Some("a=1; Secure; HttpOnly; SameSite=Lax")),
            ("a=1; Path=/; secure", &all, Some("a=1; Path=/; secure; HttpOnly; SameSite=Lax")),
            ("a=1; SameSite=None; Secure; HttpOnly", &all, Some("a=1; Secure; HttpOnly; SameSite=Lax")),
            ("a=1; samesite=lax; Secure; httponly", &all, None),
            ("secure=1", &all, Some("secure=1; Secure; HttpOnly; SameSite=Lax")),
            ("a=1; Path=/; SameSite=Lax; SameSite=Strict", &strict, Some("a=1; Path=/; SameSite=Strict")),
            ("a=1;SameSite;x", &strict, Some("a=1;x; SameSite=Strict")),
            ("", &strict, Some("; SameSite=Strict")),
        ] {
            let mut out = Vec::new();
            let changes = write(cookie.as_bytes(), set, None, &mut out);
            assert_eq!(changes.then(|| String::from_utf8(out).expect("ASCII")).as_deref(), wanted, "{cookie}");
        }
    }

    #[test]
    fn the_path_of_a_cookie_gets_the_prefix_of_the_client() {
        let prefixes = Prefixes::new("/shop", "/v2".into(), b"www.test");
        let none = CookieAttributes::default();
        for (cookie, wanted) in [
            ("a=1; path=/v2; Secure", Some("a=1; Path=/shop; Secure")),
            ("a=1; Path=/v2/", Some("a=1; Path=/shop")),
            ("a=1;Path = /v2/cart ;x", Some("a=1; Path=/shop/cart;x")),
            ("a=1; Path=/", None),
            ("a=1; Path=/shop/x", None),
            ("a=1; Path=", None),
            ("a=1; Path", None),
            ("path=/v2", None),
        ] {
            let mut out = Vec::new();
            let changes = write(cookie.as_bytes(), &none, Some(&prefixes), &mut out);
            assert_eq!(changes.then(|| String::from_utf8(out).expect("ASCII")).as_deref(), wanted, "{cookie}");
        }
    }
}
