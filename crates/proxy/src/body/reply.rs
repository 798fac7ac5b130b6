//! What does the client read when no endpoint's response goes to it? As much of the reason as its listener says.

use crate::observe::request_id::RequestId;
use evenkeel_config::plan::Errors;
use evenkeel_wire::http1::Reject;
use evenkeel_wire::http1::reply::{TEXT, reason};
use std::borrow::Cow;

/// What the client gets for a body.
pub struct Content<'p> {
    pub media_type: &'p str,
    pub body: Cow<'p, [u8]>,
}

impl Content<'_> {
    pub fn text(text: String) -> Content<'static> {
        Content { media_type: TEXT, body: Cow::Owned(text.into_bytes()) }
    }
}

/// Why no endpoint answers.
pub struct Reply {
    pub status: u16,
    pub why: String,
    /// Seconds after which asking again makes sense.
    pub retry_after: Option<u64>,
    /// Where to ask instead.
    pub location: Option<String>,
}

impl Reply {
    pub fn new(status: u16, why: String) -> Reply {
        Reply { status, why, retry_after: None, location: None }
    }

    /// One that sends the client elsewhere, for good.
    pub fn moved(location: String) -> Reply {
        Reply { location: Some(location), ..Reply::new(308, "it is answered over TLS".to_string()) }
    }

    /// A line of text for the client. `request_id`: what the access log calls the request, if there is one.
    pub fn text(&self, errors: Errors, request_id: Option<&RequestId>) -> String {
        let (status, phrase) = (self.status, reason(self.status));
        match (errors, request_id) {
            (Errors::Detailed, _) => format!("{status} {phrase}: {}\n", self.why),
            (Errors::Terse, Some(id)) => format!("{status} {phrase} (request {id})\n"),
            (Errors::Terse, None) => format!("{status} {phrase}\n"),
        }
    }
}

impl From<Reject> for Reply {
    fn from(reject: Reject) -> Reply {
        Reply::new(reject.status(), reject.to_string())
    }
}

/// What is asked of this side itself, and answered with 200.
pub struct Page {
    /// Besides its length and its type, each with its line's end.
    pub fields: Vec<u8>,
    /// The type of its body.
    pub kind: &'static str,
    /// May be empty.
    pub body: Vec<u8>,
}
