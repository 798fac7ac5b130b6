//! Responses of endpoints as the rules read them.

use crate::moment::{Date, Moment};
use evenkeel_wire::head::Fields;

/// Head of an endpoint's final response, and when it was on its way. Rows that `fields` drops are read, but not stored.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r, 'h, 'b> {
    /// Final status, 200 to 999.
    pub status: u16,
    pub fields: &'r Fields<'h, 'b>,
    /// Time at which the request was sent.
    pub sent: Moment,
    /// Time at which the head of the response was received.
    pub received: Moment,
    /// Time of `received` by the wall clock, for comparison with the dates of the response.
    pub arrived: Date,
}
