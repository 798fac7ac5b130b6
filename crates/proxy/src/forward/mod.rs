//! A request's way to an endpoint and back. [`attempts`] send it to one endpoint after another, each of them an [`attempt`] (or two at
//! once: [`hedge`]), and a [`relay`] passes request and response. [`fault`] says what went wrong.

pub mod attempt;
pub mod attempts;
pub mod fault;
pub mod hedge;
pub mod outgoing;
pub mod relay;
mod tried;
