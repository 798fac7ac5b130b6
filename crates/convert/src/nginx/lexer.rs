//! Directives and blocks of nginx.conf, with quotes, escapes and comments, and the files that it includes.

use crate::ledger::{Ledger, Line};
use crate::template;
use evenkeel_config::Files;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deepest nesting of blocks, and of included files.
const DEPTH: usize = 24;
/// Most files that a configuration may include.
const INCLUDED: usize = 200;
/// Most directives of a configuration. The directives of a file count each time that it is included.
const DIRECTIVES: usize = 100_000;

/// A directive with its words, and the directives in its block.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub line: Line,
    pub words: Vec<String>,
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    pub fn name(&self) -> &str {
        self.word(0)
    }

    /// A word by its number, empty if there are fewer.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// Words from the number `at` on; none if there are fewer.
    pub fn from(&self, at: usize) -> &[String] {
        self.words.get(at..).unwrap_or_default()
    }

    /// Directives in its block; none if it has no block.
    pub fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Reads a text. Included files are put in place.
pub(super) struct Reader<'r> {
    pub files: &'r dyn Files,
    pub ledger: &'r mut Ledger,
    /// Folder that names of included files are relative to.
    pub folder: PathBuf,
    included: usize,
    directives: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

impl<'r> Reader<'r> {
    pub fn new(files: &'r dyn Files, ledger: &'r mut Ledger, file: &str) -> Reader<'r> {
        let folder = Path::new(file).parent().map(Path::to_path_buf).unwrap_or_default();
        Reader { files, ledger, folder, included: 0, directives: 0 }
    }

    /// Directives of a text. The directives of included files are put in place.
    pub fn read(&mut self, text: &str, file: &Arc<str>, depth: usize) -> Vec<Directive> {
        let tokens = tokens(text);
        let mut at = 0;
        let mut all = Vec::new();
        // A closing brace too many does not end the file.
        while at < tokens.len() {
            all.extend(self.block(&tokens, &mut at, file, depth));
            at += 1;
        }
        all
    }

    fn block(&mut self, tokens: &[(usize, Token)], at: &mut usize, file: &Arc<str>, depth: usize) -> Vec<Directive> {
        let mut directives = Vec::new();
        let (mut words, mut line) = (Vec::new(), 0);
        while let Some((number, token)) = tokens.get(*at) {
            match token {
                Token::Word(word) => {
                    if words.is_empty() {
                        line = *number;
                    }
                    words.push(word.clone());
                }
                Token::End | Token::Open => {
                    let is_block = *token == Token::Open;
                    let mut words = std::mem::take(&mut words);
                    words.shrink_to_fit();
                    self.directives += 1;
                    if !words.is_empty() && self.directives <= DIRECTIVES {
                        let entry = self.ledger.open(file, line, &words.join(" "));
                        let block = is_block.then(|| {
                            *at += 1;
                            match depth < DEPTH {
                                true => self.block(tokens, at, file, depth + 1),
                                false => {
                                    self.ledger.changes(
                                        entry,
                                        "blocks are nested too deeply",
                                        "convert the inner part on its own",
                                    );
                                    skip(tokens, at);
                                    Vec::new()
                                }
                            }
                        });
                        let directive = Directive { line: entry, words, block };
                        match directive.name() == "include" && !is_block {
                            true => directives.extend(self.include(&directive, depth)),
                            false => directives.push(directive),
                        }
                    } else if is_block {
                        *at += 1;
                        skip(tokens, at);
                    }
                }
                Token::Close => break,
            }
            *at += 1;
        }
        if !words.is_empty() {
            let entry = self.ledger.open(file, line, &words.join(" "));
            self.ledger.changes(entry, "the directive has no semicolon at its end", "add it, and convert again");
        }
        directives
    }

    /// Directives of the files that a line includes, in its place.
    fn include(&mut self, directive: &Directive, depth: usize) -> Vec<Directive> {
        let (name, line) = (directive.word(1), directive.line);
        if name.ends_with("mime.types") {
            self.ledger.dropped(line, "it names types of files, and no files are served");
            return Vec::new();
        }
        if name.contains("modules-enabled") || name.contains("/modules/") {
            self.ledger.changes(line, "modules are not loaded", "see what the module is for");
            return Vec::new();
        }
        // A file that was not read may have refused requests: its line stays.
        let unread = || vec![directive.clone()];
        let Some(paths) = self.paths(name) else {
            self.ledger.decide(line, format!("{name} cannot be read here"), "convert on the machine that has it");
            return unread();
        };
        if paths.is_empty() {
            self.ledger.dropped(line, "there is no file that it includes");
        }
        let mut all = Vec::new();
        for path in paths {
            if depth >= DEPTH || self.included >= INCLUDED {
                let reason = "too many files are included, or one includes itself";
                self.ledger.decide(line, reason, "convert the parts one by one");
                all.extend(unread());
                break;
            }
            self.included += 1;
            match self.files.read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                Some(text) => {
                    self.ledger.carried(line);
                    let file: Arc<str> = path.display().to_string().into();
                    let plain = template::strip(&text, &file, self.ledger);
                    all.extend(self.read(&plain, &file, depth + 1));
                }
                None => {
                    let reason = format!("{} cannot be read here", path.display());
                    self.ledger.decide(line, reason, "convert on the machine that has it");
                    all.extend(unread());
                }
            }
        }
        all
    }

    /// Files that match a name, with `*` and `?` in its last component. `None` if the file or the folder cannot be read.
    fn paths(&self, name: &str) -> Option<Vec<PathBuf>> {
        let path = self.folder.join(name);
        let (folder, pattern) = (path.parent()?, path.file_name()?.to_str()?);
        if !pattern.contains(['*', '?']) {
            return self.files.read(&path).is_ok().then(|| vec![path]);
        }
        let mut names = self.files.list(folder).ok()?;
        names.retain(|name| fits(pattern.as_bytes(), name.as_bytes()));
        names.sort();
        Some(names.iter().map(|name| folder.join(name)).collect())
    }
}

