//! `compression` of frontends and backends: `compress` of their routes.

use super::lexer::Item;
use crate::compression::{codings, put, types};
use crate::ledger::Ledger;
use crate::model::{Table, parse_size, size};

/// Reads the lines of a section. `None` if it compresses nothing.
pub(super) fn read(items: &[&Item], ledger: &mut Ledger) -> Option<Table> {
    let (mut compress, mut is_on, mut has_types) = (Table::default(), false, false);
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
                compress.put("algorithms", codings);
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
                compress.put("types", types(names()));
                ledger.carried(item.line);
            }
            "minsize-res" => match parse_size(item.word(2)) {
                Some(bytes) => {
                    compress.put("min_length", size(bytes));
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
        compress.put("types", vec!["*/*"]);
    }
    is_on.then_some(compress)
}

/// Gives the routes of a section what it compresses, unless they have something of their own.
pub(super) fn apply<'s>(compress: &Table, sets: impl Iterator<Item = &'s mut Table>) {
    for set in sets.filter(|set| set.get("compress").is_none()) {
        put(compress.clone(), set);
    }
}
