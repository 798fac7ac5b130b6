//! Dictionaries of structured fields (RFC 9651 section 4.2.2). They are read strictly: one wrong byte makes the whole field
//! malformed.

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

/// Reads a dictionary from the lines of a field, joined by commas. A key that comes twice keeps its first place and takes
/// its last value. Returns `None` if a line is malformed, and an empty list for a field without members.
pub fn dictionary<'b>(lines: impl Iterator<Item = &'b [u8]>) -> Option<Vec<(String, Value)>> {
    let mut bytes = Vec::new();
    for (index, line) in lines.enumerate() {
        if index > 0 {
            bytes.extend_from_slice(b", ");
        }
        bytes.extend_from_slice(line);
    }
    let mut input = Input { rest: bytes.trim_ascii() };
    let mut members: Vec<(String, Value)> = Vec::new();
    while !input.rest.is_empty() {
        let key = input.key()?;
        let value = if input.take(b'=') { input.member()? } else { Value::Boolean(true) };
        input.parameters()?;
        match members.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => members.push((key, value)),
        }
        input.white_space();
        if input.rest.is_empty() {
            break;
        }
        if !input.take(b',') {
            return None;
        }
        input.white_space();
        // A comma is followed by a member.
        if input.rest.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Input<'b> {
    rest: &'b [u8],
}

impl Input<'_> {
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.strip_prefix(&[byte]) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn while_is(&mut self, is: impl Fn(u8) -> bool) -> &[u8] {
        let end = self.rest.iter().position(|b| !is(*b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn white_space(&mut self) {
        self.while_is(|b| b == b' ' || b == b'\t');
    }

    fn key(&mut self) -> Option<String> {
        if !self.rest.first().is_some_and(|b| b.is_ascii_lowercase() || *b == b'*') {
            return None;
        }
        let key = self.while_is(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b));
        Some(String::from_utf8_lossy(key).into_owned())
    }

    /// Reads an item or an inner list, without the parameters behind it.
    fn member(&mut self) -> Option<Value> {
        if self.take(b'(') { self.inner_list() } else { self.bare_item() }
    }

    fn inner_list(&mut self) -> Option<Value> {
        loop {
            self.while_is(|b| b == b' ');
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.while_is(|b| b == b' ');
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Value> {
        match *self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.text().map(Value::Text),
            b'?' => {
                self.next();
                match self.next()? {
                    b'0' => Some(Value::Boolean(false)),
                    b'1' => Some(Value::Boolean(true)),
                    _ => None,
                }
            }
            b':' => {
                self.next();
                self.while_is(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
                self.take(b':').then_some(Value::Other)
            }
            b'@' => {
                self.next();
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => {
                self.next();
                self.display_string()
            }
            b if b.is_ascii_alphabetic() || b == b'*' => {
                let is_part = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b);
                Some(Value::Token(String::from_utf8_lossy(self.while_is(is_part)).into_owned()))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let whole = self.while_is(|b| b.is_ascii_digit()).to_vec();
        if self.take(b'.') {
            let digits = self.while_is(|b| b.is_ascii_digit()).len();
            let is_valid = (1..=12).contains(&whole.len()) && (1..=3).contains(&digits);
            return is_valid.then_some(Value::Other);
        }
        if !(1..=15).contains(&whole.len()) {
            return None;
        }
        let number = whole.iter().fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(sign * number))
    }

    fn text(&mut self) -> Option<String> {
        if !self.take(b'"') {
            return None;
        }
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text),
                b'\\' => match self.next()? {
                    b @ (b'"' | b'\\') => text.push(char::from(b)),
                    _ => return None,
                },
                b @ 0x20..=0x7e => text.push(char::from(b)),
                _ => return None,
            }
        }
    }

    fn display_string(&mut self) -> Option<Value> {
        if !self.take(b'"') {
            return None;
        }
        loop {
            match self.next()? {
                b'"' => return Some(Value::Other),
                b'%' => {
                    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
                    if !is_hex(self.next()?) || !is_hex(self.next()?) {
                        return None;
                    }
                }
                0x20..=0x7e => {}
                _ => return None,
            }
        }
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