/// True if a name fits a pattern with `*` and `?`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    (p, n) = (at + 1, from + 1);
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

fn skip(tokens: &[(usize, Token)], at: &mut usize) {
    let mut depth = 0_usize;
    while let Some((_, token)) = tokens.get(*at) {
        match token {
            Token::Open => depth += 1,
            Token::Close if depth == 0 => return,
            Token::Close => depth -= 1,
            _ => {}
        }
        *at += 1;
    }
}

/// Words and marks, each with its line. Braces within a variable `${NAME}`, or within a word, are part of it.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    let (mut line, mut word, mut begun, mut is_word) = (1, String::new(), 1, false);
    while let Some(c) = chars.next() {
        if !is_word {
            begun = line;
        }
        match c {
            '\n' => {
                end(&mut tokens, &mut word, &mut is_word, begun);
                line += 1;
            }
            c if c.is_whitespace() => end(&mut tokens, &mut word, &mut is_word, begun),
            '#' if !is_word => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' if !is_word => {
                while let Some(inner) = chars.next() {
                    match inner {
                        '\n' => {
                            line += 1;
                            word.push('\n');
                        }
                        '\\' => escaped(chars.next(), c, &mut word),
                        inner if inner == c => break,
                        inner => word.push(inner),
                    }
                }
                is_word = true;
                end(&mut tokens, &mut word, &mut is_word, begun);
            }
            '\\' => {
                is_word = true;
                escaped(chars.next(), ' ', &mut word);
            }
            '$' if chars.peek() == Some(&'{') => {
                is_word = true;
                word.push('$');
                while let Some(inner) = chars.next_if(|c| *c != '\n') {
                    word.push(inner);
                    if inner == '}' {
                        break;
                    }
                }
            }
            ';' | '{' | '}' => {
                // `{2,3}` within an expression needs quotes in NGINX, too.
                end(&mut tokens, &mut word, &mut is_word, begun);
                if c == '{' && is_of_lua(&tokens) {
                    line += lua(&mut chars);
                    tokens.push((begun, Token::End));
                    continue;
                }
                let token = match c {
                    ';' => Token::End,
                    '{' => Token::Open,
                    _ => Token::Close,
                };
                tokens.push((line, token));
            }
            c => {
                is_word = true;
                word.push(c);
            }
        }
    }
    end(&mut tokens, &mut word, &mut is_word, begun);
    tokens
}

