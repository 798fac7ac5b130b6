//! Tokens of a source file, without comments, literals and tests: as much of the language as imports need.

/// Word or sign of a source; `::` is one sign.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// Tokens outside test code.
pub fn tokens(text: &str) -> Vec<Token> {
    without_tests(&all_tokens(text))
}

fn all_tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut tokens, mut i, mut line) = (Vec::new(), 0, 1);
    while i < chars.len() {
        let end = match chars[i] {
            '/' if at(i + 1) == '/' => i + chars[i..].iter().take_while(|c| **c != '\n').count(),
            '/' if at(i + 1) == '*' => end_of_comment(&chars, i),
            '"' => end_of_string(&chars, i + 1),
            'r' | 'b' | 'c' if end_of_raw_string(&chars, i).is_some() => end_of_raw_string(&chars, i).unwrap_or(i + 1),
            // A lifetime has no quote behind its first letter, a character has.
            '\'' if at(i + 1) == '\\' => i + 3 + chars[i + 3..].iter().take_while(|c| **c != '\'').count() + 1,
            '\'' if at(i + 2) == '\'' => i + 3,
            '\'' => i + 1,
            c if c.is_alphanumeric() || c == '_' => {
                let end = i + chars[i..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
                tokens.push(Token { text: chars[i..end].iter().collect(), line });
                end
            }
            c if c.is_whitespace() => i + 1,
            c => {
                let end = if c == ':' && at(i + 1) == ':' { i + 2 } else { i + 1 };
                tokens.push(Token { text: chars[i..end].iter().collect(), line });
                end
            }
        };
        let end = end.min(chars.len());
        line += chars[i..end].iter().filter(|c| **c == '\n').count();
        i = end;
    }
    tokens
}

fn end_of_comment(chars: &[char], from: usize) -> usize {
    let (mut depth, mut i) = (0, from);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut i = from;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Index after a raw string such as `r"..."` or `br##"..."##`; `None` if there is none.
fn end_of_raw_string(chars: &[char], from: usize) -> Option<usize> {
    let r = (from..from + 2).find(|i| chars.get(*i) == Some(&'r'))?;
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    let begin = r + 1 + hashes;
    let closes =
        |i: usize| chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    (chars.get(begin) == Some(&'"'))
        .then(|| (begin + 1..chars.len()).find(|i| closes(*i)).map_or(chars.len(), |i| i + 1 + hashes))
}

/// Removes items after `#[cfg(test)]` or the like, and after `#[test]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|token| token.text == text);
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if is(i, "#") && is(i + 1, "[") {
            let end = closing(tokens, i + 1);
            let words: Vec<&str> = tokens[i + 2..end].iter().map(|t| t.text.as_str()).collect();
            if matches!(words[..], ["test"] | ["cfg", "(", "test", ")"] | ["cfg", "(", "all", "(", "test", ..]) {
                i = end_of_item(tokens, end + 1);
                continue;
            }
        }
        kept.push(tokens[i].clone());
        i += 1;
    }
    kept
}

/// Index of the bracket that closes the one at `from`.
fn closing(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len()
}

/// Index after the item that begins at `from`, including further attributes.
fn end_of_item(tokens: &[Token], from: usize) -> usize {
    let (mut i, is_use) = (from, tokens.get(from).is_some_and(|token| token.text == "use"));
    while let Some(token) = tokens.get(i) {
        match token.text.as_str() {
            ";" => return i + 1,
            "{" if !is_use => return closing(tokens, i) + 1,
            "(" | "[" | "{" => i = closing(tokens, i) + 1,
            _ => i += 1,
        }
    }
    tokens.len()
}

#[test]
fn comments_literals_and_tests_are_no_tokens() {
    let text = r##"
        // use a;
        fn f<'a>(x: &'a str) { g('"', '\'', "use b; \" // x", r#"use "c";"#, b'x'); } /* use /* d */ e; */
        #[cfg(test)]
        #[allow(dead_code)]
        mod tests { fn t() {} }
        #[cfg(test)]
        use x::{y, z};
        #[cfg(not(test))]
        use crate::h;
    "##;
    let joined: Vec<String> = tokens(text).into_iter().map(|t| t.text).collect();
    let code = "fn f < a > ( x : & a str ) { g ( , , , , b ) ; } # [ cfg ( not ( test ) ) ] use crate :: h ;";
    assert_eq!(joined.join(" "), code);
    assert_eq!(tokens(text).last().map(|t| t.line), Some(10));
}
