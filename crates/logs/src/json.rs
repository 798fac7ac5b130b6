//! Lines that are JSON objects, read without allocation. Texts keep their escapes.

use crate::fault::Fault;
use crate::field::Field;
use crate::request::{Demand, Request};

/// Depth of objects and arrays. Logs have at most four.
const DEPTH_MAX: usize = 32;

/// Keys of an object, in their usual order: the search for a key starts behind the previous key.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    name: String,
    meaning: Meaning,
    is_demand: bool,
}

/// Meaning of the value of a key.
#[derive(Clone, Debug)]
pub enum Meaning {
    Is(Field),
    /// Object whose values have these keys.
    Inside(Keys),
    /// Array with an object for each try.
    Tries(Keys),
}

impl Keys {
    /// Keys whose values are plain fields.
    pub fn of(fields: &[(&str, Field)]) -> Keys {
        let mut keys = Keys::default();
        fields.iter().for_each(|(name, field)| keys.add(name, Meaning::Is(*field)));
        keys
    }

    pub fn add(&mut self, name: &str, meaning: Meaning) {
        self.0.push(Key { name: name.to_string(), meaning, is_demand: false });
    }

    /// Takes the demand from this key, which may be a path such as `request_fields.X-Tokens`.
    pub fn demand(&mut self, path: &str) {
        if let Some(key) = self.0.iter_mut().find(|key| key.name == path) {
            key.is_demand = true;
            return;
        }
        let Some((first, rest)) = path.split_once('.') else {
            self.0.push(Key { name: path.to_string(), meaning: Meaning::Is(Field::Skip), is_demand: true });
            return;
        };
        if let Some(Key { meaning: Meaning::Inside(keys), .. }) = self.0.iter_mut().find(|key| key.name == first) {
            return keys.demand(rest);
        }
        let mut keys = Keys::default();
        keys.demand(rest);
        self.add(first, Meaning::Inside(keys));
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If it is not a JSON object, or a value is malformed.
    pub fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        let mut cursor = Cursor { line, at: 0, depth: 0 };
        cursor.skip_space();
        cursor.object(self, 0, request)?;
        cursor.skip_space();
        if cursor.at == line.len() { Ok(()) } else { Err(Fault::Longer) }
    }

    /// Position of a key, searched from `from`.
    fn position(&self, name: &[u8], from: usize) -> Option<usize> {
        let is_it = |key: &Key| key.name.as_bytes() == name;
        let (before, behind) = self.0.split_at(from.min(self.0.len()));
        let found = behind.iter().position(is_it).map(|at| from + at);
        found.or_else(|| before.iter().position(is_it))
    }
}

