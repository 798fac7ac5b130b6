//! Filter that gives the cookies of endpoints attributes: `Secure`, `HttpOnly` and `SameSite`.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, ResponseHead};
use crate::filters::row::Build;
use evenkeel_config::plan::{CookieAttributes, SameSite};
use evenkeel_wire::http1::fields::append;
use std::borrow::Cow;

struct Cookies(CookieAttributes);

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let set = &from.route.as_ref()?.plan.cookies;
    (*set != CookieAttributes::default()).then(|| Box::new(Cookies(set.clone())) as _)
}

impl Filter for Cookies {
    /// Changes the cookies of endpoints only.
    fn response(&self, _: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if head.outcome.is_none() {
            return;
        }
        let bytes = head.fields.bytes;
        for row in head.fields.rows.iter_mut() {
            if row.dropped || !row.name(bytes).eq_ignore_ascii_case(b"set-cookie") {
                continue;
            }
            let start = head.added.len();
            append(&[b"Set-Cookie: "], head.added);
            if write(row.value(bytes), &self.0, head.added) {
                head.added.extend_from_slice(b"\r\n");
                row.dropped = true;
            } else {
                head.added.truncate(start);
            }
        }
    }

    fn did(&self, _: &Exchange<'_>) -> Cow<'static, str> {
        "attributes of the endpoint's cookies".into()
    }
}

/// Appends a cookie with the attributes. Returns false if it has them already.
fn write(cookie: &[u8], set: &CookieAttributes, out: &mut Vec<u8>) -> bool {
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
                // The first one of the right value stays, and all others go.
                if same_site.is_some() && value.eq_ignore_ascii_case(set.as_str().as_bytes()) {
                    same_site = None;
                } else {
                    changes = true;
                    continue;
                }
            }
            out.push(b';');
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
            let changes = write(cookie.as_bytes(), set, &mut out);
            assert_eq!(changes.then(|| String::from_utf8(out).expect("ASCII")).as_deref(), wanted, "{cookie}");
        }
    }
}
