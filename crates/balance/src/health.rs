//! Is an endpoint up? Rise and fall over the results of active checks.

/// What checks must say before an endpoint changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failed checks in a row that take an endpoint down; at least 1.
    pub fall: u32,
    /// Passed checks in a row that bring it back; at least 1.
    pub rise: u32,
    /// What an endpoint is before its first result.
    pub initial: Initial,
}

impl Default for Settings {
    /// HAProxy's: 3 down, 2 up.
    fn default() -> Settings {
        Settings { fall: 3, rise: 2, initial: Initial::CheckFirst }
    }
}

/// What an endpoint is before the first result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Neither: requests wait for the result, but no longer than a second; the first result decides alone.
    CheckFirst,
    /// Up until checks say otherwise.
    Healthy,
    /// Down until checks say otherwise.
    Unhealthy,
}
