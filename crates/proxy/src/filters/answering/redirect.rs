//! The action `redirect` of a route: answers with a URL that its keys make of the client's URL.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::rewriting::rewrite::joined;
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use evenkeel_config::plan::{self, Action, Scheme};
use evenkeel_wire::path::checked;
use std::rc::Rc;

struct Redirect {
    plan: plan::Redirect,
    host: Option<Value>,
    to: To,
    matched: Rc<Parameters>,
}

enum To {
    Whole(Value),
    /// The client's path with another prefix.
    Prefix(Value),
    Path(Value),
    Same,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    let Action::Redirect(plan) = &route.action else { return None };
    let matched = Rc::new(Parameters::of_route(route, from.listener.ignore_case));
    let value = |template| Value::of_request(template, &matched, from.resources.of());
    let whole = plan.to.as_ref().map(|to| To::Whole(value(to)));
    let prefix = || plan.prefix.as_ref().map(|prefix| To::Prefix(value(prefix)));
    let path = || plan.path.as_ref().map(|path| To::Path(value(path)));
    let to = whole.or_else(prefix).or_else(path).unwrap_or(To::Same);
    let host = plan.host.as_ref().map(value);
    Some(Box::new(Redirect { plan: plan.clone(), host, to, matched }))
}

impl Filter for Redirect {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        Verdict::Answer(match self.location(cx, head) {
            Ok(location) => Response::page("", "").status(self.plan.status).with("Location", &location),
            Err(why) => Response::new(400, format!("the request cannot be redirected: {why}")),
        })
    }
}

impl Pure for Redirect {}

impl Redirect {
    /// The URL to redirect to.
    ///
    /// # Errors
    /// The reason why there is none.
    fn location(&self, cx: &Exchange<'_>, head: &RequestHead<'_, '_, '_>) -> Result<String, String> {
        let request = &head.request;
        let mut out = Vec::new();
        let render = |value: &Value, out: &mut Vec<u8>| {
            let source = Source::of_request(cx, request, head.edits.added());
            value.render(&source, out).map_err(|_| "a value does not fit into a URL".to_owned())
        };
        let path = if request.target.starts_with('/') { request.path() } else { "/" };
        match &self.to {
            To::Whole(value) => {
                render(value, &mut out)?;
                let is_url = out.starts_with(b"http://") || out.starts_with(b"https://");
                return if is_url { url(out) } else { checked_path(out, None) };
            }
            To::Prefix(value) => {
                render(value, &mut out)?;
                joined(&path[self.matched.prefix_len(path).unwrap_or(0)..], &mut out);
            }
            To::Path(value) => render(value, &mut out)?,
            To::Same => out.extend_from_slice(path.as_bytes()),
        }
        let query = request.query().filter(|_| self.plan.keep_query);
        let host = self.host.as_ref().map(|host| {
            let mut out = Vec::new();
            render(host, &mut out)?;
            let is_host = |b: &u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(b);
            let text = String::from_utf8(out).ok().filter(|host| host.as_bytes().iter().all(is_host));
            text.ok_or_else(|| "a value does not fit into a host".to_owned())
        });
        Ok(format!("{}{}", self.origin(cx, host.transpose()?.as_deref(), request.host)?, checked_path(out, query)?))
    }

    /// Scheme, host and port of the URL.
    fn origin(&self, cx: &Exchange<'_>, host: Option<&str>, client: &[u8]) -> Result<String, String> {
        let plan::Redirect { scheme, port, .. } = &self.plan;
        let client = std::str::from_utf8(client).unwrap_or_default();
        let at = client.rfind(':').filter(|at| !client[*at..].contains(']'));
        let (name, client_port) = at.map_or((client, None), |at| (&client[..at], client[at + 1..].parse::<u16>().ok()));
        let name = host.unwrap_or(name);
        if name.is_empty() {
            return Err("it names no host".to_owned());
        }
        let port = port.or(client_port.filter(|_| scheme.is_none()));
        let (scheme, usual) = match scheme.unwrap_or(cx.sender().scheme) {
            Scheme::Http => ("http", 80),
            Scheme::Https => ("https", 443),
        };
        Ok(match port.filter(|port| *port != usual) {
            Some(port) => format!("{scheme}://{name}:{port}"),
            None => format!("{scheme}://{name}"),
        })
    }
}

fn url(rendered: Vec<u8>) -> Result<String, String> {
    match rendered.iter().all(u8::is_ascii_graphic) {
        true => String::from_utf8(rendered).map_err(|error| error.to_string()),
        false => Err("the URL would have characters that it cannot have".to_owned()),
    }
}

/// The path with its query, if every reader takes it for a path of the same host.
fn checked_path(rendered: Vec<u8>, query: Option<&str>) -> Result<String, String> {
    let text = url(rendered)?;
    let path = text.split('?').next().unwrap_or_default();
    checked(path.as_bytes()).map_err(|why| why.to_string())?;
    // Browsers take the text behind two slashes for a host, and a backslash for a slash.
    if matches!(path.as_bytes(), [b'/', b'/' | b'\\', ..]) {
        return Err("it begins with two slashes".to_owned());
    }
    Ok(match query {
        Some(query) => format!("{text}?{query}"),
        None => text,
    })
}
