//! A plan that was built from pieces, and the piece that each of its errors is about.

use super::origins::Kind;
use super::pieces::Place;
use evenkeel_config::{Diagnostic, Outcome, Severity, Subject};

/// Result of a build. The lists have the piece of each listener, route and pool of the plan; `None` and positions behind the
/// end are of the file, or of no piece.
pub(super) struct Built {
    pub(super) outcome: Outcome,
    pub(super) listeners: Vec<Option<usize>>,
    pub(super) routes: Vec<Option<usize>>,
    pub(super) pools: Vec<Option<usize>>,
}

/// Error that building a plan has found.
pub(super) struct Fault {
    /// Pieces that the error is about, the piece at fault first.
    pub(super) places: Vec<Place>,
    pub(super) why: String,
}

impl Built {
    /// All errors, in the order of the plan.
    pub(super) fn faults(&self) -> impl Iterator<Item = Fault> {
        let errors = self.outcome.diagnostics.iter().filter(|one| one.severity() == Severity::Error);
        errors.map(|error| {
            let spots = std::iter::once(&error.at).chain(error.related.iter().map(|(_, spot)| spot));
            // If two pieces exclude each other, the error is at the second. The first may be the only piece, if the
            // other is of the file.
            let places = spots.filter_map(|spot| self.place(spot.subject?)).collect();
            Fault { places, why: self.why(error) }
        })
    }

    fn place(&self, subject: Subject) -> Option<Place> {
        let (kind, all, at) = match subject {
            Subject::Listener(at) => (Kind::Listener, &self.listeners, at),
            Subject::Route(at) => (Kind::Route, &self.routes, at),
            Subject::Pool(at) => (Kind::Pool, &self.pools, at),
        };
        Some((kind, (*all.get(at)?)?))
    }

    /// Message of an error, with the place in the file that it excludes.
    fn why(&self, error: &Diagnostic) -> String {
        let is_of_file = |subject: Option<Subject>| subject.and_then(|subject| self.place(subject)).is_none();
        let mut of_file = error.related.iter().map(|(_, spot)| spot).filter(|spot| is_of_file(spot.subject));
        match of_file.find_map(|spot| spot.path.as_deref()) {
            Some(path) => format!("{} (in the file: {path})", error.message),
            None => error.message.clone(),
        }
    }
}
