//! What is answered at which path? Only reading: `GET` and `HEAD`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use std::fmt;
use std::sync::Arc;

/// What the format of prometheus-client calls itself.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Whether new requests should come here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Why not; empty = they should.
    pub reasons: Vec<String>,
}

/// Where the pages get what they show. Called on the admin's own thread, once for each request.
#[derive(Clone)]
pub struct Pages {
    /// Path of the metrics.
    pub metrics_path: String,
    /// All metrics as text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Whether the process is ready.
    pub ready: Arc<dyn Fn() -> Ready + Send + Sync>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("metrics_path", &self.metrics_path).finish_non_exhaustive()
    }
}

impl Pages {
    /// The answer to a request.
    pub fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let known = [self.metrics_path.as_str(), "/livez", "/readyz"];
        if !known.contains(&path) {
            let text = format!("nothing is at {path}; there are {}\n", known.join(", "));
            return response(StatusCode::NOT_FOUND, TEXT, text);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let text = format!("{path} can only be read: GET or HEAD, not {method}\n");
            let mut refusal = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            // It answers, so it lives.
            "/livez" => response(StatusCode::OK, TEXT, "ok\n".to_string()),
            "/readyz" => {
                let Ready { reasons } = (self.ready)();
                let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                response(status, JSON, format!("{}\n", json!({ "ready": reasons.is_empty(), "reasons": reasons })))
            }
            _ => response(StatusCode::OK, OPEN_METRICS, (self.metrics)()),
        }
    }
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(reasons: &[&str]) -> Pages {
        let ready = Ready { reasons: reasons.iter().map(ToString::to_string).collect() };
        Pages {
            metrics_path: "/m".into(),
            metrics: Arc::new(|| "x_total 1\n".into()),
            ready: Arc::new(move || ready.clone()),
        }
    }

    #[test]
    fn only_known_paths_and_only_reading() {
        let get = |path| pages(&[]).answer(&Method::GET, path).status().as_u16();
        assert_eq!(["/m", "/livez", "/readyz", "/", "/metrics"].map(get), [200, 200, 200, 404, 404]);
        let refused = pages(&[]).answer(&Method::POST, "/m");
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
        assert_eq!(pages(&[]).answer(&Method::from_bytes(b"BREW").unwrap(), "/livez").status(), 405);
    }

    #[test]
    fn says_why_it_is_not_ready() {
        assert_eq!(pages(&["draining"]).answer(&Method::GET, "/readyz").status(), 503);
        assert_eq!(pages(&["draining"]).answer(&Method::GET, "/livez").status(), 200);
    }
}
