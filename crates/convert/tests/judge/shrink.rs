//! A configuration that fails, as small as it fails.

use crate::case::{Finding, Judged, judge};
use crate::endpoints::Endpoints;
use crate::grammars::Grammar;
use crate::tree::{Node, Text, without};

/// Number of configurations that are tried at most.
const TRIES: usize = 80;

/// Takes lines out of a configuration while it fails as before.
pub fn shrink(grammar: &Grammar, nodes: &[Node], seed: u64, endpoints: &Endpoints, first: Finding) -> Finding {
    let (mut nodes, mut best, mut tries) = (nodes.to_vec(), first, 0);
    loop {
        let before = Text::of(&nodes, grammar.style).len();
        let mut number = 0;
        while number < Text::of(&nodes, grammar.style).len() && tries < TRIES {
            let smaller = without(&nodes, &[number].into());
            tries += 1;
            match judge(grammar, &smaller, seed, endpoints) {
                Judged::Finding(finding) if finding.kind == best.kind => (nodes, best) = (smaller, finding),
                _ => number += 1,
            }
        }
        if Text::of(&nodes, grammar.style).len() == before || tries >= TRIES {
            return best;
        }
    }
}
