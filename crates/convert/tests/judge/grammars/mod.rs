//! Grammars of random configurations, for each program.

mod haproxy;
mod nginx;

pub use nginx::NGINX;

use crate::dice::Dice;
use crate::tree::{Node, Style};
use crate::verdict::Side;
use evenkeel_convert::{Ask, From};

/// Grammar of a program, and how its configurations are run.
pub struct Grammar {
    pub from: From,
    pub style: Style,
    pub generate: fn(&mut Dice) -> Vec<Node>,
    /// Text for the original alone, around that of a configuration: what it needs to run as a test. `@CONFIG@` stands for
    /// the configuration.
    pub around: &'static str,
    /// Files beside the configuration, by name.
    pub files: &'static [(&'static str, &'static str)],
    /// Changes a request, by its number, where a program has more to ask for than the words of its configuration.
    pub ask: fn(&mut Ask, usize),
    /// Takes away what always differs between the program and evenkeel, which the head of each report lists.
    pub settle: fn(&Ask, &mut Side, &mut Side),
}

impl Grammar {
    /// A configuration with what the original needs around it.
    pub fn whole(&self, text: &str) -> String {
        self.around.replace("@CONFIG@", text)
    }
}
