//! Fields of requests and responses that a route changes: `request_headers`, `response_headers` and `cookies`.

mod changes;
mod conditions;
pub mod cookies;
pub mod request;
pub mod response;
