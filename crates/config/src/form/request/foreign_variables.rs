//! Variables of other proxies in values, which here would be sent as they are written.

/// Variable of another proxy in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Place of the variable in the value, in bytes.
    pub at: usize,
    /// The variable as written there.
    pub written: String,
    /// Counterpart to write here; `None` if there is none.
    pub ours: Option<String>,
}

/// Names without arguments, in the spelling of NGINX, HAProxy and Envoy, in lower case, and the counterpart.
const NAMES: &[(&str, &str)] = &[
    ("remote_addr src downstream_remote_address downstream_remote_address_without_port", "{client.ip}"),
    ("realip_remote_addr downstream_direct_remote_address", "{client.ip}"),
    ("remote_port src_port downstream_remote_port", "{client.port}"),
    ("scheme", "{scheme}"),
    ("host http_host server_name", "{host}"),
    ("server_port dst_port downstream_local_port", "{port}"),
    ("request_method method", "{method}"),
    ("uri document_uri path", "{path}"),
    ("request_uri url pathq", "{request_uri}"),
    ("args query_string query", "{query}"),
    ("request_id unique-id stream_id", "{request_id}"),
    ("remote_user http_auth_user", "{user}"),
    ("ssl_protocol ssl_fc_protocol downstream_tls_version", "{tls.version}"),
    ("ssl_cipher ssl_fc_cipher downstream_tls_cipher", "{tls.cipher}"),
    ("ssl_server_name ssl_fc_sni requested_server_name", "{tls.server_name}"),
    ("ssl_client_s_dn ssl_c_s_dn downstream_peer_subject", "{tls.client.subject}"),
    ("ssl_client_fingerprint downstream_peer_fingerprint_256", "{tls.client.fingerprint}"),
    ("time_iso8601 time_local start_time", "{time}"),
    ("msec date", "{time.unix}"),
    ("status response_code", "{status}"),
    ("upstream_addr upstream_host srv_name", "{endpoint}"),
    ("upstream_cluster be_name proxy_host", "{pool}"),
    ("route_name", "{route}"),
];

/// Beginnings of names of NGINX that the name of a field, cookie or parameter follows.
const FAMILIES: &[(&str, &str)] = &[
    ("http_", "header"),
    ("cookie_", "cookie"),
    ("arg_", "query"),
    ("sent_http_", ""),
    ("upstream_", ""),
    ("proxy_", ""),
];

/// Functions of HAProxy and Envoy whose argument is a field, cookie or parameter.
const FUNCTIONS: &[(&str, &str)] = &[
    ("hdr req.hdr req.fhdr req.hdr_ip hdr_ip req", "header"),
    ("cook req.cook", "cookie"),
    ("url_param urlp", "query"),
];

/// Finds the first variable of another proxy in a value.
pub(crate) fn variable_in(text: &str) -> Option<Found> {
    text.char_indices().find_map(|(at, c)| {
        match c {
            '$' => of_nginx(&text[at..]),
            '%' => of_haproxy(&text[at..]).or_else(|| of_envoy(&text[at..])),
            _ => None,
        }
        .map(|found| Found { at, ..found })
    })
}

/// Counterpart of a variable of Caddy: `http.request.host` without its braces.
pub(crate) fn of_caddy(name: &str) -> Option<String> {
    let name = name.strip_prefix("http.request.").or_else(|| name.strip_prefix("http."))?;
    let ours = match name {
        "remote.host" | "client_ip" | "remote" | "vars.client_ip" => "{client.ip}",
        "remote.port" => "{client.port}",
        "host" | "hostport" => "{host}",
        "port" => "{port}",
        "scheme" => "{scheme}",
        "method" => "{method}",
        "uri.path" | "orig_uri.path" => "{path}",
        "uri" | "orig_uri" => "{request_uri}",
        "uri.query" | "orig_uri.query" => "{query}",
        "uuid" => "{request_id}",
        "auth.user.id" => "{user}",
        "tls.version" => "{tls.version}",
        "tls.cipher_suite" => "{tls.cipher}",
        "tls.server_name" => "{tls.server_name}",
        "tls.client.subject" => "{tls.client.subject}",
        "tls.client.fingerprint" => "{tls.client.fingerprint}",
        _ => {
            let families = [("header.", "header"), ("cookie.", "cookie"), ("uri.query.", "query")];
            let of = families.iter().find_map(|(start, ours)| Some((name.strip_prefix(start)?, *ours)));
            return of.map(|(of, family)| format!("{{{family}.{of}}}"));
        }
    };
    Some(ours.to_owned())
}

fn named(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let row = NAMES.iter().find(|(names, _)| names.split(' ').any(|one| one == name));
    row.map(|(_, ours)| (*ours).to_owned())
}

