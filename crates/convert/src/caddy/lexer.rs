//! Lines, words and blocks of a Caddyfile. Imported snippets and files are put in place.

use crate::ledger::{Ledger, Line};
use evenkeel_config::Files;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deepest nesting of blocks and imports.
const DEPTH: usize = 16;
/// Most directives of a configuration. The directives of a snippet count each time that it is imported.
const DIRECTIVES: usize = 50_000;

/// A directive with its words, and the directives in its block.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub line: Line,
    pub words: Vec<String>,
    pub block: Vec<Directive>,
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

    /// Settles it and everything in it that is not settled as left out with a change.
    pub fn lost(&self, reason: &str, todo: &str, ledger: &mut Ledger) {
        if !ledger.is_settled(self.line) {
            ledger.changes(self.line, reason, todo);
        }
        self.block.iter().for_each(|inner| inner.lost(reason, todo, ledger));
    }

    /// Settles it and everything in it that is not settled as left out without a loss.
    pub fn dropped(&self, reason: &str, ledger: &mut Ledger) {
        if !ledger.is_settled(self.line) {
            ledger.dropped(self.line, reason);
        }
        self.block.iter().for_each(|inner| inner.dropped(reason, ledger));
    }
}

/// Reads the directives of a text. Imported files and snippets are put in place.
pub(super) fn read(text: &str, file: &Arc<str>, files: &dyn Files, ledger: &mut Ledger) -> Vec<Directive> {
    let mut reader = Reader {
        files,
        folder: Path::new(&**file).parent().map(Path::to_path_buf).unwrap_or_default(),
        snippets: BTreeMap::new(),
        directives: 0,
        ledger,
    };
    reader.text(text, file, 0)
}

struct Reader<'r> {
    files: &'r dyn Files,
    folder: PathBuf,
    snippets: BTreeMap<String, Vec<Directive>>,
    directives: usize,
    ledger: &'r mut Ledger,
}

impl Reader<'_> {
    fn text(&mut self, text: &str, file: &Arc<str>, depth: usize) -> Vec<Directive> {
        let lines = lines(text);
        let mut at = 0;
        let mut all = Vec::new();
        // A closing brace too many does not end the file.
        while at < lines.len() {
            all.extend(self.block(&lines, &mut at, file, depth));
        }
        all
    }

    fn block(
        &mut self,
        lines: &[(usize, Vec<String>)],
        at: &mut usize,
        file: &Arc<str>,
        depth: usize,
    ) -> Vec<Directive> {
        let mut all = Vec::new();
        while let Some((number, words)) = lines.get(*at) {
            *at += 1;
            if words.as_slice() == ["}"] {
                return all;
            }
            let opens = words.last().is_some_and(|word| word == "{");
            let mut words = words.clone();
            if opens {
                words.pop();
            }
            self.directives += 1;
            if self.directives > DIRECTIVES {
                continue;
            }
            let line = self.ledger.open(file, *number, &words.join(" "));
            let block = match opens && depth >= DEPTH {
                true => {
                    self.ledger.changes(line, "blocks are nested too deeply", "convert the inner part on its own");
                    skip(lines, at);
                    Vec::new()
                }
                false if opens => self.block(lines, at, file, depth + 1),
                false => Vec::new(),
            };
            let directive = Directive { line, words, block };
            match directive.name() {
                "import" => all.extend(self.import(&directive, depth)),
                name if opens && name.starts_with('(') && name.ends_with(')') => {
                    self.ledger.carried(line);
                    self.snippets.insert(name.trim_matches(['(', ')']).to_string(), directive.block);
                }
                _ => all.push(directive),
            }
        }
        all
    }

    fn import(&mut self, directive: &Directive, depth: usize) -> Vec<Directive> {
        let (name, line) = (directive.word(1), directive.line);
        if let Some(snippet) = self.snippets.get(name) {
            self.directives += snippet.len();
            match directive.words.len() > 2 {
                true => {
                    self.ledger.changes(line, "arguments of snippets are not filled in", "write the snippet in place")
                }
                false => self.ledger.carried(line),
            }
            return snippet.clone();
        }
        let path = self.folder.join(name);
        let text = self.files.read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        match text.filter(|_| depth < DEPTH && !name.contains('*')) {
            Some(text) => {
                self.ledger.carried(line);
                self.text(&text, &path.display().to_string().into(), depth + 1)
            }
            None => {
                self.ledger.decide(
                    line,
                    format!("{name} cannot be read here"),
                    "convert on the machine that has it, file by file",
                );
                Vec::new()
            }
        }
    }
}

fn skip(lines: &[(usize, Vec<String>)], at: &mut usize) {
    let mut depth = 0_usize;
    while let Some((_, words)) = lines.get(*at) {
        *at += 1;
        if words.as_slice() == ["}"] {
            if depth == 0 {
                return;
            }
            depth -= 1;
        } else if words.last().is_some_and(|word| word == "{") {
            depth += 1;
        }
    }
}

/// Lines with their words, without empty lines. A backslash or a comma at the end of a line continues it.
fn lines(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut out: Vec<(usize, Vec<String>)> = Vec::new();
    let (mut words, mut begun): (Vec<String>, usize) = (Vec::new(), 1);
    let mut chars = text.chars().peekable();
    let (mut line, mut word, mut is_word) = (1, String::new(), false);
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'\n') => {
                chars.next();
                line += 1;
            }
            '\n' => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
                line += 1;
                if words.last().is_some_and(|word| word.ends_with(',')) {
                    continue;
                }
                if !words.is_empty() {
                    out.push((begun, std::mem::take(&mut words)));
                }
                begun = line;
            }
            c if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            '#' if !is_word => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '`' if !is_word => {
                while let Some(inner) = chars.next() {
                    line += usize::from(inner == '\n');
                    match inner {
                        '\\' if c == '"' && chars.peek() == Some(&'"') => word.extend(chars.next()),
                        inner if inner == c => break,
                        inner => word.push(inner),
                    }
                }
                words.push(std::mem::take(&mut word));
            }
            c => {
                is_word = true;
                word.push(c);
            }
        }
    }
    if is_word {
        words.push(word);
    }
    if !words.is_empty() {
        out.push((begun, words));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::NoFiles;

    fn read_text(text: &str) -> Vec<Directive> {
        read(text, &"Caddyfile".into(), &NoFiles, &mut Ledger::default())
    }

    #[test]
    fn blocks_have_directives_and_snippets_stand_in_place() {
        let all = read_text("(log) {\n\tlog\n}\na.test,\nb.test {\n\timport log # x\n\trespond \"a b\" 200\n}\n");
        assert_eq!(all[0].words, ["a.test,", "b.test"]);
        let inner: Vec<&str> = all[0].block.iter().map(Directive::name).collect();
        assert_eq!((inner, all[0].block[1].word(1)), (vec!["log", "respond"], "a b"));
    }

    #[test]
    fn broken_files_are_read_as_far_as_they_go() {
        assert_eq!(read_text("}\na {\nb\n").len(), 1);
        assert_eq!(read_text(&"a {\n".repeat(10_000)).len(), 1);
        assert!(read_text("(x) {\nimport x\n}\nimport x\n").is_empty());
    }
}
