//! Results of many cases, and their table.

use super::case::{Case, Kind};
use std::collections::BTreeMap;

/// Results by id, in the order in which the cases were played.
#[derive(Default)]
pub struct Scores {
    results: Vec<(Case, Result<(), String>)>,
}

impl Scores {
    pub fn add(&mut self, case: &Case, result: Result<(), String>) {
        self.results.push((case.clone(), result));
    }

    /// Number of cases of a kind that passed, and of all.
    ///
    /// A case counts only if those that it comes after passed, which is how the published tables count.
    pub fn passed(&self, kind: Kind) -> (usize, usize) {
        let of_kind = || self.results.iter().filter(|(case, _)| case.kind == kind);
        (of_kind().filter(|(case, _)| self.failure(case).is_none()).count(), of_kind().count())
    }

    /// Ids of a kind that failed, each with its reason.
    pub fn failed(&self, kind: Kind) -> BTreeMap<&str, String> {
        let of_kind = self.results.iter().filter(|(case, _)| case.kind == kind);
        of_kind.filter_map(|(case, _)| Some((&*case.id, self.failure(case)?))).collect()
    }

    /// Table of all kinds, with a line for each failure but those of checks, where no is an answer.
    pub fn table(&self) -> String {
        let mut table = String::new();
        for kind in [Kind::Required, Kind::Optional, Kind::Check, Kind::Ours] {
            let (passed, all) = self.passed(kind);
            table += &format!("{kind:?}: {passed} of {all}\n");
            for (id, why) in self.failed(kind).into_iter().filter(|_| kind != Kind::Check) {
                table += &format!("  {id}: {why}\n");
            }
        }
        table
    }

    fn failure(&self, case: &Case) -> Option<String> {
        let of = |id: &str| self.results.iter().find(|(known, _)| known.id == id);
        if let Some(Err(why)) = of(&case.id).map(|(_, result)| result) {
            return Some(why.clone());
        }
        let before = case.after.iter().filter_map(|id| of(id)).find(|(known, _)| self.failure(known).is_some());
        before.map(|(known, _)| format!("comes after {}, which failed", known.id))
    }
}
