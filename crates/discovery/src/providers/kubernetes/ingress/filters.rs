//! Annotations about requests and responses, as keys of a route. See [`put`].

use super::annotations::Annotations;
use crate::providers::kubernetes::gateway::filters::origin;
use evenkeel_config::plan::{
    Cors, Limit, LimitKey, Most, Origin, Redirect, RequestRate, Route, Scheme, SendHost, Template,
};
use std::sync::Arc;
use std::time::Duration;

/// Methods and fields of requests that ingress-nginx allows pages of other origins.
const CORS_METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const CORS_HEADERS: &str =
    "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";

/// Longest time for which browsers keep the response to a preflight: a day at most.
const CORS_AGE_MAX: Duration = Duration::from_secs(86_400);

/// Requests above the rate that ingress-nginx lets pass at once, in multiples of the rate.
const BURST: u32 = 5;

/// Puts the filters of an Ingress into a route.
pub fn put(annotations: &mut Annotations<'_>, route: &mut Route) {
    timeouts(annotations, route);
    if let Some(text) = annotations.text("proxy-body-size") {
        match size(text) {
            Some(0) => route.filters.body_max = None,
            Some(bytes) => route.filters.body_max = Some(bytes.min(1 << 40)),
            None => annotations.ignore("proxy-body-size", &format!("\"{text}\" is not a size, such as 8m")),
        }
    }
    limits(annotations, route);
    route.filters.cors = cors(annotations);
    if let Some(host) = annotations.text("upstream-vhost") {
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        match host.chars().all(is_host) {
            true => route.filters.send_host = SendHost::Fixed(host.to_ascii_lowercase().into()),
            false => annotations.ignore("upstream-vhost", &format!("\"{host}\" is not a host")),
        }
    }
}

fn timeouts(annotations: &mut Annotations<'_>, route: &mut Route) {
    if let Some(time) = annotations.time("proxy-connect-timeout") {
        route.timeouts.connect = time;
    }
    let (read, send) = (annotations.time("proxy-read-timeout"), annotations.time("proxy-send-timeout"));
    if let Some(time) = read {
        route.timeouts.response = Some(time);
    }
    // evenkeel has a single idle limit for both directions.
    if let Some(time) = read.max(send) {
        route.timeouts.idle = time;
    }
}

