//! Pages for errors: `errorfile`, `errorloc`, and sections `http-errors`.

use super::lexer::{Item, Section};
use crate::ledger::Ledger;
use crate::model::{Entries, Value, braced};
use std::collections::BTreeMap;

/// Pages of a section, by status. A later line replaces an earlier line.
pub(super) type Pages = BTreeMap<u64, Entries>;

/// Pages of sections `http-errors` by their names.
pub(super) type Groups = BTreeMap<String, Pages>;

/// Reads the sections `http-errors`.
pub(super) fn groups(sections: &[Section], ledger: &mut Ledger) -> Groups {
    let mut groups = Groups::new();
    for section in sections.iter().filter(|section| section.kind == "http-errors") {
        ledger.carried(section.line);
        let items: Vec<&Item> = section.items.iter().collect();
        groups.insert(section.name.clone(), read(&items, &Groups::new(), ledger));
    }
    groups
}

/// Reads the pages of a section; groups that it names are among `groups`.
pub(super) fn read(items: &[&Item], groups: &Groups, ledger: &mut Ledger) -> Pages {
    let mut pages = Pages::new();
    for item in items {
        match item.word(0) {
            "errorfile" => match status(item.word(1)) {
                Some(status) => {
                    pages.insert(status, Entries::one("errorfile", item.word(2)));
                    ledger.carried(item.line);
                }
                None => unlike(item, ledger),
            },
            "errorfiles" => {
                let Some(group) = groups.get(item.word(1)) else {
                    ledger.changes(item.line, "there is no section `http-errors` of this name", "name one that exists");
                    continue;
                };
                let wanted: Vec<u64> = item.from(2).iter().filter_map(|status| status.parse().ok()).collect();
                let is_wanted = |status: &u64| wanted.is_empty() || wanted.contains(status);
                pages.extend(group.iter().filter(|(status, _)| is_wanted(status)).map(|(s, page)| (*s, page.clone())));
                ledger.carried(item.line);
            }
            "errorloc" | "errorloc302" | "errorloc303" => match status(item.word(1)) {
                Some(status) => {
                    let send: u64 = if item.word(0) == "errorloc303" { 303 } else { 302 };
                    let mut page = Entries::one("body", "See Location.");
                    page.set("send_status", send);
                    page.set("fields", Entries::one("Location", braced(item.word(2))));
                    pages.insert(status, page);
                    ledger.carried(item.line);
                }
                None => unlike(item, ledger),
            },
            _ => {}
        }
    }
    pages
}

fn status(word: &str) -> Option<u64> {
    word.parse().ok().filter(|status| (400..600).contains(status))
}

fn unlike(item: &Item, ledger: &mut Ledger) {
    ledger.changes(item.line, "pages are for errors only", "a [[route]] with respond answers other requests");
}

/// `error_pages` of a listener or a route. Where HAProxy has a 503 for an endpoint that cannot be reached, evenkeel has a
/// 502.
pub(super) fn value(pages: &Pages) -> Value {
    let each = pages.iter().map(|(status, page)| {
        let statuses = if *status == 503 && !pages.contains_key(&502) { vec![502, 503] } else { vec![*status] };
        let mut with = Entries::one("status", statuses);
        page.iter().for_each(|(key, value)| drop(with.set(key, value.clone())));
        Value::Table(with)
    });
    Value::List(each.collect())
}

/// Statuses of `error_pages`.
pub(super) fn statuses(pages: &Value) -> Vec<u64> {
    let of_list = |list: &Value| match list {
        Value::List(all) => all.clone(),
        other => vec![other.clone()],
    };
    let of_page = |page: &Value| match page {
        Value::Table(page) => page.get("status").map(of_list).unwrap_or_default(),
        _ => Vec::new(),
    };
    let number = |status: Value| if let Value::Int(status) = status { Some(status) } else { None };
    of_list(pages).iter().flat_map(of_page).filter_map(number).collect()
}
