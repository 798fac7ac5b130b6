//! Differences between NGINX and evenkeel that docs/guide/convert.md lists.

use crate::verdict::Side;
use evenkeel_convert::{Answer, Ask};

/// Takes away the differences: paths with several readings, and fields with `_`.
pub(super) fn settle(ask: &Ask, there: &mut Side, here: &mut Side) {
    let path = ask.target.split('?').next().unwrap_or_default();
    let is_odd = path.contains("//") || path.contains("/.") || path.contains('%');
    let refused = here.answer.as_ref().is_ok_and(|answer| answer.status == 400) && here.seen.is_none();
    if is_odd && refused {
        there.clone_from(here);
    }
    // A method that NGINX has no file for, and a body that no endpoint would get.
    if here.seen.is_none()
        && (status(there) == Some(405) && status(here) == Some(404)
            || there.seen.is_none() && status(there) == Some(413))
    {
        there.clone_from(here);
    }
    // Of two `if`s with blocks that match, NGINX keeps the handler of the first and the settings of the second, and fails.
    if there.seen.is_none() && here.seen.is_none() && status(there) == Some(500) && status(here) == Some(404) {
        there.clone_from(here);
    }
    // A question mark without a query, which a single side may keep.
    if ask.target.ends_with('?') {
        let bare = |fields: &mut Vec<(String, String)>| {
            fields.iter_mut().for_each(|(_, value)| *value = value.trim_end_matches('?').to_string());
        };
        for side in [&mut *there, &mut *here] {
            side.answer.iter_mut().for_each(|answer| bare(&mut answer.fields));
            side.seen.iter_mut().for_each(|seen| {
                bare(&mut seen.fields);
                seen.target = seen.target.trim_end_matches('?').to_string();
            });
        }
    }
    // NGINX writes hosts in lower case and without a final dot, and text without a charset.
    let host = ask.host.split(':').next().unwrap_or_default();
    for side in [&mut *there, &mut *here] {
        let is_own = side.seen.is_none();
        let Ok(answer) = &mut side.answer else { continue };
        for (name, value) in &mut answer.fields {
            *value = value.replace(host, &plain_host(host)).replace(host.trim_end_matches('.'), &plain_host(host));
            *value = value.replace(", charset=\"UTF-8\"", "");
            if is_own && name == "content-type" && value == "text/plain; charset=utf-8" {
                *value = "text/plain".into();
            }
        }
    }
    // The type of a text goes by the end of the path there.
    if path.to_ascii_lowercase().ends_with(".html") && there.seen.is_none() && here.seen.is_none() {
        for answer in [&mut there.answer, &mut here.answer].into_iter().flatten() {
            answer.fields.retain(|(name, _)| name != "content-type");
        }
    }
    for seen in [&mut there.seen, &mut here.seen].into_iter().flatten() {
        for (_, value) in seen.fields.iter_mut().filter(|(name, _)| name != "host") {
            *value = value.replace(host, &plain_host(host)).replace(host.trim_end_matches('.'), &plain_host(host));
        }
    }
    // An endpoint that redirects to its own address, which NGINX knows as the address of the location.
    let said = ask.fields.iter().find(|(name, _)| name == "X-Say-Field").map_or("", |(_, value)| value);
    if let (Some(location), Ok(there), Ok(here)) =
        (said.strip_prefix("Location: http://"), &mut there.answer, &here.answer)
    {
        let own = format!("http://{location}");
        let says = here.fields.iter().any(|(name, value)| name == "location" && *value == own);
        there
            .fields
            .iter_mut()
            .filter(|(name, _)| says && name == "location")
            .for_each(|(_, value)| value.clone_from(&own));
    }
    // Separate pages for errors of endpoints, and a field for endpoints that get a shorter path.
    if let (Ok(there), Ok(here)) = (&mut there.answer, &mut here.answer)
        && there.body.contains("<center>nginx")
        && here.body.lines().count() <= 1
    {
        there.body.clone_from(&here.body);
        there.fields.retain(|(name, _)| name != "content-type");
        here.fields.retain(|(name, _)| name != "content-type");
    }
    // The page of an error that NGINX writes itself, of which a HEAD gets the type alone.
    if ask.method == "HEAD"
        && there.seen.is_none()
        && here.seen.is_none()
        && let (Ok(there), Ok(here)) = (&mut there.answer, &mut here.answer)
        && there.status >= 300
        && is_of_type(there, "text/html")
        && is_of_type(here, "text/plain")
    {
        there.fields.retain(|(name, _)| name != "content-type");
        here.fields.retain(|(name, _)| name != "content-type");
    }
    here.seen.iter_mut().for_each(|seen| seen.fields.retain(|(name, _)| name != "x-forwarded-prefix"));
    // The host passes as the client wrote it.
    if let (Some(there), Some(here)) = (&mut there.seen, &here.seen) {
        let host = plain_host(&ask.host);
        let own = |fields: &[(String, String)]| {
            fields.iter().find(|(name, _)| name == "host").map(|(_, value)| value.clone())
        };
        if own(&there.fields).is_some_and(|value| plain_host(&value) == host)
            && own(&here.fields).is_some_and(|value| plain_host(&value) == host)
        {
            let value = own(&here.fields).unwrap_or_default();
            there.fields.iter_mut().filter(|(name, _)| name == "host").for_each(|(_, other)| other.clone_from(&value));
        }
    }
    for answer in [&mut *there, &mut *here].into_iter().filter_map(|side| side.answer.as_mut().ok()) {
        answer.fields.retain(|(name, _)| !matches!(&**name, "retry-after" | "ratelimit" | "ratelimit-policy"));
    }
    if is_odd && let (Ok(there), Ok(here)) = (&mut there.answer, &mut here.answer) {
        for (_, value) in there.fields.iter_mut().chain(&mut here.fields).filter(|(_, value)| value.contains('/')) {
            *value = lax(value);
        }
    }
    if is_odd && let (Some(there), Some(here)) = (&mut there.seen, &mut here.seen) {
        for target in [&mut there.target, &mut here.target] {
            *target = normal(target);
        }
        for (_, value) in there.fields.iter_mut().chain(&mut here.fields).filter(|(_, value)| value.contains('/')) {
            *value = lax(value);
        }
    }
    // Groups of an expression, variables and maps are those of the path as it was sent.
    if is_odd {
        let is_made = |name: &str| name.starts_with("x-") && name != "x-say" || name == "cache-control";
        for side in [&mut *there, &mut *here] {
            side.answer.iter_mut().for_each(|answer| answer.fields.retain(|(name, _)| !is_made(name)));
            side.seen.iter_mut().for_each(|seen| seen.fields.retain(|(name, _)| !is_made(name)));
        }
        for side in [&mut *there, &mut *here] {
            let values = side.answer.iter_mut().flat_map(|answer| &mut answer.fields).map(|(_, value)| value);
            values
                .chain(side.seen.iter_mut().map(|seen| &mut seen.target))
                .for_each(|value| *value = without_end(value));
            // A path that is put behind another may begin within its first segment: `/v2` and `/./x` give `/v2./x`.
            side.seen.iter_mut().for_each(|seen| seen.target = seen.target.replace(['/', '.'], ""));
        }
    }
}

