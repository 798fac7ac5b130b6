//! Observation: counters ([`stats`]) of workers that [`metrics`] shows, lines of the [`access_log`], and who ended
//! what ([`end`]). A request has its id there ([`request_id`]). A request, a session or a flow that is over has a [`summary`] with its
//! [`timing`] and, if it is a request, [`tries`]. Explanations of requests are kept in [`explanations`]; [`taps`] and the exporter of
//! [`traces`] get [`finished`] requests. What workers count under a plan are its [`numbers`]; how operators see them is [`shown`].

pub mod access_log;
pub mod dropped_report;
pub mod end;
pub mod explanations;
pub mod finished;
pub mod flow_end;
pub mod latency;
pub mod metrics;
pub mod numbers;
pub mod request_id;
pub mod route_stats;
pub mod shown;
pub mod stats;
pub mod summary;
pub mod taps;
pub mod timing;
pub mod traces;
pub mod tries;
