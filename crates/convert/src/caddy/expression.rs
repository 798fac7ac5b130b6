//! `expression`: the parts of CEL that are conditions of routes. These are calls of Caddy's matchers and comparisons of
//! placeholders with text, joined by `&&`, `||`, `!` and parentheses.

use super::lexer::Directive;
use crate::ledger::Line;
use crate::model::{Cond, Key, Match, Test, escape};

/// Deepest nesting of parentheses and negations.
const DEPTH: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Text in quotes, or a bare word.
    Text(String),
    Name(String),
    Placeholder(String),
    Mark(&'static str),
}

/// A condition before it is written as alternatives.
pub(super) enum Expr {
    /// A matcher with its values, as a row of a named matcher.
    Row(Directive),
    Cond(Cond),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
}

/// Reads an expression at a line.
///
/// # Errors
/// Reason why it cannot be written.
pub(super) fn read(text: &str, line: Line) -> Result<Expr, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, line };
    let expr = reader.any(0)?;
    if reader.at < reader.tokens.len() { Err(UNKNOWN.to_string()) } else { Ok(expr) }
}

const UNKNOWN: &str = "its expression has parts that are not conditions of routes";

const MARKS: [&str; 15] = ["&&", "||", "==", "!=", "!", "(", ")", "[", "]", "{", "}", ",", ":", ".", "in "];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut all, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        if ['"', '\'', '`'].contains(&first) {
            let (inner, after) = rest[1..].split_once(first).ok_or(UNKNOWN)?;
            if inner.contains(['\\', '{']) {
                return Err(UNKNOWN.to_string());
            }
            all.push(Token::Text(inner.to_string()));
            rest = after.trim_start();
            continue;
        }
        let name_of = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c));
        if let Some(after) = rest.strip_prefix('{')
            && let Some((name, after)) = after.split_once('}')
            && !name.is_empty()
            && name_of(name).is_none()
        {
            all.push(Token::Placeholder(name.to_string()));
            rest = after.trim_start();
            continue;
        }
        if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            all.push(Token::Mark(mark.trim_end()));
            rest = rest[mark.len()..].trim_start();
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 {
            return Err(UNKNOWN.to_string());
        }
        // The lexer has taken the quotes of the text behind a comparison.
        let is_compared = matches!(all.last(), Some(Token::Mark("==" | "!=")));
        let word = rest[..end].to_string();
        all.push(if is_compared { Token::Text(word) } else { Token::Name(word) });
        rest = rest[end..].trim_start();
    }
    Ok(all)
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    line: Line,
}

