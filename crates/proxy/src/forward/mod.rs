//! Forwarding of a request. [`attempts`] tries one endpoint after another; each [`attempt`] sends the request to one
//! endpoint (or to two: [`hedge`]), and a [`relay`] passes the request and the response.

pub mod attempt;
mod attempt_end;
pub mod attempts;
pub mod hedge;
pub mod outgoing;
pub mod relay;
