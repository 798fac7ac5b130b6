//! Row of the table of formats, and its reader of lines.

use crate::fault::Fault;
use crate::json::Keys;
use crate::request::Request;
use crate::template::Template;
use std::fmt;

/// Program that writes a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Evenkeel,
    Haproxy,
    Nginx,
    IngressNginx,
    Envoy,
    Traefik,
    Caddy,
    Alb,
}

/// Row of the table of formats.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub program: Program,
    /// Description for messages, such as "HAProxy, option httplog".
    pub summary: &'static str,
    pub(crate) make: fn() -> Box<dyn Reader>,
    /// Completes a request after its values are set, and refuses it if it is of another format.
    pub(crate) settle: Settle,
}

pub(crate) type Settle = fn(&mut Request<'_>) -> Result<(), Fault>;

/// Reader of the lines of a format.
pub(crate) trait Reader: fmt::Debug + Send + Sync {
    /// Reads a line without the front of a log daemon.
    ///
    /// # Errors
    /// The reason why the line is not of this format.
    fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault>;

    /// Takes the demand from a value. False if lines cannot have it.
    fn demand(&mut self, name: &str) -> bool;
}

impl Reader for Keys {
    fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        Keys::read(self, line, request)
    }

    fn demand(&mut self, name: &str) -> bool {
        Keys::demand(self, name);
        true
    }
}

impl Reader for Template {
    fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        Template::read(self, line, request)
    }

    fn demand(&mut self, name: &str) -> bool {
        Template::demand(self, name.trim_start_matches('$'))
    }
}
