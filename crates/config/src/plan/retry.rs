//! What is tried again, and what is sent twice? [`Retry`].

use evenkeel_balance::{hedge, retry};

/// `retry` of a pool or route.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// When a request that failed is tried again.
    pub settings: retry::Settings,
    /// When a slow request is sent to a second endpoint too; `None` = never.
    pub hedge: Option<hedge::Settings>,
}
