//! Facts about the sender of a request that are not in its head.

use evenkeel_config::plan::Scheme;
use std::net::IpAddr;

/// Sender of a request, as routes see it.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The client, behind trusted proxies the one that these report.
    pub client: IpAddr,
    /// Scheme by which the client sent the request.
    pub scheme: Scheme,
    /// True if the fields count in which proxies report the client.
    pub is_trusted: bool,
}
