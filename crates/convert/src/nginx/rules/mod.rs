//! Rules of servers and locations, as routes.

// Order: walk, program & pages, rewrite, answer, state, condition

mod answer;
mod condition;
mod pages;
mod program;
mod rewrite;
mod state;
mod walk;

pub(super) use condition::{Truth, host, row};
pub(super) use pages::read as read_pages;
pub(super) use program::Routes;
pub(super) use state::{State, join};
