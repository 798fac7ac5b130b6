//! Grammars of random configurations, for each program.

mod caddy;
mod envoy;
mod haproxy;
mod nginx;
mod traefik;

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

/// A path without empty and dot segments, with unreserved characters decoded, and its query.
pub fn normal(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut plain = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        plain += before;
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            Some(byte) => plain.push(char::from(byte)),
            None => plain += &format!("%{}", after.get(..2).unwrap_or("")),
        }
        rest = after.get(2..).unwrap_or("");
    }
    plain += rest;
    let mut segments: Vec<&str> = Vec::new();
    let all: Vec<&str> = plain.split('/').collect();
    for (n, segment) in all.iter().enumerate() {
        let is_last = n + 1 == all.len();
        match *segment {
            "." | "" if !is_last => {}
            ".." => drop(segments.pop()),
            "." => segments.push(""),
            segment => segments.push(segment),
        }
    }
    format!(
        "/{}{}",
        segments.join("/"),
        query.filter(|query| !query.is_empty()).map_or(String::new(), |query| format!("?{query}"))
    )
}