/// True if the directive at the end is one whose block is a script of Lua.
fn is_of_lua(tokens: &[(usize, Token)]) -> bool {
    let words =
        tokens.iter().rev().map_while(|(_, token)| if let Token::Word(word) = token { Some(word) } else { None });
    words.last().is_some_and(|name| name.ends_with("_by_lua_block"))
}

/// Skips a script of Lua with the brace that ends its block, and returns the number of its lines. Braces in strings and
/// comments do not count.
fn lua(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> usize {
    let (mut depth, mut lines) = (1_usize, 0);
    while let Some(c) = chars.next() {
        match c {
            '\n' => lines += 1,
            '{' => depth += 1,
            '}' => depth -= 1,
            '-' if chars.next_if_eq(&'-').is_some() => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' => {
                while let Some(inner) = chars.next_if(|inner| *inner != '\n') {
                    match inner {
                        '\\' => drop(chars.next()),
                        inner if inner == c => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    lines
}

fn escaped(c: Option<char>, quote: char, word: &mut String) {
    match c {
        Some('n') if quote != ' ' => word.push('\n'),
        Some('t') if quote != ' ' => word.push('\t'),
        Some('r') if quote != ' ' => word.push('\r'),
        Some(c) if c == quote || c == '"' || c == '\'' || c == ' ' && quote == ' ' => word.push(c),
        // In an expression the backslash means something.
        Some(c) => word.extend(['\\', c]),
        None => {}
    }
}

fn end(tokens: &mut Vec<(usize, Token)>, word: &mut String, is_word: &mut bool, line: usize) {
    if std::mem::take(is_word) {
        tokens.push((line, Token::Word(std::mem::take(word))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::NoFiles;

    fn read(text: &str) -> Vec<Directive> {
        let mut ledger = Ledger::default();
        Reader::new(&NoFiles, &mut ledger, "nginx.conf").read(text, &"nginx.conf".into(), 0)
    }

    #[test]
    fn directives_have_words_and_blocks() {
        let all = read("a b 'c d';\nserver { listen 80; location ~ \\.php$ { return 404; } } # x\n");
        assert_eq!(all[0].words, ["a", "b", "c d"]);
        assert_eq!(all[1].inner()[1].words, ["location", "~", "\\.php$"]);
        assert_eq!(all[1].inner()[1].inner()[0].words, ["return", "404"]);
        assert_eq!(read("proxy_pass http://${host}:80;")[0].word(1), "http://${host}:80");
    }

    #[test]
    fn scripts_of_lua_are_skipped() {
        let all =
            read("a_by_lua_block {\n -- don't }\n say(\"}\", {1})\n}\nlisten 80;\nx { b_by_lua_block { '\\'}' } c; }");
        assert_eq!(all.iter().map(Directive::name).collect::<Vec<_>>(), ["a_by_lua_block", "listen", "x"]);
        assert_eq!(all[2].inner().len(), 2);
    }

    #[test]
    fn broken_files_are_read_as_far_as_they_go() {
        assert_eq!(read("a; } b;").len(), 2);
        assert_eq!(read("a { b;").len(), 1);
        assert_eq!(read(&"a {".repeat(10_000)).len(), 1);
        assert!(read("a").is_empty());
    }

    #[test]
    fn patterns_match_names() {
        assert!(fits(b"*.conf", b"a.conf") && fits(b"a?c*", b"abcd") && !fits(b"*.conf", b"a.conf2"));
    }
}
