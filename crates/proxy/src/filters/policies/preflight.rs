//! Filter that answers preflights: requests by which browsers ask if a page of another origin may send a request. They
//! have no credentials, and no endpoint sees them. The fields of every response come from [`cors`](super::cors).

use super::cors::{Page, Readers, is_preflight};
use crate::body::response::{Response, TEXT};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_wire::head::Request;
use std::sync::Arc;

struct Preflights {
    readers: Readers,
    methods: Allowed,
    headers: Allowed,
    max_age: String,
}

/// Methods or fields that pages may send.
enum Allowed {
    None,
    Listed(String),
    /// All that the browser asks for. A star would not do: with credentials, browsers take it for a name, and without
    /// them they except `Authorization` from it.
    Asked,
}

impl Allowed {
    fn new(names: &[Arc<str>]) -> Allowed {
        match names {
            [] => Allowed::None,
            _ if names.iter().any(|name| **name == *"*") => Allowed::Asked,
            _ => Allowed::Listed(names.join(", ")),
        }
    }

    /// Adds the field `name` to the response, where the browser asks by the field `asks`.
    fn add(&self, response: Response, name: &str, request: &Request<'_, '_>, asks: &str) -> Response {
        let mut asked = request.values(asks).peekable();
        match self {
            Allowed::Listed(list) if asked.peek().is_some() => response.with(name, list),
            Allowed::Asked => {
                let asked = asked.filter_map(|value| std::str::from_utf8(value).ok());
                asked.fold(response, |response, value| response.with(name, value))
            }
            _ => response,
        }
    }
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let cors = from.route.as_ref()?.plan.filters.cors.as_ref()?;
    let max_age = cors.max_age.as_secs().to_string();
    let (methods, headers) = (Allowed::new(&cors.methods), Allowed::new(&cors.headers));
    Some(Box::new(Preflights { readers: Readers::new(cors), methods, headers, max_age }))
}

impl Filter for Preflights {
    type State = ();

    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match is_preflight(head.request) {
            true => Verdict::Answer(self.answer(head.request)),
            false => Verdict::Next,
        }
    }
}

impl Predict for Preflights {
    fn dry_run(&self, own: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        match self.request(own, cx, head) {
            Verdict::Answer(response) => DryRun::Answer(response, "the request is a preflight".into()),
            verdict => verdict.into(),
        }
    }
}

impl Preflights {
    fn answer(&self, request: &Request<'_, '_>) -> Response {
        let response = Response { status: 204, ..Response::page(TEXT, "") };
        if !matches!(self.readers.page(request), Some(Page::Any | Page::Allowed(_))) {
            return response;
        }
        let (methods, headers) = ("Access-Control-Request-Method", "Access-Control-Request-Headers");
        let response = self.methods.add(response, "Access-Control-Allow-Methods", request, methods);
        let response = self.headers.add(response, "Access-Control-Allow-Headers", request, headers);
        response.with("Access-Control-Max-Age", &self.max_age)
    }
}
