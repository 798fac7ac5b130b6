//! Fetches of key sets: HTTP/1.1 over TLS, on a new connection each, as there is a fetch in ten minutes.

use crate::keys::SET_MAX;
use bytes::Bytes;
pub use evenkeel_fetch::Fault;
use evenkeel_fetch::{Client, Server};
use http_body_util::Full;
use hyper::header::{ACCEPT, CACHE_CONTROL, HeaderMap};
use hyper::{Request, StatusCode, Uri};
use std::path::Path;
use std::time::Duration;

/// Response of a server, with a set of keys.
#[derive(Debug)]
pub struct Fetched {
    pub json: Bytes,
    /// Time for which it is fresh, if the response states it.
    pub max_age: Option<Duration>,
}

/// Fetches a set, within `patience`. `ca`: file with the trusted authorities, instead of the system's. Redirects are
/// not followed: the keys would come from where another server points to.
///
/// # Errors
/// The server does not answer in time, or with anything but 200 and a body that is not too large.
pub async fn fetch(url: &str, ca: Option<&Path>, patience: Duration) -> Result<Fetched, Fault> {
    match tokio::time::timeout(patience, once(url, ca)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(format!("no answer within {patience:?}").into()),
    }
}

async fn once(url: &str, ca: Option<&Path>) -> Result<Fetched, Fault> {
    let uri: Uri = url.parse()?;
    let authority = uri.authority().ok_or("the URL names no host")?;
    let server = Server::at(&format!("{}://{authority}", uri.scheme_str().unwrap_or_default()))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(ACCEPT, "application/jwk-set+json, application/json");
    let mut client = Client::new(server.trusting(ca.map(Path::to_path_buf)));
    let (head, json) = client.whole(request.body(Full::default())?, SET_MAX).await?.into_parts();
    if head.status != StatusCode::OK {
        return Err(format!("it answered {}", head.status).into());
    }
    Ok(Fetched { json, max_age: max_age(&head.headers) })
}

/// Lifetime of an answer (RFC 9111 section 5.2.2): `max-age`, or none at all.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut lifetime = None;
    for directive in values.flat_map(|value| value.split(',')).map(str::trim) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        if ["no-store", "no-cache"].iter().any(|none| name.eq_ignore_ascii_case(none)) {
            return Some(Duration::ZERO);
        }
        if name.eq_ignore_ascii_case("max-age") {
            lifetime = value.trim_matches('"').parse().ok().map(Duration::from_secs);
        }
    }
    lifetime
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lifetime_of_an_answer_is_its_max_age() {
        for (value, lifetime) in [
            ("max-age=600", Some(600)),
            ("public, Max-Age=\"30\", must-revalidate", Some(30)),
            ("no-store", Some(0)),
            ("max-age=600, no-cache", Some(0)),
            ("s-maxage=5", None),
            ("max-age=-1", None),
            ("max-age", None),
            ("max-age=99999999999999999999999", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, value.parse().expect("a value"));
            assert_eq!(max_age(&headers), lifetime.map(Duration::from_secs), "{value}");
        }
        assert_eq!(max_age(&HeaderMap::new()), None);
    }
}
