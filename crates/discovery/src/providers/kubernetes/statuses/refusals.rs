//! Pieces of the plan that are not in use, in the log: each once. See [`Refusals`].

use crate::providers::parts::Refusal;
use std::collections::HashSet;

/// Most lines for a change. Another line has the number of the rest.
const LINES_MAX: usize = 100;

/// Pieces that are not in use, and the reasons.
#[derive(Debug, Default)]
pub struct Refusals(Vec<Refusal>);

impl Refusals {
    pub fn all(&self) -> &[Refusal] {
        &self.0
    }

    /// Replaces the refusals, and logs those that are new or have another reason. True if any differs.
    pub fn update(&mut self, now: Vec<Refusal>) -> bool {
        for line in self.lines(&now) {
            tracing::warn!("kubernetes: {line}");
        }
        let differs = self.0 != now;
        self.0 = now;
        differs
    }

    fn lines(&self, now: &[Refusal]) -> Vec<String> {
        // A single fault may concern thousands of pieces.
        let known: HashSet<(&str, &str)> = self.0.iter().map(|one| (&*one.of, &*one.why)).collect();
        let new: Vec<&Refusal> = now.iter().filter(|one| !known.contains(&(&*one.of, &*one.why))).collect();
        let line = |refusal: &&Refusal| format!("{} is not in use: {}", refusal.of, refusal.why);
        let mut lines: Vec<String> = new.iter().take(LINES_MAX).map(line).collect();
        if new.len() > LINES_MAX {
            lines.push(format!(
                "{} more objects are not in use; their statuses and events give the reasons",
                new.len() - LINES_MAX
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(of: &str, why: &str) -> Refusal {
        Refusal { of: of.into(), why: why.to_owned() }
    }

    #[test]
    fn a_refusal_is_logged_once_and_again_with_another_reason() {
        let mut refusals = Refusals::default();
        let both = vec![refusal("Gateway a/b at port 80", "in use"), refusal("HTTPRoute a/b", "too long")];
        assert_eq!(
            refusals.lines(&both),
            ["Gateway a/b at port 80 is not in use: in use", "HTTPRoute a/b is not in use: too long"]
        );
        assert!(refusals.update(both.clone()));
        assert_eq!(refusals.lines(&both), [""; 0]);
        assert!(!refusals.update(both.clone()));
        let other = vec![refusal("Gateway a/b at port 80", "not allowed"), both[1].clone()];
        assert_eq!(refusals.lines(&other), ["Gateway a/b at port 80 is not in use: not allowed"]);
        assert!(refusals.update(Vec::new()) && refusals.all().is_empty());
        assert_eq!(refusals.lines(&both).len(), 2, "they had gone");
    }

    #[test]
    fn thousands_of_refusals_are_a_hundred_lines_and_a_count() {
        let all: Vec<Refusal> = (0..5000).map(|n| refusal(&format!("HTTPRoute a/{n}"), "in use")).collect();
        let lines = Refusals::default().lines(&all);
        assert_eq!(lines.len(), 101);
        assert_eq!(lines[100], "4900 more objects are not in use; their statuses and events give the reasons");
    }
}
