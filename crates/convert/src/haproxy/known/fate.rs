//! Treatment of directives that are not translated, and reasons that several rows have.

/// Treatment of a directive that is not translated.
#[derive(Clone, Copy, Debug)]
pub(in crate::haproxy) enum Fate {
    /// Left out without a loss, for this reason.
    Lossless(&'static str),
    /// Left out with a difference: the reason, and advice.
    Changes(&'static str, &'static str),
}

pub(super) const WORKERS: &str = "evenkeel runs one worker for each core; `runtime.workers` sets another number";
pub(super) const BUFFERS: &str = "buffers have fixed bounds here, and bodies pass through as they come";
pub(super) const DASHBOARD: &str = "the dashboard and the API of `[admin]` show it";
pub(super) const MACHINERY: &str = "it tunes HAProxy's own machinery";
