//! Claims of a token: a JSON object in which no name stands twice. Of two claims with the same name, readers take the
//! first or the last, so that an issuer and evenkeel might read different claims.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Claims of a token, or the parameters of its header.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Reads an object whose names are unique, as are the names of all objects within.
    ///
    /// # Errors
    /// The text is not such an object. The reason has nothing of the text, which may be secret.
    pub fn read(json: &[u8]) -> Result<Claims, &'static str> {
        match serde_json::from_slice(json) {
            Ok(Unique(Value::Object(map))) => Ok(Claims(map)),
            Ok(_) => Err("is not a JSON object"),
            Err(error) if error.to_string().starts_with(TWICE) => Err("has a name twice"),
            Err(_) => Err("is not JSON"),
        }
    }

    /// Claim of this name; behind a slash, the claim within others (a JSON Pointer, RFC 6901). `null` is no claim.
    pub fn find(&self, name: &str) -> Option<&Value> {
        let direct = self.0.get(name);
        let found = direct.or_else(|| {
            let (first, rest) = name
                .strip_prefix('/')?
                .split_once('/')
                .map_or((&name[1..], ""), |(first, _)| (first, &name[1 + first.len()..]));
            self.0.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
        });
        found.filter(|value| !value.is_null())
    }

    /// True if the name stands there, with whatever value.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// JSON of all claims but those that each token has anew, the same for the same claims.
    pub fn lasting(&self) -> String {
        let mut lasting: Vec<_> = self.0.iter().filter(|(name, _)| !OF_ONE_TOKEN.contains(&name.as_str())).collect();
        lasting.sort_unstable_by_key(|(name, _)| *name);
        // Texts are quoted, so that no value reads as a name.
        lasting.iter().map(|(name, value)| format!("{}:{value},", Value::from(name.as_str()))).collect()
    }

    /// Text of a claim that is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name)?.as_str()
    }
}

/// Claims that each token of a user has anew (RFC 7519 section 4.1, OpenID Connect Core section 2).
const OF_ONE_TOKEN: [&str; 6] = ["exp", "nbf", "iat", "jti", "auth_time", "at_hash"];

/// Beginning of the error for a name that stands twice.
const TWICE: &str = "a name stands twice";

/// A JSON value without a name that stands twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unique, D::Error> {
        deserializer.deserialize_any(Reader).map(Unique)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, on: bool) -> Result<Value, E> {
        Ok(Value::Bool(on))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(Number::from_f64(x).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(value)) = all.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Unique(value))) = all.next_entry::<String, _>()? {
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_is_refused_at_any_depth() {
        for (json, why) in [
            (r#"{"sub":"a","sub":"b"}"#, "has a name twice"),
            (r#"{"sub":"a","\u0073ub":"b"}"#, "has a name twice"),
            (r#"{"a":[{"b":1,"b":1}]}"#, "has a name twice"),
            (r#"["a"]"#, "is not a JSON object"),
            ("null", "is not a JSON object"),
            ("", "is not JSON"),
            ("{", "is not JSON"),
            (r#"{"a":1} x"#, "is not JSON"),
            ("{\"a\":\"\u{1}\"}", "is not JSON"),
        ] {
            assert_eq!(Claims::read(json.as_bytes()), Err(why), "{json}");
        }
        assert_eq!(Claims::read(b"{\"a\":\"\xff\"}"), Err("is not JSON"));
        let deep = [r#"{"a":"#.repeat(100_000), "1".into(), "}".repeat(100_000)].concat();
        assert_eq!(Claims::read(deep.as_bytes()), Err("is not JSON"));
    }

    #[test]
    fn claims_are_found_by_name_and_within_others() {
        let json =
            r#"{"sub":"a","n":null,"/x/y":"literal","realm_access":{"roles":["r"],"a/b":{"":1}},"list":[{"k":2}]}"#;
        let claims = Claims::read(json.as_bytes()).expect("good");
        assert_eq!(claims.text("sub"), Some("a"));
        for (name, found) in [
            ("n", None),
            ("/x/y", Some("\"literal\"")),
            ("/sub", Some("\"a\"")),
            ("/realm_access/roles", Some("[\"r\"]")),
            ("/realm_access/roles/0", Some("\"r\"")),
            ("/realm_access/a~1b/", Some("1")),
            ("/list/0/k", Some("2")),
            ("/list/1", None),
            ("/", None),
            ("", None),
            ("realm_access/roles", None),
        ] {
            assert_eq!(claims.find(name).map(ToString::to_string).as_deref(), found, "{name}");
        }
    }
}
