//! A piece of advice: what to change, why, and how.

use crate::diff::Patch;
use evenkeel_view::advice::{self as shown, Effect, Verdict};
use std::cmp::Ordering;

/// Conclusion about a subject, with the change that follows from it.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Row of [`crate::kinds::ALL`], by name.
    pub kind: &'static str,
    /// Part of the configuration: `pool "web"`.
    pub subject: String,
    pub verdict: Verdict,
    /// Sentence without a full stop, which begins with a verb.
    pub says: String,
    pub effect: Option<Effect>,
    /// Facts that it is derived from, a sentence each.
    pub evidence: Vec<String>,
    /// Command that repeats the evidence.
    pub repeat: Option<String>,
    /// Change to the configuration; `check` accepts its result.
    pub patch: Option<Patch>,
}

impl Advice {
    /// Advice with a sentence only.
    pub fn new(kind: &'static str, subject: impl Into<String>, verdict: Verdict, says: impl Into<String>) -> Advice {
        let (subject, says) = (subject.into(), says.into());
        Advice { kind, subject, verdict, says, effect: None, evidence: Vec::new(), repeat: None, patch: None }
    }

    /// Order of effect: dangers, then changes by figure and size, then the rest.
    pub fn before(&self, other: &Advice) -> Ordering {
        let figure = |advice: &Advice| advice.effect.as_ref().map(|effect| effect.figure);
        let size = |advice: &Advice| advice.effect.as_ref().map_or(0.0, |effect| effect.change[1].abs());
        let is_known = figure(other).is_some().cmp(&figure(self).is_some());
        let by_figure = is_known.then(figure(self).cmp(&figure(other)));
        self.verdict.cmp(&other.verdict).then(by_figure).then(size(other).total_cmp(&size(self)))
    }

    /// The advice as programs and pages get it, with its patch as a difference.
    fn shown(self) -> shown::Advice {
        let Advice { kind, subject, verdict, says, effect, evidence, repeat, patch } = self;
        let (kind, patch) = (kind.to_owned(), patch.map(|patch| patch.diff));
        shown::Advice { kind, subject, verdict, says, effect, evidence, repeat, patch }
    }
}

/// Advice in order of effect, and the gaps in it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub advice: Vec<Advice>,
    /// Names of pools for which the time was not sufficient.
    pub unfinished: Vec<String>,
}

impl Found {
    /// Returns the advice as programs and pages get it. `file`: path of the configuration.
    pub fn shown(self, file: &str) -> shown::Advised {
        let advice = self.advice.into_iter().map(Advice::shown).collect();
        shown::Advised { config: file.to_owned(), advice, unfinished: self.unfinished, computed: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::advice::Figure;

    #[test]
    fn dangers_come_first_and_larger_effects_before_smaller() {
        let with = |says: &str, verdict, figure, change| {
            let effect = Effect { figure, change: [change; 3], at: String::new() };
            Advice { effect: Some(effect), ..Advice::new("x", "y", verdict, says) }
        };
        let mut all = [
            Advice::new("x", "y", Verdict::Leave, "e"),
            with("c", Verdict::Change, Figure::Latency, -0.1),
            with("d", Verdict::Change, Figure::Processor, -0.8),
            with("b", Verdict::Change, Figure::Latency, -0.3),
            Advice::new("x", "y", Verdict::Danger, "a"),
        ];
        all.sort_by(Advice::before);
        assert_eq!(all.map(|advice| advice.says), ["a", "b", "c", "d", "e"]);
    }
}
