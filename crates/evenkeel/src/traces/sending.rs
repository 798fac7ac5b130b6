//! Sending of spans to a collector: OTLP over HTTP, on a single connection, batch after batch.

use super::spans::Source;
use bytes::Bytes;
use evenkeel_config::plan;
use evenkeel_fetch::{Client, Server};
use evenkeel_proxy::finished::FinishedRequest;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time that a collector may take for a batch.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest answer that is read, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Reason why a batch was not sent.
#[derive(Debug)]
pub enum Fault {
    /// The collector may take it later.
    Later { why: String, pause: Option<Duration> },
    /// The collector will never take it.
    Never(String),
}

impl Fault {
    /// True if the collector may take the batch later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Fault::Later { .. })
    }

    /// Returns the pause that the collector requests.
    pub fn pause(&self) -> Option<Duration> {
        if let Fault::Later { pause, .. } = self { *pause } else { None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Fault::Later { why, .. } | Fault::Never(why)) = self;
        f.write_str(why)
    }
}

/// A collector, and the client that has the connection to it.
pub struct Collector {
    plan: plan::Traces,
    source: Source,
    client: Option<Client>,
}

impl Collector {
    /// Creates a client of the collector of a plan.
    pub fn new(plan: &plan::Traces) -> Collector {
        Collector { source: Source::new(&plan.service_name), plan: plan.clone(), client: None }
    }

    /// Sends a batch. Returns the number of its spans that were refused although the batch was accepted.
    ///
    /// # Errors
    /// The collector did not accept the spans.
    pub async fn bring(&mut self, batch: &[Arc<FinishedRequest>]) -> Result<u64, Fault> {
        let body = Bytes::from(self.source.request(batch).encode_to_vec());
        let answered = match tokio::time::timeout(PATIENCE, self.post(body)).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("no response within {PATIENCE:?}").into()),
        };
        let at = &self.plan.endpoint;
        let (status, pause, answer) = answered.map_err(|error| {
            let why = format!("cannot send spans to the collector at {at}: {error}");
            Fault::Later { why, pause: None }
        })?;
        match status {
            StatusCode::OK => {
                // A response that cannot be decoded counts as accepted.
                let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
                Ok(answer.partial_success.map_or(0, |part| u64::try_from(part.rejected_spans).unwrap_or(0)))
            }
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                Err(Fault::Later { why: format!("the collector at {at} responded with {status}"), pause })
            }
            status => Err(Fault::Never(format!("the collector at {at} refused spans: {status}"))),
        }
    }

    async fn post(&mut self, body: Bytes) -> Result<(StatusCode, Option<Duration>, Bytes), Error> {
        let client = match &mut self.client {
            Some(client) => client,
            none => {
                let server = Server::at(&self.plan.endpoint)?.trusting(self.plan.ca.clone());
                none.insert(Client::new(server))
            }
        };
        let mut request = Request::post("/v1/traces").header(CONTENT_TYPE, "application/x-protobuf");
        if let Some(file) = &self.plan.headers_file {
            for (name, value) in fields(file)? {
                request = request.header(name, value);
            }
        }
        let (head, body) = client.whole(request.body(Full::new(body))?, ANSWER_MAX).await?.into_parts();
        let pause = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok((head.status, pause.map(Duration::from_secs), body))
    }
}

/// The fields in a file, a line of `Name: value` for each.
fn fields(file: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    // The content of the line may be secret.
    let bad = |n: usize| format!("line {} of {} is not Name: value", n + 1, file.display());
    let field = |(n, line): (usize, &str)| {
        let (name, value) = line.split_once(':').ok_or_else(|| bad(n))?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| bad(n))?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| bad(n))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    lines.enumerate().map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_a_bad_line_is_named_without_its_text() {
        let path = std::env::temp_dir().join(format!("evenkeel-headers-{}", std::process::id()));
        std::fs::write(&path, "# for the collector\nAuthorization: Bearer a:b\n\n x-tenant:1\n")
            .expect("it can be written");
        let read = fields(&path).expect("both are good");
        let shown: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(shown, [("authorization", &b"Bearer a:b"[..]), ("x-tenant", b"1")]);
        std::fs::write(&path, "a: b\nsecret\n").expect("it can be written");
        let error = fields(&path).expect_err("the second is no field").to_string();
        assert!(error.starts_with("line 2 of ") && !error.contains("secret"), "{error}");
        std::fs::remove_file(&path).expect("it is there");
        assert!(fields(&path).is_err());
    }
}
