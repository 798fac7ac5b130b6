//! What the API has as JSON alone: how is it read on a page?

use super::shown::milliseconds;
use serde_json::Value;

/// A text, or a dash.
pub fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("\u{2013}")
}

/// The parts of a list.
pub fn each<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

/// A number, if it is one.
pub fn number(value: &Value, key: &str) -> Option<f64> {
    value[key].as_f64()
}

/// Nanoseconds in milliseconds.
pub fn nanoseconds(value: &Value, key: &str) -> String {
    milliseconds(value[key].as_f64().unwrap_or_default() / 1e6)
}

/// Whatever it is, in short; nothing of nothing.
pub fn brief(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(x) if x.fract() != 0.0 => format!("{x:.3}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
