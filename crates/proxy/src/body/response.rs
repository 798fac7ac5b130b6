//! A response of this side's own: an error, a redirect, a page, the answer to a challenge.

use evenkeel_wire::head::Table;
use evenkeel_wire::http1::Reject;

/// The type of a line of text.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A response of this side's own.
#[derive(Debug)]
pub struct Response {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Fields besides the type and the length of the body.
    pub fields: Table,
    /// The body, or what is said in its place.
    pub content: Content,
}

/// Content of a response of this proxy's own.
#[derive(Debug)]
pub enum Content {
    /// The reason why no endpoint answers, for the log. The client sees a page, or a line with as much of the reason as its listener
    /// gives away.
    Reason(String),
    /// The rule that the request breaks: its connection ends behind the response. Else as a reason.
    Malformed(Reject),
    /// The answer to a request for this side.
    Page {
        /// Value of `Content-Type`.
        media_type: &'static str,
        body: Vec<u8>,
    },
}

impl Response {
    /// The response to a request that no endpoint answers.
    pub fn new(status: u16, why: impl Into<String>) -> Response {
        Response { status, fields: Table::default(), content: Content::Reason(why.into()) }
    }

    /// The answer to a request for this side.
    pub fn page(media_type: &'static str, body: Vec<u8>) -> Response {
        Response { status: 200, fields: Table::default(), content: Content::Page { media_type, body } }
    }

    /// The response with one more field.
    pub fn with(mut self, name: &str, value: &str) -> Response {
        self.fields.push(name.as_bytes(), value.as_bytes());
        self
    }

    /// The reason why no endpoint answers; empty for a page.
    pub fn why(&self) -> std::borrow::Cow<'_, str> {
        match &self.content {
            Content::Reason(why) => why.into(),
            Content::Malformed(reject) => reject.to_string().into(),
            Content::Page { .. } => "".into(),
        }
    }

    /// Seconds after which asking again makes sense, if it states them.
    pub fn retry_after(&self) -> Option<u64> {
        let (_, value) = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"retry-after"))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }
}

impl From<Reject> for Response {
    fn from(reject: Reject) -> Response {
        Response { status: reject.status(), fields: Table::default(), content: Content::Malformed(reject) }
    }
}
