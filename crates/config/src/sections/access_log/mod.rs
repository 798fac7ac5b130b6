//! The access log, `access_log` of `[telemetry]`: destination, line format and extra header fields. See
//! [`AccessLog`].

// Order: format, sink
mod format;
mod sink;

pub use format::{LineFormat, LineTemplate, LineValue, Part};
pub use sink::{LineSink, SyslogAddress};

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table, words};

/// Most header fields of requests that may be logged, and of responses likewise: keeps lines readable and
/// their cost bounded.
const FIELDS_MAX: usize = 16;

table! {
    pub(super) static ACCESS_LOG = "access_log of [telemetry]",
        "One line per request, written when the request ends.";

    /// `telemetry.access_log`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AccessLog {
        /// Destination of the lines.
        to: LineSink = Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/var/log/evenkeel/access.jsonl""#),
            help: "File to append to, or one of these destinations. `\"-\"` or `\"stdout\"`: standard output. \
                `\"stderr\"`: standard error. `\"syslog\"`: the local syslog at `/dev/log` (RFC 5424); \
                `\"syslog:/run/x.sock\"` and `\"syslog:udp:192.0.2.1:514\"` select another syslog. `\"journald\"`: the \
                systemd journal over its native protocol; `\"journald:/run/systemd/journal.x/socket\"` is the journal \
                of a namespace. Lines that cannot be written in time are dropped and counted. Requests never wait for \
                the log.",
            why: "",
        };
        format: LineFormat = Key {
            name: "format",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"json\""),
            help: "Format of a line: `\"json\"`; `\"common\"` or `\"combined\"`, as in Apache and NGINX; \
                `\"httplog\"`, as in HAProxy; or a template with `%{NAME}` for values, such as `\"%{client} %{status} \
                %{path}\"`. `%{request.X-Tenant}` is a header field of the request, `%{response.X-Cache}` a header \
                field of the response, and `%%` a percent sign. The guide to operating lists the names.",
            why: "New fields in JSON do not break programs that read it.",
        };
        /// Header fields to log in addition.
        fields: LineFields = Key {
            name: "fields",
            kind: Kind::Table(&FIELDS),
            absent: Absent::Means("none"),
            help: "Header fields to add to `json` and `httplog` lines.",
            why: "",
        };
        /// Syslog facility; other destinations ignore it.
        facility: Facility = Key {
            name: "facility",
            kind: Kind::Choice(Facility::WORDS),
            absent: Absent::Default("\"local0\""),
            help: "Syslog facility of the lines.",
            why: "The examples of HAProxy and most guides for it use `local0`.",
        };
    }
}

table! {
    static FIELDS = "fields of access_log of [telemetry]",
        "Header fields to add to each line: up to 16 of requests and 16 of responses. At most the first 256 bytes of a \
        value are logged. Do not log fields that identify a person or grant access, such as `Cookie` and \
        `Authorization`.";

    /// `fields` of the access log: at most 16 names each.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LineFields {
        request: Vec<String> = Key {
            name: "request",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none"),
            help: "Fields of the request, such as `[\"X-Tenant\"]`. In JSON lines they are in `request_fields`.",
            why: "",
        };
        response: Vec<String> = Key {
            name: "response",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none"),
            help: "Fields of the endpoint's response, such as `[\"X-Cache\"]`. In JSON lines they are in \
                `response_fields`.",
            why: "",
        };
    }
}

words! {
    /// Syslog facilities open to applications (RFC 5424 section 6.2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Facility {
        /// Facility 1.
        User = "user",
        /// Facility 3.
        Daemon = "daemon",
        /// Facility 16, the first for local use.
        Local0 = "local0",
        /// Facility 17.
        Local1 = "local1",
        /// Facility 18.
        Local2 = "local2",
        /// Facility 19.
        Local3 = "local3",
        /// Facility 20.
        Local4 = "local4",
        /// Facility 21.
        Local5 = "local5",
        /// Facility 22.
        Local6 = "local6",
        /// Facility 23.
        Local7 = "local7",
    }
}

impl Facility {
    /// Numerical code (RFC 5424 section 6.2.1).
    pub fn number(self) -> u8 {
        match self {
            Facility::User => 1,
            Facility::Daemon => 3,
            Facility::Local0 => 16,
            Facility::Local1 => 17,
            Facility::Local2 => 18,
            Facility::Local3 => 19,
            Facility::Local4 => 20,
            Facility::Local5 => 21,
            Facility::Local6 => 22,
            Facility::Local7 => 23,
        }
    }
}

/// Reports an unknown destination, a malformed format, and more than [`FIELDS_MAX`] fields.
pub(super) fn check(section: &Section, findings: &mut Findings) {
    if let Some(path) = section.text("path")
        && let Err(why) = LineSink::parse(&path)
    {
        findings
            .add(Code::NotAllowed, section.span_of("path"), format!("\"path\" is \"{path}\": {why}"))
            .help("write \"syslog\", \"syslog:/dev/log\" or \"syslog:udp:192.0.2.1:514\", or the path of a file");
    }
    let mut named = Vec::new();
    if let Some(text) = section.text("format") {
        match LineFormat::parse(&text) {
            Ok(LineFormat::Json) => {}
            Ok(LineFormat::Template(template)) => named.extend(template.parts.iter().cloned()),
            Err(wrong) => {
                findings.add(Code::NotAllowed, section.span_of("format"), wrong.message).help(wrong.help);
            }
        }
    }
    let fields = section.section("fields");
    for side in ["request", "response"] {
        let of_format = named.iter().filter(|part| match part {
            Part::Request(_) => side == "request",
            Part::Response(_) => side == "response",
            _ => false,
        });
        let count = fields.texts(side).len() + of_format.count();
        if count > FIELDS_MAX {
            let at = if fields.set(side).is_some() { fields.span_of(side) } else { section.span_of("format") };
            findings
                .add(
                    Code::OutOfRange,
                    at,
                    format!("the log has {count} fields of the {side}, and may have {FIELDS_MAX}"),
                )
                .help("leave some out");
        }
    }
}
