//! Imports between the files of a crate, from `use` and paths in the code, resolved through re-exports to the file that
//! declares the item. A facade uses what it re-exports, too.

use crate::rule::File;
use crate::source::{Token, tokens};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Source files of one crate, and which of them use which, with the line of the first use.
#[derive(Debug, Default)]
pub struct Crate<'a> {
    pub name: &'a str,
    pub files: Vec<&'a File>,
    pub uses: BTreeMap<(usize, usize), usize>,
}

/// Path of a module from the root of its crate.
type Path = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    file: usize,
    /// Names of items that it declares.
    declares: HashSet<String>,
    /// Names that it imports, with the paths that they stand for.
    imports: HashMap<String, Path>,
    /// Modules that it imports by glob.
    globs: Vec<Path>,
}

/// Path in the code, with the module that contains it.
#[derive(Debug)]
struct Seen {
    module: Path,
    path: Path,
    line: usize,
    is_glob: bool,
}

#[derive(Debug, Default)]
struct Reading {
    modules: HashMap<Path, Module>,
    seen: Vec<Seen>,
}

/// All crates among the files, by name.
pub fn crates(files: &[File]) -> Vec<Crate<'_>> {
    let mut names: Vec<&str> = files.iter().filter_map(|file| source_of(file).map(|(krate, _)| krate)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| read(name, files)).collect()
}

/// Crate of a source file, and the path below its `src/`.
fn source_of(file: &File) -> Option<(&str, &str)> {
    let (krate, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    path.ends_with(".rs").then_some((krate, path))
}

impl Crate<'_> {
    /// Path of a file below `src/`.
    pub fn path(&self, file: usize) -> &str {
        source_of(self.files[file]).map_or("", |(_, path)| path)
    }
}

fn read<'a>(name: &'a str, files: &'a [File]) -> Crate<'a> {
    let of_crate = |path: &str| files.iter().find(|file| source_of(file) == Some((name, path)));
    let mut krate = Crate { name, ..Crate::default() };
    let Some(root) = ["lib.rs", "main.rs"].into_iter().find_map(of_crate) else { return krate };
    let mut reading = Reading::default();
    // Only files reached by `mod` lines outside test code.
    let mut open = vec![(Path::new(), root)];
    while let Some((module, file)) = open.pop() {
        krate.files.push(file);
        for child in reading.read(&tokens(&file.text), module, krate.files.len() - 1) {
            let path = child.join("/");
            let found = of_crate(&format!("{path}.rs")).or_else(|| of_crate(&format!("{path}/mod.rs")));
            open.extend(found.map(|file| (child, file)));
        }
    }
    for seen in &reading.seen {
        let (from, to) = (reading.modules[&seen.module].file, reading.file_of(seen));
        if let Some(to) = to.filter(|to| *to != from) {
            krate.uses.entry((from, to)).or_insert(seen.line);
        }
    }
    krate
}

