//! Reference of keys as pages: an index, a page for each table of the top level, and a page for each table below the
//! tables that a file has many of, as `[pool.NAME]`. Tables below these are sections of their page.

use super::{GENERATED, Links, codes, one_table, opening, title};
use crate::root::ROOT;
use crate::table::{Kind, Table};
use std::collections::HashMap;
use std::fmt::Write;

/// Places of tables by their paths. A table that several others have is on the page of the first.
type Places = HashMap<&'static str, Place>;

struct Place {
    page: String,
    /// True for the table that the page is named by.
    is_first: bool,
}

/// Pages of all keys and codes by their paths from the folder of the index, which is the first.
pub fn reference_pages() -> Vec<(String, String)> {
    let (places, tables) = (places(), ROOT.walk());
    let mut all = vec![("config.md".to_string(), index(&places, &tables))];
    for table in &tables {
        if let Some(Place { page: name, is_first: true }) = places.get(table.path) {
            all.push((format!("config/{name}.md"), page(table, name, &places, &tables)));
        }
    }
    all
}

fn places() -> Places {
    let mut places = Places::new();
    // Tables that a file has many of come first: `[defaults]` has some of theirs, too.
    for is_many in [true, false] {
        for key in ROOT.keys.iter().filter(|key| is_many == matches!(key.kind, Kind::Named(_) | Kind::Tables(_))) {
            let Some(table) = key.kind.table() else { continue };
            places.insert(table.path, Place { page: key.name.to_string(), is_first: true });
            for below in table.keys {
                let page = if is_many { format!("{}.{}", key.name, below.name) } else { key.name.to_string() };
                below.kind.table().into_iter().for_each(|table| assign(table, &page, is_many, &mut places));
            }
        }
    }
    places
}

fn assign(table: &'static Table, page: &str, is_first: bool, places: &mut Places) {
    if !places.contains_key(table.path) {
        places.insert(table.path, Place { page: page.to_string(), is_first });
        table.keys.iter().filter_map(|key| key.kind.table()).for_each(|below| assign(below, page, false, places));
    }
}

fn index(places: &Places, tables: &[&'static Table]) -> String {
    let to_table = |table: &Table| link(table, "config/", "", places);
    let mut out = opening();
    one_table(&ROOT, "##", &Links { to_table: &to_table, algorithms: "algorithms.md" }, &mut out);
    out += "\n## All tables\n\n";
    for table in tables.iter().filter(|table| places.contains_key(table.path)) {
        let _ = writeln!(out, "- {}", to_table(table));
    }
    out + &codes()
}

fn page(first: &Table, name: &str, places: &Places, tables: &[&'static Table]) -> String {
    let links = Links { to_table: &|table| link(table, "", name, places), algorithms: "../algorithms.md" };
    let mut out = String::new();
    one_table(first, "#", &links, &mut out);
    let (heading, text) = out.trim_start().split_once('\n').expect("a table has a heading and a text");
    let mut out = format!("{heading}\n\n{GENERATED}\n\n[All tables](../config.md#all-tables)\n{text}");
    for table in tables {
        if places.get(table.path).is_some_and(|place| place.page == name && !place.is_first) {
            one_table(table, "##", &links, &mut out);
        }
    }
    out
}

/// Title of a table with a link to its page; on that page, to its section.
fn link(table: &Table, folder: &str, on: &str, places: &Places) -> String {
    let title = title(table);
    let Some(Place { page, is_first }) = places.get(table.path) else { return title };
    let anchor = if *is_first { String::new() } else { format!("#{}", anchor(&title)) };
    match (page == on, is_first) {
        (true, true) => title,
        (true, false) => format!("[{title}]({anchor})"),
        (false, _) => format!("[{title}]({folder}{page}.md{anchor})"),
    }
}

/// Anchor of a heading, as GitHub and mdBook make it.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
