//! What happened? Numbers ([`stats`]) that workers count and [`metrics`] shows, lines of the [`access_log`], and who ended
//! what ([`end`]). What a request is called there: [`request_id`]. Why requests went where they went is kept as
//! explanations of those that [`explaining`] names; what is told of requests to those who watch is [`watched`] through
//! [`taps`]. What workers count under a plan are its [`numbers`]; how operators see them is [`shown`].

pub mod access_log;
pub mod dropped_report;
pub mod end;
pub mod explaining;
pub mod flow_end;
pub mod latency;
pub mod metrics;
pub mod numbers;
pub mod request_id;
pub mod route_stats;
pub mod shown;
pub mod stats;
pub mod taps;
pub mod trace;
pub mod traces;
pub mod watched;
