//! `evenkeel convert`: turns a configuration of HAProxy, NGINX, Traefik, Caddy or Envoy into a configuration of
//! evenkeel, checks it, and reports the parts that are not carried over. `against` compares it with the original.

mod against;

use crate::arguments::Convert;
use crate::commands::check::{STDIN, environment};
use crate::failure::{Failure, reason};
use crate::output::print;
use evenkeel_config::printable::printable;
use evenkeel_config::{Diagnostic, Disk, Severity, parse_str, to_json};
use evenkeel_convert::{Converted, From, convert as converted};
use std::fmt::Write;
use std::io::{self, Read};

/// Most errors of the output that are shown.
const SHOWN: usize = 3;

/// Runs `evenkeel convert`.
pub fn convert(arguments: &Convert) -> Result<(), Failure> {
    let is_stdin = arguments.file.as_os_str() == "-";
    let name = if is_stdin { STDIN.to_string() } else { arguments.file.display().to_string() };
    let text = read(arguments, is_stdin)?;
    let from = arguments.from.as_deref().and_then(From::named);
    let Some(done) = converted(&name, &text, from, &Disk) else {
        let problem = format!(
            "{name} is not recognised as a haproxy.cfg, an nginx.conf, a Caddyfile, or a file of Traefik or Envoy"
        );
        return Err(
            Failure::usage_error(problem).help("name the program: --from haproxy, nginx, caddy, traefik or envoy")
        );
    };
    if let Some(url) = &arguments.against {
        return against::run(url, &text, &done, arguments.json);
    }
    let diagnostics = parse_str("evenkeel.toml", &done.toml, &environment).diagnostics;
    let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.severity() == Severity::Error).collect();
    let changes = done.report.named().count();
    if arguments.json {
        let mut json = done.report.to_json();
        json["from"] = done.from.to_string().into();
        json["errors"] = to_json(&diagnostics);
        json["toml"] = done.toml.into();
        print(&format!("{json:#}\n"))?;
    } else {
        write_report(arguments, &done)?;
        eprint!("{}", printable(&checked(&errors), &['\n', '\t']));
        print(&done.toml)?;
    }
    match (errors.is_empty(), changes) {
        (false, _) => Err(Failure::refused()),
        (true, 0) => Ok(()),
        (true, _) => Err(Failure::otherwise()),
    }
}

fn write_report(arguments: &Convert, done: &Converted) -> Result<(), Failure> {
    let report = done.report.to_text();
    let Some(file) = &arguments.report else {
        eprint!("{}", printable(&report, &['\n', '\t']));
        return Ok(());
    };
    let cannot = |error| Failure::running(format!("cannot write {}: {}", file.display(), reason(&error)));
    std::fs::write(file, report).map_err(cannot)
}

/// Outcome of the check of an output, with the first errors.
fn checked(errors: &[&Diagnostic]) -> String {
    if errors.is_empty() {
        return "\n`evenkeel check` accepts the output\n".into();
    }
    let mut text = format!("\n`evenkeel check` finds {} errors in the output:\n", errors.len());
    for error in errors.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", error.message);
    }
    text
}

/// The text of the file. Comments in other encodings than UTF-8 do not matter.
fn read(arguments: &Convert, is_stdin: bool) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match is_stdin {
        true => io::stdin().lock().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(&arguments.file).map(|read| bytes = read),
    };
    let name = if is_stdin { "standard input".to_string() } else { arguments.file.display().to_string() };
    read.map_err(|error| Failure::running(format!("cannot read {name}: {}", reason(&error))))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
