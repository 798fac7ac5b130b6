//! Pages for every client: metrics, liveness and readiness.

use crate::api::json;
use crate::exposition::{Format, Names};
use crate::scrape::{Histograms, Metrics, Scrape, Scrapes};
use axum::body::Body;
use axum::extract::Query;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY,
};
use axum::http::{Method, Response, StatusCode, Uri};
use evenkeel_compress::accept::preferred;
use evenkeel_compress::coding::Coding;
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

/// Sources of the pages. Called on the admin's own thread, once for each request; metrics on a thread for each.
#[derive(Clone)]
pub struct Pages {
    /// Path of the metrics, `/metrics` by default.
    pub metrics_path: String,
    pub metrics: Metrics,
    pub native: Histograms,
    pub scrapes: Scrapes,
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
    pub async fn answer(&self, method: &Method, uri: &Uri, fields: &HeaderMap) -> Response<Body> {
        let path = uri.path();
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
            _ => self.metrics(method, uri, fields).await,
        }
    }

    async fn metrics(&self, method: &Method, uri: &Uri, fields: &HeaderMap) -> Response<Body> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let names = query.map_err(|error| error.body_text()).and_then(|Query(query)| Names::read(&query));
        let names = match names {
            Ok(names) => names,
            Err(why) => return response(StatusCode::BAD_REQUEST, TEXT, why + "\n"),
        };
        let format = Format::asked_for(fields.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
        let codings = fields.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
        let gzip = preferred(codings, &[Coding::Gzip]).is_some();
        let body = match *method {
            Method::HEAD => Some(Body::empty()),
            _ => self.scrapes.body(Scrape { format, names, gzip }, self.metrics.clone(), self.native.clone()).await,
        };
        let Some(body) = body else {
            let text = "the metrics cannot be rendered now, as other clients read theirs slowly: try again\n";
            return response(StatusCode::SERVICE_UNAVAILABLE, TEXT, text);
        };
        let mut shown = response(StatusCode::OK, format.media_type(), body);
        shown.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if gzip {
            shown.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(Coding::Gzip.name()));
        }
        shown
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
    use axum::body::HttpBody;
    use std::future::poll_fn;
    use std::pin::Pin;

    fn pages(reasons: &[&str], metrics: &'static str) -> Pages {
        let ready = Ready { reasons: reasons.iter().map(ToString::to_string).collect() };
        Pages {
            metrics_path: "/m".into(),
            metrics: Arc::new(move |to: &mut dyn fmt::Write| to.write_str(metrics)),
            native: Arc::new(Vec::new),
            scrapes: Scrapes::default(),
            ready: Arc::new(move || ready.clone()),
        }
    }

    async fn asked(
        pages: &Pages,
        method: Method,
        uri: &str,
        fields: &[(&'static str, &'static str)],
    ) -> Response<Body> {
        let mut all = HeaderMap::new();
        for (name, value) in fields {
            all.append(*name, HeaderValue::from_static(value));
        }
        pages.answer(&method, &uri.parse().expect("valid"), &all).await
    }

    async fn text(mut response: Response<Body>) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx)).await {
            all.extend_from_slice(&frame.expect("it is whole").into_data().expect("there are no trailers"));
        }
        all
    }

    const TWO: &str = "# HELP a A.\n# TYPE a gauge\na 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";

    #[tokio::test]
    async fn only_known_paths_and_only_reading() {
        for (path, status) in [("/m", 200), ("/livez", 200), ("/readyz", 200), ("/", 404), ("/metrics", 404)] {
            assert_eq!(asked(&pages(&[], TWO), Method::GET, path, &[]).await.status(), status, "{path}");
        }
        let refused = asked(&pages(&[], TWO), Method::POST, "/m", &[]).await;
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[ALLOW]),
            (405, &HeaderValue::from_static("GET, HEAD"))
        );
        let brew = Method::from_bytes(b"BREW").expect("a token");
        assert_eq!(asked(&pages(&[], TWO), brew, "/livez", &[]).await.status(), 405);
    }

    #[tokio::test]
    async fn says_why_it_is_not_ready() {
        let draining = pages(&["draining"], TWO);
        assert_eq!(asked(&draining, Method::GET, "/readyz", &[]).await.status(), 503);
        assert_eq!(asked(&draining, Method::GET, "/livez", &[]).await.status(), 200);
    }

    #[tokio::test]
    async fn metrics_are_selected_by_name() {
        let one = asked(&pages(&[], TWO), Method::GET, "/m?name=b", &[]).await;
        assert_eq!(text(one).await, b"# HELP b B.\n# TYPE b gauge\nb 2\n");
        let wrong = asked(&pages(&[], TWO), Method::GET, "/m?name=b%20c", &[]).await;
        assert_eq!(wrong.status(), 400);
        let why = String::from_utf8(text(wrong).await).expect("text");
        assert!(why.starts_with("\"b c\" is not the name of a metric"), "{why}");
    }

    #[tokio::test]
    async fn metrics_are_compressed_for_clients_that_accept_it() {
        let gzip = [("accept-encoding", "br, gzip")];
        let response = asked(&pages(&[], TWO), Method::GET, "/m", &gzip).await;
        assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(response.headers()[VARY], "accept, accept-encoding");
        let coded = text(response).await;
        // Its magic number, and the length of its content.
        assert_eq!(
            (&coded[..2], &coded[coded.len() - 4..]),
            (&[0x1f, 0x8b][..], &(TWO.len() as u32).to_le_bytes()[..])
        );
        let plain = asked(&pages(&[], TWO), Method::GET, "/m", &[("accept-encoding", "gzip;q=0")]).await;
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        let head = asked(&pages(&[], TWO), Method::HEAD, "/m", &gzip).await;
        assert_eq!(head.headers()[CONTENT_ENCODING], "gzip");
        assert!(text(head).await.is_empty());
    }

    #[tokio::test]
    async fn many_metrics_are_a_stream_that_waits_for_its_client() {
        let mut many = pages(&[], TWO);
        many.metrics = Arc::new(|to: &mut dyn fmt::Write| {
            to.write_str("# HELP g G.\n# TYPE g gauge\n")?;
            (0..200_000).try_for_each(|n| writeln!(to, "g{{n=\"{n}\"}} 1"))
        });
        let response = asked(&many, Method::GET, "/m", &[]).await;
        assert_eq!(response.body().size_hint().exact(), None);
        let text = String::from_utf8(text(response).await).expect("text");
        assert!(text.len() > 2 << 20 && text.lines().count() == 200_002 && text.ends_with("g{n=\"199999\"} 1\n"));
        // A client that leaves gives its place back.
        for _ in 0..10 {
            drop(asked(&many, Method::GET, "/m", &[]).await);
        }
        assert_eq!(asked(&many, Method::GET, "/m", &[]).await.status(), 200);
    }
}
