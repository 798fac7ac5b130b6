//! How is an endpoint asked whether it is well? [`HealthCheck`].

use evenkeel_balance::health;
use std::ops::RangeInclusive;
use std::time::Duration;

/// `health` of a pool: active checks of each endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthCheck {
    /// What is asked.
    pub check: Check,
    /// On which port; `None` = the one of the endpoint.
    pub port: Option<u16>,
    /// From the start of one check of an endpoint to the start of its next, before jitter.
    pub interval: Duration,
    /// Each interval is longer or shorter by up to this share of it, 0 to 1.
    pub jitter: f64,
    /// How long one check may take, the connect included; never longer than `interval`.
    pub timeout: Duration,
    /// How many results it takes to change the state of an endpoint.
    pub machine: health::Settings,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A request: passed if status and body are as expected.
    Http {
        /// `GET`, `HEAD` or `OPTIONS`.
        method: String,
        /// Path and query, as sent.
        path: String,
        /// The `Host` field; `None` = the address of the endpoint.
        host: Option<String>,
        /// The statuses that pass: at least one range, within 200 to 599.
        expect: Vec<RangeInclusive<u16>>,
        /// A text that the body must contain; `None` = any body. Never with `HEAD`.
        body: Option<String>,
    },
    /// A connection: passed if it opens.
    Tcp,
    /// A datagram: passed if an answer comes that is as expected.
    Udp {
        /// What is sent. Not empty.
        send: Vec<u8>,
        /// What an answer must contain; `None` = any answer.
        expect: Option<Vec<u8>>,
    },
}
