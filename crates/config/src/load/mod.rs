//! The way from files to a plan: read, expand, include, join, check, build. Does not stop at the first error.

// Order: places, env, files, slips
pub mod env;
pub mod files;
pub mod places;
mod slips;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::foreign::{self, PAGE, syntax};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::planes::report::{Line, lines};
use crate::root::{INCLUDE, ROOT, build};
use crate::source::{Sources, Span};
use crate::subject::Written;
use crate::table::{Reader, hide_secrets, quote, vocabulary};
use crate::tree::paths::Paths;
use crate::tree::{self, Entry, Joined, Node, TableNode, Tree};
use env::{Env, expand};
use files::{Disk, Files, NoFiles, matching};
use slips::{Slip, slip};
use std::collections::HashSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Result of reading a configuration.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome {
    /// The plan; `Some` if and only if no diagnostic is an error.
    pub plan: Option<Plan>,
    /// Errors, then warnings, each in the order of files and lines.
    pub diagnostics: Vec<Diagnostic>,
}

/// Largest file accepted, in bytes. Hand-written files have some thousands, a generated file of 10,000
/// endpoints about a million.
const FILE_MAX: usize = 64 << 20;

/// Reads a file from disk, with its includes.
pub fn load(path: &Path, env: Env<'_>) -> Outcome {
    load_from(&Disk, path, env)
}

/// Reads a file from `files`, with its includes.
pub fn load_from(files: &dyn Files, path: &Path, env: Env<'_>) -> Outcome {
    read_from(files, path, env).finish(None)
}

/// Reads a file from disk as [`load`] does, and checks whether `machine` has everything that it names: folders of logs
/// and sockets, files of secrets, addresses. No listener address is bound.
pub fn check(path: &Path, env: Env<'_>, machine: &Machine) -> Outcome {
    check_from(&Disk, path, env, machine)
}

/// Checks a file from `files`, as [`check`] does for the disk.
pub fn check_from(files: &dyn Files, path: &Path, env: Env<'_>, machine: &Machine) -> Outcome {
    read_from(files, path, env).finish(Some(machine))
}

/// Lists the parts that planes keep of the algorithms of their pools, also if that is an error. Empty if a file cannot
/// be read.
pub fn planes_from(files: &dyn Files, path: &Path, env: Env<'_>) -> Vec<Line> {
    let mut loader = read_from(files, path, env);
    let joined = std::mem::take(&mut loader.joined).finish();
    let root = Reader::new(&ROOT, &mut loader.findings, loader.complete).table(&ROOT, &joined, Span::whole(0));
    if loader.complete { lines(&build(&root, None, &mut loader.findings)) } else { Vec::new() }
}

fn read_from<'a>(files: &'a dyn Files, path: &Path, env: Env<'a>) -> Loader<'a> {
    let mut loader = Loader::new(files, env);
    if let Some(text) = loader.read(path, None) {
        loader.main(&path.display().to_string(), &text, path.parent().unwrap_or(Path::new("")));
    } else {
        loader.complete = false;
    }
    loader
}

/// Reads a text that does not come from a file and cannot include any. No side effects: for tests, fuzzing
/// and dry runs.
pub fn parse_str(name: &str, text: &str, env: Env<'_>) -> Outcome {
    let mut loader = Loader::new(&NoFiles, env);
    loader.main(name, text, Path::new(""));
    loader.finish(None)
}

/// Reads the text of a plan made from values. Diagnostics show the paths of values instead of lines, and their subjects by
/// the ranges in `written`.
pub(crate) fn parse_values(name: &str, (text, written): (&str, Written), machine: Option<&Machine>) -> Outcome {
    let mut loader = Loader::new(&NoFiles, &|_| None);
    let table = loader.parse(name, text);
    let paths = Paths::of(table.clone());
    loader.sources.stands_for(0, written, move |span| paths.to(span));
    loader.joined.add(table, &mut loader.findings);
    loader.finish(machine)
}

