//! Resources of tests, written as JSON with the names of their fields.

use crate::schema::{EXTENSIONS, Field, Kind, Message};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value;

/// Encodes a message. A number in a duration field is seconds; a number in a wrapper field is its value; `@type` of an
/// `Any` is the last part of its name. A value of another type than its field is written as it is.
pub fn encoded(message: &Message, json: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in json.as_object().expect("an object").iter().filter(|(name, _)| *name != "@type") {
        let field = message.fields.iter().find(|field| field.name == name);
        let field = field.unwrap_or_else(|| panic!("there is no field {name}"));
        match value {
            Value::Array(all) => all.iter().for_each(|one| put(field, one, &mut out)),
            one => put(field, one, &mut out),
        }
    }
    out
}

fn put(field: &Field, value: &Value, out: &mut Vec<u8>) {
    let bytes = match (field.kind, value) {
        (Kind::Float, value) => {
            encode_key(field.tag, WireType::SixtyFourBit, out);
            return out.extend(value.as_f64().unwrap_or_default().to_le_bytes());
        }
        // Those that are not read may be anything.
        (
            Kind::Number | Kind::Word(_) | Kind::Ignored | Kind::Minor | Kind::Noted | Kind::Refused,
            Value::Number(_) | Value::Bool(_),
        ) => {
            encode_key(field.tag, WireType::Varint, out);
            return encode_varint(value.as_u64().unwrap_or_else(|| u64::from(value == true)), out);
        }
        (Kind::Of(inner), Value::Number(_) | Value::Bool(_)) if !inner.fields.is_empty() => {
            let name = inner.fields[0].name;
            encoded(inner, &serde_json::json!({ name: value }))
        }
        (Kind::Of(inner), value @ Value::Object(_)) => encoded(inner, value),
        (Kind::Any, value @ Value::Object(_)) => any(value),
        (_, Value::String(text)) => text.clone().into_bytes(),
        (_, Value::Array(bytes)) => bytes.iter().map(|byte| byte.as_u64().unwrap_or_default() as u8).collect(),
        _ => Vec::new(),
    };
    encode_key(field.tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend(bytes);
}

fn any(value: &Value) -> Vec<u8> {
    let name = value["@type"].as_str().unwrap_or_default();
    let known = EXTENSIONS.iter().find(|(of, _)| of.ends_with(&format!(".{name}")));
    let inner = known.map(|(_, message)| encoded(message, value)).unwrap_or_default();
    let url = format!("type.googleapis.com/{}", known.map_or(name, |(of, _)| of));
    let mut out = Vec::new();
    for (tag, bytes) in [(1, url.into_bytes()), (2, inner)] {
        encode_key(tag, WireType::LengthDelimited, &mut out);
        encode_varint(bytes.len() as u64, &mut out);
        out.extend(bytes);
    }
    out
}
