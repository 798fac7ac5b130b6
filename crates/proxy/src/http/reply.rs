//! What does the client read when no endpoint's response goes to it?

/// Why no endpoint answers.
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

/// What is asked of this side itself, and answered with 200.
pub struct Page {
    /// Besides its length and its type, each with its line's end.
    pub fields: Vec<u8>,
    /// The type of its body.
    pub kind: &'static str,
    /// May be empty.
    pub body: Vec<u8>,
}
