//! `compression` of frontends and backends: `compress` of their routes.

use super::lexer::Item;
use crate::compression::{codings, put, types};
use crate::ledger::Ledger;
use crate::model::{Draft, RouteKeys, parse_size, size};
use evenkeel_config::plan::Compress;

/// Reads the lines of a section. `None` if it compresses nothing.
pub(super) fn read(items: &[&Item], ledger: &mut Ledger) -> Option<Draft<Compress>> {
    let (mut compress, mut is_on, mut has_types) = (Draft::default(), false, false);
    for item in items.iter().filter(|item| item.word(0) == "compression") {
        let words = item.from(2);
        let names = || words.iter().map(String::as_str);
        match item.word(1) {
            "algo" | "algo-res" => {
                let codings = codings(names());
                if codings.is_empty() {
                    ledger.changes(item.line, "evenkeel has zstd, gzip and br", "compress = true in the [[route]]");
                    continue;
                }
                is_on = true;
                compress.put(key!("algorithms"), codings);
                ledger.carried(item.line);
                if names().any(|name| matches!(name, "deflate" | "raw-deflate")) {
                    ledger.changes(
                        item.line,
                        "`deflate` is left out: programs disagree about what it is",
                        "nothing: every client that has it has gzip",
                    );
                }
            }
            "type" | "type-res" => {
                has_types = true;
                compress.put(key!("types"), types(names()));
                ledger.carried(item.line);
            }
            "minsize-res" => match parse_size(item.word(2)) {
                Some(bytes) => {
                    compress.put(key!("min_length"), size(bytes));
                    ledger.carried(item.line);
                }
                None => ledger.changes(item.line, "its value was not understood", "min_length of compress"),
            },
            "direction" if item.word(2) == "response" => ledger.carried(item.line),
            "offload" => ledger.changes(
                item.line,
                "endpoints see Accept-Encoding, and what they compress passes as it is",
                "request_headers = { remove = [\"Accept-Encoding\"] } in the [[route]]",
            ),
            _ => ledger.changes(item.line, "bodies of requests are not compressed", "leave it out"),
        }
    }
    if is_on && !has_types {
        // HAProxy compresses every type if none is named.
        compress.put(key!("types"), vec!["*/*"]);
    }
    is_on.then_some(compress)
}

/// Sets compression on the routes of a section, unless a route has `compress` already.
pub(super) fn apply<'s>(compress: &Draft<Compress>, sets: impl Iterator<Item = &'s mut RouteKeys>) {
    for set in sets.filter(|set| !set.has(key!("compress"))) {
        put(compress.clone(), set);
    }
}
