//! A filter of bodies: a step that the content of a request or of a response passes, piece by piece.

use crate::body::fault::Unfit;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// A step that the body of one message passes.
pub trait BodyFilter {
    /// True if as many bytes go on as come, so that a stated length holds.
    fn keeps_length(&self) -> bool {
        false
    }

    /// Takes bytes from the front of `from`, and fills `to`, which is empty, with what goes on in their place. That may be nothing yet.
    /// What is left in `from`, as `to` is full, comes again.
    ///
    /// # Errors
    /// The body does not pass.
    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit>;

    /// Fills `to`, which is empty, with what is left to go on at the end of the body, and may change the trailers, of which there may be
    /// none.
    ///
    /// # Errors
    /// The body does not pass.
    fn end(&mut self, _to: &mut Buf, _trailers: &mut Table) -> Result<Ended, Unfit> {
        Ok(Ended::Whole)
    }
}

/// State of a body at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing is left.
    Whole,
    /// More is left, as `to` is full.
    More,
}
