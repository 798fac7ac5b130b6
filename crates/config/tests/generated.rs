//! The committed pages and schema match the tables, and the schema agrees with the reader. `make bless`
//! rewrites the pages.

use crate::committed::same_as_committed;
use evenkeel_config::{algorithms_reference, parse_str, planes, reference_pages, schema};
use regex_lite::Regex;
use serde_json::{Map, Value, json};
use std::path::Path;
use toml::de::{DeTable, DeValue};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_committed_pages_are_the_generated_ones() {
    let reference = Path::new("docs/reference");
    let of_config = reference_pages();
    // A table that is gone takes its page along.
    for entry in std::fs::read_dir(Path::new(ROOT).join(reference).join("config")).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let is_known = of_config.iter().any(|(name, _)| path.ends_with(name));
        if !is_known && std::env::var_os("EVENKEEL_BLESS").is_some() {
            std::fs::remove_file(&path).expect("it can be removed");
        } else {
            assert!(is_known, "{} is the page of no table; `make bless` removes it", path.display());
        }
    }
    let mut pages: Vec<_> = of_config.into_iter().map(|(name, text)| (reference.join(name), text)).collect();
    pages.push((reference.join("algorithms.md"), algorithms_reference()));
    pages.push((reference.join("planes.md"), planes::page::page()));
    same_as_committed(&pages);
}

#[test]
fn the_schema_accepts_every_example() {
    for entry in std::fs::read_dir(Path::new(ROOT).join("examples")).expect("the examples are there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "toml") {
            let text = std::fs::read_to_string(&path).expect("a text");
            assert_eq!(misfit(&schema(), &json_of(&text), ""), None, "{}", path.display());
        }
    }
}

#[test]
fn the_schema_refuses_what_one_table_alone_shows_to_be_wrong() {
    let good = "[listener.a]\nbind = ['127.0.0.1:1']\n[pool.p]\nendpoints = ['127.0.0.1:2']\n";
    assert_eq!(misfit(&schema(), &json_of(good), ""), None);
    for wrong in [
        "[pool.p]\nendpoints = []",
        "[pool.p]\ndiscover = { dns = { port = 80 } }",
        "[pool.p]\ndiscover = { dns = { name = 'a', type = 'MX', port = 80 } }",
        "[pool.p]\nendpoints = ['127.0.0.1']",
        "[pool.p]\nendpoints = [{ addr = 'a:1', weight = 65536 }]",
        "[pool.p]\nendpoints = ['a:1']\nbalance = 'rondom'",
        "[pool.p]\nendpoints = ['a:1']\nbalance = { random = { draws = 0 } }",
        "[pool.p]\nendpoints = ['a:1']\nballance = 'random'",
        "[listener.a]\nbind = '127.0.0.1:1'",
        "[listener.'a b']\nbind = ['127.0.0.1:1']",
        "[listener.a]\nbind = ['127.0.0.1:1']\nlimits = { headers = '32' }",
        "[defaults.timeouts]\nconnect = 1",
        "[defaults.timeouts]\nconnect = '1'",
        "[defaults.timeouts]\nconnect = 'off'",
        "[runtime]\nworkers = 'many'",
        "[runtime]\nlog = { level = 'loud' }",
        "[[route]]\nmatch = { path = 'x' }\npool = 'p'",
        "[pool.p]\nendpoints = ['a:1']\nhealth = { tcp = {}, interval = 2 }",
        "[pool.p]\nendpoints = ['a:1']\nhealth = { http = { expect = ['204..299'] } }",
        "[pool.p]\nendpoints = ['a:1']\nhealth = { http = { expect = [100] } }",
        "[pool.p]\nendpoints = ['a:1']\nhealth = { http = 'healthz' }",
        "[pool.p]\nendpoints = ['a:1']\nhealth = { tcp = { port = 1 } }",
        "[pool.p]\nendpoints = ['a:1']\noutlier = 'on'",
        "[pool.p]\nendpoints = ['a:1']\nslow_start = {}",
        "[pool.p]\nendpoints = ['a:1']\nlimits = { concurrency = 'auto' }",
        "[pool.p]\nendpoints = ['a:1']\nretry = { on = ['conect'] }",
        "[pool.p]\nendpoints = ['a:1']\nretry = { backoff = '25ms' }",
        "[pool.p]\nendpoints = ['a:1']\nretry = { hedge_after = '95' }",
        "[pool.p]\nendpoints = ['a:1']\nsticky = { secret = 'abc' }",
        "[pool.p]\nendpoints = ['a:1']\nsticky = { secret_file = 'k', cookie = 'a b' }",
        "[listener.a]\nbind = ['127.0.0.1:1']\ntrusted_proxies = ['proxy']",
        "[listener.a]\nbind = ['127.0.0.1:1']\nreport_load = 'on'",
        "[pool.p]\nendpoints = ['a:1']\nload_reports = { probe = 'tcp' }",
        "[admin]\nbind = '127.0.0.1:9900'",
        "version = 2",
        "wersion = 1",
    ] {
        assert!(misfit(&schema(), &json_of(wrong), "").is_some(), "the schema accepts {wrong}");
        assert!(parse_str("wrong.toml", wrong, &|_| None).plan.is_none(), "the reader accepts {wrong}");
    }
}