/// A value with a path that NGINX writes in its own spelling.
fn lax(value: &str) -> String {
    let at = value.find("://").map_or(0, |at| at + 3);
    let (start, path) = value.split_at(at + value[at..].find('/').unwrap_or(0));
    format!("{start}{}", normal(path).replace("%20", " "))
}

/// A URL without slashes at the end of its path.
fn without_end(value: &str) -> String {
    let (path, query) = value.split_once('?').map_or((value, None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    query.map_or(path.to_string(), |query| format!("{path}?{query}"))
}

fn is_of_type(answer: &Answer, wanted: &str) -> bool {
    answer.fields.iter().any(|(name, value)| name == "content-type" && value == wanted)
}

fn status(side: &Side) -> Option<u16> {
    side.answer.as_ref().ok().map(|answer| answer.status)
}

/// A host in lower case, without port and final dot.
fn plain_host(host: &str) -> String {
    let host = host.split(':').next().unwrap_or_default();
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// A path in normal form, as far as requests of a judge need it.
fn normal(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut plain = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        plain += &rest[..at];
        let byte = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(|b| b.is_ascii_alphanumeric() || b"-._~".contains(b)) {
            Some(b) => plain.push(char::from(b)),
            None => plain += rest.get(at..at + 3).unwrap_or("%"),
        }
        rest = rest.get(at + 3..).unwrap_or("");
    }
    plain += rest;
    let mut segments: Vec<&str> = Vec::new();
    for segment in plain.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            "" if segments.last() == Some(&"") => {}
            segment => {
                if segments.last() == Some(&"") {
                    segments.pop();
                }
                segments.push(segment);
            }
        }
    }
    let path = format!("/{}", segments.join("/"));
    query.map_or(path.clone(), |query| format!("{path}?{query}"))
}
