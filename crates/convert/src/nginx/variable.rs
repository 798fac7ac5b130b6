//! Values with variables, `$host` and `${host}`, in the spelling of evenkeel: `{host}`.

use super::table::Tables;
use crate::model::braced;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Reason why the query of a request cannot be written behind a rewrite.
pub(super) const OTHER_QUERY: &str = "a rewrite changed the query before";

/// Variables that have a value at a point of a configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Values that `set` gave, in which only variables of NGINX are left.
    set: BTreeMap<String, String>,
    /// Names that some `set` of the server gives. They are empty until then.
    declared: Rc<Vec<String>>,
    pub tables: Rc<Tables>,
    /// Path that a rewrite made, `None` in it if that depends on the request.
    pub uri: Option<Option<String>>,
    /// True if a rewrite changed the query.
    pub is_query_changed: bool,
    /// Number of groups of the expression of the location, where the whole counts, too; 0 without an expression.
    pub groups: usize,
}

const VARIABLES: &[(&str, &str)] = &[
    ("remote_addr", "{client.ip}"),
    ("binary_remote_addr", "{client.ip}"),
    ("realip_remote_addr", "{client.ip}"),
    ("remote_port", "{client.port}"),
    ("remote_user", "{user}"),
    ("scheme", "{scheme}"),
    ("host", "{host}"),
    ("http_host", "{header.Host}"),
    ("server_port", "{port}"),
    ("request_method", "{method}"),
    ("request_uri", "{request_uri}"),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("request_id", "{request_id}"),
    ("args", "{query}"),
    ("query_string", "{query}"),
    ("content_type", "{header.Content-Type}"),
    ("content_length", "{header.Content-Length}"),
    ("ssl_protocol", "{tls.version}"),
    ("ssl_cipher", "{tls.cipher}"),
    ("ssl_server_name", "{tls.server_name}"),
    ("ssl_client_s_dn", "{tls.client.subject}"),
    ("time_iso8601", "{time}"),
    ("msec", "{time.unix}"),
    ("status", "{status}"),
];

impl Scope {
    pub fn new(tables: Rc<Tables>, declared: Vec<String>) -> Scope {
        Scope { tables, declared: Rc::new(declared), ..Scope::default() }
    }

    /// The scope behind `set $NAME VALUE`.
    pub fn set(&mut self, name: &str, value: &str) {
        let value = self.expanded(value);
        if self.tables.has_expressions(&value) {
            self.groups = 0;
        }
        self.set.insert(name.to_string(), value);
    }

    /// The values on which values of other variables depend, as a text.
    pub fn values(&self) -> String {
        match self.set.is_empty() && self.uri.is_none() {
            true => format!("{}", self.groups),
            false => format!("{} {:?} {} {:?}", self.groups, self.uri, self.is_query_changed, self.set),
        }
    }

    /// True if a variable has a part of a query that a rewrite made.
    pub fn has_other_query(&self, name: &str) -> bool {
        let is_of_query = matches!(name, "args" | "query_string" | "is_args") || name.starts_with("arg_");
        self.is_query_changed && is_of_query
    }

    /// Value that `set` gave a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }

    /// Text in which variables of `set` are replaced by their values.
    pub fn expanded(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let (name, after) = name(&rest[at + 1..]);
            match self.set.get(name) {
                Some(value) => out.push_str(value),
                None if self.declared.iter().any(|declared| declared == name) => {}
                // Braces keep the text behind out of the name.
                None if !name.is_empty() => out.push_str(&format!("${{{name}}}")),
                None => out.push('$'),
            }
            rest = after;
        }
        out + rest
    }
}

/// Reads a value.
///
/// # Errors
/// Variable that has no counterpart.
pub(super) fn read(value: &str, scope: &Scope) -> Result<String, String> {
    let expanded = scope.expanded(value);
    let (mut out, mut rest) = (String::new(), expanded.as_str());
    while let Some(at) = rest.find('$') {
        out.push_str(&braced(&rest[..at]));
        rest = &rest[at + 1..];
        let (name, after) = name(rest);
        rest = after;
        match name {
            "" => out.push('$'),
            name if is_environment(name) => out.push_str(&format!("${{{name}}}")),
            name => out.push_str(&variable(name, scope)?),
        }
    }
    out.push_str(&braced(rest));
    Ok(out)
}

