//! Reader of policies: from the lists in a file, or from a command line by the labels shown in results.

use super::keys::ROOT;
use crate::scenario::{Chooser, Policy, Reference};
use evenkeel_balance::algorithms;
use evenkeel_config::plan::Balance;
use evenkeel_config::tables::{Document, Findings, Section};
use evenkeel_config::{Code, Diagnostic};

impl Policy {
    /// An algorithm of production.
    pub fn algorithm(balance: Balance) -> Policy {
        Policy { label: balance.to_string(), chooser: Chooser::Algorithm(balance.algorithm, balance.params) }
    }

    /// True for a yardstick, which no real balancer can implement.
    pub fn is_reference(&self) -> bool {
        matches!(self.chooser, Chooser::Reference(_))
    }
}

/// `algorithms` and `references` of a file.
pub(super) fn of(root: &Section, findings: &mut Findings) -> Vec<Policy> {
    let mut policies: Vec<Policy> = match root.has("algorithms") {
        true => root.balances("algorithms").into_iter().map(|(balance, _)| Policy::algorithm(balance)).collect(),
        false => every(),
    };
    for table in root.sections("references") {
        policies.extend(reference(table, findings).map(Policy::reference));
    }
    let mut seen: Vec<&str> = Vec::new();
    for policy in &policies {
        if seen.contains(&policy.label.as_str()) {
            let span = root.span_of(if policy.is_reference() { "references" } else { "algorithms" });
            let message = format!("\"{}\" is tried twice", policy.label);
            findings.add(Code::SameName, span, message).help("list it once");
        }
        seen.push(&policy.label);
    }
    policies
}

fn every() -> Vec<Policy> {
    let all = algorithms::ALL.iter().filter(|a| !a.needs.key);
    all.map(|algorithm| Policy::algorithm(Balance::of(algorithm))).collect()
}

pub(super) fn reference(table: &Section, findings: &mut Findings) -> Option<Reference> {
    if table.is_broken() {
        return None;
    }
    let set: Vec<&str> = ["name", "jsq", "draws_with_replacement"].into_iter().filter(|key| table.has(key)).collect();
    match set[..] {
        ["name"] if table.word("name") == "central-queue" => Some(Reference::CentralQueue),
        ["name"] => Some(Reference::ShortestQueue),
        ["jsq"] => Some(Reference::Draws(table.number("jsq"))),
        ["draws_with_replacement"] => Some(Reference::DrawsWithReplacement(table.number("draws_with_replacement"))),
        _ => {
            findings
                .add(Code::Contradiction, table.span, "a reference needs exactly one key")
                .help("write \"jsq\", \"central-queue\", { jsq = 2 } or { draws_with_replacement = 2 }");
            None
        }
    }
}

/// Parses policies by their labels in results, separated by commas: `leastconn,random{draws=3},jsq(2),central-queue`.
///
/// # Errors
/// The first diagnostic, as for a file.
pub fn policies(text: &str) -> Result<Vec<Policy>, Box<Diagnostic>> {
    split(text).into_iter().map(|name| one(name.trim())).collect()
}

/// Splits at commas outside braces.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let at_comma = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(at_comma).collect()
}

/// Parses a policy: builds the scenario file that lists it, and reads that.
fn one(name: &str) -> Result<Policy, Box<Diagnostic>> {
    let call = name.strip_suffix(')').and_then(|name| name.split_once('('));
    let value = match call {
        Some((key, count)) => format!("references = [{{ {} = {} }}]", quote(&key.replace('-', "_")), scalar(count)),
        None if ["jsq", "central-queue"].contains(&name) => format!("references = [{}]", quote(name)),
        None => match name.strip_suffix('}').and_then(|name| name.split_once('{')) {
            Some((algorithm, params)) => {
                let param = |p: &str| match p.split_once('=') {
                    Some((key, value)) => format!("{} = {}", quote(key.trim()), scalar(value.trim())),
                    None => format!("{} = \"\"", quote(p.trim())),
                };
                let params: Vec<String> = params.split(',').filter(|p| !p.trim().is_empty()).map(param).collect();
                format!("algorithms = [{{ {} = {{ {} }} }}]", quote(algorithm.trim()), params.join(", "))
            }
            None => format!("algorithms = [{}]", quote(name)),
        },
    };
    let mut document = Document::parse("--algorithms", &format!("{value}\n{REST}"));
    let tree = document.tree.clone();
    let root = document.read(&ROOT, &tree);
    let policies = of(&root, &mut document.findings);
    // A file with references only also gets every algorithm by default, so pick by kind.
    let policy = policies.into_iter().rfind(|p| p.is_reference() == value.starts_with("references"));
    match (document.finish().into_iter().next(), policy) {
        (None, Some(policy)) => Ok(policy),
        (Some(wrong), _) => Err(Box::new(wrong)),
        (None, None) => unreachable!("what is not read was reported"),
    }
}

/// Rest of a minimal scenario file.
const REST: &str = "summary = \"x\"\nload.users = 1\nservice.x.server = [{}]\n";

fn scalar(text: &str) -> String {
    let plain = text.parse::<f64>().is_ok_and(f64::is_finite) || ["true", "false"].contains(&text);
    if plain { text.to_string() } else { quote(text) }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace(|c: char| c == '\'' || c.is_control(), "?"))
}