/// A size as NGINX writes it: bytes, or a number with k, m or g.
fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (number, unit) = match text.strip_suffix(['k', 'm', 'g']) {
        Some(number) => (number, text.as_bytes()[text.len() - 1]),
        None => (&*text, b' '),
    };
    let shift = match unit {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => 0,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn limits(annotations: &mut Annotations<'_>, route: &mut Route) {
    let key = LimitKey::Client { v4: 32, v6: 64 };
    let burst = annotations.number("limit-burst-multiplier", 1).unwrap_or(BURST);
    for (name, seconds) in [("limit-rps", 1), ("limit-rpm", 60)] {
        if let Some(requests) = annotations.number::<u32>(name, 1) {
            let rate = RequestRate { requests, per: Duration::from_secs(seconds) };
            let burst = requests.saturating_mul(burst).min(1_000_000);
            let most = Most::Requests { rate, burst };
            route.filters.limits.push(Limit { shared: None, most, key: key.clone(), keys: LIMIT_KEYS });
        }
    }
    if let Some(most) = annotations.number::<u32>("limit-connections", 1) {
        let most = Most::InFlight(most.min(1_000_000));
        route.filters.limits.push(Limit { shared: None, most, key, keys: LIMIT_KEYS });
    }
}

/// Most clients that a limit remembers: the default of the configuration.
const LIMIT_KEYS: usize = 100_000;

fn cors(annotations: &mut Annotations<'_>) -> Option<Cors> {
    const KEYS: [&str; 6] = [
        "cors-allow-origin",
        "cors-allow-methods",
        "cors-allow-headers",
        "cors-expose-headers",
        "cors-allow-credentials",
        "cors-max-age",
    ];
    if annotations.flag("enable-cors") != Some(true) {
        KEYS.into_iter().for_each(|name| annotations.skip(name));
        return None;
    }
    let mut list = |name, usual: &str| -> Vec<Arc<str>> {
        let all = annotations.list(name).unwrap_or_else(|| usual.split(',').map(str::trim).collect());
        all.into_iter().filter(|one| !one.is_empty()).map(Arc::from).collect()
    };
    let (origins, methods) = (list("cors-allow-origin", "*"), list("cors-allow-methods", CORS_METHODS));
    let (headers, expose) = (list("cors-allow-headers", CORS_HEADERS), list("cors-expose-headers", ""));
    let mut allowed = Vec::new();
    for text in origins {
        match origin(&text) {
            Ok(origin) => allowed.push(origin),
            Err(why) => annotations.ignore("cors-allow-origin", &why),
        }
    }
    let credentials = annotations.flag("cors-allow-credentials").unwrap_or(true);
    let age = annotations.number::<u64>("cors-max-age", 0).unwrap_or(CORS_AGE_MAX.as_secs());
    if allowed.is_empty() {
        return None;
    }
    let is_plain = |name: &Arc<str>| **name != *"*";
    // Browsers send no credentials where every origin is allowed, whatever the fields say.
    let credentials = credentials && !allowed.contains(&Origin::Any);
    Some(Cors {
        origins: allowed,
        methods,
        headers,
        expose: expose.into_iter().filter(|name| !credentials || is_plain(name)).collect(),
        credentials,
        max_age: Duration::from_secs(age).min(CORS_AGE_MAX),
    })
}

/// Returns the redirect of all requests; `None` if the Ingress has none.
///
/// # Errors
/// If it cannot be kept.
pub fn redirect(annotations: &mut Annotations<'_>) -> Result<Option<Redirect>, String> {
    let permanent = annotations.number("permanent-redirect-code", 301).unwrap_or(301);
    let temporal = annotations.number("temporal-redirect-code", 301).unwrap_or(302);
    // ingress-nginx prefers the temporary redirect.
    for (name, status) in [("temporal-redirect", temporal), ("permanent-redirect", permanent)] {
        let Some(url) = annotations.text(name) else { continue };
        if ![301, 302, 303, 307, 308].contains(&status) {
            return Err(annotations.refuse(name, &format!("{status} is not a status of redirects")));
        }
        return match to(url) {
            Some(redirect) => Ok(Some(Redirect { status, ..redirect })),
            None => Err(annotations.refuse(name, &format!("\"{url}\" is not a URL without variables"))),
        };
    }
    Ok(None)
}

fn to(url: &str) -> Option<Redirect> {
    let is_text = |text: &str| text.bytes().all(|b| b.is_ascii_graphic()) && !text.contains('$');
    let (scheme, rest) = match url.split_once("://") {
        Some(("http", rest)) => (Scheme::Http, rest),
        Some(("https", rest)) => (Scheme::Https, rest),
        _ => return None,
    };
    if let Some(authority) = rest.strip_suffix("$request_uri") {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (authority, None),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_it = !host.is_empty() && host.chars().all(is_host);
        let host = Some(Template::literal(host));
        return is_it.then_some(Redirect { scheme: Some(scheme), host, port, ..Redirect::default() });
    }
    let is_it = is_text(url) && !rest.is_empty();
    is_it.then(|| Redirect { to: Some(Template::literal(url)), ..Redirect::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_nginx() {
        for (text, bytes) in
            [("0", Some(0)), ("8m", Some(8 << 20)), ("1G", Some(1 << 30)), ("512", Some(512)), ("64k", Some(65_536))]
        {
            assert_eq!(size(text), bytes, "{text}");
        }
        for text in ["", "m", "8mb", "-1", "99999999999999999999g"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn urls_without_variables_are_redirected_to() {
        let shown = |url: &str| to(url).map(|redirect| (redirect.target(), redirect.keep_query));
        assert_eq!(shown("https://a.example/x?y=1"), Some(("https://a.example/x?y=1".into(), true)));
        assert_eq!(shown("https://a.example$request_uri"), Some(("https://a.example{path}".into(), true)));
        assert_eq!(shown("http://a.example:81$request_uri"), Some(("http://a.example:81{path}".into(), true)));
        for url in ["https://$host/x", "/x", "ftp://a/", "https://", "https://a/ b"] {
            assert_eq!(shown(url), None, "{url}");
        }
    }
}
