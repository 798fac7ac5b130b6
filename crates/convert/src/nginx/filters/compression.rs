//! `gzip`, `brotli` and `zstd` with their settings: `compress` of a route.

use crate::compression::{self, types};
use crate::model::{Draft, Entries, RouteKeys, parse_size, size};
use crate::nginx::lexer::Directive;
use crate::nginx::world::{World, single};

/// Coding, the directives that are its switch, types, shortest length and level, and its highest level here.
const CODINGS: [(&str, [&str; 4], u64); 3] = [
    ("zstd", ["zstd", "zstd_types", "zstd_min_length", "zstd_comp_level"], 7),
    ("br", ["brotli", "brotli_types", "brotli_min_length", "brotli_comp_level"], 5),
    ("gzip", ["gzip", "gzip_types", "gzip_min_length", "gzip_comp_level"], 9),
];

/// Lowest level of gzip that makes responses as small as NGINX's level 1.
const GZIP_MIN: u64 = 2;

/// Longest length below which nothing is compressed that makes a difference to leave out: the default of NGINX.
const MIN_LENGTH: u64 = 20;

/// Reads the directives of all codings that are on.
pub(in crate::nginx) fn read(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let is_on = |name: &str| single(levels, name).is_some_and(|switch| switch.word(1) == "on");
    let (mut algorithms, mut all_types, mut level) = (Vec::new(), vec!["text/html".to_string()], Entries::default());
    let mut min_length = None;
    for (coding, [switch, of_types, shortest, of_level], level_max) in CODINGS {
        let on = is_on(switch);
        if let Some(directive) = single(levels, switch) {
            match directive.word(1) {
                "on" | "off" => world.ledger.carried(directive.line),
                _ => world.ledger.changes(directive.line, "its value was not understood", "compress of the [[route]]"),
            }
        }
        // Where the coding is off, they say nothing, as in NGINX.
        for directive in [of_types, shortest, of_level].iter().filter_map(|name| single(levels, name)) {
            world.ledger.carried(directive.line);
        }
        if !on {
            continue;
        }
        algorithms.push(coding);
        if let Some(directive) = single(levels, of_types) {
            let named: Vec<&str> = directive.words.iter().skip(1).map(String::as_str).collect();
            all_types.extend(types(named));
        }
        if let Some(bytes) = single(levels, shortest).and_then(|directive| parse_size(directive.word(1))) {
            min_length = Some(min_length.map_or(bytes, |other: u64| other.min(bytes)));
        }
        if let Some(number) = single(levels, of_level).and_then(|directive| directive.word(1).parse::<u64>().ok()) {
            let least = if coding == "gzip" { GZIP_MIN } else { 1 };
            level.set(coding, number.clamp(least, level_max));
        }
    }
    for name in ["gzip_vary", "gzip_proxied"] {
        let Some(directive) = single(levels, name) else { continue };
        match (name, directive.word(1)) {
            _ if algorithms.is_empty() => world.ledger.carried(directive.line),
            ("gzip_vary", "on") | ("gzip_proxied", "any") => world.ledger.carried(directive.line),
            ("gzip_vary", _) => world.ledger.dropped(directive.line, "Vary is always sent: caches need it"),
            _ => world.ledger.dropped(
                directive.line,
                "responses are compressed also for clients behind proxies, unless they state no-transform",
            ),
        }
    }
    if algorithms.is_empty() {
        return;
    }
    let mut compress = Draft::default();
    compress.put(key!("algorithms"), algorithms);
    all_types.sort();
    all_types.dedup();
    compress.put(key!("types"), all_types);
    compress.put(key!("min_length"), size(min_length.unwrap_or(MIN_LENGTH)));
    if !level.is_empty() {
        compress.put(key!("level"), level);
    }
    compression::put(compress, set);
}
