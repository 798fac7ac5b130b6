//! Observation: counters of workers ([`stats`]), exported by [`metrics`], the [`access_log`], and the side that ended a
//! request ([`end`]). [`request_id`] generates ids of requests. A finished request, session or flow has a [`summary`]
//! with its [`timing`]; a request also has its [`tries`]. [`explanations`] keeps explained requests; [`taps`] and the
//! exporter of [`traces`] receive [`finished`] requests. [`numbers`] holds the counters of all workers under a plan;
//! [`shown`] sums them for operators, and the cache in [`shown_cache`].

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
pub mod shown_cache;
pub mod stats;
pub mod summary;
pub mod taps;
pub mod timing;
pub mod traces;
pub mod tries;
