//! What does the client read when no endpoint's response goes to it? As much of the reason as its listener says.

use evenkeel_config::plan::Errors;
use evenkeel_wire::http1::Reject;
use evenkeel_wire::http1::reject::reason;
use std::borrow::Cow;

/// What the client gets for a body.
pub struct Content<'p> {
    pub media_type: &'p str,
    pub body: Cow<'p, [u8]>,
}

impl Content<'_> {
    pub fn text(text: String) -> Content<'static> {
        Content { media_type: "text/plain; charset=utf-8", body: Cow::Owned(text.into_bytes()) }
    }
}

/// What we say in an endpoint's place.
pub struct Reply {
    pub status: u16,
    pub why: String,
    /// Seconds after which asking again makes sense.
    pub retry_after: Option<u64>,
}

impl Reply {
    pub fn new(status: u16, why: String) -> Reply {
        Reply { status, why, retry_after: None }
    }

    /// A line of text for the client. `request_id`: what the access log calls the request, if there is one.
    pub fn text(&self, errors: Errors, request_id: Option<u64>) -> String {
        let (status, phrase) = (self.status, reason(self.status));
        match (errors, request_id) {
            (Errors::Detailed, _) => format!("{status} {phrase}: {}\n", self.why),
            (Errors::Terse, Some(id)) => format!("{status} {phrase} (request {id:016x})\n"),
            (Errors::Terse, None) => format!("{status} {phrase}\n"),
        }
    }
}

impl From<Reject> for Reply {
    fn from(reject: Reject) -> Reply {
        Reply::new(reject.status(), reject.to_string())
    }
}
