//! What does the body of a message consist of? Data, and perhaps fields behind it.

use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// A part of a body.
#[derive(Debug)]
pub enum Part {
    /// Some of its bytes, at least one.
    Data(Buf),
    /// Fields behind it; the end follows.
    Trailers(Table),
    /// Nothing more follows.
    End,
}

/// The peer can neither send nor take anything more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;
