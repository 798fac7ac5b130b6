//! Values with variables in braces: `"{client.ip}, {header.X-Id}"`. [`Template`] holds a value as literal text and
//! variables.

use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::form::name::is_token_char;
use crate::form::request::foreign_variables;
use crate::nearest::nearest;
use crate::tree::quoted;
use std::fmt;
use std::sync::Arc;

/// Longest template in a file, in bytes. Its value has a separate limit at run time.
const LENGTH_MAX: usize = 4096;

/// Use of a template, which decides on the variables and the text that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Value of a field of a request.
    Request,
    /// Value of a field of a response, whose status, pool, endpoint and route are known.
    Response,
    /// Path of a request. `{id}` is short for `{path.id}`.
    Path,
}

/// Text with variables, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Text as written in the file, braces and all.
    source: Arc<str>,
    parts: Arc<[TemplatePart]>,
}

/// Piece of a [`Template`]: fixed, or different for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Literal text without control characters, its braces already unescaped.
    Text(Arc<str>),
    Variable(Variable),
}

/// A fact about a request or its response that a [`Template`] can have.
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
    /// `{query}`: query as the client sent it, without question mark.
    Query,
    RequestId,
    /// `{user}`: user whose password the request has; empty if its route has no `basic_auth`.
    User,
    /// `{path.NAME}`: part of the path that a parameter of the route's match stands for, as the client sent it.
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
    ("query", Variable::Query),
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

/// Families of variables: the name follows a dot.
const FAMILIES: &[&str] = &["path", "header", "cookie", "query", "claim", "map"];

/// Names that others use for the same thing, and the variable to write.
const ELSEWHERE: &[(&str, &str)] = &[
    ("remote_addr", "client.ip"),
    ("client_ip", "client.ip"),
    ("src", "client.ip"),
    ("remote_host", "client.ip"),
    ("remote_port", "client.port"),
    ("remote_user", "user"),
    ("request_method", "method"),
    ("uri", "path"),
    ("request_uri", "path"),
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

/// Parses a template for this use.
pub(in crate::form) fn read(text: &str, of: Use) -> Result<Template, Misfit> {
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
        let what = match c {
            '\n' | '\r' => "a line break",
            '\0' => "a NUL",
            _ => "a control character",
        };
        let help = "a value is one line: leave it out; for several fields of one name use \"add\"";
        return Err(bad(format!("it has {what}"), help));
    }
    if text.len() > LENGTH_MAX {
        return Err(bad(format!("it is longer than {LENGTH_MAX} bytes"), "shorten it"));
    }
    if of == Use::Path {
        path_text(text)?;
    }
    let mut parts = Parts::default();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        parts.text(before);
        if let Some(after) = behind.strip_prefix("{{").or_else(|| behind.strip_prefix("}}")) {
            parts.text(&behind[..1]);
            rest = after;
            continue;
        }
        let Some((name, after)) = behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) else {
            return Err(bad("its braces do not match", "write {NAME} for a variable, {{ and }} for braces"));
        };
        parts.variable(variable(name, of)?);
        rest = after;
    }
    parts.text(rest);
    Ok(Template { source: text.into(), parts: parts.finish() })
}

/// Parses a host to redirect to.
pub(in crate::form) fn host(text: &str) -> Result<Template, Misfit> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._{}".contains(c);
    if text.is_empty() || !text.chars().all(is_host) {
        let help = "write a name without scheme and port, such as \"www.example.com\" or \"www.{host}\"";
        return Err(bad(format!("{} is not a host", quoted(text)), help));
    }
    read(text, Use::Request)
}

/// Parses a URL or a path to redirect to.
pub(in crate::form) fn location(text: &str) -> Result<Template, Misfit> {
    let is_url = ["https://", "http://", "{scheme}://"].iter().any(|scheme| text.starts_with(scheme));
    let is_path = text.starts_with('/') && !text.starts_with("//");
    if !is_url && !is_path || text.contains(char::is_whitespace) || !text.is_ascii() {
        let help = "write a URL, as \"https://{host}{path}\", or a path with one slash in front";
        return Err(bad(format!("{} is neither a URL nor a path", quoted(text)), help));
    }
    read(text, Use::Request)
}

/// Checks the text of a path: absolute, without query, and nothing that needs an escape.
fn path_text(text: &str) -> Result<(), Misfit> {
    let help = match () {
        () if text.is_empty() || !text.starts_with('/') => {
            Some(("it does not start with a slash", format!("write {}", quoted(&format!("/{text}")))))
        }
        () if text.contains(['?', '#']) => {
            Some(("it has a query or a fragment", "leave it out: the client's query is kept".to_string()))
        }
        () if !text.bytes().all(|b| b.is_ascii_graphic()) => Some((
            "only visible ASCII characters can be in it",
            "write other characters percent-encoded: \"%20\"".to_string(),
        )),
        () if text.starts_with("//") => Some(("it begins with two slashes", "write one".to_string())),
        () => None,
    };
    match help {
        Some((why, help)) => Err(Misfit::new(Code::BadPath, format!("{} is not a path: {why}", quoted(text)), help)),
        None => Ok(()),
    }
}