impl Plan {
    /// The plan of `evenkeel run ADDR ADDR...`: a listener and a pool, with defaults for everything else,
    /// except that error answers are detailed, since this is for experiments. With `self_signed`, the
    /// listener uses TLS with a self-signed certificate. The text passes through the same reader as a file;
    /// its diagnostics name the file "command line".
    pub fn for_addresses(listen: &str, endpoints: &[&str], balance: Option<&str>, self_signed: bool) -> Outcome {
        let tls = if self_signed { "tls = { self_signed = true }\n" } else { "" };
        let mut text =
            format!("[listener.web]\nbind = [{}]\nerrors = \"detailed\"\n{tls}\n[pool.web]\n", quote(listen));
        if let Some(name) = balance {
            let _ = writeln!(text, "balance = {}", quote(name));
        }
        let _ = writeln!(text, "endpoints = [");
        for endpoint in endpoints {
            let _ = writeln!(text, "  {},", quote(endpoint));
        }
        let _ = writeln!(text, "]");
        parse_str("command line", &text, &|_| None)
    }
}

struct Loader<'a> {
    files: &'a dyn Files,
    env: Env<'a>,
    sources: Sources,
    findings: Findings,
    /// Everything read so far, merged.
    joined: Joined,
    /// False if some file could not be read.
    complete: bool,
}

