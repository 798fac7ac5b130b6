//! Fetches of key sets: HTTP/1.1 over TLS, on a new connection each, as there is one in ten minutes.

use crate::keys::SET_MAX;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CACHE_CONTROL, HOST, HeaderMap, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Reason why a set was not fetched.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Response of a server, with a set of keys.
#[derive(Debug)]
pub struct Fetched {
    pub json: Bytes,
    /// Time for which it is fresh, if the answer states one.
    pub max_age: Option<Duration>,
}

/// Fetches a set, within `patience`. `ca`: file with the trusted authorities, instead of those of the system. Redirects are
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

/// The connection of a request. Dropped with it, so that no server can hold one for longer.
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn once(url: &str, ca: Option<&Path>) -> Result<Fetched, Fault> {
    let uri: Uri = url.parse()?;
    let authority = uri.authority().ok_or("the URL names no host")?.as_str();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut connection = connect(&uri, ca).await?;
    let request = Request::get(path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("evenkeel/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "application/jwk-set+json, application/json");
    let answer = connection.sender.send_request(request.body(Empty::new())?).await?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answered {}", answer.status()).into());
    }
    let max_age = max_age(answer.headers());
    let body = Limited::new(answer.into_body(), SET_MAX).collect().await;
    let json = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => format!("its answer is larger than {} KiB", SET_MAX / 1024).into(),
        false => error,
    })?;
    Ok(Fetched { json: json.to_bytes(), max_age })
}

async fn connect(uri: &Uri, ca: Option<&Path>) -> Result<Connection, Fault> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_secure = uri.scheme_str() == Some("https");
    let socket = TcpStream::connect((host, uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }))).await?;
    if !is_secure {
        return begin(TokioIo::new(socket)).await;
    }
    // The file is read anew for each connection: it may have been renewed.
    let tls = TlsConnector::from(evenkeel_tls::endpoints::trusting(ca).map_err(|error| error.what)?);
    begin(TokioIo::new(tls.connect(ServerName::try_from(host.to_owned())?, socket).await?)).await
}

async fn begin(stream: impl Read + Write + Unpin + Send + 'static) -> Result<Connection, Fault> {
    let (sender, connection) = handshake(stream).await?;
    let task = tokio::spawn(async move { _ = connection.await }).abort_handle();
    Ok(Connection { sender, task })
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
