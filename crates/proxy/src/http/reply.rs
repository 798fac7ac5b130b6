//! What does the client read when no endpoint's response goes to it?

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
}
