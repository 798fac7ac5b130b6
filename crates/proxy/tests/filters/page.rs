//! The reference page of the filters, generated from the table that builds them.

use evenkeel_proxy::row::Stage;
use evenkeel_proxy::table::FILTERS;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Filters

<!-- Generated from crates/proxy/src/filters/table.rs. `make bless` writes it anew. -->

Filters that requests pass on their way to an endpoint, in this order. Responses pass the same filters in reverse order, both
responses of endpoints and evenkeel's own. Filters of a listener run before the route is known. A filter that is not
configured costs nothing. `evenkeel explain` shows what each filter did to a request.

| Filter | Of | Configured by | What it does |
|---|---|---|---|
";

#[test]
fn the_committed_page_of_filters_is_made_of_their_table() {
    let mut page = String::from(INTRODUCTION);
    for row in FILTERS {
        let stage = if row.stage == Stage::Listener { "listener" } else { "route" };
        writeln!(page, "| `{}` | {stage} | {} | {} |", row.name, row.key, row.summary).expect("it is text");
    }
    crate::committed::same_as_committed(&[("docs/reference/filters.md".into(), page)]);
}
