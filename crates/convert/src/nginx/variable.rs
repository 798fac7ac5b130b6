//! Values with variables, `$host` and `${host}`, in the spelling of evenkeel: `{host}`.

use crate::model::{Cond, Key, Test, braced};
use std::collections::BTreeMap;

/// Constants that `set` gives a name.
pub(super) type Constants = BTreeMap<String, String>;

const VARIABLES: &[(&str, &str)] = &[
    ("remote_addr", "{client.ip}"),
    ("realip_remote_addr", "{client.ip}"),
    ("remote_port", "{client.port}"),
    ("remote_user", "{user}"),
    ("scheme", "{scheme}"),
    ("host", "{host}"),
    ("http_host", "{host}"),
    ("server_port", "{port}"),
    ("request_method", "{method}"),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("request_id", "{request_id}"),
    ("args", "{query}"),
    ("query_string", "{query}"),
    ("ssl_protocol", "{tls.version}"),
    ("ssl_cipher", "{tls.cipher}"),
    ("ssl_server_name", "{tls.server_name}"),
    ("ssl_client_s_dn", "{tls.client.subject}"),
    ("time_iso8601", "{time}"),
    ("msec", "{time.unix}"),
    ("status", "{status}"),
];

/// Reads a value. `request_uri` becomes the path alone. The flag is true if its query belongs to the value.
///
/// # Errors
/// Variable that has no counterpart.
pub(super) fn read(value: &str, constants: &Constants) -> Result<(String, bool), String> {
    let (mut out, mut rest, mut has_query) = (String::new(), value, false);
    while let Some(at) = rest.find('$') {
        out.push_str(&braced(&rest[..at]));
        rest = &rest[at + 1..];
        let (name, after) = name(rest);
        rest = after;
        match name {
            "" => out.push('$'),
            "request_uri" => {
                has_query = true;
                out.push_str("{path}");
            }
            // `?` in front of them is written only where there is a query.
            "is_args" => has_query = true,
            "args" | "query_string" if has_query => {}
            name if constants.contains_key(name) => out.push_str(&braced(&constants[name])),
            name if is_environment(name) => out.push_str(&format!("${{{name}}}")),
            name => out.push_str(&variable(name).ok_or_else(|| format!("`${name}` has no counterpart"))?),
        }
    }
    out.push_str(&braced(rest));
    Ok((out, has_query))
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
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

fn variable(name: &str) -> Option<String> {
    if let Some((_, variable)) = VARIABLES.iter().find(|(own, _)| *own == name) {
        return Some(variable.to_string());
    }
    if let Some(field) = name.strip_prefix("http_") {
        return Some(format!("{{header.{}}}", field_of(field)));
    }
    if let Some(cookie) = name.strip_prefix("cookie_") {
        return Some(format!("{{cookie.{cookie}}}"));
    }
    name.strip_prefix("arg_").map(|argument| format!("{{query.{argument}}}"))
}

/// `x_request_id` as a name of a field: `X-Request-Id`.
pub(super) fn field_of(name: &str) -> String {
    let capital = |part: &str| {
        let mut chars = part.chars();
        chars.next().map(|c| c.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
    };
    name.split('_').map(capital).collect::<Vec<_>>().join("-")
}

/// The value of a text with the constants that `set` gives, and variables of the environment, filled in.
pub(super) fn constant(text: &str, constants: &Constants) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let (name, after) = name(&rest[at + 1..]);
        match constants.get(name) {
            Some(value) => out.push_str(value),
            None if name.is_empty() => out.push('$'),
            None if is_environment(name) => out.push_str(&format!("${{{name}}}")),
            None => return None,
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

/// Condition that a variable has a value, given as in `map`: fixed text, `~regex`, `~*regex`.
///
/// # Errors
/// Reason why it cannot be written.
pub(super) fn condition(variable: &str, value: &str) -> Result<Cond, String> {
    let key = match variable {
        "host" | "http_host" | "ssl_preread_server_name" | "ssl_server_name" => Key::Host,
        "scheme" => Key::Scheme,
        "request_method" => Key::Method,
        "uri" | "document_uri" | "request_uri" => Key::Path,
        "remote_addr" => Key::Client,
        name => match (name.strip_prefix("http_"), name.strip_prefix("cookie_"), name.strip_prefix("arg_")) {
            (Some(field), ..) => Key::Header(field_of(field)),
            (_, Some(cookie), _) => Key::Cookie(cookie.to_string()),
            (.., Some(argument)) => Key::Query(argument.to_string()),
            _ => return Err(format!("`${variable}` is not a condition of routes")),
        },
    };
    let Some(regex) = value.strip_prefix('~') else {
        let is_named = matches!(key, Key::Header(_) | Key::Cookie(_) | Key::Query(_));
        return Ok(match value.is_empty() && is_named {
            true => Cond::new(key, Test::Present).negate(),
            false if key == Key::Host => host(&value.to_ascii_lowercase()),
            false => Cond::one_of(key, [value]),
        });
    };
    let (regex, ignore_case) = regex.strip_prefix('*').map_or((regex, false), |regex| (regex, true));
    crate::expression::foreign(regex)?;
    let key = if key == Key::Host { Key::Header("Host".to_string()) } else { key };
    match key {
        Key::Header(_) | Key::Cookie(_) | Key::Query(_) | Key::Path => {
            Ok(Cond::new(key, Test::Regex(crate::expression::whole(regex, ignore_case))))
        }
        Key::Method
            if regex.trim_matches(['^', '$', '(', ')']).bytes().all(|b| b.is_ascii_uppercase() || b == b'|') =>
        {
            Ok(Cond::one_of(Key::Method, regex.trim_matches(['^', '$', '(', ')']).split('|')))
        }
        _ => Err(format!("`${variable}` is not matched by expressions")),
    }
}

/// Condition for a host as in `server_name` and `map`: `.x` is a domain and all below it, `x.*` any ending.
fn host(value: &str) -> Cond {
    match (value.strip_prefix('.'), value.strip_suffix('*')) {
        (Some(domain), _) => Cond::one_of(Key::Host, [domain.to_string(), format!("*.{domain}")]),
        (_, Some(start)) if start.ends_with('.') => {
            Cond::new(Key::Header("Host".to_string()), Test::Begins(start.to_string()))
        }
        _ => Cond::one_of(Key::Host, [value]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_respelled() {
        let constants = Constants::from([("up".to_string(), "app".to_string())]);
        for (value, text, has_query) in [
            ("$remote_addr", "{client.ip}", false),
            ("https://$host$request_uri", "https://{host}{path}", true),
            ("$uri$is_args$args", "{path}", true),
            ("$http_x_request_id", "{header.X-Request-Id}", false),
            ("a {b} $up ${scheme}s", "a {{b}} app {scheme}s", false),
            ("${DOMAIN}", "${DOMAIN}", false),
        ] {
            assert_eq!(read(value, &constants), Ok((text.to_string(), has_query)), "{value}");
        }
        assert!(read("$upstream_addr", &constants).is_err());
        assert_eq!(constant("http://$up:80", &constants), Some("http://app:80".to_string()));
        assert_eq!(constant("$host", &constants), None);
    }
}
