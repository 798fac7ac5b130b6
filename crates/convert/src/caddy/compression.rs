//! `encode`: `compress` of routes.

use super::lexer::Directive;
use crate::compression::{codings, put, types};
use crate::ledger::Ledger;
use crate::model::{Draft, RouteKeys, size};

/// Length from which Caddy compresses if none is stated.
const MIN_LENGTH: u64 = 512;

/// Filters for `encode [FORMAT...] { gzip LEVEL, zstd, minimum_length N, match { ... } }`.
pub(super) fn read(directive: &Directive, words: &[String], ledger: &mut Ledger) -> RouteKeys {
    ledger.carried(directive.line);
    let mut names: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut least, mut of_types, mut level) = (MIN_LENGTH, Vec::new(), None);
    for row in &directive.block {
        let number = || row.word(1).parse::<u64>().ok();
        match row.name() {
            name @ ("gzip" | "zstd" | "br") => {
                names.push(name);
                ledger.carried(row.line);
                match number() {
                    Some(number) if name == "gzip" => level = Some(number.clamp(2, 9)),
                    _ if row.word(1).is_empty() => {}
                    _ => ledger.changes(row.line, "its level has a name of Caddy", "level of compress"),
                }
            }
            "minimum_length" => match number() {
                Some(number) => {
                    least = number;
                    ledger.carried(row.line);
                }
                None => row.lost("its value was not understood", "min_length of compress", ledger),
            },
            "match" => {
                let inline = [row.from(1).to_vec()];
                let rows = inline.iter().chain(row.block.iter().map(|inner| &inner.words));
                for words in rows.filter(|words| !words.is_empty()) {
                    match words.iter().position(|word| word.eq_ignore_ascii_case("content-type")) {
                        Some(at) => {
                            let named = &words[at + 1..];
                            let known = types(named.iter().map(String::as_str));
                            if known.len() < named.len() {
                                row.lost("a pattern of types is left out", "types of compress", ledger);
                            }
                            of_types.extend(known);
                        }
                        None => row.lost("responses are chosen by their types only", "types of compress", ledger),
                    }
                }
                ledger.carried(row.line);
                row.block.iter().for_each(|inner| ledger.carried(inner.line));
            }
            _ => row.lost("compress has no such setting", "compress of the [[route]]", ledger),
        }
    }
    let mut compress = Draft::default();
    let named = codings(names);
    compress.put(key!("algorithms"), if named.is_empty() { vec!["zstd", "gzip"] } else { named });
    if !of_types.is_empty() {
        compress.put(key!("types"), of_types);
    }
    compress.put(key!("min_length"), size(least));
    if let Some(level) = level {
        compress.put(key!("level.gzip"), level);
    }
    let mut set = Draft::default();
    put(compress, &mut set);
    set
}
