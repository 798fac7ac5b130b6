//! Contract of a tower balancer, checked for every algorithm over mock services whose readiness the test controls.

mod endings;
mod histories;
mod keys;
mod readiness;
mod rows;
