//! Values of claims: as text for comparisons, and as values of fields.

use serde_json::Value;
use std::borrow::Cow;

/// Reason why a claim cannot be the value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

/// Text of a string, number or boolean.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// True if the claim `name` has this text: as a whole, as an element of an array, or as a word of `scope` (RFC 8693
/// section 4.2).
pub fn has(name: &str, value: &Value, wanted: &str) -> bool {
    match value {
        Value::Array(all) => all.iter().filter_map(scalar).any(|one| one == wanted),
        Value::String(scope) if name == "scope" => scope.split(' ').any(|word| word == wanted),
        one => scalar(one).is_some_and(|text| text == wanted),
    }
}

/// Text by which requests with the same claim are counted together.
pub fn key(value: &Value) -> Cow<'_, str> {
    scalar(value).unwrap_or_else(|| value.to_string().into())
}

/// Value of a field: the text of a string, number or boolean, or the texts of an array joined by commas.
///
/// # Errors
/// A receiver might read something else: an object, a control character, a space at the beginning or the end, or a
/// comma in an element of an array.
pub fn of_field(value: &Value) -> Result<Cow<'_, str>, Unfit> {
    let fits = |text: &str| !text.chars().any(char::is_control) && text.trim() == text;
    match value {
        Value::Array(all) => {
            let texts: Vec<_> = all.iter().map(scalar).collect::<Option<_>>().ok_or(Unfit)?;
            match texts.iter().all(|text| fits(text) && !text.is_empty() && !text.contains(',')) {
                true => Ok(texts.join(",").into()),
                false => Err(Unfit),
            }
        }
        one => scalar(one).filter(|text| fits(text)).ok_or(Unfit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_has_a_text_as_a_whole_as_an_element_or_as_a_word_of_scope() {
        for (name, value, wanted, is) in [
            ("role", json!("admin"), "admin", true),
            ("role", json!("admin x"), "admin", false),
            ("role", json!("Admin"), "admin", false),
            ("role", json!(["user", "admin"]), "admin", true),
            ("role", json!([["admin"]]), "admin", false),
            ("role", json!({ "admin": true }), "admin", false),
            ("scope", json!("read write"), "write", true),
            ("scope", json!("read write"), "read write", false),
            ("scope", json!(["read"]), "read", true),
            ("verified", json!(true), "true", true),
            ("level", json!(3), "3", true),
            ("level", json!(3.5), "3.5", true),
        ] {
            assert_eq!(has(name, &value, wanted), is, "{name} {value} {wanted}");
        }
    }

    #[test]
    fn a_value_that_a_receiver_might_read_in_another_way_is_unfit() {
        for (value, field) in [
            (json!("a@b"), Ok("a@b")),
            (json!("J\u{f6}rg"), Ok("J\u{f6}rg")),
            (json!(""), Ok("")),
            (json!("a, b"), Ok("a, b")),
            (json!(["a", "b", 3]), Ok("a,b,3")),
            (json!([]), Ok("")),
            (json!(7), Ok("7")),
            (json!("a\r\nX-Admin: 1"), Err(Unfit)),
            (json!("a\0"), Err(Unfit)),
            (json!("a\t b"), Err(Unfit)),
            (json!("\u{85}"), Err(Unfit)),
            (json!("admin "), Err(Unfit)),
            (json!("\u{a0}admin"), Err(Unfit)),
            (json!(["user,admin"]), Err(Unfit)),
            (json!(["", "a"]), Err(Unfit)),
            (json!([["a"]]), Err(Unfit)),
            (json!({ "a": 1 }), Err(Unfit)),
            (json!(["a\n"]), Err(Unfit)),
        ] {
            assert_eq!(of_field(&value).map(Cow::into_owned), field.map(str::to_string), "{value}");
        }
    }
}
