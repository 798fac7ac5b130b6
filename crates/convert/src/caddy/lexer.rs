//! Lines, words and blocks of a Caddyfile. Imported snippets and files are put in place.

use crate::ledger::{Ledger, Line};
use evenkeel_config::Files;
use std::collections::{BTreeMap, BTreeSet};
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

    /// True if the block of an import has a place in it.
    fn takes_block(&self) -> bool {
        self.words.first().is_some_and(|word| word.starts_with("{block"))
            || self.block.iter().any(Directive::takes_block)
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
        used: BTreeSet::new(),
        directives: 0,
        ledger,
    };
    let all = reader.text(text, file, 0);
    let used = reader.used;
    for (_, snippet) in reader.snippets.into_iter().filter(|(name, _)| !used.contains(name)) {
        snippet.iter().for_each(|directive| directive.dropped("no site imports it", reader.ledger));
    }
    all
}

struct Reader<'r> {
    files: &'r dyn Files,
    folder: PathBuf,
    snippets: BTreeMap<String, Vec<Directive>>,
    /// Names of the snippets that are imported.
    used: BTreeSet<String>,
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
            let snippet = snippet.clone();
            self.used.insert(name.to_string());
            self.ledger.carried(line);
            let filled = self.filled(&snippet, directive.from(2), &directive.block);
            if !snippet.iter().any(Directive::takes_block) {
                let reason = "the snippet has no place for a block";
                directive.block.iter().for_each(|inner| inner.dropped(reason, self.ledger));
            }
            return filled;
        }
        let paths = self.paths(name);
        let texts: Option<Vec<(PathBuf, String)>> = paths
            .into_iter()
            .map(|path| Some((path.clone(), String::from_utf8(self.files.read(&path).ok()?).ok()?)))
            .collect();
        match texts.filter(|_| depth < DEPTH) {
            Some(texts) => {
                self.ledger.carried(line);
                let mut all = Vec::new();
                for (path, text) in texts {
                    all.extend(self.text(&text, &path.display().to_string().into(), depth + 1));
                }
                self.filled(&all, directive.from(2), &directive.block)
            }
            None => {
                let reason = format!(
                    "{name} cannot be read here, and may be what protects these requests: all clients are refused"
                );
                self.ledger.decide(line, reason, "convert on the machine that has it, file by file");
                // It stays, as a directive that is not known.
                vec![directive.clone()]
            }
        }
    }

    /// Files of an import: a name, or a pattern with a single star in its last part.
    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let path = self.folder.join(name);
        let (Some(folder), Some((start, end))) =
            (path.parent(), path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('*')))
        else {
            return vec![path];
        };
        let mut names = self.files.list(folder).unwrap_or_default();
        names.retain(|name| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end));
        names.sort();
        // A pattern that no file has imports nothing, unless the folder is missing.
        match names.is_empty() && self.files.list(folder).is_err() {
            true => vec![path],
            false => names.into_iter().map(|name| folder.join(name)).collect(),
        }
    }

    /// Directives of a snippet, with the arguments and the block of its import.
    fn filled(&mut self, all: &[Directive], arguments: &[String], block: &[Directive]) -> Vec<Directive> {
        let mut out = Vec::new();
        for directive in all {
            self.directives += 1;
            if self.directives > DIRECTIVES {
                break;
            }
            if directive.words == ["{block}"] {
                self.ledger.carried(directive.line);
                out.extend(block.iter().cloned());
                continue;
            }
            let mut words = Vec::new();
            for word in &directive.words {
                match word.as_str() {
                    "{args[:]}" | "{args.*}" => words.extend(arguments.iter().cloned()),
                    _ => words.push(with_arguments(word, arguments)),
                }
            }
            let inner = self.filled(&directive.block, arguments, block);
            out.push(Directive { line: directive.line, words, block: inner });
        }
        out
    }
}

/// A word with the arguments of an import in place of `{args[0]}` and `{args.0}`. A missing argument stays.
fn with_arguments(word: &str, arguments: &[String]) -> String {
    if !word.contains("{args") {
        return word.to_string();
    }
    arguments.iter().enumerate().fold(word.to_string(), |word, (n, argument)| {
        word.replace(&format!("{{args[{n}]}}"), argument).replace(&format!("{{args.{n}}}"), argument)
    })
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
        // Within the snippet, its name is not known yet: the import stays, to be reported.
        let within_itself = read_text("(x) {\nimport x\n}\nimport x\n");
        assert!(within_itself.iter().all(|directive| directive.name() == "import"), "{within_itself:?}");
    }
}