impl<'a> Loader<'a> {
    fn new(files: &'a dyn Files, env: Env<'a>) -> Loader<'a> {
        let (sources, findings) = (Sources::default(), Findings::default());
        Loader { files, env, sources, findings, joined: Joined::default(), complete: true }
    }

    fn main(&mut self, name: &str, text: &str, directory: &Path) {
        let mut table = self.parse(name, text);
        let include = table.entries.iter().position(|e| e.key == "include").map(|at| table.entries.remove(at));
        self.joined.add(table, &mut self.findings);
        let Some(include) = include else { return };
        let Tree::Table(inner) = &include.node.tree else {
            self.findings
                .add(
                    Code::WrongType,
                    include.node.span,
                    format!("\"include\" is {}, but must be a table", include.node.tree.seen()),
                )
                .help("write [include] and files = [\"conf.d/*.toml\"] below it");
            return;
        };
        let section = Reader::new(&ROOT, &mut self.findings, true).table(&INCLUDE, inner, include.key_span);
        let mut included: HashSet<PathBuf> = HashSet::new();
        for (pattern, span) in section.formed_list("files") {
            let crate::form::Formed::Text(pattern) = pattern else { continue };
            self.include(directory, &pattern, span, &mut included);
        }
    }

    fn include(&mut self, directory: &Path, pattern: &str, span: Span, included: &mut HashSet<PathBuf>) {
        let paths = match matching(self.files, directory, pattern) {
            Ok(paths) => paths,
            Err(error) => {
                let message = format!("cannot expand \"{pattern}\": {}", reason(&error));
                self.findings.add(Code::Unreadable, span, message).help("paths are relative to this file");
                self.complete = false;
                return;
            }
        };
        if paths.is_empty() {
            self.findings.add(Code::EmptyInclude, span, format!("\"{pattern}\" matches no file"));
        }
        for path in paths {
            if !included.insert(path.clone()) {
                let message = format!("{} is included twice", path.display());
                self.findings.add(Code::Include, span, message).help("let only one of the patterns match it");
                continue;
            }
            let text = self.read(&path, Some(span));
            let Some(text) = text else {
                self.complete = false;
                continue;
            };
            let mut table = self.parse(&path.display().to_string(), &text);
            if let Some(at) = table.entries.iter().position(|e| e.key == "include") {
                let nested = table.entries.remove(at);
                self.findings
                    .add(Code::Include, nested.key_span, "an included file cannot include")
                    .see("it was included here", span)
                    .help("include the file from the first file instead");
            }
            self.joined.add(table, &mut self.findings);
        }
    }

    /// Parses and expands a file.
    fn parse(&mut self, name: &str, text: &str) -> TableNode {
        // Byte order mark, which some editors write.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file = self.sources.add(name, text);
        let (mut node, fault) = tree::parse(&self.sources, file, &mut self.findings);
        let clean = fault.is_none();
        self.complete &= clean;
        if !clean {
            self.findings.is_broken(file);
        }
        hide_secrets(&ROOT, &node, &mut self.findings);
        let text = self.sources.text(file);
        if !clean && let Some((kind, start, end)) = syntax::recognise(text) {
            // The TOML parser's complaint is of no use for such a file.
            self.findings.take_back();
            let message = format!("not TOML: it looks like {}", kind.name);
            let under = if kind.heading.is_empty() { String::new() } else { format!(", under {}", kind.heading) };
            self.findings.add(Code::Syntax, Span { file, start, end }, message).help(format!(
                "write it in TOML, as [listener.NAME], [[route]] and [pool.NAME]; {PAGE} shows both side by side{under}"
            ));
        } else if let Some(Slip { start, end, message, help }) = fault.and_then(|at| slip(text, at.start)) {
            self.findings.take_back();
            self.findings.add(Code::Syntax, Span { file, start, end }, format!("not TOML: {message}")).help(help);
        }
        expand(&mut node, self.env, &mut self.findings);
        match node {
            // Values recovered after a syntax error may be wrong, so only its includes are used.
            Node { tree: Tree::Table(mut table), .. } => {
                table.entries.retain(|e| clean || e.key == "include");
                table
            }
            _ => TableNode::default(),
        }
    }

    /// Reads the text of a file. Problems are reported at `asked`, the include that names it.
    fn read(&mut self, path: &Path, asked: Option<Span>) -> Option<String> {
        let name = path.display().to_string();
        let problem = match self.files.read(path) {
            Err(error) => (Code::Unreadable, format!("cannot read {name}: {}", reason(&error)), ""),
            Ok(bytes) if bytes.len() > FILE_MAX => {
                (Code::Unreadable, format!("cannot read {name}: it is larger than {} MiB", FILE_MAX >> 20), "")
            }
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => return Some(text),
                Err(error) => {
                    let good = error.utf8_error().valid_up_to();
                    let line = error.as_bytes()[..good].iter().filter(|b| **b == b'\n').count() + 1;
                    let message = format!("{name} is not UTF-8: byte {good}, on line {line}");
                    (Code::NotUtf8, message, "save it as UTF-8 (it may be Latin-1, or not text at all)")
                }
            },
        };
        let (code, message, help) = problem;
        let finding = match asked {
            Some(span) => self.findings.add(code, span, message),
            None => self.findings.add_file(code, &name, message),
        };
        if !help.is_empty() {
            finding.help(help);
        }
        None
    }

    fn finish(mut self, machine: Option<&Machine>) -> Outcome {
        let joined = std::mem::take(&mut self.joined).finish();
        self.built(&joined, machine)
    }

    /// Builds the plan of the merged files.
    fn built(mut self, joined: &TableNode, machine: Option<&Machine>) -> Outcome {
        let root = Reader::new(&ROOT, &mut self.findings, self.complete).table(&ROOT, joined, Span::whole(0));
        // References into a file that could not be read are not errors.
        let plan = self.complete.then(|| build(&root, machine, &mut self.findings));
        let is_foreign =
            |e: &Entry| ROOT.key(&e.key).is_none() && foreign::key(ROOT.path, &e.key, &e.node.tree, joined).is_some();
        if joined.entries.iter().any(is_foreign) {
            // There may be listeners and pools under another proxy's names.
            self.findings.forget(Code::NothingToDo, Span::whole(0));
        }
        let plan = plan.filter(|_| !self.findings.has_errors());
        Outcome { plan, diagnostics: self.findings.resolve(&self.sources, || vocabulary(&ROOT)) }
    }
}

/// Text of an error, shorter than the system's where that is long.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_string(),
        io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        io::ErrorKind::IsADirectory => "it is a directory".to_string(),
        _ => error.to_string(),
    }
}
