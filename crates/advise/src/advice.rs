//! A piece of advice: what to change, why, and how.

use crate::diff::Patch;
use crate::effect::Effect;
use std::cmp::Ordering;

/// Conclusion about a part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The change is dangerous to leave undone, whatever the load.
    Danger,
    /// The change is better than noise.
    Change,
    /// The change is better if a condition holds that nothing here shows.
    Depends,
    /// No change is better than noise.
    Leave,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Danger => "danger",
            Verdict::Change => "change",
            Verdict::Depends => "depends",
            Verdict::Leave => "leave",
        }
    }
}

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Figure;

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