/// True for names in capitals, which no variable of NGINX has: they are for envsubst.
pub(super) fn is_environment(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Splits a name, braced or not, off the start of the text.
fn name(text: &str) -> (&str, &str) {
    if let Some((name, after)) = text.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        return (name, after);
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return text.split_at(1);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// Names of the variables of a text.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|rest| name(rest).0).filter(|name| !name.is_empty())
}

/// A variable of NGINX as evenkeel writes it.
fn variable(name: &str, scope: &Scope) -> Result<String, String> {
    if matches!(name, "uri" | "document_uri")
        && let Some(uri) = &scope.uri
    {
        return uri.as_deref().map(braced).ok_or_else(|| "a rewrite changed `$uri` before".to_string());
    }
    if scope.has_other_query(name) {
        return Err(OTHER_QUERY.to_string());
    }
    if let Ok(number) = name.parse::<usize>()
        && number > 0
        && scope.groups > 0
    {
        return Ok(if number < scope.groups { format!("{{{name}}}") } else { String::new() });
    }
    if let Some((_, variable)) = VARIABLES.iter().find(|(own, _)| *own == name) {
        return Ok(variable.to_string());
    }
    if let Some(table) = scope.tables.value(name, scope) {
        return table.map(|name| format!("{{map.{name}}}"));
    }
    let prefixed = [("http_", "header."), ("cookie_", "cookie."), ("arg_", "query.")];
    for (prefix, of) in prefixed {
        if let Some(rest) = name.strip_prefix(prefix) {
            let rest = if of == "header." { field_of(rest) } else { rest.to_string() };
            return Ok(format!("{{{of}{rest}}}"));
        }
    }
    if scope.groups > 0 && scope.tables.groups.iter().any(|group| group == name) {
        return Ok(format!("{{path.{name}}}"));
    }
    Err(format!("`${name}` has no counterpart"))
}

/// `x_request_id` as a name of a field: `X-Request-Id`.
pub(super) fn field_of(name: &str) -> String {
    let capital = |part: &str| {
        let mut chars = part.chars();
        chars.next().map(|c| c.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
    };
    name.split('_').map(capital).collect::<Vec<_>>().join("-")
}

/// The value of a text with the constants that `set` gives, and variables of the environment, filled in. `None` if it has
/// other variables.
pub(super) fn constant(text: &str, scope: &Scope) -> Option<String> {
    let expanded = scope.expanded(text);
    let (mut out, mut rest) = (String::new(), expanded.as_str());
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let (name, after) = name(&rest[at + 1..]);
        match name.is_empty() {
            true => out.push('$'),
            false if is_environment(name) => out.push_str(&format!("${{{name}}}")),
            false => return None,
        }
        rest = after;
    }
    Some(out + rest)
}

/// Name of the variable that a text is, and nothing else.
pub(super) fn only(text: &str) -> Option<&str> {
    let (name, after) = name(text.strip_prefix('$')?);
    (after.is_empty() && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_respelled() {
        let mut scope = Scope::default();
        scope.set("up", "app");
        scope.set("both", "$up-$host");
        for (value, text) in [
            ("$remote_addr", "{client.ip}"),
            ("https://$host$request_uri", "https://{host}{request_uri}"),
            ("$http_x_request_id", "{header.X-Request-Id}"),
            ("a {b} $up ${scheme}s", "a {{b}} app {scheme}s"),
            ("${DOMAIN}", "${DOMAIN}"),
            ("${both}x", "app-{host}x"),
        ] {
            assert_eq!(read(value, &scope), Ok(text.to_string()), "{value}");
        }
        assert!(read("$upstream_addr", &scope).is_err() && read("$1", &scope).is_err());
        assert_eq!(constant("http://$up:80", &scope), Some("http://app:80".to_string()));
        assert_eq!(constant("$host", &scope), None);
    }
}
