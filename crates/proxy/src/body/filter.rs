//! Body filters: steps that the content of a request or a response passes, piece by piece.

use crate::body::fault::Unfit;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// A step that the body of one message passes.
pub trait BodyFilter {
    /// True if the body keeps its length, so that a stated one holds.
    fn keeps_length(&self) -> bool {
        false
    }

    /// Consumes bytes from the front of `from` and writes the bytes to forward instead into `to`, which is empty: as
    /// many as fit, or none yet. Bytes left in `from` are passed again at the next call. A call must consume or write
    /// at least one byte.
    ///
    /// # Errors
    /// The body does not pass.
    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit>;

    /// Writes bytes that are held back into `to`, which is empty, as the sender pauses: the receiver must be able to read
    /// all that has come. Called again until it writes none.
    ///
    /// # Errors
    /// The body does not pass.
    fn pause(&mut self, _to: &mut Buf) -> Result<(), Unfit> {
        Ok(())
    }

    /// Ends the body: writes the bytes that are left to forward into `to`, which is empty, and may change the trailers, of which there
    /// may be none.
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
    Whole,
    /// Output is left because `to` is full: `end` is called again.
    More,
}
