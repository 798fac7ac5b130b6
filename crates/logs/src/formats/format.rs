//! The table of formats, and a format in use.

use super::row::{Reader, Row};
use super::{alb, caddy, combined, envoy, evenkeel, haproxy, nginx, traefik};
use crate::fault::Fault;
use crate::request::{Demand, Request};
use crate::syslog;
use crate::template::Template;
use std::fmt;

/// All formats. Of formats that read a log equally well, the first is chosen.
pub static ROWS: &[Row] = &[
    evenkeel::JSON,
    haproxy::HTTP,
    haproxy::TCP,
    nginx::INGRESS,
    nginx::JSON,
    envoy::DEFAULT,
    envoy::ISTIO,
    envoy::JSON,
    traefik::JSON,
    traefik::CLF,
    caddy::JSON,
    alb::ALB,
    combined::NGINX,
    combined::EVENKEEL,
];

/// Parser of formats that are given as text.
type Parser = fn(&str) -> Result<Template, String>;

/// Format of a log, ready to read lines.
#[derive(Debug)]
pub struct Format {
    pub row: &'static Row,
    reader: Box<dyn Reader>,
    demand: Option<Source>,
}

/// Value that is the demand of a request, if it is not one of the format's.
#[derive(Clone, Copy, Debug)]
enum Source {
    BytesIn,
    BytesOut,
    Route,
    Path,
    Host,
    Method,
    Status,
}

const SOURCES: [(&str, Source); 7] = [
    ("bytes_in", Source::BytesIn),
    ("bytes_out", Source::BytesOut),
    ("route", Source::Route),
    ("path", Source::Path),
    ("host", Source::Host),
    ("method", Source::Method),
    ("status", Source::Status),
];

/// Error of a format that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Format {
    pub(crate) fn of(row: &'static Row) -> Format {
        Format { row, reader: (row.make)(), demand: None }
    }

    /// Format by the name of a row, or by a text: `nginx:` and a `log_format`, `envoy:` and a `text_format`, `evenkeel:`
    /// and a template. The prefix may be missing if the text has values of only one of these programs.
    ///
    /// # Errors
    /// If there is no such format, or the text has values that nothing separates.
    pub fn named(text: &str) -> Result<Format, Unreadable> {
        if let Some(row) = ROWS.iter().find(|row| row.name == text) {
            return Ok(Format::of(row));
        }
        let parsers: [(&str, &'static Row, Parser); 3] = [
            ("nginx:", &nginx::LOG_FORMAT, nginx::template),
            ("evenkeel:", &evenkeel::TEMPLATE, evenkeel::template),
            ("envoy:", &envoy::TEXT, envoy::template),
        ];
        let prefixed = parsers.iter().find_map(|(prefix, row, parse)| Some((text.strip_prefix(prefix)?, *row, *parse)));
        let guessed = || match text {
            text if text.contains('$') => Some((text, parsers[0].1, parsers[0].2)),
            text if text.contains("%{") => Some((text, parsers[1].1, parsers[1].2)),
            text if text.contains('%') => Some((text, parsers[2].1, parsers[2].2)),
            _ => None,
        };
        let Some((text, row, parse)) = prefixed.or_else(guessed) else {
            let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            return Err(Unreadable(format!(
                "no format \"{text}\"; there are {}, and nginx:LOG_FORMAT",
                names.join(", ")
            )));
        };
        let template = parse(text).map_err(Unreadable)?;
        Ok(Format { row, reader: Box::new(template), demand: None })
    }

    /// Takes the demand of requests from a value: `bytes_in`, `bytes_out`, `route`, `path`, `host`, `method` or `status`;
    /// a key of JSON or a path of keys; a variable of the template; `KEY` of `KEY=value`; `capture.1` for the first
    /// captured field of HAProxy.
    ///
    /// # Errors
    /// If lines of this format cannot have the value.
    pub fn with_demand(mut self, name: &str) -> Result<Format, Unreadable> {
        if let Some((_, source)) = SOURCES.iter().find(|(known, _)| *known == name) {
            self.demand = Some(*source);
            return Ok(self);
        }
        match self.reader.demand(name) {
            true => Ok(self),
            false => Err(Unreadable(format!("lines of {} have no value \"{name}\"", self.row.name))),
        }
    }

    /// Reads a line, without its end. The front of a log daemon is skipped.
    ///
    /// # Errors
    /// The reason why the line is not a request of this format. `request` then has values of no meaning.
    pub fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        *request = Request::default();
        let line = syslog::strip(line);
        self.reader.read(line, request)?;
        (self.row.settle)(request)?;
        if let Some(source) = self.demand {
            request.demand = source.of(request);
        }
        Ok(())
    }
}

impl Source {
    fn of<'a>(self, request: &Request<'a>) -> Option<Demand<'a>> {
        match self {
            Source::BytesIn => request.bytes_in.map(|bytes| Demand::Amount(bytes as f64)),
            Source::BytesOut => request.bytes_out.map(|bytes| Demand::Amount(bytes as f64)),
            Source::Route => request.route.map(Demand::Class),
            Source::Path => request.path.map(Demand::Class),
            Source::Host => request.host.map(Demand::Class),
            Source::Method => request.method.map(Demand::Class),
            Source::Status => request.status.map(|status| Demand::Amount(f64::from(status))),
        }
    }
}