impl Reading {
    /// Reads the tokens of a module's file. Returns its children that have files of their own.
    fn read(&mut self, tokens: &[Token], module: Path, file: usize) -> Vec<Path> {
        let word = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
        let (mut children, mut imports, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        // Modules within the file, each with its depth of brackets.
        let (mut inside, mut depth, mut i) = (vec![(module, 0)], 0, 0);
        self.modules.entry(inside[0].0.clone()).or_default().file = file;
        while i < tokens.len() {
            let here = &inside.last().expect("the file's own stays").0;
            match word(i) {
                "{" => {
                    depth += 1;
                    // Items that a macro is called with are items of this module.
                    if word(i.wrapping_sub(1)) == "!" {
                        inside.push((here.clone(), depth));
                    }
                }
                "}" => {
                    depth -= 1;
                    inside.pop_if(|(_, at)| *at > depth);
                }
                "mod" if word(i + 2) == ";" => children.push([&here[..], &[word(i + 1).into()]].concat()),
                "mod" if word(i + 2) == "{" => {
                    let child = [&here[..], &[word(i + 1).into()]].concat();
                    self.modules.entry(child.clone()).or_default().file = file;
                    depth += 1;
                    inside.push((child, depth));
                    i += 3;
                    continue;
                }
                // Not the `use` of a bound (`impl Trait + use<'a>`).
                "use" if word(i + 1) != "<" => {
                    let (trees, end) = use_tree(tokens, i + 1, &Path::new());
                    for (path, name) in trees {
                        imports.push((here.clone(), path, name, tokens[i].line));
                    }
                    i = end + 1;
                    continue;
                }
                // Not methods, nor items within functions.
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" | "macro_rules"
                    if inside.last().is_some_and(|(_, at)| *at == depth) =>
                {
                    let name = if word(i + 1) == "!" { word(i + 2) } else { word(i + 1) };
                    self.modules.entry(here.clone()).or_default().declares.insert(name.to_string());
                }
                _ if word(i + 1) == "::" && tokens[i].is_word() && word(i.wrapping_sub(1)) != "::" => {
                    let mut path = vec![word(i).to_string()];
                    while word(i + 1) == "::" && tokens.get(i + 2).is_some_and(Token::is_word) {
                        path.push(word(i + 2).to_string());
                        i += 2;
                    }
                    paths.push(Seen { module: here.clone(), path, line: tokens[i].line, is_glob: false });
                }
                _ => {}
            }
            i += 1;
        }
        for (module, path, name, line) in imports {
            let entry = self.modules.entry(module.clone()).or_default();
            let is_glob = name == "*";
            match is_glob {
                true => entry.globs.push(path.clone()),
                false => drop(entry.imports.insert(name.clone(), path.clone())),
            }
            paths.push(Seen { module, path, line, is_glob });
        }
        self.seen.extend(paths);
        children
    }

    /// File of this crate that declares the target of a path. A path to a module itself is not a use.
    fn file_of(&self, seen: &Seen) -> Option<usize> {
        let (module, rest) = self.resolve(&seen.module, &seen.path, 0)?;
        (seen.is_glob || !rest.is_empty()).then(|| self.modules[&module].file)
    }

    /// Module of this crate that declares the target of a path, and the rest of the path within it.
    fn resolve(&self, from: &Path, path: &[String], depth: usize) -> Option<(Path, Path)> {
        // Guards against names that re-export themselves.
        if depth > 16 {
            return None;
        }
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Path::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from[..from.len().checked_sub(1)?].to_vec(), &path[1..]),
            first => {
                let child = [&from[..], &[first.to_string()]].concat();
                let known = self.modules.contains_key(&child) || self.modules.get(from)?.imports.contains_key(first);
                // Otherwise another crate, or an item of this module.
                (known.then(|| from.clone())?, path)
            }
        };
        loop {
            let Some(next) = rest.first() else { return Some((at, Path::new())) };
            let child = [&at[..], std::slice::from_ref(next)].concat();
            let module = self.modules.get(&at)?;
            // A function may have the name of a module: a name alone is the function, a name before `::` the module.
            let (is_alone, declares) = (rest.len() == 1, module.declares.contains(next));
            let import = module.imports.get(next);
            if next == "super" {
                at.pop()?;
            } else if is_alone && declares {
                return Some((at, rest.to_vec()));
            } else if self.modules.contains_key(&child) && !(is_alone && import.is_some_and(|target| target.len() > 1))
            {
                at = child;
            } else if let Some(target) = import {
                return self.resolve(&at, &[target, &rest[1..]].concat(), depth + 1);
            } else {
                let by_glob = module.globs.iter().find_map(|glob| {
                    let (there, left) = self.resolve(&at, &[glob, rest].concat(), depth + 1)?;
                    let has = left.first().is_some_and(|name| self.modules[&there].declares.contains(name));
                    (has || left.is_empty()).then_some((there, left))
                });
                return Some(by_glob.unwrap_or((at, rest.to_vec())));
            }
            rest = &rest[1..];
        }
    }
}

