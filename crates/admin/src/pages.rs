//! What is answered at which path? Every client may read. Only clients of the Unix socket may change anything; the
//! permissions of its file decide which users those are.

use crate::exposition::Format;
use axum::body::Body;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use axum::http::{Method, Response, StatusCode};
use serde_json::json;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Whether new requests should be sent to this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Why not; empty = they should be.
    pub reasons: Vec<String>,
}

/// The result of a change: whether it was made, and details as JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Whether it was made.
    pub done: bool,
    /// The details, for the client.
    pub json: String,
}

/// A change that a client asks for and waits for.
pub type Change = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Changed> + Send>> + Send + Sync>;

/// The sources of what the pages show. Called on the admin's own thread, once for each request.
#[derive(Clone)]
pub struct Pages {
    /// Path of the metrics.
    pub metrics_path: String,
    /// All metrics, as OpenMetrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Whether the process is ready.
    pub ready: Arc<dyn Fn() -> Ready + Send + Sync>,
    /// Reads the configuration again.
    pub reload: Change,
    /// Opens the logs again.
    pub reopen: Change,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("metrics_path", &self.metrics_path).finish_non_exhaustive()
    }
}

/// The path at which a `POST` reads the configuration again.
const RELOAD: &str = "/v1/reload";
/// The path at which a `POST` opens the logs again.
const REOPEN: &str = "/v1/reopen";

impl Pages {
    /// The answer to a request with these header fields. `may_change`: it came from a client that may change things.
    pub async fn answer(&self, method: &Method, path: &str, fields: &HeaderMap, may_change: bool) -> Response<Body> {
        let change = match path {
            RELOAD => &self.reload,
            REOPEN => &self.reopen,
            _ => return self.read(method, path, fields),
        };
        if !may_change {
            let text = "changes are made over the Unix socket of admin.bind only\n".to_string();
            return response(StatusCode::FORBIDDEN, TEXT, text);
        }
        if *method != Method::POST {
            return wrong_method(path, method, "POST");
        }
        let Changed { done, json } = change().await;
        let status = if done { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        response(status, JSON, json)
    }

    fn read(&self, method: &Method, path: &str, fields: &HeaderMap) -> Response<Body> {
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
                response(status, JSON, format!("{}\n", json!({ "ready": reasons.is_empty(), "reasons": reasons })))
            }
            _ => {
                let format = Format::asked_for(fields.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
                let mut shown = response(StatusCode::OK, format.media_type(), format.show((self.metrics)()));
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

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
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
            reload: Arc::new(|| Box::pin(async { Changed { done: false, json: "{}".into() } })),
            reopen: Arc::new(|| Box::pin(async { Changed { done: true, json: "{}".into() } })),
        }
    }

    #[test]
    fn only_known_paths_and_only_reading() {
        let get = |path| pages(&[]).read(&Method::GET, path, &HeaderMap::new()).status().as_u16();
        assert_eq!(["/m", "/livez", "/readyz", "/", "/metrics"].map(get), [200, 200, 200, 404, 404]);
        let refused = pages(&[]).read(&Method::POST, "/m", &HeaderMap::new());
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
        assert_eq!(pages(&[]).read(&Method::from_bytes(b"BREW").unwrap(), "/livez", &HeaderMap::new()).status(), 405);
    }

    #[test]
    fn says_why_it_is_not_ready() {
        assert_eq!(pages(&["draining"]).read(&Method::GET, "/readyz", &HeaderMap::new()).status(), 503);
        assert_eq!(pages(&["draining"]).read(&Method::GET, "/livez", &HeaderMap::new()).status(), 200);
    }
    #[tokio::test]
    async fn only_some_may_change_anything() {
        let asked = async |path, method, may_change| {
            pages(&[]).answer(&method, path, &HeaderMap::new(), may_change).await.status().as_u16()
        };
        for path in [RELOAD, REOPEN] {
            assert_eq!(asked(path, Method::POST, false).await, 403);
            assert_eq!(asked(path, Method::GET, true).await, 405);
        }
        assert_eq!(asked(RELOAD, Method::POST, true).await, 422, "it was refused by what it asked");
        assert_eq!(asked(REOPEN, Method::POST, true).await, 200);
    }
}
