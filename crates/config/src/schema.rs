//! JSON Schema (draft 2020-12) of configuration files, generated from the key tables and the registry of
//! algorithms. A little looser than the reader: strings with `${` are accepted everywhere.

use crate::form::Form;
use crate::root::ROOT;
use crate::table::{Absent, Key, Kind, Table, kind_of};
use crate::tree::{self, Tree};
use evenkeel_balance::algorithms;
use serde_json::{Map, Value, json};

/// Schema of a configuration file.
pub fn schema() -> Value {
    schema_of(&ROOT, "evenkeel configuration")
}

/// Schema of a file with this top level.
pub fn schema_of(root: &Table, title: &str) -> Value {
    let mut schema = of_table(root);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema
}

fn of_table(table: &Table) -> Value {
    let mut properties = Map::new();
    for key in table.keys {
        let mut schema = of_kind(&key.kind);
        schema["description"] = json!(key.help);
        if let (Some(default), false) = (default_json(key), table.inherits) {
            schema["default"] = default;
        }
        properties.insert(key.name.to_string(), schema);
    }
    let required: Vec<&str> =
        table.keys.iter().filter(|k| matches!(k.absent, Absent::Required(_))).map(|k| k.name).collect();
    let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn of_kind(kind: &Kind) -> Value {
    match *kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::IntOr { min, max, word } => json!({ "anyOf": [of_kind(&Kind::Int { min, max }), words(&[word])] }),
        Kind::IntOrText { min, max, form } => {
            json!({ "anyOf": [of_kind(&Kind::Int { min, max }), pattern(form.regex())] })
        }
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Duration { off, .. } => {
            let part = "^([0-9]+(\\.[0-9]{1,9})?(d|h|m|s|ms|us|µs|μs|ns))+$";
            pattern(&if off { format!("^off$|{part}") } else { part.to_string() })
        }
        Kind::Size { off, .. } => {
            let size = "^[0-9]+(\\.[0-9]{1,9})? *(B|kB|KB|MB|GB|KiB|MiB|GiB)$";
            pattern(&if off { format!("^off$|{size}") } else { size.to_string() })
        }
        Kind::Choice(all) => words(all),
        Kind::Text(form) => pattern(form.regex()),
        Kind::List(of) => json!({ "type": "array", "minItems": 1, "items": of_kind(of) }),
        Kind::OneOrList(of) => json!({ "anyOf": [of_kind(of), of_kind(&Kind::List(of))] }),
        Kind::Table(table) => of_table(table),
        Kind::TableOr { table, key } => {
            let short = table.key(key).map(|k| of_kind(&k.kind));
            let element =
                table.key(key).and_then(|k| if let Kind::List(of) = k.kind { Some(of_kind(of)) } else { None });
            let all: Vec<Value> = element.into_iter().chain(short).chain([of_table(table)]).collect();
            json!({ "anyOf": all })
        }
        Kind::TableOrWord { table, word } => json!({ "anyOf": [words(&[word]), of_table(table)] }),
        Kind::TableOrBool(table) => json!({ "anyOf": [of_kind(&Kind::Bool), of_table(table)] }),
        Kind::Named(table) => json!({
            "type": "object", "propertyNames": { "pattern": Form::Name.regex() },
            "additionalProperties": of_table(table),
        }),
        Kind::Map { keys, of } => json!({
            "type": "object", "propertyNames": { "pattern": keys.regex() }, "additionalProperties": of_kind(of),
        }),
        Kind::Tables(table) => json!({ "type": "array", "minItems": 1, "items": of_table(table) }),
        Kind::TableOrTables(table) => json!({ "anyOf": [of_table(table), of_kind(&Kind::Tables(table))] }),
        Kind::TablesBy { table, key } => json!({ "anyOf": [
            of_kind(&Kind::Tables(table)),
            { "type": "object", "minProperties": 1, "additionalProperties": without(of_table(table), key) },
        ] }),
        Kind::Open => json!({ "type": "object" }),
        Kind::Balance => balance(),
    }
}

/// Schema of a table without this key.
fn without(mut table: Value, key: &str) -> Value {
    if let Some(properties) = table["properties"].as_object_mut() {
        properties.remove(key);
    }
    if let Some(required) = table["required"].as_array_mut() {
        required.retain(|one| one != key);
    }
    table
}

/// String type that matches a regular expression or contains a variable reference.
fn pattern(regex: &str) -> Value {
    json!({ "type": "string", "pattern": format!("{regex}|\\$\\{{") })
}

fn words(all: &[&str]) -> Value {
    pattern(&format!("^({})$", all.join("|")))
}

fn balance() -> Value {
    let names: Vec<&str> =
        algorithms::ALL.iter().flat_map(|a| [a.name].into_iter().chain(a.aliases.iter().copied())).collect();
    let mut tables = Map::new();
    for algorithm in algorithms::ALL {
        let mut params = Map::new();
        for param in algorithm.params {
            let mut schema = of_kind(&kind_of(param));
            schema["description"] = json!(param.help);
            params.insert(param.name.to_string(), schema);
        }
        let schema = json!({
            "type": "object", "description": algorithm.summary, "additionalProperties": false, "properties": params,
        });
        for name in [algorithm.name].iter().chain(algorithm.aliases) {
            tables.insert((*name).to_string(), schema.clone());
        }
    }
    json!({ "anyOf": [
        words(&names),
        { "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false, "properties": tables },
    ] })
}

fn default_json(key: &Key) -> Option<Value> {
    let Absent::Default(text) = key.absent else { return None };
    tree::parse_value(text).map(|node| to_json(&node.tree))
}

fn to_json(tree: &Tree) -> Value {
    match tree {
        Tree::Text(text) => json!(text),
        Tree::Int(n, _) => json!(n.and_then(|n| i64::try_from(n).ok())),
        Tree::Number(x, _) => json!(x),
        Tree::Bool(b) => json!(b),
        Tree::List(nodes) => nodes.iter().map(|n| to_json(&n.tree)).collect(),
        Tree::Table(table) => table.entries.iter().map(|e| (e.key.clone(), to_json(&e.node.tree))).collect(),
        Tree::Date(_) | Tree::Broken => Value::Null,
    }
}
