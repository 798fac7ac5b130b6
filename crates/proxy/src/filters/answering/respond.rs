//! Fixed responses of a route.

use super::error_pages::{ErrorPages, HTML};
use crate::body::response::{Response, TEXT};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use bytes::Bytes;
use evenkeel_config::plan::Action;
use std::sync::Arc;

struct Respond {
    status: u16,
    /// The body and its media type; `None` for an error page or an empty body.
    page: Option<(Bytes, Arc<str>)>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    let Action::Respond(respond) = &route.plan.action else { return None };
    let text = respond.body.as_ref().map(|body| (Bytes::copy_from_slice(body.as_bytes()), TEXT));
    let files = from.resources.of::<ErrorPages>();
    let of_file = || respond.file.as_ref().and_then(|path| Some((files.body(path)?.clone(), HTML)));
    let body = text.or_else(of_file);
    let page = body.map(|(body, media_type)| (body, respond.media_type.clone().unwrap_or_else(|| media_type.into())));
    Some(Box::new(Respond { status: respond.status, page }))
}

impl Filter for Respond {
    type State = ();

    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        Verdict::Answer(match &self.page {
            Some((body, media_type)) => Response::page(media_type.to_string(), body.clone()).status(self.status),
            None if self.status < 400 => Response::page("", "").status(self.status),
            None => Response::new(self.status, "the route answers with this status"),
        })
    }
}

impl Pure for Respond {}
