//! Variables of values, by their names: `{client.ip}`, `{header.X-Id}`. [`FIXED`] and [`FAMILIES`] have a row for each,
//! and names of other programs lead to the row that was meant.

use super::foreign_variables;
use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::form::name::is_token_char;
use crate::nearest::nearest;
use crate::tree::quoted;
use std::fmt;
use std::sync::Arc;

/// Use of a template, which decides on the variables and the text that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Value of a field of a request.
    Request,
    /// Value of a field of a response, whose status, pool, endpoint and route are known.
    Response,
    /// Path of a request. `{id}` is short for `{path.id}`.
    Path,
    /// Path of a request, which may have a query.
    Target,
    /// URL or path to redirect to.
    Location,
}

impl Use {
    /// True if the text is a path, or begins with one.
    pub(super) fn is_path(self) -> bool {
        matches!(self, Use::Path | Use::Target)
    }
}

/// A fact about a request or its response that a [`Template`](super::template::Template) can have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `{client.ip}`: address of the client, behind trusted proxies.
    ClientIp,
    /// `{client.port}`: port of the client; empty if only a trusted proxy knows it.
    ClientPort,
    /// `{scheme}`: `http` or `https`, as the client used.
    Scheme,
    /// `{host}`: host that the client asked for, without port.
    Host,
    /// `{port}`: port of the listener that the client connected to.
    Port,
    Method,
    /// `{path}`: path as the client sent it, without query.
    Path,
    /// `{path.first}`: first segment of the path, as the client sent it.
    PathFirst,
    /// `{path.last}`: last segment of the path, as the client sent it.
    PathLast,
    /// `{query}`: query as the client sent it, without question mark.
    Query,
    /// `{request_uri}`: path and query as the client sent them, without a question mark that nothing follows.
    RequestUri,
    RequestId,
    /// `{user}`: user whose password the request has; empty if its route has no `basic_auth`.
    User,
    /// `{path.NAME}`: part of the path that a parameter of the route's match stands for, or a group of its expression,
    /// as the client sent it. `{1}` is the first group.
    PathParameter(Arc<str>),
    /// `{header.NAME}`: first value of a field of the request.
    Header(Arc<str>),
    /// `{cookie.NAME}`: value of a cookie of the request.
    Cookie(Arc<str>),
    /// `{query.NAME}`: first value of a query parameter, as the client sent it.
    QueryParameter(Arc<str>),
    /// `{claim.NAME}`: claim of the verified token; empty if its route has no `jwt`.
    Claim(Arc<str>),
    /// `{map.NAME}`: value of a map.
    Map(Arc<str>),
    TlsVersion,
    TlsCipher,
    /// `{tls.server_name}`: server name of the ClientHello.
    TlsServerName,
    /// `{tls.client.subject}`: subject of the client's certificate.
    TlsClientSubject,
    /// `{tls.client.fingerprint}`: SHA-256 of the client's certificate, in hex.
    TlsClientFingerprint,
    /// `{time}`: time of the request, as RFC 3339 has it.
    Time,
    /// `{time.unix}`: the same in seconds since 1970.
    TimeUnix,
    /// `{status}`: status of the response.
    Status,
    Pool,
    /// `{endpoint}`: name of the endpoint that answers; empty for evenkeel's own answers before a pick.
    Endpoint,
    Route,
}

/// Variables with a fixed name.
const FIXED: &[(&str, Variable)] = &[
    ("client.ip", Variable::ClientIp),
    ("client.port", Variable::ClientPort),
    ("scheme", Variable::Scheme),
    ("host", Variable::Host),
    ("port", Variable::Port),
    ("method", Variable::Method),
    ("path", Variable::Path),
    ("path.first", Variable::PathFirst),
    ("path.last", Variable::PathLast),
    ("query", Variable::Query),
    ("request_uri", Variable::RequestUri),
    ("request_id", Variable::RequestId),
    ("user", Variable::User),
    ("tls.version", Variable::TlsVersion),
    ("tls.cipher", Variable::TlsCipher),
    ("tls.server_name", Variable::TlsServerName),
    ("tls.client.subject", Variable::TlsClientSubject),
    ("tls.client.fingerprint", Variable::TlsClientFingerprint),
    ("time", Variable::Time),
    ("time.unix", Variable::TimeUnix),
];

/// Variables of responses only.
const OF_RESPONSES: &[(&str, Variable)] = &[
    ("status", Variable::Status),
    ("pool", Variable::Pool),
    ("endpoint", Variable::Endpoint),
    ("route", Variable::Route),
];

/// Variables whose name follows a dot.
struct Family {
    name: &'static str,
    /// Name of a member, for messages.
    example: &'static str,
    /// True for the names that members can have.
    fits: fn(&str) -> bool,
    of: fn(Arc<str>) -> Variable,
}