fn json_of(text: &str) -> Value {
    let table = DeTable::parse(text).expect("TOML");
    of_table(table.get_ref())
}

fn of_table(table: &DeTable<'_>) -> Value {
    let entries = table.iter().map(|(key, value)| (key.get_ref().to_string(), of_value(value.get_ref())));
    Value::Object(entries.collect::<Map<_, _>>())
}

fn of_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(n) => json!(i64::from_str_radix(n.as_str(), n.radix()).expect("it fits")),
        DeValue::Float(x) => json!(x.as_str().parse::<f64>().expect("a number")),
        DeValue::Boolean(b) => json!(b),
        DeValue::Datetime(date) => json!(date.to_string()),
        DeValue::Array(values) => values.iter().map(|v| of_value(v.get_ref())).collect(),
        DeValue::Table(table) => of_table(table),
    }
}

/// First place where a value does not match a schema. Supports the keywords that our schema uses, and fails
/// on any other.
fn misfit(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = schema.as_object().expect("a schema is an object");
    let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
    let length = |v: &Value| v.as_array().map(Vec::len).or(v.as_object().map(Map::len)).unwrap_or(0) as f64;
    for (keyword, wanted) in schema {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => true,
            "type" => match wanted.as_str().expect("one type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64(),
                "number" => value.is_number(),
                other => panic!("type {other}"),
            },
            "minimum" => number(value) >= number(wanted),
            "maximum" => number(value) <= number(wanted),
            "minItems" | "minProperties" => length(value) >= number(wanted),
            "maxProperties" => length(value) <= number(wanted),
            "pattern" => {
                let regex = Regex::new(wanted.as_str().expect("a pattern")).expect("a regular expression");
                value.as_str().is_some_and(|text| regex.is_match(text))
            }
            "required" => {
                wanted.as_array().expect("names").iter().all(|k| value.get(k.as_str().expect("a name")).is_some())
            }
            "anyOf" => wanted.as_array().expect("schemas").iter().any(|s| misfit(s, value, at).is_none()),
            "items" => {
                let items = value.as_array().into_iter().flatten();
                let inner = items.enumerate().find_map(|(i, item)| misfit(wanted, item, &format!("{at}/{i}")));
                if inner.is_some() {
                    return inner;
                }
                true
            }
            "properties" | "additionalProperties" => continue,
            "propertyNames" => {
                let mut names = value.as_object().into_iter().flat_map(Map::keys);
                names.all(|name| misfit(wanted, &json!(name), at).is_none())
            }
            other => panic!("keyword {other}"),
        };
        if !fits {
            return Some(format!("{at}: {keyword} {wanted}"));
        }
    }
    let known = schema.get("properties").and_then(Value::as_object);
    for (name, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        let found = match (known.and_then(|k| k.get(name)), schema.get("additionalProperties")) {
            (Some(schema), _) => misfit(schema, inner, &at),
            (None, Some(Value::Bool(false))) => Some(format!("{at}: unknown")),
            (None, Some(schema)) => misfit(schema, inner, &at),
            (None, None) => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
