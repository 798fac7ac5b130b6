//! Filter that gives endpoints another path: the path without the prefix that the route matches, the path with another
//! prefix, a whole new path, or the path with other text where an expression matches. The rest of the path stays byte
//! for byte, and so does the query.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::lines::is_like;
use crate::filters::template::parameters::{Parameters, charge};
use crate::filters::template::source::Source;
use crate::filters::template::value::{Unfit, VALUE_MAX, Value};
use crate::peer::sender::STEPS_MAX;
use evenkeel_config::plan::{Captures, Extent, Groups, captures};
use evenkeel_wire::http1::fields::append;
use evenkeel_wire::path::{Unsendable, checked};
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

struct Rewrite {
    to: To,
    matched: Rc<Parameters>,
    /// True if several slashes at the beginning of a path become a single slash.
    strips_slashes: bool,
}

enum To {
    /// The path without its prefix, which the endpoint gets in a field.
    Stripped,
    /// The path with another prefix.
    Prefix(Value),
    /// A whole new path from a template.
    Path(Value),
    /// Other text for the path, or for each part of it that an expression matches.
    Found(Found),
}

/// Replacement of what an expression matches. Other paths stay as they are.
struct Found {
    expression: Arc<Captures>,
    extent: Extent,
    to: Value,
    /// Query to send before the client's.
    query: Option<Value>,
    /// True if the client's query is dropped.
    drops_query: bool,
}

/// Field with the prefix that was removed.
const FIELD: &str = "X-Forwarded-Prefix";

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    let maps = from.resources.of();
    let matched = Rc::new(Parameters::of_route(route, from.listener.ignore_case));
    let to = match &route.filters.rewrite {
        _ if route.filters.strip_prefix => To::Stripped,
        // The same by another name.
        Some(rewrite) if rewrite.prefix.as_ref().is_some_and(|prefix| prefix.to_string() == "/") => To::Stripped,
        Some(plan) => match (&plan.prefix, &plan.path, plan.found()) {
            (Some(prefix), ..) => To::Prefix(Value::of_request(prefix, &matched, maps)),
            (None, Some(path), _) => To::Path(Value::of_request(path, &matched, maps)),
            (None, None, Some((text, extent, to))) => {
                let expression = captures(text, extent)?;
                let kept = to.without_mark();
                let (to, query) = kept.as_ref().unwrap_or(to).split_query();
                let value = |template: &_| Value::of_groups(template, &expression, &matched, maps);
                To::Found(Found {
                    to: value(&to),
                    query: query.as_ref().map(value),
                    drops_query: kept.is_some(),
                    expression: expression.clone(),
                    extent,
                })
            }
            (None, None, None) => return None,
        },
        None => return None,
    };
    Some(Box::new(Rewrite { to, matched, strips_slashes: route.filters.strip_slashes }))
}

impl Filter for Rewrite {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        // `*` is not a path.
        if !head.request.target.starts_with('/') {
            return Verdict::Next;
        }
        let mut target = cx.core.scratch();
        let made = self.make(cx, head, &mut target);
        if let Ok(removed) = made {
            // Only ASCII was let through.
            head.edits.set_target(std::str::from_utf8(&target).unwrap_or("/"));
            if let Some(prefix) = removed {
                announce(cx, head, prefix);
            }
        }
        target.clear();
        cx.core.give_back(target);
        match made {
            Ok(_) => Verdict::Next,
            Err(Failed::Unchanged) => Verdict::Next,
            Err(Failed::Unsendable(why)) => {
                Verdict::Answer(Response::new(400, format!("the path cannot be rewritten: {why}")))
            }
        }
    }

    fn did(&self, _: Option<&()>, _: &Exchange<'_>) -> Cow<'static, str> {
        match self.to {
            To::Stripped => "prefix removed",
            To::Prefix(_) => "prefix replaced",
            To::Path(_) => "path replaced",
            To::Found(..) => "path replaced where the expression matches",
        }
        .into()
    }
}

impl Pure for Rewrite {}

/// Reason why there is no new target.
enum Failed {
    /// The expression does not match.
    Unchanged,
    Unsendable(Unsendable),
}

impl From<Unsendable> for Failed {
    fn from(why: Unsendable) -> Failed {
        Failed::Unsendable(why)
    }
}

impl From<Unfit> for Failed {
    fn from(unfit: Unfit) -> Failed {
        Failed::Unsendable(match unfit {
            Unfit::Control => Unsendable::Character,
            Unfit::TooLong => Unsendable::TooLong,
        })
    }
}

