//! Requests that this proxy itself sends, for endpoints of either protocol.

use crate::body::message::Message;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::response::RequestContext;

/// A request that this proxy itself sends, perhaps several times.
pub struct SideRequest {
    pub method: Box<str>,
    /// Path, with the query if there is one.
    pub target: Box<str>,
    /// Host; `None` for the host of the endpoint.
    pub host: Option<Box<[u8]>>,
    /// Fields of a client. Fields of its connection, and fields that this proxy writes itself, are not sent.
    pub fields: Table,
    /// Further fields as lines, each with its line end.
    pub lines: Vec<u8>,
    /// The body, which is whole before the request is sent.
    pub message: Message,
    /// True if a body follows the head, which may be empty.
    pub has_body: bool,
}

impl SideRequest {
    /// Creates a GET without a body, for the host of the endpoint.
    pub fn get(target: &str) -> SideRequest {
        SideRequest {
            method: "GET".into(),
            target: target.into(),
            host: None,
            fields: Table::default(),
            lines: Vec::new(),
            message: Message { whole: true, ..Message::default() },
            has_body: false,
        }
    }

    /// True if an endpoint may get it twice.
    pub fn is_idempotent(&self) -> bool {
        matches!(&*self.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
    }

    /// Properties that readers of the response need.
    pub fn context(&self) -> RequestContext {
        RequestContext { head: &*self.method == "HEAD", upgrade: false }
    }
}