fn variable(name: &str, of: Use) -> Result<Variable, Misfit> {
    let fixed = |all: &[(&str, Variable)]| all.iter().find(|(known, _)| *known == name).map(|(_, found)| found.clone());
    if let Some(found) = fixed(FIXED) {
        return Ok(found);
    }
    if let Some(found) = fixed(OF_RESPONSES) {
        if of == Use::Response {
            return Ok(found);
        }
        let why = format!("{{{name}}} is not known before the response");
        return Err(bad(why, "it can be used in response_headers only"));
    }
    if let Some((family, of_it)) = name.split_once('.')
        && FAMILIES.contains(&family)
    {
        return member(family, of_it);
    }
    let is_parameter = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if of == Use::Path && !name.is_empty() && is_parameter(name) {
        return Ok(Variable::PathParameter(name.into()));
    }
    let known = FIXED.iter().chain(OF_RESPONSES.iter().filter(|_| of == Use::Response)).map(|(known, _)| *known);
    let alike = name.trim_start_matches(['$', '%']).to_ascii_lowercase();
    let meant = ELSEWHERE.iter().find(|(theirs, _)| *theirs == alike).map(|(_, ours)| *ours);
    let did = match meant.or_else(|| nearest(name, known.clone())) {
        Some(near) => format!("did you mean {{{near}}}? "),
        None => foreign_variables::of_caddy(name).map_or(String::new(), |ours| format!("here this is {ours}; ")),
    };
    let all: Vec<String> = known.map(|known| format!("{{{known}}}")).collect();
    let help = format!(
        "{did}allowed: {}, {{path.NAME}}, {{header.NAME}}, {{cookie.NAME}}, {{query.NAME}}, {{claim.NAME}}, {{map.NAME}}; {{{{ and }}}} are braces",
        all.join(", ")
    );
    Err(bad(format!("unknown variable {}", quoted(&format!("{{{name}}}"))), help))
}

/// Parses `NAME` of `{header.NAME}` and its like.
fn member(family: &str, name: &str) -> Result<Variable, Misfit> {
    let fits = match family {
        // Names of query parameters and claims may use any visible character.
        "query" | "claim" => name.bytes().all(|b| b.is_ascii_graphic() && !b"&=#{}".contains(&b)),
        _ => name.chars().all(is_token_char),
    };
    if name.is_empty() || name.len() > 128 || !fits {
        let example = match family {
            "header" => "X-Id",
            "cookie" => "session",
            "claim" => "sub",
            "map" => "tenant",
            _ => "id",
        };
        let why = format!("{} cannot be the name in {{{family}.NAME}}", quoted(name));
        return Err(bad(why, format!("write it as {{{family}.{example}}}")));
    }
    Ok(match family {
        "header" => Variable::Header(name.into()),
        "cookie" => Variable::Cookie(name.into()),
        "query" => Variable::QueryParameter(name.into()),
        "claim" => Variable::Claim(name.into()),
        "map" => Variable::Map(name.into()),
        _ => Variable::PathParameter(name.into()),
    })
}

/// The text itself may be a secret, as a value of Authorization, so it is not repeated.
fn bad(why: impl fmt::Display, help: impl Into<String>) -> Misfit {
    Misfit::new(Code::BadTemplate, format!("not a value: {why}"), help)
}

/// Parts of a template while it is parsed, adjacent texts joined.
#[derive(Default)]
struct Parts {
    all: Vec<TemplatePart>,
    text: String,
}

impl Parts {
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn variable(&mut self, variable: Variable) {
        self.end_text();
        self.all.push(TemplatePart::Variable(variable));
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.all.push(TemplatePart::Text(std::mem::take(&mut self.text).into()));
        }
    }

    fn finish(mut self) -> Arc<[TemplatePart]> {
        self.end_text();
        self.all.into()
    }
}

impl Template {
    /// The template that stands for this text as it is. Control characters are left out.
    pub fn literal(text: &str) -> Template {
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let source = text.replace('{', "{{").replace('}', "}}").into();
        let parts = if text.is_empty() { Vec::new() } else { vec![TemplatePart::Text(text.into())] };
        Template { source, parts: parts.into() }
    }

    /// The template that stands for a variable; `None` for a variable of a family, such as `{header.NAME}`.
    pub fn of_variable(variable: &Variable) -> Option<Template> {
        let (name, _) = FIXED.iter().chain(OF_RESPONSES).find(|(_, known)| known == variable)?;
        let parts = [TemplatePart::Variable(variable.clone())].into();
        Some(Template { source: format!("{{{name}}}").into(), parts })
    }

