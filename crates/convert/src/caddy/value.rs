//! Values with placeholders, `{remote_host}`, in the spelling of evenkeel.

const PLACEHOLDERS: &[(&str, &str)] = &[
    ("host", "{host}"),
    ("http.request.host", "{host}"),
    ("hostport", "{host}"),
    ("http.request.hostport", "{host}"),
    ("port", "{port}"),
    ("http.request.port", "{port}"),
    ("remote_host", "{client.ip}"),
    ("http.request.remote.host", "{client.ip}"),
    ("remote_ip", "{client.ip}"),
    ("client_ip", "{client.ip}"),
    ("remote_port", "{client.port}"),
    ("scheme", "{scheme}"),
    ("http.request.scheme", "{scheme}"),
    ("method", "{method}"),
    ("path", "{path}"),
    ("http.request.uri.path", "{path}"),
    ("query", "{query}"),
    ("http.request.uuid", "{request_id}"),
    ("uri", "{uri}"),
    ("http.request.uri", "{uri}"),
    ("tls_version", "{tls.version}"),
    ("tls_cipher", "{tls.cipher}"),
    ("tls_client_subject", "{tls.client.subject}"),
    ("upstream_hostport", "{upstream_hostport}"),
    ("http.reverse_proxy.upstream.hostport", "{upstream_hostport}"),
];

/// Reads a value. `{uri}` and `{upstream_hostport}` stay for the callers that know them.
///
/// # Errors
/// Placeholder that has no counterpart.
pub(super) fn read(text: &str) -> Result<String, String> {
    let text = environment(text);
    let (mut out, mut rest) = (String::new(), text.as_str());
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at].replace('}', "}}"));
        let found = &rest[at..];
        let is_environment = at > 0 && rest.as_bytes().get(at - 1) == Some(&b'$');
        let Some(end) = found.find('}') else {
            return Ok(out + &found.replace('{', "{{"));
        };
        let name = &found[1..end];
        let known = PLACEHOLDERS.iter().find(|(own, _)| *own == name).map(|(_, variable)| (*variable).to_string());
        let field = ["header.", "http.request.header."].iter().find_map(|start| name.strip_prefix(start));
        let cookie = ["cookie.", "http.request.cookie."].iter().find_map(|start| name.strip_prefix(start));
        match (known, field, cookie) {
            _ if is_environment => out.push_str(&found[..=end]),
            (Some(variable), ..) => out.push_str(&variable),
            (_, Some(field), _) => out.push_str(&format!("{{header.{field}}}")),
            (_, _, Some(cookie)) => out.push_str(&format!("{{cookie.{cookie}}}")),
            _ => return Err(format!("`{{{name}}}` has no counterpart")),
        }
        rest = &found[end + 1..];
    }
    Ok(out + &rest.replace('}', "}}"))
}

/// The text with variables of the environment as evenkeel writes them: `{$NAME:default}` is `${NAME:-default}`.
pub(super) fn environment(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("{$") {
        out.push_str(&rest[..at]);
        let found = &rest[at + 2..];
        let Some(end) = found.find('}') else {
            out.push_str(&rest[at..]);
            return out;
        };
        let inner = &found[..end];
        match inner.split_once(':') {
            Some((name, default)) => out.push_str(&format!("${{{name}:-{default}}}")),
            None => out.push_str(&format!("${{{inner}}}")),
        }
        rest = &found[end + 1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_respelled() {
        for (text, read_as) in [
            ("{remote_host}", "{client.ip}"),
            ("https://{host}{uri}", "https://{host}{uri}"),
            ("{header.X-A}-{$NAME}", "{header.X-A}-${NAME}"),
            ("a}b", "a}}b"),
        ] {
            assert_eq!(read(text), Ok(read_as.to_string()), "{text}");
        }
        assert!(read("{vars.x}").is_err() && read("{x").is_ok());
    }
}
