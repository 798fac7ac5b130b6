//! Filter that has an internal route answer where a response of an endpoint names a path (`X-Accel-Redirect`).

use crate::body::internal_redirect::{Changes, InternalRedirect, To};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::redirects::leave_out_accel;
use crate::filters::row::Build;
use crate::filters::services::copied::keep;
use crate::filters::step::Step;
use crate::filters::template::lines;
use evenkeel_wire::head::Table;
use evenkeel_wire::path::checked_target;
use std::borrow::Cow;
use std::sync::Arc;

/// Fields of the first response that the client gets with the response of the internal route, as from NGINX.
const KEPT: [&str; 6] =
    ["set-cookie", "content-type", "content-disposition", "cache-control", "expires", "accept-ranges"];

/// Longest path in explanations, in bytes.
const SHOWN_MAX: usize = 256;

struct InternalRedirects {
    /// Fields that name a path, in order of preference.
    fields: Box<[Arc<str>]>,
}

/// State of a request that was redirected.
pub struct State {
    /// Path that an endpoint has named.
    path: Box<str>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let fields = &from.route.as_ref()?.plan.filters.internal_redirects;
    if fields.is_empty() { None } else { Some(Box::new(InternalRedirects { fields: fields[..].into() })) }
}

impl Filter for InternalRedirects {
    type State = State;

    fn request(&self, _: &mut Own<State>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        keep(cx, head);
        Verdict::Next
    }

    fn response(&self, own: &mut Own<State>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if head.status == 101 || !head.is_of_endpoint(cx) {
            return;
        }
        let fields = &mut *head.fields;
        let value = |name: &Arc<str>| {
            fields.kept().find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
        };
        let path = self.fields.iter().find_map(value);
        self.fields.iter().for_each(|name| fields.leave_out(name));
        leave_out_accel(fields);
        let Some(path) = path.filter(|_| cx.facts.redirects.is_some()) else { return };
        head.instead = Some(match checked_target(path) {
            Ok(path) => {
                *own = Some(Box::new(State { path: path[..path.len().min(SHOWN_MAX)].into() }));
                let is_kept = |name: &[u8]| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()));
                // Filters of the route, such as `sticky`, have added cookies.
                let cookies = lines::each(head.added).filter(|(name, _)| name.eq_ignore_ascii_case(KEPT[0].as_bytes()));
                let fields: Table = fields.kept().filter(|(name, _)| is_kept(name)).chain(cookies).collect();
                let redirect =
                    InternalRedirect { to: To::Path(path.into()), changes: Changes { status: None, fields } };
                Response::redirected(head.status, redirect).into()
            }
            Err(why) => Response::new(500, format!("the path of an internal redirect cannot be used: {why}")).into(),
        });
    }

    fn did(&self, own: Option<&State>, _: &Exchange<'_>) -> Cow<'static, str> {
        own.map_or("".into(), |State { path }| format!("redirected internally to {path}").into())
    }
}

impl Pure for InternalRedirects {}
