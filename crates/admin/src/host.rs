//! Protection from DNS rebinding: a page of another site may have its own name lead to this host, and then its scripts may read
//! every answer. So over TCP every request, for metrics and health too, has to name this host: by an IP address, as probes and
//! scrapers of Kubernetes do, as `localhost`, or by a name of `admin.http.hosts`.

use crate::api::problem::Problem;
use crate::numbers::{Reason, SocketNumbers};
use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderMap};
use axum::http::uri::Authority;
use axum::http::{Uri, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Names of this host that clients may use, and a counter of requests that use others.
#[derive(Clone)]
pub struct Hosts {
    /// Names in addition to `localhost` and IP addresses.
    pub names: Arc<[String]>,
    /// Counts requests for other hosts.
    pub numbers: Arc<SocketNumbers>,
}

/// Lets requests for this host pass.
pub async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    match names_this_host(&hosts.names, request.version(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            hosts.numbers.count(Reason::Host);
            problem.into_response()
        }
    }
}

fn names_this_host(names: &[String], version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let mut fields = headers.get_all(HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(Problem::malformed("there is more than one Host field"));
    }
    let field = field.map(|field| field.to_str().ok().and_then(|text| text.parse::<Authority>().ok()));
    let authority = match (uri.authority(), field) {
        (_, Some(None)) => return Err(Problem::malformed("the Host field is not a host with an optional port")),
        (Some(authority), _) => authority.clone(),
        (None, Some(Some(authority))) => authority,
        // Old health checks send none. Every browser does.
        (None, None) if version == Version::HTTP_10 => return Ok(()),
        (None, None) => return Err(Problem::malformed("a Host field is needed")),
    };
    let host = authority.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = |name: &str| name.eq_ignore_ascii_case(host.strip_suffix('.').unwrap_or(host));
    if bare.parse::<IpAddr>().is_ok() || is_name("localhost") || names.iter().any(|name| is_name(name)) {
        return Ok(());
    }
    Err(Problem::forbidden(format!("\"{host}\" is not a name of this host; admin.http.hosts lists its names")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: Version, uri: &str, hosts: &[&str]) -> u16 {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().expect("a value"));
        }
        let names = ["admin.example".to_string()];
        let uri = uri.parse().expect("a target");
        names_this_host(&names, version, &uri, &headers).map_or_else(|problem| problem.status, |()| 200)
    }

    #[test]
    fn only_names_of_this_host_are_answered() {
        for (host, want) in [
            ("127.0.0.1", 200),
            ("[::1]:9900", 200),
            ("[fd00::10]:9900", 200),
            ("LocalHost:9900", 200),
            ("Admin.Example", 200),
            ("admin.example.:9900", 200),
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("localhost.evil.example", 403),
            ("a b", 400),
            ("", 400),
        ] {
            assert_eq!(status(Version::HTTP_11, "/metrics", &[host]), want, "{host}");
        }
    }

    #[test]
    fn there_is_one_host_and_an_absolute_target_is_it() {
        assert_eq!(status(Version::HTTP_11, "/livez", &["localhost", "localhost"]), 400);
        assert_eq!(status(Version::HTTP_11, "/livez", &["localhost", "evil.example"]), 400);
        assert_eq!(status(Version::HTTP_11, "http://evil.example/livez", &["localhost"]), 403);
        assert_eq!(status(Version::HTTP_11, "http://localhost/livez", &["localhost"]), 200);
        assert_eq!(status(Version::HTTP_11, "/livez", &[]), 400);
        assert_eq!(status(Version::HTTP_10, "/livez", &[]), 200, "no browser leaves it out");
        assert_eq!(status(Version::HTTP_10, "/livez", &["evil.example"]), 403);
    }
}
