//! Rules for comments: openings and lengths of doc comments, reasons for unsafe code and for unfinished work.

use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "an unfinished mark gives its reason",
        check: unfinished_marks,
        kept_by: &[("crates/dns/src/a.rs", "// TODO(until rfc 9999 is out): x\nlet s = \"TODO\";\n")],
        broken_by: &[("crates/dns/src/a.rs", "let a = 1; // TODO: later\n")],
    },
    Rule {
        name: "a source begins with a statement of what it holds",
        check: head_comment,
        kept_by: &[("crates/dns/src/a.rs", "//! Queries, and the answers to them.\n")],
        broken_by: &[("crates/dns/src/a.rs", "use std::fmt;\n//! Queries come late here.\n")],
    },
    Rule {
        name: "a source does not begin with a question",
        check: head_comment,
        kept_by: &[("crates/dns/src/a.rs", "//! Queries. Is one malformed? Then FORMERR.\n")],
        broken_by: &[("crates/dns/src/a.rs", "//! Queries: are they\n//! well formed?\n")],
    },
    Rule {
        name: "a doc comment is a noun phrase or a verb in the third person",
        check: doc_openings,
        kept_by: &[(
            "crates/dns/src/a.rs",
            "/// Time of the query,\n/// which is late.\n/// It is in ns.\nfn f() {}\n// What comes\n",
        )],
        broken_by: &[("crates/dns/src/a.rs", "fn f() {}\n/// Whether a query is late.\nfn g() {}\n")],
    },
    Rule {
        name: "a paragraph on errors is one, too",
        check: doc_openings,
        kept_by: &[(
            "crates/dns/src/a.rs",
            "/// Time of the query.\n///\n/// # Errors\n/// Errors of `recv(2)`.\nfn f() {}\n",
        )],
        broken_by: &[(
            "crates/dns/src/a.rs",
            "/// Time of the query.\n///\n/// # Errors\n/// Those of `recv(2)`.\nfn f() {}\n",
        )],
    },
    Rule {
        name: "a doc comment says more than the name",
        check: doc_lengths,
        kept_by: &[(
            "crates/dns/src/a.rs",
            "/// Seconds, 1 to 60.\nfn f() {}\n/// Also lists.\n#[arg(long)]\nlist: bool\n",
        )],
        broken_by: &[("crates/dns/src/a.rs", "/// The queries.\nfn queries() {}\n")],
    },
    Rule {
        name: "unsafe code says why it is sound",
        check: safety_comments,
        kept_by: &[("crates/dns/src/a.rs", "// SAFETY: open until dropped,\n// as x says\nlet a = unsafe { f() };\n")],
        broken_by: &[("crates/dns/src/a.rs", "// fast\nlet a = unsafe { f() };\n")],
    },
];

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

fn unfinished_marks(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, text) in file.lines() {
            let Some((_, comment)) = text.split_once("//") else { continue };
            let mut words = comment.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
            let bare = words.find(|word| MARKS.contains(&word.split('(').next().unwrap_or_default()));
            // Only the first mark is allowed, and only with a reason in brackets.
            if bare.is_some_and(|word| !word.starts_with(&format!("{}(", MARKS[0])) || word.ends_with('(')) {
                findings.push(file.finding(line, "an unfinished mark without a reason", "finish it, or TODO(reason)"));
            }
        }
    }
    findings
}

fn head_comment(files: &[File]) -> Vec<Finding> {
    let sources =
        files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/") && file.path.contains("/src/"));
    let faults = sources.filter_map(|file| {
        let doc = doc_comments(file).next().filter(|doc| doc.line == 1 && doc.mark == '!');
        match doc {
            None => Some(file.finding(1, "no `//!` at the top", "state what the file holds")),
            Some(doc) => {
                let first = doc.text.split_inclusive(['.', '?', ':']).find(|part| !part.ends_with(':'));
                let asks = first.is_some_and(|sentence| sentence.ends_with('?'));
                asks.then(|| file.finding(1, "the file begins with a question", "state what it holds"))
            }
        }
    });
    faults.collect()
}

