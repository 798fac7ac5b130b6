//! Annotations about endpoints: their protocol, affinity and the algorithm. See [`variant`].

use super::annotations::Annotations;
use crate::providers::kubernetes::services::backends::Variant;
use evenkeel_balance::algorithms;
use evenkeel_config::plan::{Balance, HashKey, PoolTls, SameSite, Sticky};
use std::time::Duration;

/// Longest lifetime of a cookie (RFC 6265bis, section 4.1.2.2).
const TTL_MAX: Duration = Duration::from_secs(400 * 86_400);

/// Settings in which the pools of an Ingress differ from the usual.
///
/// # Errors
/// Its endpoints cannot be spoken with.
pub fn variant(annotations: &mut Annotations<'_>) -> Result<Variant, String> {
    let protocol = annotations.text("backend-protocol").unwrap_or("HTTP").to_ascii_uppercase();
    let (is_http2, is_tls) = match &*protocol {
        "HTTP" => (false, false),
        "HTTPS" => (false, true),
        "GRPC" => (true, false),
        "GRPCS" => (true, true),
        other => {
            return Err(annotations.refuse("backend-protocol", &format!("{other} is not supported")));
        }
    };
    // ingress-nginx does not verify them either. A BackendTLSPolicy of the Service does.
    let tls = is_tls.then(|| PoolTls { verify: false, ..PoolTls::default() });
    let sticky = sticky(annotations);
    let balance = balance(annotations, sticky.is_some());
    Ok(Variant { is_http2, tls, sticky, balance, ..Variant::default() })
}

fn sticky(annotations: &mut Annotations<'_>) -> Option<Sticky> {
    let kind = annotations.text("affinity");
    let name = annotations.text("session-cookie-name").unwrap_or("INGRESSCOOKIE");
    let path = annotations.text("session-cookie-path").unwrap_or("/");
    let max_age = annotations.time("session-cookie-max-age");
    let ttl = max_age.or_else(|| annotations.time("session-cookie-expires"));
    annotations.skip("session-cookie-expires");
    let same_site = annotations.text("session-cookie-samesite").map(str::to_ascii_lowercase);
    let secure = annotations.flag("session-cookie-secure").unwrap_or(false);
    match kind? {
        "cookie" => {}
        other => {
            annotations.ignore("affinity", &format!("\"{other}\" is not supported, cookie is"));
            return None;
        }
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.len() > 128 || !name.chars().all(is_token) {
        annotations.ignore("session-cookie-name", &format!("\"{name}\" is not the name of a cookie"));
        return None;
    }
    let is_path = path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic() && !b";?#".contains(&b));
    if !is_path {
        annotations.ignore("session-cookie-path", &format!("\"{path}\" is not a path"));
    }
    let same_site = match same_site.as_deref() {
        None | Some("lax") => SameSite::Lax,
        Some("strict") => SameSite::Strict,
        Some("none") => SameSite::None,
        Some(other) => {
            annotations.ignore("session-cookie-samesite", &format!("\"{other}\" is not None, Lax or Strict"));
            SameSite::Lax
        }
    };
    Some(Sticky {
        cookie: name.to_owned(),
        ttl: ttl.map(|ttl| ttl.clamp(Duration::from_secs(1), TTL_MAX)),
        path: if is_path { path.to_owned() } else { "/".to_owned() },
        // Browsers drop a cookie with `SameSite=None` that is not secure.
        secure: secure || same_site == SameSite::None,
        same_site,
        ..Sticky::default()
    })
}

fn balance(annotations: &mut Annotations<'_>, is_sticky: bool) -> Option<Balance> {
    let name = annotations.text("load-balance");
    let hash = annotations.text("upstream-hash-by");
    if let Some(text) = hash {
        match hash_key(text) {
            Some(_) if is_sticky => annotations.ignore("upstream-hash-by", "affinity goes before it"),
            Some(key) => {
                let mut balance = Balance::of(algorithms::find("maglev")?);
                balance.keys.insert("key", key);
                return Some(balance);
            }
            None => {
                let known = "$remote_addr, $request_uri, $http_NAME, $cookie_NAME and $arg_NAME are";
                annotations.ignore("upstream-hash-by", &format!("\"{text}\" is not supported, {known}"));
            }
        }
    }
    let algorithm = match name? {
        "round_robin" => "round_robin",
        "ewma" => "peak_ewma",
        other => {
            annotations.ignore("load-balance", &format!("\"{other}\" is not supported, round_robin and ewma are"));
            return None;
        }
    };
    algorithms::find(algorithm).map(Balance::of)
}

fn hash_key(text: &str) -> Option<HashKey> {
    let name = text.trim().strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match name {
        "remote_addr" | "binary_remote_addr" => return Some(HashKey::ClientIp),
        "request_uri" | "uri" => return Some(HashKey::Path),
        _ => {}
    }
    let (kind, name) = name.split_once('_').filter(|(_, name)| is_name(name))?;
    match kind {
        "http" => Some(HashKey::Header(name.replace('_', "-").to_ascii_lowercase())),
        "cookie" => Some(HashKey::Cookie(name.to_owned())),
        "arg" => Some(HashKey::Query(name.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_nginx_are_parts_of_requests() {
        for (text, key) in [
            ("$remote_addr", Some("client-ip")),
            ("${binary_remote_addr}", Some("client-ip")),
            ("$request_uri", Some("path")),
            ("$http_x_tenant", Some("header:x-tenant")),
            ("$cookie_session", Some("cookie:session")),
            ("$arg_id", Some("query:id")),
            ("$host", None),
            ("$request_uri$host", None),
            ("$remote_addr$uri", None),
            ("x", None),
        ] {
            assert_eq!(hash_key(text).map(|key| key.to_string()).as_deref(), key, "{text}");
        }
    }
}
