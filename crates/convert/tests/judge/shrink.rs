//! A configuration that fails, as small as it fails.

use crate::case::{Finding, Judged, judge};
use crate::endpoints::Endpoints;
use crate::grammars::Grammar;
use crate::run::number;
use crate::tree::{Node, Text, without};
use std::collections::BTreeSet;

/// Number of configurations that are tried at most, unless `EVENKEEL_JUDGE_TRIES` says otherwise.
const TRIES: u64 = 60;

/// Takes lines out of a configuration while it fails as before: first many at a time, then single lines.
pub fn shrink(grammar: &Grammar, nodes: &[Node], seed: u64, endpoints: &Endpoints, first: Finding) -> Finding {
    let (mut nodes, mut best, mut tries) = (nodes.to_vec(), first, 0);
    let most = number("EVENKEEL_JUDGE_TRIES", TRIES);
    let count = |nodes: &[Node]| Text::of(nodes, grammar.style).len();
    let mut size = (count(&nodes) / 4).max(1);
    loop {
        let before = count(&nodes);
        let mut number = 0;
        while number < count(&nodes) && tries < most {
            let text = Text::of(&nodes, grammar.style);
            let gone = (number..number + size).filter(|number| text.may_go(*number)).collect::<BTreeSet<_>>();
            if gone.is_empty() {
                number += size;
                continue;
            }
            let smaller = without(&nodes, &gone);
            tries += 1;
            match judge(grammar, &smaller, seed, endpoints) {
                Judged::Finding(finding) if finding.kind == best.kind => (nodes, best) = (smaller, finding),
                _ => number += size,
            }
        }
        if tries >= most || size == 1 && count(&nodes) == before {
            return best;
        }
        size = (size / 2).max(1);
    }
}
