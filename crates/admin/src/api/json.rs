//! Values as JSON, in which no text of clients moves a terminal's cursor or reorders its neighbours: characters that
//! are not shown are escaped, as JSON allows for all.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use evenkeel_config::printable::printable;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use std::io;

/// A response whose body is this value.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match bytes(&self.0) {
            Ok(bytes) => ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    }
}

/// A value as text; empty if it cannot be JSON.
pub fn text(value: &impl Serialize) -> String {
    bytes(value).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

fn bytes(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(128);
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Printable))?;
    Ok(bytes)
}

struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(printable(fragment, &[]).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn hidden_characters_are_escaped_and_are_there_for_programs() {
        let value = json!({ "path": "/\u{9b}31m\u{202e}\u{2028}\u{7f}\n\"gr\u{f6}\u{df}e\"" });
        let text = text(&value);
        assert_eq!(text, r#"{"path":"/\u009b31m\u202e\u2028\u007f\n\"größe\""}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