/// Paths of a `use`, each with its local name (`*` for a glob), and the index of its end.
fn use_tree(tokens: &[Token], from: usize, prefix: &Path) -> (Vec<(Path, String)>, usize) {
    let word = |i: usize| tokens.get(i).map_or(";", |token| token.text.as_str());
    let (mut path, mut found, mut i) = (prefix.clone(), Vec::new(), from);
    loop {
        match word(i) {
            "::" => {}
            "{" => {
                while !matches!(word(i), "}" | ";") {
                    let (inner, end) = use_tree(tokens, i + 1, &path);
                    found.extend(inner);
                    i = end;
                }
                return (found, i + 1);
            }
            "*" => {
                found.push((path, "*".into()));
                return (found, i + 1);
            }
            "as" => {
                found.push((path, word(i + 1).into()));
                return (found, i + 2);
            }
            "," | "}" | ";" => {
                // `a::{self}` is `a`.
                path.pop_if(|last| last == "self");
                if let Some(name) = path.last().filter(|_| path.len() > prefix.len() || path == *prefix && i > from) {
                    found.push((path.clone(), name.clone()));
                }
                return (found, i);
            }
            name => path.push(name.into()),
        }
        i += 1;
    }
}

#[cfg(test)]
fn uses(files: &[(&str, &str)]) -> Vec<String> {
    let files = crate::rule::sample(files);
    let krates = crates(&files);
    let krate = &krates[0];
    krate.uses.keys().map(|(from, to)| format!("{} {}", krate.path(*from), krate.path(*to))).collect()
}

#[test]
fn imports_are_found_in_every_form() {
    let others: Vec<(String, String)> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| (format!("crates/x/src/{name}.rs"), format!("pub fn {name}() {{}} pub struct T;")))
        .collect();
    for (text, wanted) in [
        ("use crate::a::T;", "a"),
        ("use super::a;\nfn f() { a::a() }", "a"),
        ("use super::a;", ""),
        ("use crate::{a::{self, T}, b::T as U};", "a b"),
        ("use {crate::c::*, std::fmt};", "c"),
        ("fn f() -> crate::d::T { crate::a::a() }", "a d"),
        ("mod inner { use super::super::b::T; }", "b"),
        ("use crate::passed::T;", "c"),
        ("use crate::T;", "d"),
        ("use std::a::T;\n// crate::b::b()\nconst S: &str = \"crate::c::c()\";", ""),
        ("#[cfg(test)]\nmod tests { use crate::a::a; }\nfn f() {}", ""),
        ("pub(in crate::a) fn f() {}", ""),
        ("pub use crate::b::T;", "b"),
        ("use crate::named;\nfn f() { named::item() }", "named/item"),
        // Names of modules and of functions are apart.
        ("use crate::a;\nfn a() { a::a() }", "a"),
        ("use crate::twice::a;\nfn f() { a() }", "twice/mod"),
        ("use crate::all::Word;", "made"),
    ] {
        let mut files = vec![
            (
                "crates/x/src/lib.rs",
                "mod a; mod b; mod c; mod d; mod named; mod user; mod passed; mod twice; mod all; mod made; pub use d::T;",
            ),
            ("crates/x/src/passed.rs", "pub use crate::c::T;"),
            ("crates/x/src/named/mod.rs", "mod item; pub use item::item; impl X { fn item(&self) {} }"),
            ("crates/x/src/named/item.rs", "pub fn item() {}"),
            ("crates/x/src/twice/mod.rs", "pub mod a; pub fn a() {}"),
            ("crates/x/src/twice/a.rs", ""),
            ("crates/x/src/all.rs", "pub use crate::made::*;"),
            ("crates/x/src/made.rs", "words! { pub struct Word { a } }"),
            ("crates/x/src/user.rs", text),
        ];
        files.extend(others.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let mut wanted: Vec<String> = wanted.split_whitespace().map(|to| format!("user.rs {to}.rs")).collect();
        let mut got = uses(&files);
        got.retain(|uses| uses.starts_with("user.rs "));
        wanted.sort();
        got.sort();
        assert_eq!(got, wanted, "{text}");
    }
}

#[test]
fn folders_and_files_are_modules_alike() {
    let files = [
        ("crates/x/src/main.rs", "mod a; mod b; #[cfg(test)] mod tests; fn main() { a::inner::f() }"),
        ("crates/x/src/a/mod.rs", "pub mod inner; pub struct Of;"),
        ("crates/x/src/a/inner.rs", "use super::Of; pub fn f() { super::super::b::g() }"),
        ("crates/x/src/b.rs", "pub fn g() {}"),
        ("crates/x/src/tests.rs", "use crate::b::g;"),
    ];
    let mut got = uses(&files);
    got.sort();
    assert_eq!(got, ["a/inner.rs a/mod.rs", "a/inner.rs b.rs", "main.rs a/inner.rs"]);
}
