//! Parts of a message body: data, and possibly trailer fields.

use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

#[derive(Debug)]
pub enum Part {
    /// Some of its bytes, at least one.
    Data(Buf),
    /// Fields behind it; the end follows.
    Trailers(Table),
    End,
}

/// The peer can neither send nor take anything more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;
