//! Requests to the authority: HTTP/1.1 over TLS, on a new connection each, as a certificate takes only a dozen.

use bytes::Bytes;
use evenkeel_tls::inspect;
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time limit of a request, including its response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Size limit of a response in bytes; a chain of certificates has a few thousand.
const ANSWER_MAX: usize = 1 << 20;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Longest pause that an authority can ask for, in seconds: the longest window of common rate limits.
const LONGEST_PAUSE: i64 = 7 * 86_400;

/// Time before which the authority wants no further request, from `Retry-After` of its last response.
#[derive(Clone, Debug, Default)]
pub struct RetryAfter(Arc<AtomicI64>);

impl RetryAfter {
    fn note(&self, headers: &HeaderMap, now: i64) {
        let value = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        self.0.store(value.and_then(|value| retry_after(value.trim(), now)).unwrap_or(0), Relaxed);
    }

    /// Time in seconds since 1970; 0 if the authority did not ask for a pause.
    pub fn at(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// Parses a number of seconds or a date (RFC 9110 section 10.2.3) into seconds since 1970.
fn retry_after(value: &str, now: i64) -> Option<i64> {
    let at = match value.parse::<u32>() {
        Ok(seconds) => now + i64::from(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?
        }
    };
    Some(at.min(now + LONGEST_PAUSE))
}

/// HTTP client for authorities.
#[derive(Clone)]
pub struct Sender {
    tls: TlsConnector,
    retry_after: RetryAfter,
}

impl Sender {
    /// Creates a client that trusts the authorities of `config`. Each response updates `retry_after`.
    pub fn new(config: Arc<ClientConfig>, retry_after: RetryAfter) -> Sender {
        Sender { tls: config.into(), retry_after }
    }
}

impl HttpClient for Sender {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let Sender { tls, retry_after } = self.clone();
        Box::pin(async move {
            let answered = match tokio::time::timeout(PATIENCE, send(tls, request)).await {
                Ok(answered) => answered,
                Err(_) => Err(format!("no answer within {PATIENCE:?}").into()),
            };
            let no_headers = HeaderMap::new();
            let headers = answered.as_ref().map_or(&no_headers, |answer| &answer.parts.headers);
            retry_after.note(headers, inspect::now());
            answered.and_then(refused).map_err(Error::Other)
        })
    }
}

/// Passes an ACME response through; an error for a page of a proxy in front of the authority (429 or 502 to 504 without
/// JSON).
fn refused(answer: BytesResponse) -> Result<BytesResponse, Fault> {
    let status = answer.parts.status;
    let kind = answer.parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if matches!(status.as_u16(), 429 | 502..=504) && !kind.contains("json") {
        return Err(format!("it answered {status}").into());
    }
    Ok(answer)
}

async fn send(tls: TlsConnector, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Fault> {
    let uri = request.uri().clone();
    let (Some(authority), Some(host), Some("https")) = (uri.authority(), uri.host(), uri.scheme_str()) else {
        return Err("not an https URL".into());
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((bare, uri.port_u16().unwrap_or(443))).await?;
    let stream = tls.connect(ServerName::try_from(bare.to_string())?, socket).await?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
    // The request line has the path alone; the host is in `Host`.
    *request.uri_mut() = uri.path_and_query().map_or(Uri::from_static("/"), |path| path.clone().into());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
        Ok::<_, Fault>(BytesResponse { parts, body: Box::new(body) })
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answered = &mut answered => answered,
        // The connection may also end after the whole response has come.
        ended = connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_seconds_or_as_a_date() {
        let now = 1_445_412_000;
        for (value, at) in [
            ("0", Some(now)),
            ("120", Some(now + 120)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(1_445_412_480)),
            ("4294967295", Some(now + LONGEST_PAUSE)),
            ("Fri, 31 Dec 2900 23:59:59 GMT", Some(now + LONGEST_PAUSE)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), at, "{value}");
        }
        let (noted, mut headers) = (RetryAfter::default(), HeaderMap::new());
        headers.insert(RETRY_AFTER, HeaderValue::from_static(" 5 "));
        noted.note(&headers, now);
        assert_eq!(noted.at(), now + 5);
        // The last response counts.
        noted.note(&HeaderMap::new(), now);
        assert_eq!(noted.at(), 0);
    }
}
