//! Parts of a message body: data, trailer fields, the end.

use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

#[derive(Debug)]
pub enum Part {
    /// Bytes of the body; never empty.
    Data(Buf),
    /// Trailer fields. No data follows.
    Trailers(Table),
    End,
}

/// The peer is gone: it can neither send nor receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;
