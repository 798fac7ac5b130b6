//! Where do answers come from? One file for each kind of source, and one row here.

mod dns;
mod file;

use crate::kept::{Answer, Pace};
use evenkeel_config::plan::{Resolver, Source};
use std::pin::Pin;

/// Something that can be asked again and again.
pub trait Look: Send {
    /// Asks it now.
    fn look(&mut self) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>>;
}

/// A source of one kind, and how often it may be asked; `None` for sources of other kinds.
type Start = fn(&Source, &Resolver) -> Option<(Box<dyn Look>, Pace)>;

/// Every kind.
static ALL: &[Start] = &[dns::start, file::start];

/// Makes the source that a plan names.
pub fn start(source: &Source, resolver: &Resolver) -> (Box<dyn Look>, Pace) {
    ALL.iter().find_map(|start| start(source, resolver)).expect("every kind of source has a row")
}
