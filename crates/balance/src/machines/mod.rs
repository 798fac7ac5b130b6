//! State machines. Each observes an endpoint, a pool or a request and decides about it. None of them knows of
//! endpoint sets or algorithms.

// Order: concurrency, health, hedge, outlier, queue, retry, budget, slow_start
pub mod budget;
pub mod concurrency;
pub mod health;
pub mod hedge;
pub mod outlier;
pub mod queue;
pub mod retry;
pub mod slow_start;