/// Words that open a headless clause, whose subject the reader has to guess.
const HEADLESS: &[&str] = &[
    "As", "How", "It", "Of", "One", "That", "Those", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why",
];

fn doc_openings(files: &[File]) -> Vec<Finding> {
    let instead = "a noun phrase, or a verb in the third person: \"True if\", \"Returns\", \"Limit of\"";
    let is_headless = |paragraph: &str| {
        let text = paragraph.strip_prefix("# Errors").unwrap_or(paragraph).trim_start();
        let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        HEADLESS.contains(&first) || text.starts_with("The same")
    };
    let opens = |doc: &DocComment| doc.text.split('\n').any(|paragraph| is_headless(paragraph.trim_start()));
    of_docs(files, |doc| opens(doc).then_some("a doc comment with a paragraph that opens a headless clause"), instead)
}

/// Length below which a doc comment only repeats a name, unless it has a number, unit, code or link.
const SHORT: usize = 25;
const UNITS: &[&str] = &["second", "byte", "percent", " per "];

fn doc_lengths(files: &[File]) -> Vec<Finding> {
    let instead = "a unit, a range, a reason, a source; or no comment";
    let is_short = |doc: &DocComment| {
        let says_more = doc.text.contains(|c: char| c.is_ascii_digit() || c == '`' || c == '[')
            || UNITS.iter().any(|unit| doc.text.contains(unit));
        !doc.is_help && !says_more && doc.text.chars().count() < SHORT
    };
    of_docs(files, |doc| is_short(doc).then_some("a doc comment that says no more than the name"), instead)
}

fn of_docs(files: &[File], fault: impl Fn(&DocComment) -> Option<&'static str>, instead: &'static str) -> Vec<Finding> {
    let sources = files.iter().filter(|file| file.is_rust());
    let found = sources.flat_map(|file| {
        doc_comments(file).filter_map(|doc| Some(file.finding(doc.line, fault(&doc)?, instead))).collect::<Vec<_>>()
    });
    found.collect()
}

/// Consecutive lines of `///` or of `//!`. Those of a paragraph are joined by spaces, paragraphs by a line end.
struct DocComment {
    line: usize,
    mark: char,
    text: String,
    /// True for the help text of a command-line argument.
    is_help: bool,
}

fn doc_comments(file: &File) -> impl Iterator<Item = DocComment> {
    let mut docs: Vec<DocComment> = Vec::new();
    let mut open = None;
    for (line, text) in file.lines() {
        let code = text.trim_start();
        let comment = code.strip_prefix("//").filter(|rest| !rest.starts_with("//"));
        let mark = comment.and_then(|rest| rest.chars().next()).filter(|mark| matches!(mark, '/' | '!'));
        let text = comment.map_or("", |rest| rest.get(1..).unwrap_or_default().trim());
        match (mark, docs.last_mut()) {
            (Some(mark), Some(doc)) if open == Some(mark) => {
                doc.text.push(if text.is_empty() { '\n' } else { ' ' });
                doc.text.push_str(text);
            }
            (Some(mark), _) => docs.push(DocComment { line, mark, text: text.to_owned(), is_help: false }),
            (None, Some(doc)) if open.is_some() => {
                doc.is_help = code.starts_with("#[arg") || code.starts_with("#[command")
            }
            (None, _) => {}
        }
        open = mark;
    }
    docs.into_iter()
}

fn safety_comments(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let opening = ["unsafe {", "unsafe impl"];
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, text) in lines.iter().enumerate() {
            let code = text.split("//").next().unwrap_or_default();
            if !opening.iter().any(|opening| code.contains(*opening)) {
                continue;
            }
            let above = lines[..index].iter().rev().take_while(|line| {
                let line = line.trim_start();
                line.starts_with("//") || line.starts_with("#[")
            });
            if !above.chain([text]).any(|line| line.contains("SAFETY:")) {
                findings.push(file.finding(
                    index + 1,
                    "unsafe code without its reason",
                    "`// SAFETY: ...` right above",
                ));
            }
        }
    }
    findings
}