const FAMILIES: &[Family] = &[
    Family { name: "path", example: "id", fits: is_token, of: Variable::PathParameter },
    Family { name: "header", example: "X-Id", fits: is_token, of: Variable::Header },
    Family { name: "cookie", example: "session", fits: is_token, of: Variable::Cookie },
    Family { name: "query", example: "id", fits: is_parameter, of: Variable::QueryParameter },
    Family { name: "claim", example: "sub", fits: is_parameter, of: Variable::Claim },
    Family { name: "map", example: "tenant", fits: is_token, of: Variable::Map },
];

/// Longest name of a member of a family, in bytes.
const NAME_MAX: usize = 128;

/// Names that others use for the same thing, and the variable to write.
const ELSEWHERE: &[(&str, &str)] = &[
    ("remote_addr", "client.ip"),
    ("client_ip", "client.ip"),
    ("src", "client.ip"),
    ("remote_host", "client.ip"),
    ("remote_port", "client.port"),
    ("remote_user", "user"),
    ("request_method", "method"),
    ("document_uri", "path"),
    ("uri", "request_uri"),
    ("url", "request_uri"),
    ("args", "query"),
    ("query_string", "query"),
    ("server_port", "port"),
    ("ssl_protocol", "tls.version"),
    ("ssl_cipher", "tls.cipher"),
    ("ssl_server_name", "tls.server_name"),
    ("req_id", "request_id"),
    ("id", "request_id"),
    ("upstream", "pool"),
];

impl Variable {
    /// Name of a variable with a fixed name, without braces.
    pub(super) fn name(&self) -> Option<&'static str> {
        FIXED.iter().chain(OF_RESPONSES).find(|(_, known)| known == self).map(|(name, _)| *name)
    }

    /// Variables with a fixed name.
    #[cfg(test)]
    pub(super) fn fixed() -> impl Iterator<Item = &'static (&'static str, Variable)> {
        FIXED.iter().chain(OF_RESPONSES)
    }
}

fn is_token(name: &str) -> bool {
    name.chars().all(is_token_char)
}

/// True for names of query parameters and claims, which may use any visible character.
fn is_parameter(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_graphic() && !b"&=#{}|".contains(&b))
}

/// Reads a name between braces, without functions.
pub(super) fn read(name: &str, of: Use) -> Result<Variable, Misfit> {
    let fixed = |all: &[(&str, Variable)]| all.iter().find(|(known, _)| *known == name).map(|(_, found)| found.clone());
    match fixed(FIXED) {
        Some(Variable::RequestUri) if of == Use::Path => {
            return Err(bad("{request_uri} has a query, and a path has none", "write {path}"));
        }
        Some(found) => return Ok(found),
        None => {}
    }
    if let Some(found) = fixed(OF_RESPONSES) {
        if of == Use::Response {
            return Ok(found);
        }
        let why = format!("{{{name}}} is not known before the response");
        return Err(bad(why, "it can be used in response_headers only"));
    }
    if let Some((family, of_it)) = name.split_once('.')
        && let Some(family) = FAMILIES.iter().find(|known| known.name == family)
    {
        return member(family, of_it);
    }
    let is_group = !name.is_empty() && name.len() < 3 && name.bytes().all(|b| b.is_ascii_digit());
    let is_short =
        of.is_path() && !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if is_group || is_short {
        return Ok(Variable::PathParameter(name.into()));
    }
    Err(unknown(name, of))
}

/// Parses `NAME` of `{header.NAME}` and its like.
fn member(family: &Family, name: &str) -> Result<Variable, Misfit> {
    if name.is_empty() || name.len() > NAME_MAX || !(family.fits)(name) {
        let why = format!("{} cannot be the name in {{{}.NAME}}", quoted(name), family.name);
        return Err(bad(why, format!("write it as {{{}.{}}}", family.name, family.example)));
    }
    Ok((family.of)(name.into()))
}

fn unknown(name: &str, of: Use) -> Misfit {
    let known = FIXED.iter().chain(OF_RESPONSES.iter().filter(|_| of == Use::Response)).map(|(known, _)| *known);
    let alike = name.trim_start_matches(['$', '%']).to_ascii_lowercase();
    let meant = ELSEWHERE.iter().find(|(theirs, _)| *theirs == alike).map(|(_, ours)| *ours);
    let did = match meant.or_else(|| nearest(name, known.clone())) {
        Some(near) => format!("did you mean {{{near}}}? "),
        None => foreign_variables::of_caddy(name).map_or(String::new(), |ours| format!("here this is {ours}; ")),
    };
    let families = FAMILIES.iter().map(|family| format!("{{{}.NAME}}", family.name));
    let all: Vec<String> = known.map(|known| format!("{{{known}}}")).chain(families).collect();
    let help = format!("{did}allowed: {}; {{{{ and }}}} are braces", all.join(", "));
    bad(format!("unknown variable {}", quoted(&format!("{{{name}}}"))), help)
}

/// The text itself may be a secret, as a value of Authorization, so it is not repeated.
pub(super) fn bad(why: impl fmt::Display, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadTemplate, format!("not a value: {why}"), help)
}
