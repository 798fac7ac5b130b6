//! `return`: redirects and fixed responses.

use crate::model::{Action, Draft};
use crate::nginx::lexer::Directive;
use crate::nginx::variable::{self, OTHER_QUERY, Scope};
use crate::nginx::world::single;
use evenkeel_config::plan::{Redirect, Respond};

/// Reads a `return` with these levels around it.
///
/// # Errors
/// Reason why it cannot be written.
pub(in crate::nginx) fn read(
    directive: &Directive,
    scope: &Scope,
    levels: &[&[Directive]],
    port: u16,
) -> Result<Action, String> {
    let first = directive.word(1);
    let (status, text) = match first.parse::<u64>() {
        Ok(status) => (status, directive.word(2)),
        Err(_) => (302, first),
    };
    if matches!(status, 301 | 302 | 303 | 307 | 308) && !text.is_empty() {
        return Ok(Action::Redirect(redirect(text, status, scope, levels, port)?));
    }
    if status == 444 {
        return Err("a connection is not closed without a response".to_string());
    }
    if !(200..600).contains(&status) {
        return Err(format!("{status} is not a status that is sent"));
    }
    let text = variable::constant(text, scope).ok_or("its text has a variable")?;
    if text.is_empty() {
        return Ok(Action::respond(status));
    }
    let mut response: Draft<Respond> = Draft::one(key!("status"), status).with(key!("body"), text);
    let content = scope.uri.iter().flatten().find_map(|path| type_of(path, levels));
    let content = content.unwrap_or_else(|| single(levels, "default_type").map_or("text/plain", |d| d.word(1)));
    let charset = single(levels, "charset").map(|d| d.word(1)).filter(|charset| *charset != "off");
    match (content, charset) {
        ("text/plain", None | Some("utf-8")) => {}
        (content, None) => drop(response.put(key!("type"), content)),
        (content, Some(charset)) => drop(response.put(key!("type"), format!("{content}; charset={charset}"))),
    }
    Ok(Action::Respond(response))
}

/// Type of a file with this path, by the part behind its last dot.
fn type_of<'d>(path: &str, levels: &[&'d [Directive]]) -> Option<&'d str> {
    let (_, end) = path.rsplit('/').next()?.rsplit_once('.')?;
    let is = |word: &str| word.eq_ignore_ascii_case(end);
    match single(levels, "types") {
        Some(types) => types.inner().iter().find(|row| row.from(1).iter().any(|word| is(word))).map(Directive::name),
        None => [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")]
            .iter()
            .find_map(|(own, content)| is(own).then_some(*content)),
    }
}

/// A redirect to a URL or path with variables.
pub(in crate::nginx) fn redirect(
    to: &str,
    status: u64,
    scope: &Scope,
    levels: &[&[Directive]],
    port: u16,
) -> Result<Draft<Redirect>, String> {
    let table = Draft::one(key!("status"), status);
    // The query is kept where it is written behind the path.
    let expanded = scope.expanded(to);
    let (bare, keeps) =
        match expanded.strip_suffix("${is_args}${args}").or(expanded.strip_suffix("${is_args}${query_string}")) {
            Some(bare) => (bare, true),
            None => (&*expanded, false),
        };
    if keeps && scope.is_query_changed {
        return Err(OTHER_QUERY.into());
    }
    if bare.contains("${is_args}") {
        return Err("`$is_args` is not at its end".into());
    }
    if let ("https://${host}${request_uri}", false) | ("https://${host}${uri}", true) = (bare, keeps) {
        return Ok(table.with(key!("scheme"), "https"));
    }
    let url = variable::read(bare, scope)?;
    let Some((scheme, rest)) = url.split_once("://") else {
        if !url.starts_with('/') || url.starts_with("//") {
            return Err(format!("\"{url}\" is neither a URL nor a path"));
        }
        return Ok(own(table, &url, keeps, levels, port));
    };
    if !keeps {
        return Ok(table.with(key!("to"), url));
    }
    let at = rest.find('/').or_else(|| rest.find("{path}")).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u64>().map_err(|_| "its port is not a number")?)),
        // The scheme of the client keeps its port.
        None => (host, (scheme == "http").then_some(80)),
    };
    if scheme.contains('{') {
        return Err("its scheme and its query come from the request".into());
    }
    let mut table = table.with(key!("scheme"), scheme);
    if host != "{host}" {
        table.put(key!("host"), host);
    }
    if let Some(port) = port {
        table.put(key!("port"), port);
    }
    match path {
        "{path}" => {}
        "" => drop(table.put(key!("path"), "/")),
        path => drop(table.put(key!("path"), path)),
    }
    Ok(table)
}

/// A redirect to a path of the server itself, which NGINX writes with the host of the request and its own port.
fn own(table: Draft<Redirect>, path: &str, keeps: bool, levels: &[&[Directive]], port: u16) -> Draft<Redirect> {
    let is_off = |name: &str| single(levels, name).is_some_and(|d| d.word(1) == "off");
    if is_off("absolute_redirect") && !keeps {
        return table.with(key!("to"), path);
    }
    let port = if is_off("port_in_redirect") { 80 } else { port };
    let mut table = table.with(key!("path"), path);
    // Clients of the usual ports are asked at these.
    if is_off("port_in_redirect") || !matches!(port, 80 | 443) {
        table.put(key!("port"), u64::from(port));
    }
    if !keeps {
        table.put(key!("keep_query"), false);
    }
    table
}

/// The redirect to a path with a slash at its end.
pub(in crate::nginx) fn to_slash(path: &str, levels: &[&[Directive]], port: u16) -> Action {
    Action::Redirect(own(Draft::one(key!("status"), 301), &crate::model::braced(path), true, levels, port))
}

/// True if a block ends each request that comes to it.
pub(in crate::nginx) fn ends(directive: &Directive) -> bool {
    directive.inner().iter().any(|inner| inner.name() == "return")
}

/// True if a block refuses some requests.
pub(in crate::nginx) fn refuses(directive: &Directive) -> bool {
    directive.inner().iter().any(|inner| {
        let word = inner.word(1);
        let by_itself = match inner.name() {
            "return" => word.parse::<u64>().is_ok_and(|status| (400..500).contains(&status)),
            "deny" | "auth_basic" | "auth_request" | "auth_jwt" => word != "off",
            "internal" | "limit_except" => true,
            _ => false,
        };
        by_itself || refuses(inner)
    })
}