impl Reader {
    fn next(&mut self) -> Option<Token> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }

    fn takes(&mut self, mark: &'static str) -> bool {
        let is_next = self.tokens.get(self.at) == Some(&Token::Mark(mark));
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, mark: &'static str) -> Result<(), String> {
        if self.takes(mark) { Ok(()) } else { Err(UNKNOWN.to_string()) }
    }

    fn text(&mut self) -> Result<String, String> {
        match self.next() {
            Some(Token::Text(text)) => Ok(text),
            _ => Err(UNKNOWN.to_string()),
        }
    }

    fn any(&mut self, depth: usize) -> Result<Expr, String> {
        let mut parts = vec![self.all(depth)?];
        while self.takes("||") {
            parts.push(self.all(depth)?);
        }
        Ok(Expr::Any(parts))
    }

    fn all(&mut self, depth: usize) -> Result<Expr, String> {
        let mut parts = vec![self.one(depth)?];
        while self.takes("&&") {
            parts.push(self.one(depth)?);
        }
        Ok(Expr::All(parts))
    }

    fn one(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > DEPTH {
            return Err(UNKNOWN.to_string());
        }
        if self.takes("!") {
            return Ok(Expr::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            self.needs(")")?;
            return Ok(inner);
        }
        match self.next() {
            Some(Token::Name(name)) => self.call(name),
            Some(Token::Placeholder(name)) => self.comparison(&name),
            _ => Err(UNKNOWN.to_string()),
        }
    }

    /// A matcher: `path('/x', '/y')`, `header({'X-A': 'b'})`.
    fn call(&mut self, name: String) -> Result<Expr, String> {
        self.needs("(")?;
        let mut words = vec![name];
        if self.takes("{") {
            let (name, _) = (self.text()?, self.needs(":")?);
            let is_list = self.takes("[");
            let mut values = vec![self.text()?];
            while is_list && self.takes(",") {
                values.push(self.text()?);
            }
            if is_list {
                self.needs("]")?;
            }
            self.needs("}")?;
            match words[0].as_str() {
                "header" => words.extend([name].into_iter().chain(values)),
                "query" => words.extend(values.into_iter().map(|value| format!("{name}={value}"))),
                _ => return Err(UNKNOWN.to_string()),
            }
        } else {
            words.push(self.text()?);
            while self.takes(",") {
                words.push(self.text()?);
            }
        }
        self.needs(")")?;
        match words[0].as_str() {
            "path" | "method" | "host" | "header" | "query" | "remote_ip" | "client_ip" | "protocol"
            | "path_regexp" | "header_regexp" => Ok(Expr::Row(Directive { line: self.line, words, block: Vec::new() })),
            _ => Err(UNKNOWN.to_string()),
        }
    }

    /// A placeholder and what it is compared with.
    fn comparison(&mut self, name: &str) -> Result<Expr, String> {
        let bare = name.strip_prefix("http.request.").unwrap_or(name);
        let key = match (bare, bare.split_once('.')) {
            ("method", _) => Key::Method,
            ("scheme", _) => Key::Scheme,
            (_, Some(("header", field))) => Key::Header(field.to_string()),
            (_, Some(("cookie", cookie))) => Key::Cookie(cookie.to_string()),
            _ => return Err(format!("its expression compares {{{name}}}, which is not a condition of routes")),
        };
        if self.takes(".") {
            let Some(Token::Name(how)) = self.next() else { return Err(UNKNOWN.to_string()) };
            self.needs("(")?;
            let text = self.text()?;
            self.needs(")")?;
            if !matches!(key, Key::Header(_) | Key::Cookie(_)) || text.is_empty() {
                return Err(UNKNOWN.to_string());
            }
            let test = match how.as_str() {
                "startsWith" => Test::Begins(text),
                "endsWith" => Test::Ends(text),
                "contains" => Test::Regex(format!(".*{}.*", escape(&text))),
                _ => return Err(UNKNOWN.to_string()),
            };
            return Ok(Expr::Cond(Cond::new(key, test)));
        }
        let is_negated = match self.next() {
            Some(Token::Mark("==")) => false,
            Some(Token::Mark("!=")) => true,
            Some(Token::Mark("in")) => {
                self.needs("[")?;
                let mut values = vec![self.text()?];
                while self.takes(",") {
                    values.push(self.text()?);
                }
                self.needs("]")?;
                return equal(key, values).map(Expr::Cond);
            }
            _ => return Err(UNKNOWN.to_string()),
        };
        let text = self.text()?;
        let cond = equal(key, vec![text])?;
        Ok(Expr::Cond(if is_negated { cond.negate() } else { cond }))
    }
}

fn equal(key: Key, values: Vec<String>) -> Result<Cond, String> {
    let is_single = key != Key::Scheme || values.len() == 1;
    match values.iter().all(|value| !value.is_empty()) && is_single {
        true => Ok(Cond::one_of(key, values)),
        false => Err(UNKNOWN.to_string()),
    }
}

/// Alternatives of an expression. `row` reads a matcher.
///
/// # Errors
/// Reason why it cannot be written.
pub(super) fn alternatives(
    expr: &Expr,
    is_negated: bool,
    row: &mut dyn FnMut(&Directive) -> Result<Vec<Match>, String>,
) -> Result<Vec<Match>, String> {
    let every = || vec![Match::default()];
    match (expr, is_negated) {
        (Expr::Not(inner), _) => alternatives(inner, !is_negated, row),
        (Expr::Cond(cond), _) => {
            let cond = if is_negated { cond.clone().negate() } else { cond.clone() };
            Ok(vec![Match::of([cond])])
        }
        (Expr::Row(directive), false) => row(directive),
        (Expr::Row(directive), true) => super::step::negated(&row(directive)?),
        (Expr::Any(parts), false) | (Expr::All(parts), true) => {
            let mut out = Vec::new();
            for part in parts {
                out.extend(alternatives(part, is_negated, row)?);
            }
            super::step::and(&every(), &out)
        }
        (Expr::All(parts), false) | (Expr::Any(parts), true) => {
            let mut out = every();
            for part in parts {
                out = super::step::and(&out, &alternatives(part, is_negated, row)?)?;
            }
            Ok(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_expressions_are_read() {
        for (text, is_read) in [
            ("{method} == \"GET\"", true),
            ("{method} == GET && !path('/a', '/b')", true),
            ("{http.request.header.X-A} in ['a', 'b'] || header({'X-B': ['c']})", true),
            ("!({header.X-A}.startsWith('x'))", true),
            ("{env.A} == 'b'", false),
            ("size({path}) > 3", false),
            ("path('/a'", false),
            ("", false),
        ] {
            assert_eq!(read(text, Line::none()).is_ok(), is_read, "{text}");
        }
        assert!(read(&"(".repeat(10_000), Line::none()).is_err() && read(&"!".repeat(10_000), Line::none()).is_err());
    }
}