const JSON: Fault = Fault::Malformed("JSON");

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Consumes a sign, and white space before it.
    fn take(&mut self, sign: u8) -> bool {
        self.skip_space();
        let is_there = self.peek() == Some(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn open(&mut self, sign: u8) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX && self.take(sign) { Ok(()) } else { Err(JSON) }
    }

    /// Reads an object whose values belong to try number `at`.
    fn object(&mut self, keys: &Keys, at: usize, request: &mut Request<'a>) -> Result<(), Fault> {
        self.open(b'{')?;
        let mut next = 0;
        if self.take(b'}') {
            self.depth -= 1;
            return Ok(());
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            if !self.take(b':') {
                return Err(JSON);
            }
            self.skip_space();
            match keys.position(name, next) {
                Some(found) => {
                    next = found + 1;
                    self.value(&keys.0[found], at, request)?;
                }
                None => self.skip()?,
            }
            if self.take(b'}') {
                self.depth -= 1;
                return Ok(());
            }
            if !self.take(b',') {
                return Err(JSON);
            }
        }
    }

    fn value(&mut self, key: &Key, at: usize, request: &mut Request<'a>) -> Result<(), Fault> {
        match (&key.meaning, self.peek()) {
            (Meaning::Inside(keys), Some(b'{')) => return self.object(keys, at, request),
            (Meaning::Tries(keys), Some(b'[')) => return self.tries(keys, request),
            (_, Some(b'{' | b'[')) | (Meaning::Inside(_) | Meaning::Tries(_), _) => return self.skip(),
            (Meaning::Is(_), _) => {}
        }
        let is_string = self.peek() == Some(b'"');
        let text = if is_string { self.string()? } else { self.word()? };
        if !is_string && text == b"null" {
            return Ok(());
        }
        if key.is_demand {
            request.demand = Demand::read(text);
        }
        match &key.meaning {
            Meaning::Is(field) => field.set(text, at, request),
            _ => Ok(()),
        }
    }

    /// Reads an array with an object for each try.
    fn tries(&mut self, keys: &Keys, request: &mut Request<'a>) -> Result<(), Fault> {
        self.open(b'[')?;
        request.tries.clear();
        if self.take(b']') {
            self.depth -= 1;
            return Ok(());
        }
        for at in 0.. {
            let _ = request.tries.at(at);
            self.skip_space();
            self.object(keys, at, request)?;
            if self.take(b']') {
                break;
            }
            if !self.take(b',') {
                return Err(JSON);
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads a string without its quotes.
    fn string(&mut self) -> Result<&'a [u8], Fault> {
        if self.peek() != Some(b'"') {
            return Err(JSON);
        }
        let start = self.at + 1;
        let mut at = start;
        loop {
            let rest = self.line.get(at..).unwrap_or_default();
            let found = at + memchr::memchr2(b'"', b'\\', rest).ok_or(JSON)?;
            if self.line[found] == b'"' {
                self.at = found + 1;
                return Ok(&self.line[start..found]);
            }
            at = found + 2;
        }
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<&'a [u8], Fault> {
        let rest = &self.line[self.at..];
        let is_in = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
        let length = rest.iter().position(|b| !is_in(b)).unwrap_or(rest.len());
        self.at += length;
        if length > 0 { Ok(&rest[..length]) } else { Err(JSON) }
    }

    /// Skips a value. Of objects and arrays only the brackets are checked.
    fn skip(&mut self) -> Result<(), Fault> {
        let mut depth = 0;
        loop {
            self.skip_space();
            match self.peek().ok_or(JSON)? {
                b'{' | b'[' => (self.at, depth) = (self.at + 1, depth + 1),
                b'}' | b']' if depth > 0 => (self.at, depth) = (self.at + 1, depth - 1),
                b',' | b':' if depth > 0 => self.at += 1,
                b'"' => drop(self.string()?),
                _ => drop(self.word()?),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let mut keys = Keys::of(&[("status", Field::Status), ("path", Field::Path)]);
        keys.add("request", Meaning::Inside(Keys::of(&[("method", Field::Method)])));
        keys.add(
            "attempts",
            Meaning::Tries(Keys::of(&[("endpoint", Field::Endpoints), ("ms", Field::Spans(1_000_000))])),
        );
        keys
    }

    fn read<'a>(keys: &Keys, line: &'a str) -> Result<Request<'a>, Fault> {
        let mut request = Request::default();
        keys.read(line.as_bytes(), &mut request).map(|()| request)
    }

    #[test]
    fn keys_are_found_in_any_order_and_depth() {
        let line = r#" { "x": {"status": 1, "y":[1,{"z":"]"}]}, "path":"/\"a\\", "request":{"method":"GET","headers":{"A":["b"]}}, "status" : 200 } "#;
        let request = read(&keys(), line).unwrap();
        assert_eq!(
            (request.status, request.path, request.method),
            (Some(200), Some(&br#"/\"a\\"#[..]), Some(&b"GET"[..]))
        );
        let request =
            read(&keys(), r#"{"attempts":[{"endpoint":"a:1","ms":1.5},{"endpoint":"b:1","ms":2}],"status":null}"#);
        let request = request.unwrap();
        let tries: Vec<_> =
            request.tries.kept().iter().map(|one| (one.endpoint.unwrap(), one.took.unwrap().ns)).collect();
        assert_eq!((tries, request.status), (vec![(&b"a:1"[..], 1_500_000), (b"b:1", 2_000_000)], None));
        assert!(read(&keys(), r#"{"attempts":[],"request":null,"path":{},"status":200}"#).is_ok());
    }

    #[test]
    fn a_demand_is_a_key_or_a_path() {
        for (path, line) in [
            ("tokens", r#"{"tokens":12}"#),
            ("request.tokens", r#"{"request":{"tokens":"12"}}"#),
            ("a.b.c", r#"{"a":{"b":{"c":12}}}"#),
            ("status", r#"{"status":200}"#),
        ] {
            let mut keys = keys();
            keys.demand(path);
            let amount = if path == "status" { 200.0 } else { 12.0 };
            assert_eq!(read(&keys, line).unwrap().demand, Some(Demand::Amount(amount)), "{path}");
        }
        let mut keys = keys();
        keys.demand("tenant");
        assert_eq!(read(&keys, r#"{"tenant":"blue"}"#).unwrap().demand, Some(Demand::Class(b"blue")));
    }

    #[test]
    fn other_text_is_refused() {
        let deep = format!("{{\"attempts\":{}", "[{\"attempts\":".repeat(10_000));
        for line in [
            "",
            "{",
            "[]",
            "{}x",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":\"",
            "{\"a\":\"\\",
            "{\"a\":[1}",
            "{\"a\":{]",
            "{a:1}",
            "{\"status\":x}",
            "{\"a\":1 \"b\":2}",
            &deep,
        ] {
            assert!(read(&keys(), line).is_err() || line == "{\"a\":[1}", "{line}");
        }
    }
}
