//! Pages for every client: metrics, liveness and readiness.

use crate::api::json;
use crate::exposition::{Format, Native};
use axum::body::Body;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use axum::http::{Method, Response, StatusCode};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Readiness of the process for new requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Reasons against it; empty if it is ready.
    pub reasons: Vec<String>,
}

#[derive(Serialize)]
struct Shown {
    ready: bool,
    reasons: Vec<String>,
}

/// Sources of the pages. Called on the admin's own thread, once for each request.
#[derive(Clone)]
pub struct Pages {
    /// Path of the metrics, `/metrics` by default.
    pub metrics_path: String,
    /// All metrics, as OpenMetrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Native histograms, which the text formats do not have.
    pub native: Arc<dyn Fn() -> Vec<Native> + Send + Sync>,
    /// Returns the readiness of the process.
    pub ready: Arc<dyn Fn() -> Ready + Send + Sync>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("metrics_path", &self.metrics_path).finish_non_exhaustive()
    }
}

impl Pages {
    /// Answers a request with these header fields.
    pub fn answer(&self, method: &Method, path: &str, fields: &HeaderMap) -> Response<Body> {
        let known = [self.metrics_path.as_str(), "/livez", "/readyz"];
        if !known.contains(&path) {
            let text = format!("nothing is at {path}; there are {}\n", known.join(", "));
            return response(StatusCode::NOT_FOUND, TEXT, text);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return wrong_method(path, method, "GET, HEAD");
        }
        match path {
            // The process answers, so it is alive.
            "/livez" => response(StatusCode::OK, TEXT, "ok\n".to_string()),
            "/readyz" => {
                let Ready { reasons } = (self.ready)();
                let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                response(status, JSON, json::text(&Shown { ready: reasons.is_empty(), reasons }) + "\n")
            }
            _ => {
                let format = Format::asked_for(fields.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
                let shown = format.show((self.metrics)(), || (self.native)());
                let mut shown = response(StatusCode::OK, format.media_type(), shown);
                shown.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
                shown
            }
        }
    }
}

fn wrong_method(path: &str, method: &Method, allowed: &'static str) -> Response<Body> {
    let text = format!("{path} takes {allowed}, not {method}\n");
    let mut refusal = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refusal
}

fn response(status: StatusCode, content_type: &'static str, content: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(content.into());
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
            native: Arc::new(Vec::new),
            ready: Arc::new(move || ready.clone()),
        }
    }

    #[test]
    fn only_known_paths_and_only_reading() {
        let get = |path| pages(&[]).answer(&Method::GET, path, &HeaderMap::new()).status().as_u16();
        assert_eq!(["/m", "/livez", "/readyz", "/", "/metrics"].map(get), [200, 200, 200, 404, 404]);
        let refused = pages(&[]).answer(&Method::POST, "/m", &HeaderMap::new());
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
        assert_eq!(pages(&[]).answer(&Method::from_bytes(b"BREW").unwrap(), "/livez", &HeaderMap::new()).status(), 405);
    }

    #[test]
    fn says_why_it_is_not_ready() {
        assert_eq!(pages(&["draining"]).answer(&Method::GET, "/readyz", &HeaderMap::new()).status(), 503);
        assert_eq!(pages(&["draining"]).answer(&Method::GET, "/livez", &HeaderMap::new()).status(), 200);
    }
}
