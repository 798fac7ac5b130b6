//! Responses of the proxy itself: errors, redirects, pages, responses to ACME challenges.

use crate::body::internal_redirect::InternalRedirect;
use crate::cache::encodings::Whole;
use crate::cache::growing::Reader;
use bytes::Bytes;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::Reject;
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;

/// Media type of error responses without a page.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A response of the proxy itself.
#[derive(Debug)]
pub struct Response {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Fields other than the type and the length of the body.
    pub fields: Table,
    /// The body, or the reason from which it is made.
    pub content: Content,
    /// Stored response with the same body, for the filter that sends it in another coding.
    pub(crate) whole: Option<Box<Whole>>,
}

/// Content of a response of the proxy itself.
#[derive(Debug)]
pub enum Content {
    /// Reason why no endpoint answers, for the log. The client gets an error page, or a line with as much of the reason
    /// as the listener discloses.
    Reason(String),
    /// Rule that the request broke. Handled like `Reason`, but the connection closes after the response.
    Malformed(Reject),
    /// Response to a request that the proxy itself serves.
    Page {
        /// Value of `Content-Type`; empty if there is none.
        media_type: Cow<'static, str>,
        body: Bytes,
    },
    /// Response that is still to come. The client gets that.
    Later(Later),
    /// Body of a stored response that is still arriving.
    Growing(Reader),
    /// Response of another route. The client gets that.
    Redirected(Box<InternalRedirect>),
}

/// A response that is still to come.
pub struct Later(pub Pin<Box<dyn Future<Output = Response>>>);

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}

impl Response {
    /// Creates the response to a request that no endpoint answers.
    pub fn new(status: u16, why: impl Into<String>) -> Response {
        Response { status, fields: Table::default(), content: Content::Reason(why.into()), whole: None }
    }

    /// Creates the 200 response to a request that the proxy itself serves.
    pub fn page(media_type: impl Into<Cow<'static, str>>, body: impl Into<Bytes>) -> Response {
        Response {
            status: 200,
            fields: Table::default(),
            content: Content::Page { media_type: media_type.into(), body: body.into() },
            whole: None,
        }
    }

    /// Creates the response of a future, which is dropped if the client leaves before.
    pub fn later(response: impl Future<Output = Response> + 'static) -> Response {
        let content = Content::Later(Later(Box::pin(response)));
        Response { status: 502, fields: Table::default(), content, whole: None }
    }

    /// Creates the response of another route, instead of a response with this status.
    pub fn redirected(status: u16, redirect: InternalRedirect) -> Response {
        Response { content: Content::Redirected(redirect.into()), ..Response::new(status, "") }
    }

    /// Creates the 200 response with a body that is still arriving.
    pub(crate) fn growing(body: Reader) -> Response {
        Response { content: Content::Growing(body), ..Response::page("", Bytes::new()) }
    }

    /// Returns the response with another status.
    pub fn status(self, status: u16) -> Response {
        Response { status, ..self }
    }

    /// Returns the response with an additional field.
    pub fn with(mut self, name: &str, value: &str) -> Response {
        self.fields.push(name.as_bytes(), value.as_bytes());
        self
    }

    /// The reason why no endpoint answers; empty for a page.
    pub fn why(&self) -> Cow<'_, str> {
        match &self.content {
            Content::Reason(why) => why.into(),
            Content::Malformed(reject) => reject.to_string().into(),
            Content::Page { .. } | Content::Later(_) | Content::Growing(_) | Content::Redirected(_) => "".into(),
        }
    }

    /// Bytes of the body of a page; 0 for other responses, whose body is made later.
    pub fn page_len(&self) -> usize {
        if let Content::Page { body, .. } = &self.content { body.len() } else { 0 }
    }

    /// Seconds in `Retry-After`, if the response has it as a number.
    pub fn retry_after(&self) -> Option<u64> {
        let (_, value) = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"retry-after"))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }
}

impl From<Reject> for Response {
    fn from(reject: Reject) -> Response {
        Response { status: reject.status(), fields: Table::default(), content: Content::Malformed(reject), whole: None }
    }
}
