//! Requests to the authority, each on a new connection, as a certificate takes only a dozen.

use bytes::Bytes;
use evenkeel_fetch::{Client, Fault, Server};
use evenkeel_tls::inspect;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

/// Time limit of a request, including its response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Size limit of a response in bytes; a chain of certificates has a few thousand.
const ANSWER_MAX: usize = 1 << 20;

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
    ca: Option<PathBuf>,
    retry_after: RetryAfter,
}

impl Sender {
    /// Creates a client that trusts the authorities of a file, or of the system. Each response updates `retry_after`.
    pub fn new(ca: Option<PathBuf>, retry_after: RetryAfter) -> Sender {
        Sender { ca, retry_after }
    }
}

impl HttpClient for Sender {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let Sender { ca, retry_after } = self.clone();
        Box::pin(async move {
            let answered = match tokio::time::timeout(PATIENCE, send(ca, request)).await {
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

async fn send(ca: Option<PathBuf>, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Fault> {
    let uri = request.uri();
    let (Some(authority), Some("https")) = (uri.authority(), uri.scheme_str()) else {
        return Err("not an https URL".into());
    };
    let server = Server::at(&format!("https://{authority}"))?.trusting(ca);
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, Full::new(body.collect().await?.to_bytes()));
    let (parts, body) = Client::new(server).whole(request, ANSWER_MAX).await?.into_parts();
    Ok(BytesResponse { parts, body: Box::new(body) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

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
