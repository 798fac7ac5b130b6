//! Load of a listener for balancers in front: in a field of each response, and as a page.

pub mod field;
pub mod report;
