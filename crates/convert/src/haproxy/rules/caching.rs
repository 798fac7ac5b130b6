//! Sections `cache`, and the rules that use them. HAProxy stores responses that state a lifetime, `max-age` of the section at
//! most, and for that time those that state none and have a validator. Source: HAProxy 3.2, section 6 of its manual.

use super::effect::{Rules, Scope, filter};
use crate::haproxy::lexer::{Item, Section};
use crate::haproxy::logic::Conj;
use crate::ledger::{Ledger, Line};
use crate::model::{Draft, Target, duration, size};
use std::collections::BTreeMap;

/// Least and most memory of `[cache]`.
const MEMORY: (u64, u64) = (1 << 20, 1 << 44);

/// Bounds of `object_max`.
const OBJECT: (u64, u64) = (1 << 10, 1 << 36);

/// Sections `cache` by their names, and the memory that the largest of them has: here they share it.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    named: BTreeMap<String, Cache>,
    memory: u64,
    object_max: u64,
}

/// A section `cache`.
#[derive(Clone, Debug)]
struct Cache {
    line: Line,
    /// Most seconds for which a response is fresh.
    max_age: u64,
}

/// Reads a section, and adds its memory.
pub(crate) fn section(section: &Section, caches: &mut Caches, target: &mut Target, ledger: &mut Ledger) {
    ledger.carried(section.line);
    let mut max_age = 60;
    for item in &section.items {
        let number = item.word(1).parse::<u64>().ok();
        match (item.word(0), number) {
            ("total-max-size", Some(mebibytes)) => {
                caches.memory = caches.memory.max(mebibytes.saturating_mul(1 << 20).clamp(MEMORY.0, MEMORY.1));
                target.root.put(key!("cache.memory"), size(caches.memory));
                ledger.carried(item.line);
            }
            ("max-object-size", Some(bytes)) => {
                caches.object_max = caches.object_max.max(bytes.clamp(OBJECT.0, OBJECT.1));
                target.root.put(key!("cache.object_max"), size(caches.object_max));
                ledger.carried(item.line);
            }
            ("max-age", Some(seconds)) => {
                max_age = seconds;
                ledger.carried(item.line);
            }
            ("process-vary", _) => {
                ledger.dropped(item.line, "responses that differ by any field of Vary are kept apart, always")
            }
            ("max-secondary-entries", _) => {
                ledger.dropped(item.line, "`variants_max` of [cache] bounds the responses of one URL");
            }
            _ => ledger.changes(item.line, "it is not a key of the cache", "[cache] has memory and object_max"),
        }
    }
    caches.named.insert(section.name.clone(), Cache { line: section.line, max_age });
}

/// `http-request cache-use NAME`: the cache of the requests of the rule.
pub(crate) fn enable(
    item: &Item,
    name: &str,
    conjs: &[Conj],
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let Some(cache) = scope.caches.named.get(name) else {
        let todo = "cache = true in the [[route]]";
        return ledger.changes(item.line, format!("there is no section `cache {name}`"), todo);
    };
    let stores = |other: &&&Item| other.word(0) == "http-response" && other.word(1) == "cache-store";
    if !scope.items.iter().any(|other| stores(&other) && other.word(2) == name) {
        let todo = "http-response cache-store, or leave it out";
        return ledger.changes(item.line, "no rule of the section stores responses in this cache", todo);
    }
    let time = duration(cache.max_age.min(31_536_000).saturating_mul(1000));
    // No `ttl`: it would also be for responses without a validator, which HAProxy does not store.
    filter(item, conjs, &Draft::one(key!("cache.max_ttl"), time), rules, ledger);
    let reason = "responses that state no lifetime are validated each time, if they have a validator; in HAProxy they are \
                  fresh for max-age";
    ledger.changes(cache.line, reason, "ttl = { 200 = \"1m\" } in cache, or Cache-Control in the application");
    let reason = "requests for the same response wait for one fetch, and stale responses are validated";
    ledger.changes(cache.line, reason, "nothing, or collapse = \"off\" in cache of the [[route]]");
}

/// `http-response cache-store NAME`, for a cache that [`enable`] has turned on.
pub(crate) fn store(item: &Item, name: &str, scope: &Scope<'_>, ledger: &mut Ledger) {
    let uses = |other: &&&Item| other.word(0) == "http-request" && other.word(1) == "cache-use";
    if !scope.items.iter().any(|other| uses(&other) && other.word(2) == name) {
        return ledger.dropped(item.line, "no rule of the section answers from this cache");
    }
    match item.words.len() {
        3 => ledger.carried(item.line),
        _ => ledger.changes(
            item.line,
            "its condition is left out: responses decide by themselves whether they are stored",
            "have the application say Cache-Control: no-store where the condition said no",
        ),
    }
}
