//! Directives of a site as steps in the order in which Caddy runs them, and the requests that they concern.

use super::fields::Edit;
use crate::ledger::Line;
use crate::model::{Action, Apart, Draft, Match, RouteKeys};

/// Most alternatives of a matcher.
const ALTERNATIVES: usize = 64;

/// Requests that a directive concerns: any of the alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct When {
    pub any: Vec<Match>,
    /// False if some conditions cannot be written: the directive concerns only some of the requests.
    pub is_exact: bool,
}

impl When {
    pub fn always() -> When {
        When { any: vec![Match::default()], is_exact: true }
    }

    /// Some requests, it is not known which.
    pub fn unknown() -> When {
        When { is_exact: false, ..When::always() }
    }
}

/// A directive that has been read.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub when: When,
    pub effect: Effect,
    /// Number of the group of which a request meets the first directive alone.
    pub group: Option<usize>,
    /// True if it may refuse requests, which it then does even if it is not carried over.
    pub refuses: bool,
    pub line: Line,
}

impl Step {
    /// Adds a directive with the same matcher.
    pub fn also(&mut self, other: Step) {
        let alone = |step: Step| Step { when: When { any: vec![Match::default()], ..step.when }, group: None, ..step };
        let refuses = self.refuses || other.refuses;
        if !matches!(self.effect, Effect::Several(_)) {
            let effect = Effect::Several(vec![alone(self.clone())]);
            self.effect = effect;
        }
        if let Effect::Several(steps) = &mut self.effect {
            steps.push(alone(other));
        }
        self.refuses = refuses;
    }
}

/// A change to the path of requests.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Strip(String),
    /// A path and a query, in evenkeel's spelling.
    To {
        path: Option<String>,
        query: Option<String>,
    },
    Search {
        search: String,
        to: String,
    },
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) enum Effect {
    Set(RouteKeys),
    Request(Vec<Edit>),
    Response(Vec<Edit>),
    Path(Change),
    /// Another method, which is not carried over.
    Method,
    /// Directives that share a matcher, which is asked once.
    Several(Vec<Step>),
    Block {
        steps: Vec<Step>,
        strip: Option<String>,
    },
    End {
        action: Action,
        set: RouteKeys,
        request: Vec<Edit>,
        response: Vec<Edit>,
        is_error: bool,
    },
    Shut,
}

impl Effect {
    pub fn end(action: Action) -> Effect {
        Effect::End { action, set: Draft::default(), request: Vec::new(), response: Vec::new(), is_error: false }
    }
}

/// Every pair of alternatives that some request fulfils.
pub(super) fn and(ours: &[Match], theirs: &[Match]) -> Result<Vec<Match>, String> {
    let mut out = Vec::new();
    for (a, b) in ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
        match a.and(b) {
            Ok(both) => out.push(both),
            Err(Apart::Never) => {}
            Err(Apart::Unwritable) => return Err("its conditions do not fit into one match".to_string()),
        }
    }
    if out.len() > ALTERNATIVES { Err("it has too many alternatives".to_string()) } else { Ok(out) }
}

/// Alternatives that hold if none of these does.
pub(super) fn negated(any: &[Match]) -> Result<Vec<Match>, String> {
    any.iter().try_fold(vec![Match::default()], |out, matching| {
        let negated: Vec<Match> = matching.conds.iter().map(|cond| Match::of([cond.clone().negate()])).collect();
        and(&out, &negated)
    })
}