/// `$remote_addr`, `$http_x_id`, and any other text that looks like a name: two or more lower-case letters, digits and
/// underscores. A dollar sign before other text is common in values.
fn of_nginx(text: &str) -> Option<Found> {
    let rest = text.strip_prefix('$')?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    let written = format!("${name}");
    if let Some(ours) = named(name) {
        return Some(Found { at: 0, written, ours: Some(ours) });
    }
    let family = FAMILIES.iter().find_map(|(start, family)| Some((*family, name.strip_prefix(start)?)));
    let Some((family, of)) = family else {
        let is_name = name.len() > 1
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        return is_name.then_some(Found { at: 0, written, ours: None });
    };
    let of = if family == "header" { of.replace('_', "-") } else { of.to_owned() };
    let ours = (!family.is_empty() && !of.is_empty()).then(|| format!("{{{family}.{of}}}"));
    Some(Found { at: 0, written, ours })
}

/// `%[src]`, `%[req.hdr(X-Id),lower]`.
fn of_haproxy(text: &str) -> Option<Found> {
    let (inner, _) = text.strip_prefix("%[")?.split_once(']')?;
    let is_sample = inner.starts_with(|c: char| c.is_ascii_lowercase());
    is_sample.then(|| Found { at: 0, written: format!("%[{inner}]"), ours: called(inner) })
}

/// `%DOWNSTREAM_REMOTE_ADDRESS%`, `%REQ(X-ID?:PATH):10%`.
fn of_envoy(text: &str) -> Option<Found> {
    let rest = text.strip_prefix('%')?;
    let name = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_' && !c.is_ascii_digit())?;
    let is_name = name > 2 && rest.starts_with(|c: char| c.is_ascii_uppercase());
    let argument = if rest[name..].starts_with('(') { rest[name..].find(')')? + 1 } else { 0 };
    let behind = &rest[name + argument..];
    let end = behind.find('%').filter(|end| behind[..*end].bytes().all(|b| b == b':' || b.is_ascii_digit()))?;
    let call = &rest[..name + argument];
    is_name.then(|| Found { at: 0, written: format!("%{call}{}%", &behind[..end]), ours: called(call) })
}

/// Counterpart of a call, or of a name alone. Converters behind a comma are left out, alternatives of Envoy too.
fn called(call: &str) -> Option<String> {
    let call = call.split("),").next().unwrap_or_default();
    let Some((name, argument)) = call.split_once('(') else {
        return named(call.split(',').next().unwrap_or_default());
    };
    let argument = argument.trim_end_matches(')').split(['?', ',']).next().unwrap_or_default();
    let special = match argument.to_ascii_lowercase().as_str() {
        ":authority" | "host" => Some("{host}"),
        ":path" => Some("{request_uri}"),
        ":method" => Some("{method}"),
        ":scheme" => Some("{scheme}"),
        _ => None,
    };
    if let Some(special) = special {
        return Some(special.to_owned());
    }
    let name = name.to_ascii_lowercase();
    let (_, family) = FUNCTIONS.iter().find(|(names, _)| names.split(' ').any(|one| one == name))?;
    let is_name = !argument.is_empty() && argument.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    is_name.then(|| format!("{{{family}.{argument}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_others_are_found_and_have_their_counterpart() {
        for (text, written, ours) in [
            ("$remote_addr", "$remote_addr", Some("{client.ip}")),
            ("a $host:$server_port", "$host", Some("{host}")),
            ("$http_x_request_id;", "$http_x_request_id", Some("{header.x-request-id}")),
            ("$cookie_s", "$cookie_s", Some("{cookie.s}")),
            ("$upstream_cache_status", "$upstream_cache_status", None),
            ("%[src]", "%[src]", Some("{client.ip}")),
            ("x%[req.hdr(X-Id),lower]", "%[req.hdr(X-Id),lower]", Some("{header.X-Id}")),
            ("%[hdr(host)]", "%[hdr(host)]", Some("{host}")),
            ("%[var(txn.a)]", "%[var(txn.a)]", None),
            ("%[path,lower]", "%[path,lower]", Some("{path}")),
            ("%DOWNSTREAM_REMOTE_ADDRESS%", "%DOWNSTREAM_REMOTE_ADDRESS%", Some("{client.ip}")),
            ("%REQ(:PATH)%", "%REQ(:PATH)%", Some("{request_uri}")),
            ("%REQ(X-A?X-B):12%", "%REQ(X-A?X-B):12%", Some("{header.X-A}")),
            ("%PROTOCOL%", "%PROTOCOL%", None),
        ] {
            let found = variable_in(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*found.written, found.ours.as_deref()), (written, ours), "{text}");
        }
        for text in
            ["$5", "50%", "100%, 5%", "$e", "$Ecret", "a%20b%2F", "%C3%A4%", "$", "%", "%[", "US$", "%[1]", "{host}"]
        {
            assert_eq!(variable_in(text), None, "{text}");
        }
        assert_eq!(of_caddy("http.request.header.X-Id").as_deref(), Some("{header.X-Id}"));
        assert_eq!(of_caddy("http.request.remote.host").as_deref(), Some("{client.ip}"));
        assert_eq!(of_caddy("host"), None);
    }
}
