//! Runs of many configurations of a program.

use crate::case::{Judged, judge};
use crate::dice::Dice;
use crate::endpoints::Endpoints;
use crate::grammars::Grammar;
use crate::originals::Original;
use crate::shrink::shrink;
use evenkeel_peers::installed;
use std::collections::BTreeMap;
use std::env;

/// Reasons of a report that are printed, the most frequent first.
const REASONS: usize = 30;

pub fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Judges random configurations of a grammar, and fails with the findings.
pub fn run(grammar: &Grammar) {
    run_part(grammar, 1);
}

/// Judges a share of 1 in `of` of the configurations, for a program that takes long to start.
pub fn run_part(grammar: &Grammar, of: u64) {
    if Original::program(grammar.from).is_some_and(|program| !installed(&[program])) {
        return;
    }
    let (cases, first) = (number("EVENKEEL_JUDGE_CASES", 100).div_ceil(of), number("EVENKEEL_JUDGE_SEED", 1));
    let most = number("EVENKEEL_JUDGE_FINDINGS", 10) as usize;
    let endpoints = Endpoints::start();
    let mut findings: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let mut why: BTreeMap<String, usize> = BTreeMap::new();
    let (mut same, mut named, mut invalid) = (0, 0, BTreeMap::<String, usize>::new());
    for seed in first..first + cases {
        let nodes = (grammar.generate)(&mut Dice::new(seed));
        match judge(grammar, &nodes, seed, &endpoints) {
            Judged::Invalid(why) => {
                // Messages differ by the folder of the test.
                let why = why.lines().last().unwrap_or_default().split(" in /").next().unwrap_or_default().to_string();
                *invalid.entry(why).or_default() += 1;
            }
            Judged::Same { named: reasons } if reasons.is_empty() => same += 1,
            Judged::Same { named: reasons } => {
                named += 1;
                reasons.into_iter().for_each(|reason| *why.entry(reason).or_default() += 1);
            }
            Judged::Finding(finding) => match findings.get_mut(&finding.kind) {
                Some((n, ..)) => *n += 1,
                None => {
                    eprintln!("---- {}, seed {seed}: {}", grammar.from, finding.kind);
                    let finding = shrink(grammar, &nodes, seed, &endpoints, finding);
                    eprintln!("{}", finding.text);
                    findings.insert(finding.kind, (1, seed));
                }
            },
        }
        if findings.len() >= most {
            break;
        }
    }
    let refused: usize = invalid.values().sum();
    eprintln!(
        "{}: {same} as the original, {named} but for lines that the report names, {refused} refused by the original, \
         {} kinds of findings",
        grammar.from,
        findings.len()
    );
    let mut most_named: Vec<(&String, &usize)> = why.iter().collect();
    most_named.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    for (why, n) in most_named.into_iter().take(REASONS) {
        eprintln!("named {n} times: {why}");
    }
    for (why, n) in &invalid {
        eprintln!("refused by the original {n} times: {why}");
    }
    for (kind, (n, seed)) in &findings {
        eprintln!("---- {kind}: {n} times, first with seed {seed}");
    }
    assert!(findings.is_empty(), "{} kinds of findings", findings.len());
    let most = cases as usize / 10;
    let example = invalid.keys().next().cloned().unwrap_or_default();
    assert!(refused <= most, "the original refuses {refused} of {cases} configurations, as in: {example}");
}
