//! The way of a request from the route that it has had to the route of an internal redirect, and the changes to the
//! response of that route.

use crate::body::internal_redirect::{InternalRedirect, To};
use crate::body::response::Response;
use crate::filters::filter::ResponseHead;
use crate::filters::redirects::{REDIRECTS_MAX, Redirects, leave_out_accel};
use crate::filters::template::lines;
use crate::filters::template::lookups::Values;
use crate::filters::template::source::Source;
use crate::listener::route::{Refusal, RouteId};
use crate::observe::stats::Redirected;
use crate::peer::sender::Sender;
use crate::record::Record;
use evenkeel_wire::endpoint_head::KeptHead;
use evenkeel_wire::http1::fields::append;

/// Fields of a request that are about its body.
const OF_BODY: [&str; 7] =
    ["host", "content-encoding", "content-length", "content-type", "expect", "transfer-encoding", "upgrade"];

/// Fields of a request that are for the response to another request.
const OF_RESPONSE: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"];

/// Begins the way to another route, with a GET or HEAD. Returns the head of the request and the lines to add to it.
///
/// # Errors
/// No route can answer.
pub fn begin(record: &mut Record<'_>, redirect: InternalRedirect) -> Result<(KeptHead, Vec<u8>), Response> {
    let InternalRedirect { to, changes } = redirect;
    let mut redirects =
        record.exchange.facts.redirects.take().ok_or_else(|| Response::new(500, "no request is kept"))?;
    let (mut head, lines) = (head(&redirects, &to), redirects.asked.lines.clone());
    let route = find(record, &mut redirects, &to, &mut head);
    if route.is_ok() {
        redirects.first.get_or_insert(record.route);
        redirects.is_page |= matches!(to, To::Page { .. });
        let before = redirects.changes.replace(changes);
        // Cookies of all responses in a row.
        let is_cookie = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"set-cookie");
        let fields = &mut redirects.changes.get_mut().fields;
        before.fields.iter().filter(is_cookie).for_each(|(name, value)| fields.push(name, value));
    } else {
        redirects.changes.take();
    }
    record.exchange.facts.redirects = Some(redirects);
    let route = route?;
    record.note_redirected(if let To::Page { .. } = to { Redirected::Page } else { Redirected::Path });
    let (rules, cx, request) = (record.rules, &record.exchange, &mut head.request());
    let source = || Source::of_request(cx, request, &lines);
    let choice = |name: &mut Vec<u8>| rules.write_choice(route, &source(), name);
    let pool = rules.target(route).pool(record.client.core, request, || cx.client(), choice);
    record.note_routed(request, route, pool);
    Ok((head, lines))
}

/// Changes the response of the route that answers. Returns the status for the client, if it differs. Fields that the
/// route's filters have added stay.
pub fn apply(redirects: &Redirects, head: &mut ResponseHead<'_, '_, '_>) -> Option<u16> {
    redirects.first?;
    let changes = redirects.changes.borrow();
    if redirects.followed > 0 {
        leave_out_accel(head.fields);
    }
    let before = head.added.len();
    for (name, value) in changes.fields.iter() {
        let is_cookie = name.eq_ignore_ascii_case(b"set-cookie");
        // The type of a file, for example, is not the type of the error that it is missing.
        let is_unfit = !redirects.is_page && head.status >= 400;
        if !is_cookie && (is_unfit || lines::has(&head.added[..before], name)) {
            continue;
        }
        if let (false, Ok(name)) = (is_cookie, std::str::from_utf8(name)) {
            head.fields.leave_out(name);
        }
        append(&[name, b": ", value, b"\r\n"], head.added);
    }
    // A response without a body cannot get a status that has one.
    changes.status.filter(|_| !matches!(head.status, 101 | 204 | 205 | 304))
}

/// Head of the request for the route.
fn head(redirects: &Redirects, to: &To) -> KeptHead {
    let asked = &redirects.asked;
    let (target, is_page) = match to {
        To::Page { target, .. } => (target.as_deref().unwrap_or(&asked.target), true),
        To::Path(path) => (&**path, false),
    };
    let is_gone = |name: &[u8]| {
        let others = if is_page { &OF_RESPONSE[..] } else { &[] };
        OF_BODY.iter().chain(others).any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    let method = if &*asked.method == "HEAD" { "HEAD" } else { "GET" };
    let fields = asked.fields.iter().filter(|(name, _)| !is_gone(name));
    KeptHead::of(method, target, asked.host.as_deref().unwrap_or_default(), fields)
}

/// Finds the route. A path in several readings that chooses it in its normal form becomes the path of the request.
fn find(record: &Record<'_>, redirects: &mut Redirects, to: &To, head: &mut KeptHead) -> Result<RouteId, Response> {
    if let To::Page { route, .. } = to {
        return Ok(*route);
    }
    if redirects.followed == REDIRECTS_MAX {
        return Err(Response::new(500, format!("more than {REDIRECTS_MAX} internal redirects in a row")));
    }
    redirects.followed += 1;
    let (rules, request) = (record.rules, &head.request());
    let no_route = || Response::new(404, format!("no internal route for path \"{}\"", request.path()));
    let router = rules.compiled.internal.as_ref().ok_or_else(no_route)?;
    let maps = Values { lookups: &rules.lookups, cx: &record.exchange };
    let choice = router.find(request, || Sender { maps: Some(&maps), ..record.exchange.sender() });
    let choice = choice.map_err(|refusal| refused(record, &refusal))?;
    let route = choice.route.ok_or_else(no_route)?;
    if let Some(path) = choice.path {
        let target = path + &request.target[request.path().len()..];
        head.set_target(target.into());
    }
    Ok(route)
}

fn refused(record: &Record<'_>, refusal: &Refusal) -> Response {
    let planned = &record.rules.routes.planned;
    let why = refusal.text(|id| planned.get(id).map_or("", |route| &*route.name));
    Response::new(500, format!("internal redirect: {why}"))
}
