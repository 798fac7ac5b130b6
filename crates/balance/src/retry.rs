//! May a request try again, and when? Conditions, a budget, and a backoff with jitter.

/// What is tried again, and how much of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Further tries that a request gets after its first; 0 = none.
    pub attempts: u32,
    /// The failures that are tried again.
    pub on: Conditions,
    /// Whether requests whose method is not idempotent are tried again too, once something of them has left.
    pub non_idempotent: bool,
    /// Tries that may be retries, as a share of requests, 0 to 1.
    pub budget: f64,
    /// Retries per second that are always allowed, all workers of the process together.
    pub budget_floor: f64,
    /// The first pause is drawn from 0 to this, nanoseconds; each further one from twice that.
    pub backoff_ns: u64,
    /// The longest pause, nanoseconds.
    pub backoff_max_ns: u64,
    /// How long one try may take to the head of its response, nanoseconds; `None` = as long as the request.
    pub try_timeout_ns: Option<u64>,
}

/// Which failures are tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The endpoint could not be connected to: nothing of the request has left.
    pub connect: bool,
    /// It closed or reset the connection before the first byte of a response.
    pub reset: bool,
    /// It did not answer within the time for a try.
    pub timeout: bool,
    /// It answered with one of these statuses, ascending; 400 to 599.
    pub statuses: Vec<u16>,
}

impl Default for Settings {
    /// One retry, elsewhere, of what has surely not been served. Envoy's budget.
    fn default() -> Settings {
        Settings {
            attempts: 1,
            on: Conditions { connect: true, reset: true, timeout: false, statuses: Vec::new() },
            non_idempotent: false,
            budget: 0.2,
            budget_floor: 3.0,
            backoff_ns: 25_000_000,
            backoff_max_ns: 250_000_000,
            try_timeout_ns: None,
        }
    }
}
