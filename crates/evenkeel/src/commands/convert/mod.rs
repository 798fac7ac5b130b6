//! `evenkeel convert`: turns a configuration of HAProxy, NGINX, Traefik, Caddy or Envoy into a configuration of
//! evenkeel, checks it, and reports the parts that are not carried over. `against` compares it with the original.

// Order: against, sources
mod against;
mod sources;

use crate::arguments::Convert;
use crate::checking::environment;
use crate::failure::{Failure, reason};
use crate::output::print;
use evenkeel_config::printable::printable;
use evenkeel_config::{Diagnostic, Disk, Severity, parse_str, to_json};
use evenkeel_convert::{Converted, From, convert_all};
use std::fmt::Write;

/// Most errors of the output that are shown.
const SHOWN: usize = 3;

/// Runs `evenkeel convert`.
pub fn convert(arguments: &Convert) -> Result<(), Failure> {
    let texts = sources::read(&arguments.files)?;
    let name = sources::name(&arguments.files);
    let from = arguments.from.as_deref().and_then(From::named);
    let parts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(done) = convert_all(&name, &parts, from, &Disk) else {
        let problem = format!(
            "{name} is not recognised as a haproxy.cfg, an nginx.conf, a Caddyfile, or a file of Traefik or Envoy"
        );
        return Err(
            Failure::usage_error(problem).help("name the program: --from haproxy, nginx, caddy, traefik or envoy")
        );
    };
    if parts.len() > 1 && done.from != From::Traefik {
        let problem =
            format!("only the configuration of Traefik is read from several files, not that of {}", done.from);
        return Err(Failure::usage_error(problem).help("name the main file, whose included files are read, too"));
    }
    if let Some(url) = &arguments.against {
        let text: String = texts.iter().map(|(_, text)| &**text).collect();
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
        return "\n`evenkeel check` accepts the output; it has not read the files that the output names\n".into();
    }
    let mut text = format!("\n`evenkeel check` finds {} errors in the output:\n", errors.len());
    for error in errors.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", error.message);
    }
    text
}
