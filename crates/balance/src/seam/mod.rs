//! The interface between shells and algorithms: a shell calls the [`Balancer`](balancer::Balancer), which asks a
//! [`Picker`](picker::Picker).

// Order: balancer, journal, picker, explain, params, recent, tried, view
pub mod balancer;
pub mod explain;
pub mod journal;
pub mod params;
pub mod picker;
pub mod recent;
pub mod tried;
pub(crate) mod view;
