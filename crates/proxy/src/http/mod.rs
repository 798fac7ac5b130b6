//! What happens on a connection that speaks HTTP? A [`connection`] is served request after request, each of which is a
//! [`down`]stream. An [`exchange`] routes it, [`attempts`] send it to one endpoint after another, each of them an
//! [`attempt`] (or two at once: [`hedge`]), and a [`relay`] passes request and response. [`fault`] says what went wrong,
//! [`reply`] what the client reads then, and a [`record`] what is counted and logged; by [`id_field`] both sides know the
//! request's name, and it is [`traced`].

pub mod attempt;
pub mod attempts;
pub mod connection;
pub mod down;
pub mod exchange;
pub mod fault;
pub mod grpc;
pub mod hedge;
pub mod id_field;
pub mod noted;
pub mod open;
pub mod outgoing;
pub mod record;
pub mod relay;
pub mod reply;
pub mod traced;
mod tried;
pub mod try_end;
mod watch;
pub mod why;
