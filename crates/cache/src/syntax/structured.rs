//! Dictionaries of structured fields (RFC 9651 section 4.2.2), by the crate `sfv`. They are read strictly: a single
//! wrong byte makes the whole field malformed.

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};
use std::convert::Infallible;

/// Value of a member of a dictionary. Parameters are read and dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Integer of at most 15 digits.
    Integer(i64),
    /// String without its quotes and escapes.
    Text(String),
    /// Token such as `foo` in `a=foo`.
    Token(String),
    /// Boolean; true for a member that is only a key.
    Boolean(bool),
    /// Value of a type that no cache directive has: decimal, bytes, date, display string or inner list.
    Other,
}

/// Reads a dictionary from the lines of a field, joined by commas. A duplicate key keeps its first place and takes its
/// last value. Returns `None` if a line is malformed, and an empty list for a field without members.
pub fn dictionary<'b>(lines: impl Iterator<Item = &'b [u8]>) -> Option<Vec<(String, Value)>> {
    let bytes = lines.collect::<Vec<_>>().join(&b", "[..]);
    Parser::new(bytes.trim_ascii()).parse_dictionary_with_visitor(Members::default()).ok()
}

#[derive(Default)]
struct Members(Vec<(String, Value)>);

impl<'de> DictionaryVisitor<'de> for Members {
    type Out = Vec<(String, Value)>;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        let place = self.0.iter().position(|(known, _)| known == key.as_str()).unwrap_or_else(|| {
            self.0.push((key.as_str().to_owned(), Value::Other));
            self.0.len() - 1
        });
        Ok(Member(&mut self.0[place].1))
    }

    fn finish(self) -> Result<Self::Out, Infallible> {
        Ok(self.0)
    }
}

/// Value of the member that is read.
struct Member<'v>(&'v mut Value);

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(|item: BareItemFromInput<'de>| {
            *self.0 = match item {
                BareItemFromInput::Integer(number) => Value::Integer(number.into()),
                BareItemFromInput::String(text) => Value::Text(text.as_str().to_owned()),
                BareItemFromInput::Token(token) => Value::Token(token.as_str().to_owned()),
                BareItemFromInput::Boolean(truth) => Value::Boolean(truth),
                _ => Value::Other,
            };
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        *self.0 = Value::Other;
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Vec<(String, Value)>> {
        dictionary([line.as_bytes()].into_iter())
    }

    fn one(line: &str) -> Option<Value> {
        of(line).map(|mut members| members.pop().expect("a member").1)
    }

    #[test]
    fn members_of_every_type_are_read() {
        assert_eq!(one("a"), Some(Value::Boolean(true)));
        assert_eq!(one("a=?0;b"), Some(Value::Boolean(false)));
        assert_eq!(one("a=-7 "), Some(Value::Integer(-7)));
        assert_eq!(one("a=999999999999999"), Some(Value::Integer(999_999_999_999_999)));
        assert_eq!(one(r#"a="b\"\\, c";x=1"#), Some(Value::Text(r#"b"\, c"#.into())));
        assert_eq!(one("a=b/c:d"), Some(Value::Token("b/c:d".into())));
        for other in ["a=1.5", "a=:aGk=:", "a=@1", r#"a=%"%c3%a4""#, "a=(1 \"b\";c  d)", "a=()"] {
            assert_eq!(one(other), Some(Value::Other), "{other}");
        }
    }

    #[test]
    fn lines_are_joined_and_the_last_value_of_a_key_counts() {
        let lines = [&b"a=1, b"[..], b"a=2"];
        let members = dictionary(lines.into_iter()).unwrap();
        assert_eq!(members, [("a".into(), Value::Integer(2)), ("b".into(), Value::Boolean(true))]);
        assert_eq!(of(""), Some(Vec::new()));
    }

    #[test]
    fn a_wrong_byte_anywhere_leaves_nothing() {
        for line in [
            "A=1",
            "a =1",
            "a= 1",
            "a=1,",
            "a=1 b=2",
            "a=1, &",
            "a='1'",
            "a=\"",
            "a=\"\\x\"",
            "a=1234567890123456",
            "a=1.",
            "a=1.2345",
            "a=?2",
            "a=:",
            "a=(1",
            "a=(1\t2)",
            "a=-",
            "a;B",
            "a=\u{e4}",
            "a=%\"%C3\"",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
