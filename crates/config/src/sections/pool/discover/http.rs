//! `discover.http` of a pool: a list of endpoints from a server. See [`HttpList`].

use super::declare::Settings;
use super::server::{Credentials, check};
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, H, Key, Kind, S, Section, table};
use std::time::Duration;

table! {
    static HTTP = "discover.http of [pool.NAME]",
        "List of endpoints as JSON: `endpoints` of a pool, or the form of Prometheus, \
        `[{ \"targets\": [\"10.0.0.1:8080\"] }]`.";

    /// `discover.http`: a list that is asked for again and again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HttpList {
        url: String = Key {
            name: "url",
            kind: Kind::Text(Form::ListUrl),
            absent: Absent::Required("\"http://127.0.0.1:9000/web.json\""),
            help: "URL of the list: `http://` or `https://`. Redirects are not followed.",
            why: "",
        };
        /// Pause between an answer and the next request.
        every: Duration = Key {
            name: "every",
            kind: Kind::Duration { min: S, max: H, off: false },
            absent: Absent::Default("\"10s\""),
            help: "Pause until the list is asked for again. A server that answered with an ETag is asked whether it has \
                changed; one that holds that request until it has is asked again at once (`Prefer: wait`).",
            why: "Ten seconds are soon enough for most changes, and no load for the server.",
        };
        credentials: Credentials, inline Credentials;
    }
}

impl Settings for HttpList {
    const KIND: Kind = Kind::Table(&HTTP);

    /// Without the query, which may hold a secret.
    fn shown(&self) -> String {
        self.url.split_once('?').map_or(&*self.url, |(url, _)| url).to_owned()
    }

    fn check(discover: &Section, findings: &mut Findings) {
        check(&discover.section("http"), findings);
    }
}