    /// Literal texts and variables, in order.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Names of the maps that the template uses.
    pub fn maps(&self) -> impl Iterator<Item = &Arc<str>> {
        self.variables().filter_map(|variable| if let Variable::Map(name) = variable { Some(name) } else { None })
    }

    /// Variables of the template, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| if let TemplatePart::Variable(v) = part { Some(v) } else { None })
    }
}

/// Formats the template as it is written in a file.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TemplatePart {
        TemplatePart::Text(text.into())
    }

    #[test]
    fn text_variables_and_braces_are_read_in_order() {
        let template = read("a{{b}}{client.ip}; {header.X-Id}{cookie.s}{query.q[]}{path.id}", Use::Request);
        let template = template.expect("good");
        assert_eq!(
            template.parts(),
            [
                text("a{b}"),
                TemplatePart::Variable(Variable::ClientIp),
                text("; "),
                TemplatePart::Variable(Variable::Header("X-Id".into())),
                TemplatePart::Variable(Variable::Cookie("s".into())),
                TemplatePart::Variable(Variable::QueryParameter("q[]".into())),
                TemplatePart::Variable(Variable::PathParameter("id".into())),
            ]
        );
        assert_eq!(template.to_string(), "a{{b}}{client.ip}; {header.X-Id}{cookie.s}{query.q[]}{path.id}");
        assert_eq!(read("", Use::Request).expect("empty").parts(), []);
        assert_eq!(read("{status}", Use::Response).expect("known").variables().count(), 1);
        assert_eq!(Template::literal("a{b}\r\n").to_string(), "a{{b}}");
        assert_eq!(read("a{{b}}", Use::Request).map(|t| t.parts().to_vec()), Ok(vec![text("a{b}")]));
        for (name, variable) in FIXED.iter().chain(OF_RESPONSES) {
            assert_eq!(Template::of_variable(variable).map(|t| t.to_string()), Some(format!("{{{name}}}")));
            let read = read(&format!("{{{name}}}"), Use::Response).expect("known");
            assert_eq!(read.parts(), [TemplatePart::Variable(variable.clone())]);
        }
    }

    #[test]
    fn a_short_name_in_a_path_is_a_parameter_unless_it_is_a_variable() {
        let parts = |text| read(text, Use::Path).expect("a path").parts().to_vec();
        assert_eq!(parts("/x/{id}")[1], TemplatePart::Variable(Variable::PathParameter("id".into())));
        assert_eq!(parts("/x/{path.id}")[1], TemplatePart::Variable(Variable::PathParameter("id".into())));
        assert_eq!(parts("/x/{host}")[1], TemplatePart::Variable(Variable::Host));
        for bad in ["x", "", "//x", "/x y", "/x?y", "/x#y", "/\u{e4}", "/x\t"] {
            assert!(read(bad, Use::Path).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_text_of_braces_and_dots_panics_and_what_is_read_is_written_as_it_was() {
        const PARTS: [&str; 7] = ["{", "}", ".", "header", "path", "a", "\u{e4}"];
        for number in 0..PARTS.len().pow(6) {
            let (mut text, mut left) = (String::new(), number);
            while left > 0 {
                text.push_str(PARTS[left % PARTS.len()]);
                left /= PARTS.len();
            }
            for of in [Use::Request, Use::Response, Use::Path] {
                if let Ok(template) = read(&text, of) {
                    assert_eq!(template.to_string(), text);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_has_a_fix() {
        for (text, of, help) in [
            ("a\r\nb", Use::Request, "one line"),
            ("a\nb", Use::Response, "one line"),
            ("a\0b", Use::Request, "leave it out"),
            ("\u{7f}", Use::Request, "leave it out"),
            ("{client.ipp}", Use::Request, "did you mean {client.ip}?"),
            ("{remote_addr}", Use::Request, "did you mean {client.ip}?"),
            ("{tls.sever_name}", Use::Request, "did you mean {tls.server_name}?"),
            ("{status}", Use::Request, "response_headers only"),
            ("{header.}", Use::Request, "{header.X-Id}"),
            ("{header.a b}", Use::Request, "{header.X-Id}"),
            ("{cookie.a;b}", Use::Request, "{cookie.session}"),
            ("{", Use::Request, "{NAME}"),
            ("a}", Use::Request, "{NAME}"),
            ("{client.ip", Use::Request, "{NAME}"),
            ("{}", Use::Request, "allowed: {client.ip}"),
        ] {
            let misfit = read(text, of).expect_err(text);
            assert!(misfit.help.contains(help), "{text:?}: {misfit:?}");
        }
        assert!(read(&"a".repeat(5000), Use::Request).is_err());
    }
}
