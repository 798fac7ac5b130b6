//! Which requests leave a line, and what does it say? [`AccessLog`], `access_log` of `[telemetry]`.

mod format;
mod sink;

pub use format::{LineFormat, LineTemplate, LineValue, Part};
pub use sink::{LineSink, SyslogAddress};

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table, words};

/// Header fields that can be chosen of requests, and as many of responses: a line stays readable, and what it costs bounded.
const FIELDS_MAX: usize = 16;

table! {
    pub(super) static ACCESS_LOG = "access_log of [telemetry]",
        "One line for each request, written when it ended.";

    /// `telemetry.access_log`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AccessLog {
        /// Where the lines go.
        to: LineSink = Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/var/log/evenkeel/access.jsonl""#),
            help: "The file that lines are appended to, or one of these. `\"-\"` or `\"stdout\"`: standard output. `\"stderr\"`: \
                   standard error. `\"syslog\"`: the syslog of this machine at `/dev/log`, as RFC 5424 has it; \
                   `\"syslog:/run/x.sock\"` or `\"syslog:udp:192.0.2.1:514\"`: another one. `\"journald\"`: the journal of \
                   systemd, by its own protocol; `\"journald:/run/systemd/journal.x/socket\"`: one of a namespace. Lines that \
                   cannot be written, or not in time, are dropped and counted; no request waits for them.",
            why: "",
        };
        /// How a line looks.
        format: LineFormat = Key {
            name: "format",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"json\""),
            help: "How a line looks: `\"json\"`; `\"common\"` or `\"combined\"`, as Apache and NGINX write them; `\"httplog\"`, as \
                   HAProxy does; or a text in which `%{NAME}` stands for a value, as `\"%{client} %{status} %{path}\"`, \
                   `%{request.X-Tenant}` for a header field of the request, `%{response.X-Cache}` for one of the response, \
                   and `%%` for a percent sign. The guide has the names.",
            why: "A field can be added without breaking a reader.",
        };
        /// Header fields that lines have as well.
        fields: LineFields = Key {
            name: "fields",
            kind: Kind::Table(&FIELDS),
            absent: Absent::Means("none"),
            help: "Header fields that lines of JSON, and of `httplog`, have as well.",
            why: "",
        };
        /// What syslog sorts the lines by.
        facility: Facility = Key {
            name: "facility",
            kind: Kind::Choice(Facility::WORDS),
            absent: Absent::Default("\"local0\""),
            help: "What syslog sorts the lines by.",
            why: "What HAProxy's examples and most guides for it take.",
        };
    }
}

table! {
    static FIELDS = "fields of access_log of [telemetry]",
        "Header fields that lines have as well: up to 16 of requests and 16 of responses, of each value its first 256 bytes. \
         What names a person or lets one in, as `Cookie` and `Authorization`, has no place in a log.";

    /// `fields` of the access log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LineFields {
        /// Of the request.
        request: Vec<String> = Key {
            name: "request",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none"),
            help: "Fields of the request, as `[\"X-Tenant\"]`: `request_fields` of a line of JSON.",
            why: "",
        };
        /// Of the response.
        response: Vec<String> = Key {
            name: "response",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none"),
            help: "Fields of the endpoint's response, as `[\"X-Cache\"]`: `response_fields` of a line of JSON.",
            why: "",
        };
    }
}

words! {
    /// Facilities of syslog (RFC 5424 section 6.2.1) that programs may use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Facility {
        /// 1.
        User = "user",
        /// 3.
        Daemon = "daemon",
        /// 16, the first for local use.
        Local0 = "local0",
        /// 17.
        Local1 = "local1",
        /// 18.
        Local2 = "local2",
        /// 19.
        Local3 = "local3",
        /// 20.
        Local4 = "local4",
        /// 21.
        Local5 = "local5",
        /// 22.
        Local6 = "local6",
        /// 23.
        Local7 = "local7",
    }
}

impl Facility {
    /// Its number.
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

/// Reports a format that is none, a place that is none, and more fields than there is room for.
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
