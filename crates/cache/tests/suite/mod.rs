//! Conformance cases of HTTP caches: their notation, the endpoint that they script, and the checks.
//!
//! Nothing here knows the rules or a proxy, so that the tests of other crates take this folder by its path, and the
//! files of `cases/` with it. A cache under test implements [`Cache`].
//!
//! The cases are those of the public suite `http-tests/cache-tests`, by their ids, so that results can be compared with
//! its published tables: `required` is its `required`, `optional` its `optimal`, `check` its `check`. Cases of kind
//! `ours` are not from there.
//!
//! # Notation
//!
//! A case begins with `[ID] KIND`, and `after ID ...` names cases that must pass for it to mean something. Then come its
//! exchanges, each from a line with a method and what is added to the case's path:
//!
//! ```text
//! GET ?a=1                 a request
//! > Name: value            field of the request
//! >> text                  content of the request
//! < 404                    status of the endpoint's answer; 200 unless given
//! < Name: value            field of the answer; if the endpoint was asked, the client must get it
//! <~ Name: value           the same, but the client need not get it
//! << text                  content of the answer; the id of the case unless given
//! <1 103 | name: value     interim response before it
//! < closes                 the endpoint closes the connection instead of an answer
//! < after 5                seconds that the endpoint takes
//! = cached                 the response is from the cache; forwarded: from the endpoint, for this request
//! = validated etag         the endpoint was asked with If-None-Match, and gave a 304; date: with If-Modified-Since
//! = 304                    status of the response; that of the answer unless given; `any` is not checked
//! = Name: value            the response has the field with this value; `> 3`: a larger number
//! = +Name                  the response has the field
//! = -Name                  the response does not have it; with `: value`, not with this value
//! == text                  content of the response; `any` is not checked
//! =1 103 | name: value     interim response that the client gets; `none` if it gets none
//! ^ Name: value            the endpoint got this field of the request; `^ HEAD`: this method
//! wait 3                   seconds until the next exchange
//! ```
//!
//! `{+60}` and `{-60}` are dates, seconds from the time of the answer, in requests from the time of the last one;
//! `{-60 rfc850}` is one in the obsolete format. `{self}` is the path of the request.
#![allow(dead_code, unused_imports)] // each crate uses its part

mod case;
mod check;
mod dates;
mod origin;
mod score;

pub use case::{Answer, Case, Exchange, Kind, read, read_folder};
pub use check::run;
pub use origin::{Origin, Reply};
pub use score::Scores;

/// Fields in order, names in any case.
pub type FieldList = Vec<(String, String)>;

/// A request as the client or the cache sends it.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: String,
    /// Path and query, as `/a?b`.
    pub target: String,
    pub fields: FieldList,
    pub body: Option<String>,
}

/// A response as the client gets it.
#[derive(Clone, Debug, Default)]
pub struct Got {
    pub status: u16,
    pub fields: FieldList,
    pub body: Vec<u8>,
    /// Interim responses before it: status and fields.
    pub interim: Vec<(u16, FieldList)>,
}

impl Got {
    /// Lines of a field, joined by commas.
    pub fn field(&self, name: &str) -> Option<String> {
        joined(&self.fields, name)
    }
}

/// A cache under test: the model of the rules, or a proxy.
pub trait Cache {
    /// Sends a request through the cache, which asks the endpoint at `origin` as often as it needs to, and passes on the
    /// field [`EXCHANGE`] when it does.
    fn fetch(&mut self, ask: &Ask, origin: &Origin) -> Got;

    /// Lets this many seconds pass.
    fn wait(&mut self, seconds: u64);
}

/// Field of requests, with the number of the exchange in its case, from 1; and of answers, with the number of the exchange
/// that the answer is for.
pub const EXCHANGE: &str = "Exchange";

/// Field of answers: the time at which they were sent, in milliseconds since 1970.
pub const ANSWERED: &str = "Answered";

fn joined(fields: &FieldList, name: &str) -> Option<String> {
    let values: Vec<&str> =
        fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}
