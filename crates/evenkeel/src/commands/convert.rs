//! `evenkeel convert`: turns a configuration of HAProxy, NGINX, Traefik, Caddy or Envoy into a configuration of
//! evenkeel, and reports the parts that are not carried over.

use crate::arguments::Convert;
use crate::commands::check::STDIN;
use crate::failure::{Failure, reason};
use crate::output::print;
use evenkeel_config::Disk;
use evenkeel_config::printable::printable;
use evenkeel_convert::{From, convert as converted};
use std::io::{self, Read};

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
    if arguments.json {
        let mut json = done.report.to_json();
        json["from"] = done.from.to_string().into();
        json["toml"] = done.toml.into();
        return print(&format!("{json:#}\n"));
    }
    let report = done.report.to_text();
    match &arguments.report {
        None => eprint!("{}", printable(&report, &['\n', '\t'])),
        Some(file) => {
            let cannot = |error| Failure::running(format!("cannot write {}: {}", file.display(), reason(&error)));
            std::fs::write(file, report).map_err(cannot)?;
        }
    }
    print(&done.toml)
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
