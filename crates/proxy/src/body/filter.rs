//! Body filters: steps that the content of a request or a response passes, piece by piece.

use crate::body::fault::Unfit;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// A step that the body of a message passes.
pub trait BodyFilter {
    /// True if the body keeps its length, so that a stated length holds.
    fn keeps_length(&self) -> bool {
        false
    }

    /// True if [`data`](Self::data) may pause. The body passes such a filter after all others. Bytes that come with the
    /// head of a request do not pass it.
    fn may_pause(&self) -> bool {
        false
    }

    /// Consumes bytes from the front of `from` and writes the bytes to forward instead into `to`, which is empty: as
    /// many as fit, or none yet. Bytes left in `from` are passed again at the next call. A call must consume or write
    /// something, or pause.
    ///
    /// # Errors
    /// The body does not pass.
    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit>;

    /// Writes bytes that are held back into `to`, which is empty, as the sender pauses: the receiver must be able to
    /// read everything that has come. Called again until it writes nothing.
    ///
    /// # Errors
    /// The body does not pass.
    fn flush(&mut self, _to: &mut Buf) -> Result<(), Unfit> {
        Ok(())
    }

    /// Ends the body: writes the bytes that are left to forward into `to`, which is empty, and may change the trailers.
    /// The table is empty if there are none.
    ///
    /// # Errors
    /// The body does not pass.
    fn end(&mut self, _to: &mut Buf, _trailers: &mut Table) -> Result<Ended, Unfit> {
        Ok(Ended::Whole)
    }
}

/// Direction in which bytes pass a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the endpoint to the client.
    Download,
    /// From the client to the endpoint.
    Upload,
}

/// Decision of a body filter: the written bytes pass now, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The bytes pass at once, without a timer.
    On,
    /// The bytes pass after this time in nanoseconds.
    Pause(u64),
}

/// State of a body at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Whole,
    /// Output is left because `to` is full: `end` is called again.
    More,
}
