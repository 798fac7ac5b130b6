//! Filters of Routes as keys of a route of the plan.

use crate::providers::kubernetes::services::names;
use crate::providers::kubernetes::world::objects::{
    Cors as ObjectCors, HeaderModifier, HeaderValue, PathModifier, RequestRedirect, RouteFilter, UrlRewrite,
};
use evenkeel_config::plan::{
    Action, Cors, Origin, Redirect, RequestHeaders, ResponseHeaders, Rewrite, Route, Scheme, SendHost, Template,
    add_field,
};
use std::sync::Arc;
use std::time::Duration;

/// Puts a filter other than a mirror into a route. `port`: port of the listener.
///
/// # Errors
/// If it has no counterpart here.
pub fn put(filter: &RouteFilter, port: u16, route: &mut Route) -> Result<(), String> {
    match &*filter.kind {
        "RequestHeaderModifier" => {
            add_request(filter.request_header_modifier.as_ref(), &mut route.filters.request_headers)
        }
        "ResponseHeaderModifier" => {
            add_response(filter.response_header_modifier.as_ref(), &mut route.filters.response_headers)
        }
        "RequestRedirect" => {
            let redirect = filter.request_redirect.as_ref().ok_or("the filter has no requestRedirect")?;
            route.action = Action::Redirect(self::redirect(redirect, port)?);
        }
        "URLRewrite" => rewrite(filter.url_rewrite.as_ref().ok_or("the filter has no urlRewrite")?, route)?,
        "CORS" => route.filters.cors = Some(cors(filter.cors.as_ref().ok_or("the filter has no cors")?)?),
        "RequestMirror" => {}
        other => return Err(format!("filter {other} is not supported")),
    }
    Ok(())
}

/// Fields of requests and responses that a reference to a Service changes.
///
/// # Errors
/// If a filter cannot be kept there.
pub fn of_backend(filters: &[RouteFilter]) -> Result<(RequestHeaders, ResponseHeaders), String> {
    let (mut request, mut response) = (RequestHeaders::default(), ResponseHeaders::default());
    for filter in filters {
        match &*filter.kind {
            "RequestHeaderModifier" => add_request(filter.request_header_modifier.as_ref(), &mut request),
            "ResponseHeaderModifier" => add_response(filter.response_header_modifier.as_ref(), &mut response),
            other => return Err(format!("filter {other} of a reference is not supported")),
        }
    }
    Ok((request, response))
}

fn templates(values: &[HeaderValue]) -> impl Iterator<Item = (Arc<str>, Template)> + '_ {
    values.iter().map(|one| (one.name.as_str().into(), Template::literal(&one.value)))
}

fn add_request(modifier: Option<&HeaderModifier>, to: &mut RequestHeaders) {
    let Some(modifier) = modifier else { return };
    to.set.extend(templates(&modifier.set));
    templates(&modifier.add).for_each(|(name, value)| add_field(&mut to.add, &name, value));
    to.remove.extend(modifier.remove.iter().map(|name| name.as_str().into()));
}

fn add_response(modifier: Option<&HeaderModifier>, to: &mut ResponseHeaders) {
    let Some(modifier) = modifier else { return };
    to.set.extend(templates(&modifier.set));
    templates(&modifier.add).for_each(|(name, value)| add_field(&mut to.add, &name, value));
    to.remove.extend(modifier.remove.iter().map(|name| name.as_str().into()));
}

fn redirect(from: &RequestRedirect, port: u16) -> Result<Redirect, String> {
    let scheme = match from.scheme.as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => return Err(format!("a redirect to scheme {other} is not supported")),
    };
    // Without a port, the port is the usual port of the scheme if a scheme is set, else the port of the listener.
    let usual = match scheme {
        Some(Scheme::Http) => 80,
        Some(Scheme::Https) => 443,
        None => port,
    };
    let (prefix, path) = match &from.path {
        None => (None, None),
        Some(modifier) => modified(modifier)?,
    };
    Ok(Redirect {
        status: from.status_code.unwrap_or(302),
        scheme,
        host: from.hostname.as_deref().map(Template::literal),
        port: Some(from.port.unwrap_or(usual)),
        prefix,
        path,
        ..Redirect::default()
    })
}

/// Replacement of the prefix, or of the whole path.
fn modified(modifier: &PathModifier) -> Result<(Option<Template>, Option<Template>), String> {
    let path = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        Template::literal(if text.is_empty() { "/" } else { text })
    };
    match &*modifier.kind {
        "ReplacePrefixMatch" => Ok((Some(path(&modifier.replace_prefix_match)), None)),
        "ReplaceFullPath" => Ok((None, Some(path(&modifier.replace_full_path)))),
        other => Err(format!("a change of the path of type {other} is not supported")),
    }
}

fn rewrite(from: &UrlRewrite, route: &mut Route) -> Result<(), String> {
    if let Some(host) = &from.hostname {
        route.filters.send_host = SendHost::Fixed(host.as_str().into());
    }
    if let Some(modifier) = &from.path {
        let (prefix, path) = modified(modifier)?;
        route.filters.rewrite = Some(Rewrite { prefix, path, ..Rewrite::default() });
    }
    Ok(())
}

fn cors(from: &ObjectCors) -> Result<Cors, String> {
    let texts = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
    let origins = from.allow_origins.iter().map(|text| origin(text)).collect::<Result<_, _>>()?;
    let max_age = Duration::from_secs(from.max_age.unwrap_or(5));
    Ok(Cors {
        origins,
        methods: texts(&from.allow_methods),
        headers: texts(&from.allow_headers),
        expose: texts(&from.expose_headers),
        credentials: from.allow_credentials.unwrap_or_default(),
        max_age,
    })
}

/// An origin that a page may have, or a pattern of them.
pub fn origin(text: &str) -> Result<Origin, String> {
    let text = text.to_ascii_lowercase();
    let text = match text.split_once("://") {
        Some(("http", _)) => text.strip_suffix(":80").unwrap_or(&text),
        Some(("https", _)) => text.strip_suffix(":443").unwrap_or(&text),
        _ => &text,
    };
    Ok(match text.split_once("://*") {
        None if text == "*" => Origin::Any,
        None => Origin::Exact(text.into()),
        Some((scheme, suffix)) if suffix.starts_with('.') => {
            Origin::Below { scheme: format!("{scheme}://").into(), suffix: suffix.into() }
        }
        Some(_) => return Err(format!("an origin {text} is not supported")),
    })
}

/// Name of the route of a rule, or of a single match if the rule has several.
pub fn name_of(prefix: &str, object: &str, rule: Option<&str>, matching: Option<usize>) -> Arc<str> {
    let mut text = format!("{prefix}{object}");
    if let Some(rule) = rule {
        text += &format!("/{rule}");
    }
    if let Some(matching) = matching {
        text += &format!(".{matching}");
    }
    names::label(&text).into()
}
