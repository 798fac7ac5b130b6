//! What happened? Numbers ([`stats`]) that workers count and [`metrics`] shows, lines of the [`access_log`], and who ended
//! what ([`end`]). Which plan runs is a [`generation`].

pub mod access_log;
pub mod dropped_report;
pub mod end;
pub mod flow_end;
pub mod generation;
pub mod metrics;
pub mod route_stats;
pub mod stats;
