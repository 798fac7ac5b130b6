//! `evenkeel check`: all errors of a configuration, or a summary of its content. Also finds the file that commands use
//! by default.

mod planes;

use crate::arguments::Check;
use crate::checking::{environment, outcome};
use crate::failure::{Failure, color, reason};
use crate::output::print;
use evenkeel_config::{Disk, Files, Outcome, Plan, load, planes_from, render_text, to_json};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Files that `run` and `check` take if none is named: the first of them that is there.
pub const DEFAULTS: [&str; 2] = ["evenkeel.toml", "/etc/evenkeel/evenkeel.toml"];

/// Name of a configuration that comes from standard input, in diagnostics.
pub const STDIN: &str = "(standard input)";

/// Runs `evenkeel check`.
pub fn check(arguments: &Check) -> Result<(), Failure> {
    let named = arguments.file.as_ref().or(arguments.config.as_ref());
    let file = named.cloned().map_or_else(|| default_file().ok_or_else(no_file), Ok);
    let file = file.map_err(|failure| failure.help("evenkeel check FILE; - reads standard input"))?;
    let stdin = (file.as_os_str() == "-").then(Stdin::read).transpose()?;
    let (files, path): (&dyn Files, &Path) = match &stdin {
        Some(stdin) => (stdin, Path::new(STDIN)),
        None => (&Disk, &file),
    };
    let Outcome { plan, diagnostics } = outcome(files, path, arguments.elsewhere);
    let lines = arguments.planes.then(|| planes_from(files, path, &environment));
    match (arguments.json, lines) {
        (true, None) => print(&format!("{:#}\n", to_json(&diagnostics)))?,
        (true, Some(lines)) => print(&format!("{:#}\n", planes::json(&lines, to_json(&diagnostics))))?,
        (false, lines) => {
            eprint!("{}", render_text(&diagnostics, color()));
            lines.map_or(Ok(()), |lines| print(&planes::text(&lines)))?;
        }
    }
    match plan {
        None => Err(Failure::config()),
        Some(_) if arguments.json => Ok(()),
        Some(plan) if named.is_none() => print(&format!("ok: {}: {}\n", file.display(), contents(&plan))),
        Some(plan) => print(&format!("ok: {}\n", contents(&plan))),
    }
}

/// Standard input as a file. Included files are read from the disk, relative to the current folder.
struct Stdin(Vec<u8>);

impl Stdin {
    fn read() -> Result<Stdin, Failure> {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| Failure::running(format!("cannot read standard input: {}", reason(&error))))?;
        Ok(Stdin(bytes))
    }
}

impl Files for Stdin {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new(STDIN) { Ok(self.0.clone()) } else { Disk.read(path) }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(directory)
    }
}

/// The configuration file to take if none is named.
pub fn default_file() -> Option<PathBuf> {
    DEFAULTS.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Failure of a command that found no default file.
pub fn no_file() -> Failure {
    let [here, installed] = DEFAULTS;
    Failure::usage_error(format!("no configuration file: none is given, and neither ./{here} nor {installed} exists"))
}

/// A file with its environment.
pub fn read(file: &Path) -> Outcome {
    load(file, &environment)
}

/// `1 listener, 2 routes, 1 pool, 3 endpoints`, and maps if there are any.
pub fn contents(plan: &Plan) -> String {
    let endpoints = plan.pools.iter().map(|pool| pool.endpoints.len()).sum();
    let counts = [
        (plan.listeners.len(), "listener"),
        (plan.routes.len(), "route"),
        (plan.pools.len(), "pool"),
        (endpoints, "endpoint"),
    ];
    let one = |(n, what)| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let maps = (!plan.maps.is_empty()).then_some((plan.maps.len(), "map"));
    counts.into_iter().chain(maps).map(one).collect::<Vec<_>>().join(", ")
}
