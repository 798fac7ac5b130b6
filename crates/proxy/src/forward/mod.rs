//! A request's way to an endpoint and back. [`attempts`] send it to one endpoint after another, each of them an [`attempt`] (or two at
//! once: [`hedge`]), and a [`relay`] passes request and response.

pub mod attempt;
mod attempt_end;
pub mod attempts;
pub mod hedge;
pub mod outgoing;
pub mod relay;
