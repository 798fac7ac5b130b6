//! Trailers of requests on their way to endpoints. No filter looks at them, so only those that the route lists are
//! forwarded.

use crate::body::part::Part;
use crate::filters::template::lines;
use crate::record::Record;
use evenkeel_wire::head::{Edits, Table};
use evenkeel_wire::http1::chunked::may_trail;
use std::rc::Rc;
use std::sync::Arc;

/// Trailers of a request that its endpoint gets.
#[derive(Clone, Debug)]
pub enum Trailers {
    None,
    /// Trailers with any of these names.
    Listed(Rc<[Arc<str>]>),
}

impl Trailers {
    /// Returns the trailers that a routed request may have. `edits`: the changes of its filters, whose fields a client
    /// must not send in another way.
    pub fn of(record: &Record<'_>, edits: &Edits) -> Trailers {
        let listed = &record.rules.routes.planned[record.route].filters.request_trailers;
        if listed.is_empty() {
            return Trailers::None;
        }
        Trailers::Listed(listed.iter().filter(|name| !lines::has(edits.added(), name.as_bytes())).cloned().collect())
    }

    /// Returns a part of the body for the endpoint.
    pub fn pass(&self, part: Part) -> Part {
        match part {
            Part::Trailers(table) => self.kept(&table).map_or(Part::End, Part::Trailers),
            part => part,
        }
    }

    /// Returns the trailers for the endpoint; `None` if there are none.
    pub fn kept(&self, table: &Table) -> Option<Table> {
        let kept: Table = table.iter().filter(|(name, _)| may_trail(name) && self.lists(name)).collect();
        (!kept.is_empty()).then_some(kept)
    }

    fn lists(&self, name: &[u8]) -> bool {
        match self {
            Trailers::None => false,
            Trailers::Listed(names) => names.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_trailers_are_forwarded() {
        let all =
            [(&b"x-sum"[..], &b"1"[..]), (b"x-other", b"2"), (b"x-client-cert-verified", b"3"), (b"cookie", b"4")];
        let kept = |trailers: &Trailers| -> Vec<String> {
            let kept = trailers.kept(&all.into_iter().collect()).unwrap_or_default();
            kept.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
        };
        assert!(kept(&Trailers::None).is_empty());
        assert_eq!(kept(&Trailers::Listed(["X-Sum".into(), "cookie".into()].into())), ["x-sum"]);
        assert!(matches!(Trailers::None.pass(Part::Trailers(all.into_iter().collect())), Part::End));
    }
}
