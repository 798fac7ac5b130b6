//! Does the balancer keep tower's promises, with every algorithm? Services whose readiness the test decides.

mod endings;
mod histories;
mod keys;
mod readiness;
mod rows;