impl Rewrite {
    /// Appends the new target. Returns the removed prefix, if nothing replaces it.
    fn make<'b>(
        &self,
        cx: &Exchange<'_>,
        head: &RequestHead<'_, '_, 'b>,
        out: &mut Vec<u8>,
    ) -> Result<Option<&'b str>, Failed> {
        let path = head.request.path();
        let source = Source::of_request(cx, head.request, head.edits.added());
        let (prefix, rest) = path.split_at(self.matched.prefix_len(path).unwrap_or(0));
        let (mut removed, mut groups) = (None, None);
        match &self.to {
            To::Stripped => {
                removed = Some(prefix).filter(|prefix| !prefix.is_empty());
                joined(rest, out);
            }
            To::Prefix(value) => {
                value.render(&source, out)?;
                joined(rest, out);
            }
            To::Path(value) => value.render(&source, out)?,
            To::Found(found) => groups = Some((found, found.replaced(path, source, out)?)),
        }
        if self.strips_slashes {
            let slashes = out.iter().take_while(|byte| **byte == b'/').count();
            out.drain(..slashes.saturating_sub(1));
        }
        checked(out)?;
        let query = &head.request.target[path.len()..];
        match &groups {
            Some((found, groups)) => found.write_query(&Source { groups, ..source }, query, out)?,
            None => append(&[query.as_bytes()], out),
        }
        Ok(removed)
    }
}

impl Found {
    /// Appends the path with other text where the expression matches. Returns the groups of the last match.
    fn replaced(&self, path: &str, source: Source<'_, '_, '_, '_>, out: &mut Vec<u8>) -> Result<Groups, Failed> {
        let left = Cell::new(STEPS_MAX);
        let (mut from, mut search, mut last) = (0, 0, None);
        while let Some(groups) = self.expression.find(path.as_bytes(), search, &left) {
            let Some(found) = groups.get(0) else { break };
            out.extend_from_slice(&path.as_bytes()[from..found.start]);
            self.to.render(&Source { groups: &groups, ..source }, out)?;
            if out.len() > VALUE_MAX {
                return Err(Unsendable::TooLong.into());
            }
            // A match without text is followed by the next byte, not by itself.
            (from, search) = (found.end, found.end + usize::from(found.is_empty()));
            last = Some(groups);
            if self.extent == Extent::Whole {
                break;
            }
        }
        charge(&left);
        if left.get() == 0 {
            return Err(Unsendable::TooLong.into());
        }
        out.extend_from_slice(&path.as_bytes()[from..]);
        last.ok_or(Failed::Unchanged)
    }

    /// Appends the query, and the client's behind it.
    fn write_query(&self, source: &Source<'_, '_, '_, '_>, client: &str, out: &mut Vec<u8>) -> Result<(), Failed> {
        let start = out.len();
        if let Some(query) = &self.query {
            out.push(b'?');
            query.render(source, out)?;
            if !out[start..].iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
                return Err(Unsendable::Character.into());
            }
            if out.len() == start + 1 {
                out.truncate(start);
            }
        }
        match client {
            _ if self.drops_query => {}
            client if out.len() == start => append(&[client.as_bytes()], out),
            "" | "?" => {}
            client => append(&[b"&", &client.as_bytes()[1..]], out),
        }
        Ok(())
    }
}

/// Appends the rest of a path behind a prefix, with a single slash between them. Without a rest, the prefix stays as it
/// is.
pub fn joined(rest: &str, prefix: &mut Vec<u8>) {
    if !rest.is_empty() && prefix.ends_with(b"/") {
        prefix.pop();
    }
    prefix.extend_from_slice(rest.as_bytes());
    if prefix.is_empty() {
        prefix.push(b'/');
    }
}

/// Adds the field with the removed prefix, behind a prefix that a trusted proxy has removed before.
fn announce(cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>, prefix: &str) {
    let fits = |value: &&[u8]| value.starts_with(b"/") && value.iter().all(u8::is_ascii_graphic);
    let before = head.request.field(FIELD).filter(|_| cx.peer.is_trusted).filter(fits).unwrap_or_default();
    let before = before.strip_suffix(b"/").unwrap_or(before);
    let bytes = head.request.fields.bytes;
    let rows = head.request.fields.rows.iter_mut();
    rows.for_each(|row| row.dropped |= is_like(row.name(bytes), FIELD.as_bytes()));
    let parts: [&[u8]; 5] = [FIELD.as_bytes(), b": ", before, prefix.as_bytes(), b"\r\n"];
    append(&parts, head.edits.lines());
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::PathPattern;

    /// The path with the prefix of a pattern replaced.
    fn replaced(path: &str, pattern: &str, prefix: &str) -> String {
        let matched = Parameters::of(&PathPattern::Prefix(pattern.trim_end_matches('/').to_string()), false, false);
        let rest = &path[matched.prefix_len(path).expect("it matches")..];
        let mut out = prefix.as_bytes().to_vec();
        joined(rest, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn prefixes_are_replaced_as_the_gateway_api_does() {
        for (path, pattern, prefix, wanted) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            // The rest of the path stays byte for byte.
            ("/foo/%2F;a=b//c%zz", "/foo", "/xyz", "/xyz/%2F;a=b//c%zz"),
            ("/users/7/x", "/users/{id}", "/v2", "/v2/x"),
        ] {
            assert_eq!(replaced(path, pattern, prefix), wanted, "{path} {pattern} {prefix}");
        }
    }
}
