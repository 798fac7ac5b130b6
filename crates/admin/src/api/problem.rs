//! Error responses: problem documents (RFC 9457), in words and with a code for programs.

use super::json::Json;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use evenkeel_view::config::Diagnostic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Error of a request: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The status, as in the response.
    pub status: u16,
    /// The kind of problem, in a word.
    pub code: String,
    /// The kind of problem, in a few words.
    pub title: String,
    /// Cause of this error, and the values that are allowed.
    pub detail: String,
    /// Everything that is wrong with a configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// The code of [`Problem::wrong_config`].
pub const WRONG_CONFIG: &str = "wrong-config";

impl Problem {
    fn new(status: StatusCode, code: &str, title: &str, detail: impl Into<String>) -> Problem {
        let (status, code, title, detail) = (status.as_u16(), code.into(), title.into(), detail.into());
        Problem { status, code, title, detail, diagnostics: Vec::new() }
    }

    /// Error 404: nothing has this name or path.
    pub fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not-found", "not found", detail)
    }

    /// Error 400: the request cannot be understood.
    pub fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", "malformed request", detail)
    }

    /// Error 409: the request is understood and cannot be done now.
    pub fn refused(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, "refused", "nothing was changed", detail)
    }

    /// Error 401: the client sent no token, or an unknown token.
    pub fn unauthorized(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "a token is needed", detail)
    }

    /// Error 403: the client may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", "not allowed", detail)
    }

    /// Error 412: it has changed since the client read it.
    pub fn stale(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PRECONDITION_FAILED, "stale", "it has changed meanwhile", detail)
    }

    /// Error 428: a change needs `If-Match`.
    pub fn unconditional(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PRECONDITION_REQUIRED, "unconditional", "If-Match is needed", detail)
    }

    /// Error 422: a configuration is wrong. All its errors are in the text and in `diagnostics`.
    pub fn wrong_config(text: impl Into<String>, diagnostics: Vec<Diagnostic>) -> Problem {
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, WRONG_CONFIG, "the configuration is wrong", text);
        Problem { diagnostics, ..problem }
    }

    /// Error 415: the body has a type that is not taken here.
    pub fn media_type(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "unsupported media type", detail)
    }

    /// Error 413: the body is larger than its limit.
    pub fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the body is too large", detail)
    }

    /// Error 408: the body did not arrive in time.
    pub fn late(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "late", "the body did not arrive in time", detail)
    }

    /// Error 503: the process is at a limit.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many at once", detail)
    }

    /// Error 405: the path has other methods, which `allowed` lists.
    pub fn method(method: &Method, allowed: &str) -> Problem {
        let detail = format!("there is {allowed} here, not {method}");
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "method not allowed", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"evenkeel\", charset=\"UTF-8\""));
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Response to a method that a path does not have, with `Allow`.
pub fn wrong_method(method: &Method, allowed: &'static str) -> Response {
    let mut response = Problem::method(method, allowed).into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Reads a body that is a JSON object.
///
/// # Errors
/// The body is something else, or has unknown fields.
pub fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would do for an object whose fields may all be left out.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::malformed("the body must be a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::malformed(format!("the body: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::{Drain, Health, Patch, SplitPatch};

    #[test]
    fn a_patch_tells_nothing_from_null() {
        let patch = |text: &str| body::<Patch>(text.as_bytes());
        assert_eq!(patch("{}").unwrap(), Patch::default());
        assert_eq!(patch(r#"{"weight":3.0}"#).unwrap(), Patch { weight: Some(Some(3)), ..Patch::default() });
        let want = Patch { drain: Some(None), weight: Some(Some(3)), health: None };
        assert_eq!(patch(r#"{"drain":null,"weight":3}"#).unwrap(), want);
        let want = Patch { drain: Some(Some(Drain::KeepSessions)), weight: None, health: Some(Some(Health::Down)) };
        assert_eq!(patch(r#"{"drain":"keep-sessions","health":"down"}"#).unwrap(), want);
        for wrong in [r#"{"drains":null}"#, r#"{"weight":-1}"#, r#"{"weight":1.5}"#, r#"{"health":"well"}"#, "[]", ""] {
            assert!(patch(wrong).is_err(), "{wrong}");
        }
        let split = |text: &str| body::<SplitPatch>(text.as_bytes()).map(|patch| patch.weights);
        assert_eq!((split("{}").unwrap(), split(r#"{"weights":null}"#).unwrap()), (None, Some(None)));
        let want = Some([("a".to_owned(), Some(3)), ("b".to_owned(), None)].into());
        assert_eq!(split(r#"{"weights":{"a":3.0,"b":null}}"#).unwrap(), Some(want));
        for wrong in [r#"{"weight":{}}"#, r#"{"weights":{"a":-1}}"#, r#"{"weights":{"a":0.5}}"#, r#"{"weights":[]}"#] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
